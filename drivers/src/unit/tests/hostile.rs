//! Peers that ask for what they must not, and answer what nobody asked (SPEC D-9).

use super::*;
use crate::unit::WINDOW;
use pami::device::{Arrival, Receiving, Sending};
use pami::packet::{DISPATCH_IDS, Header};
use zerocopy::IntoBytes;

pub(super) fn packet(envelope: &Envelope, header: &[u8], data: &[u8]) -> Vec<u8> {
    [Header::new(envelope, header.len() as u16, data.len() as u16).as_bytes(), header, data].concat()
}

fn from_one(kind: Kind) -> Envelope {
    Envelope {
        kind,
        dispatch: 0,
        origin: endpoint(1, 0),
        target: endpoint(0, 0),
        message: 7,
        offset: 0,
        total: 0,
    }
}

#[test]
fn d9_only_a_whole_message_for_an_id_that_handlers_have_goes_the_short_way_and_none_loses_anything() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let mut port = open(units[0], 0);
    let whole = Envelope { dispatch: 31, total: 4, ..from_one(Kind::EagerFirst) };
    let last = DISPATCH_IDS as u8;
    let cases = [
        (whole, Some((31, endpoint(1, 0)))),
        // An id of the deferring handlers, and none: neither is that of a handler 32 below.
        (Envelope { dispatch: last, ..whole }, None),
        (Envelope { dispatch: u8::MAX, ..whole }, None),
        (Envelope { kind: Kind::EagerFirstAcked, ..whole }, None),
        (Envelope { kind: Kind::EagerNext, ..whole }, None),
        (Envelope { total: 5, ..whole }, None),
        (Envelope { total: 5, offset: 1, ..whole }, None),
    ];
    for (envelope, expected) in cases {
        net.inject(0, &packet(&envelope, b"head", b"data"));
        port.progress();
        let arrival = port.pull_queued().unwrap();
        assert_eq!(arrival.whole(), expected, "{envelope:?}");
        assert_eq!((arrival.envelope(), arrival.parts()), (envelope, (&b"head"[..], &b"data"[..])));
        port.release(arrival);
        assert!(port.pull_queued().is_none());
    }
}

#[test]
fn d9_requests_that_say_nothing_are_dropped_and_not_answered() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let mut port = open(units[0], 0);
    let (region, memory) = region(&mut port, &[0; 64]);
    let name = region.as_bytes();
    let segments = |offset: u32, len: u32| [name, &offset.to_le_bytes(), &len.to_le_bytes()].concat();
    let rmw = |dispatch| Envelope { dispatch, ..from_one(Kind::Rmw) };
    let bad = [
        (from_one(Kind::Put), Vec::new(), Vec::new()),
        (from_one(Kind::PutLast), name[..7].to_vec(), b"data".to_vec()),
        // Half a segment; segments that are not as long as the data.
        (from_one(Kind::PutLast), [name, &[0; 4]].concat(), b"data".to_vec()),
        (from_one(Kind::PutLast), segments(0, 3), b"data".to_vec()),
        (from_one(Kind::Put), segments(0, 5), b"data".to_vec()),
        (
            from_one(Kind::Put),
            [segments(0, u32::MAX), segments(0, 5)[8..].to_vec()].concat(),
            b"data".to_vec(),
        ),
        // Without a signal, or with half of one; with a segment that is not as long as the data.
        (from_one(Kind::PutSignal), name.to_vec(), b"data".to_vec()),
        (from_one(Kind::PutSignalAcked), [name, &[0; 7]].concat(), b"data".to_vec()),
        (from_one(Kind::PutSignal), [segments(0, 3), [0; 8].to_vec()].concat(), b"data".to_vec()),
        (from_one(Kind::Get), name.to_vec(), b"far".to_vec()),
        (from_one(Kind::Get), name.to_vec(), b"too far".to_vec()),
        (from_one(Kind::Get), segments(0, 4), b"here".to_vec()),
        // No operator, short operands, a region's name that goes on.
        (rmw(6), name.to_vec(), [0; 16].to_vec()),
        (rmw(0x86), name.to_vec(), [0; 16].to_vec()),
        (rmw(0), name.to_vec(), [0; 15].to_vec()),
        (rmw(0), segments(0, 0), [0; 16].to_vec()),
    ];
    for (envelope, header, data) in &bad {
        net.inject(0, &packet(envelope, header, data));
    }
    for _ in 0..10 {
        port.progress();
    }
    let statistics = units[0].statistics();
    assert_eq!(statistics.dropped.malformed, bad.len() as u64);
    assert_eq!((statistics.dropped.total(), statistics.sent_packets), (bad.len() as u64, 0));
    assert_eq!(bytes(&memory), [0; 64]);
    assert!(port.pull().is_none());
}

#[test]
fn d9_a_node_that_asks_for_more_than_it_may_is_answered_as_much_as_it_may() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let mut port = open(units[0], 0);
    let (region, _) = region(&mut port, &[0; 64]);
    // The link to node 1 is full, so that no answer leaves.
    for _ in 0..100 {
        net.inject(1, &[]);
    }
    let total = 3 * WINDOW;
    for _ in 0..total {
        net.inject(0, &packet(&Envelope { total: 64, ..from_one(Kind::Get) }, region.as_bytes(), &[0; 4]));
    }
    for _ in 0..50 {
        port.progress();
    }
    let statistics = units[0].statistics();
    let most = WINDOW as u64 + 32;
    assert!(statistics.served >= WINDOW as u64 && statistics.served <= most, "{}", statistics.served);
    assert_eq!(statistics.dropped.beyond + statistics.served, total as u64);
    assert_eq!(statistics.dropped.total(), statistics.dropped.beyond);
}

#[test]
fn d9_answers_that_nobody_asked_for_are_dropped() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let mut port = open(units[0], 0);
    for kind in [Kind::Reply, Kind::GetData, Kind::GetLast] {
        net.inject(0, &packet(&from_one(kind), &[], &[]));
        net.inject(0, &packet(&from_one(kind), &[], b"old value"));
    }
    port.progress();
    assert!(port.completed().is_none() && port.pull().is_none());
    let dropped = units[0].statistics().dropped;
    assert_eq!((dropped.unsolicited, dropped.total()), (6, 6));
}

#[test]
fn d9_an_answer_is_for_the_oldest_request_and_in_its_bounds_or_for_none() {
    let net = Net::new(3);
    let units = units::<0>(&net, 3, 1, None);
    let (mut port, mut other) = (open(units[0], 0), open(units[0], 1));
    let into = shared(&[0; 64]);
    let asked = Envelope {
        kind: Kind::Get,
        dispatch: 0,
        origin: endpoint(0, 0),
        target: endpoint(1, 0),
        message: 7,
        offset: 0,
        total: 20,
    };
    port.push_get(1, &asked, RegionId::NONE, Some((&into, 8)), true).unwrap();
    port.progress();
    let get = |kind, offset| Envelope { offset, total: 20, ..from_one(kind) };
    let wrong = [
        // Another number, another context, another node, another kind.
        (Envelope { message: 8, ..get(Kind::GetLast, 8) }, 20),
        (Envelope { message: 7 + 128, ..get(Kind::GetLast, 8) }, 20),
        (Envelope { target: endpoint(0, 1), ..get(Kind::GetLast, 8) }, 20),
        (Envelope { origin: endpoint(2, 0), ..get(Kind::GetLast, 8) }, 20),
        (from_one(Kind::Reply), 0),
        (from_one(Kind::Reply), 8),
        // Another place, too much, too little, nothing.
        (get(Kind::GetLast, 0), 20),
        (get(Kind::GetLast, u32::MAX), 20),
        (get(Kind::GetLast, 8), 21),
        (get(Kind::GetLast, 8), 19),
        (get(Kind::GetData, 8), 20),
        (get(Kind::GetData, 9), 10),
        (get(Kind::GetData, 8), 0),
        // A fault that has data, or is none.
        (Envelope { dispatch: 1, ..get(Kind::GetLast, 8) }, 20),
        (Envelope { dispatch: 1, ..get(Kind::GetData, 8) }, 0),
        (Envelope { dispatch: 6, ..get(Kind::GetLast, 8) }, 0),
    ];
    for (envelope, len) in &wrong {
        net.inject(0, &packet(envelope, &[], &std::vec![9; *len]));
    }
    // Right but for a header, which no answer has.
    net.inject(0, &packet(&get(Kind::GetLast, 8), b"head", &[9; 20]));
    let dropped = wrong.len() as u64 + 1;
    for _ in 0..10 {
        port.progress();
    }
    assert_eq!(units[0].statistics().dropped.unsolicited, dropped);
    assert_eq!(bytes(&into), [0; 64]);
    assert!(port.completed().is_none() && other.completed().is_none() && other.pull().is_none());
    // The right one still counts.
    net.inject(0, &packet(&get(Kind::GetData, 8), &[], &[1; 12]));
    net.inject(0, &packet(&get(Kind::GetLast, 20), &[], &[2; 8]));
    net.inject(0, &packet(&get(Kind::GetLast, 20), &[], &[3; 8]));
    assert_eq!(ended(&mut port, || ()), Completed { message: 7, result: Ok(0) });
    assert_eq!(bytes(&into), [&[0; 8][..], &[1; 12], &[2; 8], &[0; 36]].concat());
    assert_eq!(units[0].statistics().dropped.unsolicited, dropped + 1);
}

#[test]
fn d9_an_answer_to_memory_that_was_asked_for_too_much_ends_with_a_fault() {
    let net = Net::new(2);
    let units = units::<0>(&net, 2, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[1], 0));
    let (region, _) = region(&mut b, &[5; 2000]);
    let into = shared(&[0; 1000]);
    for total in [1001, 2000] {
        let envelope =
            Envelope { total, origin: endpoint(0, 0), target: endpoint(1, 0), ..from_one(Kind::Get) };
        a.push_get(1, &envelope, region, Some((&into, 0)), true).unwrap();
        assert_eq!(ended_by(&mut a, &mut b), Completed { message: 7, result: Err(RegionFault::Bounds) });
    }
}
