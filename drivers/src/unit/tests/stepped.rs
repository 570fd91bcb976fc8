//! One thread that steps all nodes.

use super::*;
use crate::adapter::RX_BUFFERS;
use crate::unit::{INJECTION_ENTRIES, INLINE_BYTES, OpenError, SHORT_SLOTS, StartError};
use pami::device::{Full, Receiving, Sending, Unreachable};
use pami::packet::Header;
use rings::buffer::{Buffer, Source};
use zerocopy::IntoBytes;

#[test]
fn d4_packets_of_all_sizes_arrive_as_they_were_sent() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[1], 1));
    let edges = [0, 1, 8, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1, 64, MTU - 1, MTU];
    let mut message = 0;
    for header_len in [0, 1, 16, INLINE_BYTES, 70, MTU] {
        for data_len in edges.into_iter().filter(|len| len + header_len <= MTU) {
            for lend in [false, true] {
                message += 1;
                let (header, data) = (pattern(message, header_len), pattern(!message, data_len));
                let envelope = envelope(endpoint(0, 0), endpoint(1, 1), message);
                if lend {
                    let lent: &'static [u8] = data.clone().leak();
                    a.push_zcopy(torus(1), &envelope, &header, &Source::from(lent)).unwrap();
                } else {
                    a.push_bcopy(torus(1), &envelope, &header, &data).unwrap();
                }
                let arrival = next(&mut b, || {
                    a.progress();
                });
                assert_eq!(arrival.envelope(), envelope);
                assert_eq!((arrival.header(), arrival.data()), (&header[..], &data[..]));
                b.release(arrival);
            }
        }
    }
    let (sent, received) = (units[0].statistics(), units[1].statistics());
    assert_eq!(sent.sent_packets, u64::from(message));
    assert_eq!((received.received_packets, received.received_bytes), (sent.sent_packets, sent.sent_bytes));
    assert_eq!(received.dropped.total(), 0);
}

#[test]
fn d4_lent_memory_comes_back_when_it_was_sent_and_not_before() {
    let net = Net::new(2);
    let units = units::<1>(&net, 2, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[1], 0));
    let mut buffer = Buffer::new(std::vec![0; 400].leak()).unwrap();
    buffer.as_mut_slice()[..200].copy_from_slice(&pattern(1, 200));
    let lease = buffer.lend();
    let data = lease.source().slice(0..200).unwrap();
    a.push_zcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 0), 1), b"head", &data).unwrap();
    drop(data);
    assert!(!lease.is_idle());
    let arrival = next(&mut b, || {
        a.progress();
    });
    assert_eq!((arrival.header(), arrival.data()), (&b"head"[..], &pattern(1, 200)[..]));
    b.release(arrival);
    a.progress();
    assert!(lease.reclaim().is_ok());
}

#[test]
fn p11_a_hundred_thousand_packets_to_a_stalled_receiver_wait_and_none_is_lost() {
    let net = Net::new(2);
    let units = units::<2>(&net, 2, 1, None);
    let (mut a, mut stalled, mut other) = (open(units[0], 0), open(units[1], 0), open(units[1], 1));
    let (total, refusals) = if cfg!(miri) { (400, 20) } else { (100_000, 1_000) };
    let target = endpoint(1, 0);
    let mut sent = 0;
    let push = |a: &mut TestPort<2>, message: u32| {
        // Inline, copied and lent in turn.
        let data = pattern(message, [4, 100, 300][message as usize % 3]);
        let envelope = envelope(endpoint(0, 0), target, message);
        if message % 3 == 2 {
            let lent: &'static [u8] = std::vec![message as u8; 300].leak();
            a.push_zcopy(torus(1), &envelope, &[], &Source::from(lent))
        } else {
            a.push_bcopy(torus(1), &envelope, &message.to_le_bytes(), &data)
        }
    };
    // The receiver drives but takes nothing in: all stalls.
    let mut refused = 0;
    while refused < refusals {
        match push(&mut a, sent) {
            Ok(()) => sent += 1,
            Err(Full) => refused += 1,
        }
        a.progress();
        other.progress();
    }
    assert!(other.pull().is_none());
    let held = sent as usize;
    assert!(held >= RX_BUFFERS, "{held}");
    assert!(held <= RX_BUFFERS + net.on_the_way(1) + 32 + INJECTION_ENTRIES + SHORT_SLOTS, "{held}");
    // Then it goes on, slowly.
    let mut received = 0;
    while received < total {
        while sent < total && push(&mut a, sent).is_ok() {
            sent += 1;
        }
        a.progress();
        stalled.progress();
        for _ in 0..received % 7 + 1 {
            let Some(arrival) = stalled.pull() else { break };
            assert_eq!(arrival.envelope().message, received, "in order");
            if received % 3 == 2 {
                assert!(arrival.data().len() == 300 && arrival.data().iter().all(|&b| b == received as u8));
            } else {
                assert_eq!(arrival.header(), received.to_le_bytes());
                assert_eq!(arrival.data(), pattern(received, [4, 100][received as usize % 3]));
            }
            stalled.release(arrival);
            received += 1;
        }
    }
    assert_eq!(units[1].statistics().dropped.total(), 0);
    units[0].drain();
}

#[test]
fn d9_hostile_packets_are_counted_by_reason_and_dropped() {
    let net = Net::new(2);
    let units = units::<3>(&net, 2, 1, None);
    let mut port = open(units[1], 0);
    let good = envelope(endpoint(0, 0), endpoint(1, 0), 1);
    let bytes = |envelope: &Envelope| Vec::from(Header::new(envelope, 0, 0).as_bytes());
    let mut old = bytes(&good);
    old[0] = 99;
    let mut long = bytes(&good);
    long[28] = 1;
    for (count, packet) in [
        (3, old),
        (1, long),
        (2, bytes(&good)[..31].to_vec()),
        (1, Vec::new()),
        (4, bytes(&Envelope { target: endpoint(0, 0), ..good })),
        (5, bytes(&Envelope { target: endpoint(17, 0), ..good })),
        (6, bytes(&Envelope { target: endpoint(1, 2), ..good })),
        (8, bytes(&Envelope { origin: endpoint(2, 0), ..good })),
        (2, bytes(&Envelope { kind: Kind::Hello, ..good })),
    ] {
        for _ in 0..count {
            net.inject(1, &packet);
        }
    }
    net.inject(1, &bytes(&good));
    let arrival = next(&mut port, || ());
    assert_eq!(arrival.envelope(), good);
    port.release(arrival);
    let dropped = units[1].statistics().dropped;
    assert_eq!(dropped.malformed, 3 + 1 + 2 + 1);
    assert_eq!(dropped.wrong_node, 4 + 5);
    assert_eq!(dropped.no_fifo, 6);
    assert_eq!(dropped.unknown_origin, 8);
    assert_eq!(dropped.unexpected, 2);
    assert_eq!(dropped.total(), 32);
    assert_eq!(units[1].statistics().received_packets, 1);
}

#[test]
fn p6_packets_wait_for_a_context_that_is_not_open_yet() {
    let net = Net::new(2);
    let units = units::<4>(&net, 2, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[1], 0));
    a.push_bcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 1), 5), &[], b"early").unwrap();
    for _ in 0..10 {
        a.progress();
        b.progress();
        assert!(b.pull().is_none());
    }
    let mut late = open(units[1], 1);
    assert_eq!(late.pull().unwrap().data(), b"early");
    // And again after it was closed and opened.
    drop(late);
    a.push_bcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 1), 6), &[], b"between").unwrap();
    a.progress();
    b.progress();
    a.progress();
    b.progress();
    assert_eq!(open(units[1], 1).pull().unwrap().data(), b"between");
}

#[test]
fn p9_the_path_follows_from_where_the_target_is() {
    let net = Net::new(2);
    let units = units::<5>(&net, 2, 2, None);
    let port = open(units[0], 0);
    assert!(matches!(port.locate(endpoint(0, 0), true), Ok(Path::Local(_))));
    assert!(matches!(port.locate(endpoint(0, 1), true), Ok(Path::Local(_))));
    assert!(matches!(port.locate(endpoint(1, 1), true), Ok(Path::Local(_))));
    assert_eq!(port.locate(endpoint(1, 1), false), Ok(Path::Torus(0)));
    assert_eq!(port.locate(endpoint(2, 0), true), Ok(Path::Torus(1)));
    assert_eq!(port.locate(endpoint(4, 0), true), Err(Unreachable::NoSuchEndpoint));
    assert_eq!(port.locate(endpoint(3, 2), true), Err(Unreachable::NoSuchEndpoint));
}

#[test]
fn p9_both_sides_of_a_port_have_their_turn() {
    let net = Net::new(1);
    let unit = units::<6>(&net, 1, 1, None)[0];
    let (mut a, mut b) = (open(unit, 0), open(unit, 1));
    let target = endpoint(0, 1);
    let local = a.locate(target, true).unwrap();
    let looped = a.locate(target, false).unwrap();
    assert_eq!(looped, Path::Torus(0));
    for message in 0..8 {
        a.push_bcopy(local, &envelope(endpoint(0, 0), target, message), &[], b"here").unwrap();
        a.push_bcopy(looped, &envelope(endpoint(0, 0), target, 100 + message), &[], b"there").unwrap();
    }
    for _ in 0..4 {
        a.progress();
    }
    let mut order = Vec::new();
    while let Some(arrival) = b.pull() {
        order.push(arrival.envelope().message);
        b.release(arrival);
    }
    let torus_turns: Vec<_> = order.iter().map(|&message| message >= 100).collect();
    assert_eq!(order.len(), 16);
    assert!(torus_turns.windows(2).all(|pair| pair[0] != pair[1]), "{order:?}");
    assert_eq!(unit.statistics().local_packets, 8);
}

#[test]
fn p3_contexts_share_an_injection_fifo_or_have_their_own_but_not_both() {
    let net = Net::new(2);
    let units = units::<7>(&net, 2, 1, None);
    let mut shared: Vec<_> =
        (0..2).map(|c| units[0].open(ClientId(0), 0, c, Sharing::Shared).unwrap()).collect();
    assert_eq!(units[0].open(ClientId(0), 0, 0, Sharing::Exclusive).err(), Some(OpenError::InUse));
    let mut b = open(units[1], 0);
    for message in 0..100 {
        let port = &mut shared[message as usize % 2];
        let origin = endpoint(0, (message % 2) as u8);
        port.push_bcopy(torus(1), &envelope(origin, endpoint(1, 0), message), &[], &pattern(message, 40))
            .unwrap();
        let arrival = next(&mut b, || {
            port.progress();
        });
        assert_eq!(arrival.envelope().message, message);
        b.release(arrival);
    }
    drop(shared.remove(0));
    assert_eq!(units[0].open(ClientId(0), 0, 0, Sharing::Exclusive).err(), Some(OpenError::Sharing));
    drop(shared);
    let own = units[0].open(ClientId(0), 0, 0, Sharing::Exclusive).unwrap();
    assert_eq!(units[0].open(ClientId(0), 0, 1, Sharing::Shared).err(), Some(OpenError::Sharing));
    drop(own);
    assert!(units[0].open(ClientId(0), 0, 1, Sharing::Shared).is_ok());
}

#[test]
fn p1_ports_and_setups_that_cannot_be_are_refused_by_name() {
    let net = Net::new(1);
    let unit = units::<8>(&net, 1, 2, None)[0];
    for (client, task, context) in [(0, 2, 0), (3, 0, 2)] {
        assert_eq!(
            unit.open(ClientId(client), task, context, Sharing::Exclusive).err(),
            Some(OpenError::NoSuchPort)
        );
    }
    let start_with = |harts, node, contexts, agent| {
        let map = TaskMap::new(2, 16, MapOrder::NodesFirst).unwrap();
        let adapter: Option<FakeAdapter<8>> = None;
        MessageUnit::<Host<8>, _>::start(Setup { contexts, harts, agent, ..setup(adapter, node, map) }).err()
    };
    let start = |node, contexts, agent| start_with(4, node, contexts, agent);
    assert_eq!(start_with(65, 0, 1, None), Some(StartError::NoSuchHart(64)));
    assert_eq!(start_with(64, 0, 1, None), None);
    assert_eq!(start(2, 1, None), Some(StartError::NoSuchNode(2)));
    assert_eq!(start(0, 8, None), Some(StartError::TooManyPorts { wanted: 512 }));
    assert_eq!(start(0, 1, Some(4)), Some(StartError::NoSuchHart(4)));
    assert_eq!(start(1, 1, Some(3)), None);
}

#[test]
fn p9_a_node_without_an_adapter_talks_to_itself_only() {
    let map = TaskMap::new(1, 1, MapOrder::NodesFirst).unwrap();
    let adapter: Option<FakeAdapter<9>> = None;
    let unit: &'static Unit<9> = MessageUnit::start(Setup { harts: 1, ..setup(adapter, 0, map) }).unwrap();
    unit.join(1);
    let (mut a, mut b) = (open(unit, 0), open(unit, 1));
    assert_eq!(a.locate(endpoint(0, 1), false), Err(Unreachable::NoSuchEndpoint));
    let path = a.locate(endpoint(0, 1), true).unwrap();
    let data = pattern(3, a.mtu());
    a.push_bcopy(path, &envelope(endpoint(0, 0), endpoint(0, 1), 3), b"h", &data[1..]).unwrap();
    let arrival = b.pull().unwrap();
    assert_eq!((arrival.header(), arrival.data()), (&b"h"[..], &data[1..]));
    b.release(arrival);
    unit.drain();
}

#[test]
fn d4_the_state_block_follows_the_packets() {
    let net = Net::new(2);
    let units = units::<10>(&net, 2, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[1], 0));
    for message in 0..3 {
        a.push_bcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 0), message), &[], &[0; 100]).unwrap();
    }
    let counters = |unit: &Unit<10>| unit.port_states[0].record.counts();
    assert_eq!(counters(units[0]), [3, 0, 0, 0]);
    let arrival = next(&mut b, || {
        a.progress();
    });
    b.release(arrival);
    a.progress();
    b.progress();
    assert_eq!(counters(units[0]), [3, 3, 0, 0]);
    assert_eq!(counters(units[1]), [0, 0, 3, 1]);
}

#[test]
fn d4_s3_the_state_block_names_the_node_for_which_there_was_no_place() {
    let net = Net::new(3);
    let units = units::<11>(&net, 3, 1, None);
    let (mut a, _b, mut c) = (open(units[0], 0), open(units[1], 0), open(units[2], 0));
    let record = &units[0].port_states[0].record;
    let push = |a: &mut TestPort<11>, node: u32| {
        a.push_bcopy(torus(node), &envelope(endpoint(0, 0), endpoint(node, 0), 1), &[], &[0; 8])
    };
    while push(&mut a, 2).is_ok() {
        assert_eq!(record.refused(), None);
    }
    assert_eq!(record.refused(), Some(2));
    // One for another node has a place yet.
    push(&mut a, 1).unwrap();
    assert_eq!(record.refused(), None);
    assert_eq!(push(&mut a, 2), Err(Full));
    assert_eq!(record.refused(), Some(2));
    let takes = (0..100).any(|_| {
        let arrival = next(&mut c, || {
            a.progress();
        });
        c.release(arrival);
        push(&mut a, 2).is_ok()
    });
    assert!(takes);
    assert_eq!(record.refused(), None);
}
