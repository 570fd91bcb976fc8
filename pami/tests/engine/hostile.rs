//! Packets that no honest peer sends (SPEC D-9).

use crate::machine::{Packet, buffer, pattern};
use crate::scene::{Port, advance_all, context, leak, pair};
use pami::packet::{Envelope, Kind};
use pami::{Active, ClientError, Message, OnPart, OnReceived, Part, Receive, Received};
use proptest::prelude::*;

fn any_packet() -> impl Strategy<Value = (u8, u8, u32, u32, u32, u32, Vec<u8>)> {
    let small = || prop_oneof![0u32..40, any::<u32>()];
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    (0u8..6, 0u8..40, 0u32..6, small(), small(), small(), data)
}

proptest! {
    #[test]
    fn d9_no_sequence_of_packets_disturbs_a_context(packets in proptest::collection::vec(any_packet(), 0..60)) {
        let part = leak(|_: &mut Active<Port>, part: &Part<'_>| assert!(part.offset + part.data.len() <= part.total));
        let take = leak(move |_: &mut Active<Port>, message: &Message<'_>| match message.data.len() % 3 {
            0 => Receive::Into(buffer(20), OnReceived { call: leak(|_: &mut Active<Port>, _: Received| ()), cookie: 0 }),
            1 => Receive::Done,
            _ => Receive::Packets(OnPart { call: part, cookie: 0 }),
        });
        let [mut a, mut b] = pair(false, |client| client.dispatch(0, take).dispatch(1, take));
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let world = &a.node().world;
        for (kind, dispatch, task, message, offset, total, data) in packets {
            let kind = [Kind::Hello, Kind::Go, Kind::First, Kind::Next, Kind::FirstAcked, Kind::Ack][usize::from(kind)];
            let total = total.min(1 << 16);
            let len = data.len().min(total.saturating_sub(offset) as usize);
            let sender = pami::Endpoint::from_parts(b.id(), task, pami::endpoint::ContextOffset(task as u8 % 3));
            let to = target.endpoint();
            let envelope = Envelope { kind, dispatch, origin: sender, target: to, message, offset, total };
            world.forge(Packet::new(envelope, &[], &data[..len]));
            target.advance();
            origin.advance();
        }
        // It still serves its own.
        let before = target.counters().received;
        origin.send_immediate(a.endpoint(1, 0).unwrap(), 0, &[], &[1]).unwrap();
        advance_all(&mut [&mut origin, &mut target]);
        prop_assert_eq!(target.counters().received, before + 1);
    }
}

#[test]
fn d9_a_packet_that_changes_its_messages_length_is_a_stray() {
    let part =
        leak(|_: &mut Active<Port>, part: &Part<'_>| assert!(part.offset + part.data.len() <= part.total));
    let take =
        leak(move |_: &mut Active<Port>, _: &Message<'_>| Receive::Packets(OnPart { call: part, cookie: 0 }));
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, take));
    let (_origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (from, to) = (a.endpoint(0, 0).unwrap(), target.endpoint());
    let envelope = Envelope {
        kind: Kind::First,
        dispatch: 0,
        origin: from,
        target: to,
        message: 1,
        offset: 0,
        total: 100,
    };
    let longer = Envelope { kind: Kind::Next, offset: 60, total: u32::MAX, ..envelope };
    for (envelope, len) in [(envelope, 60), (longer, 400)] {
        a.node().world.forge(Packet::new(envelope, &[], &pattern(len, 0)));
        target.advance();
    }
    assert_eq!(target.counters().strays, 1);
    let (error, _) = b.destroy_context(target).err().expect("half a message is there");
    assert_eq!(error, ClientError::ReceivesUnderWay);
}
