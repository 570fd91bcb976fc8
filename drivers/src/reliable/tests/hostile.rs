//! A peer whose checksums are right and whose words are not (SPEC D-9).

use super::bench::{BUFFERS, Bench, MTU};
use super::wire::Faults;
use super::{elapse, sealed};
use crate::adapter::Adapter;
use crate::link::{Flags, LINK_BYTES, Link, Seq};
use proptest::prelude::*;
use std::vec::Vec;

/// Numbers near those in use, and any.
fn numbers() -> impl Strategy<Value = Seq> {
    prop_oneof![
        (0u32..80).prop_map(|step| Seq::FIRST.plus(step.wrapping_sub(8))),
        any::<u32>().prop_map(Seq::new)
    ]
}

fn frames() -> impl Strategy<Value = (Link, u32, Vec<u8>)> {
    let bytes = proptest::collection::vec(any::<u8>(), 0..MTU - LINK_BYTES);
    let flags = prop_oneof![5 => 0u8..4, 3 => 4u8..64];
    // Connections of this node's, and others.
    let connections = || prop_oneof![5 => 0u32..4, 1 => any::<u32>()];
    (
        (numbers(), numbers(), any::<u64>(), any::<u8>(), flags, bytes),
        (prop_oneof![9 => 0u32..1, 1 => any::<u32>()], connections(), connections(), 0u32..3),
        prop_oneof![9 => 1u32..2, 1 => any::<u32>()],
    )
        .prop_map(|((sequence, acknowledged, sack, credit, flags, bytes), numbers, source)| {
            let (flags, length) = (Flags::from_bits_truncate(flags), bytes.len() as u16);
            let (life, connection, own, attempt) = numbers;
            let link =
                Link { life, connection, own, attempt, sequence, acknowledged, sack, credit, length, flags };
            (link, source, bytes)
        })
}

proptest! {
    #[test]
    fn d9_a_lying_peer_breaks_nothing_and_keeps_no_buffer(
        frames in proptest::collection::vec(frames(), 0..if cfg!(miri) { 10 } else { 60 }), orders in 0usize..50
    ) {
        let mut bench = Bench::new(2, 0, Faults::NONE);
        bench.order(0, 1, orders);
        let mut arrived = Vec::new();
        for (link, source, bytes) in frames {
            bench.wire.network().inject(source, 0, sealed(&link, source, 0, &bytes));
            let link = &mut bench.nodes[0].link;
            while link.reclaim().is_some() {}
            arrived.extend(core::iter::from_fn(|| link.receive()));
            link.flush();
            elapse(300_000);
        }
        let link = &mut bench.nodes[0].link;
        prop_assert!(arrived.len() <= BUFFERS);
        prop_assert!(link.inner.free() + arrived.len() <= BUFFERS);
        arrived.into_iter().for_each(|buffer| link.recycle(buffer));
        // The rest waits for its turn.
        prop_assert!(BUFFERS - link.inner.free() <= BUFFERS / 2);
        prop_assert!(link.faults().reliability.dropped() <= 60);
    }

    #[test]
    fn d9_any_bytes_on_the_wire_are_counted_and_their_buffers_come_back(
        frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..MTU), 1..if cfg!(miri) { 10 } else { 100 })
    ) {
        let mut bench = Bench::new(2, 0, Faults::NONE);
        let count = frames.len() as u64;
        for bytes in frames {
            bench.wire.network().inject(1, 0, bytes);
        }
        prop_assert!(bench.nodes[0].link.receive().is_none());
        prop_assert_eq!(bench.nodes[0].link.faults().reliability.corrupt, count);
        prop_assert_eq!(bench.nodes[0].link.inner.free(), BUFFERS);
    }
}
