//! Nodes that are stopped, or do not answer: what is for others goes on (SPEC R-1).

use super::host::STOPPED;
use super::hostile::packet;
use super::one_sided::{add, push_rmw, request, statistics};
use super::*;
use crate::ranks::MOST_NODES;
use crate::unit::fifo::KEPT_ENTRIES;
use crate::unit::slots::SHORT_BYTES;
use crate::unit::{COPY_SLOTS, INJECTION_ENTRIES, SHORT_SLOTS, WINDOW};
use pami::device::{Full, Gone, REQUESTS, Receiving, Sending, Sleeping};
use rings::buffer::Source;
use zerocopy::{FromBytes, IntoBytes};

/// Kinds that are tried one after the other.
const KINDS: usize = if cfg!(miri) { 1 } else { PUSHES.len() };

type Push = fn(&mut TestPort<0>, u32, u32, RegionId) -> Result<(), Full>;

/// What may be pushed for a node: a message in a descriptor, a copied one, a put, an update, a get.
const PUSHES: [(&str, Push); 5] = [
    ("message", |port, node, number, _| push_message(port, node, number, 4)),
    ("copied message", |port, node, number, _| push_message(port, node, number, 100)),
    ("put", |port, node, number, region| {
        let put = request(Kind::PutLast, node, number % REQUESTS as u32, 0, 8);
        port.push_bcopy(torus(node), &put, region.as_bytes(), &[7; 8])
    }),
    ("update", |port, node, number, region| {
        push_rmw(port, node, number % REQUESTS as u32, region, 8, add(1))
    }),
    ("get", |port, node, number, region| {
        let get = request(Kind::Get, node, number % REQUESTS as u32, 0, 8);
        port.push_get(node, &get, region, Some((&shared(&[0; 8]), 0)), true)
    }),
];

fn push_message(port: &mut TestPort<0>, node: u32, number: u32, len: usize) -> Result<(), Full> {
    let envelope = envelope(endpoint(0, 0), endpoint(node, 1), number);
    port.push_bcopy(torus(node), &envelope, &[], &pattern(number, len))
}

/// Pushes for node `node` until it has been refused for long. Returns how many were not.
fn fill(port: &mut TestPort<0>, node: u32, push: Push, region: RegionId) -> u32 {
    let (mut pushed, mut refused) = (0, 0);
    while refused < 20 {
        match push(port, node, pushed, region) {
            Ok(()) => pushed += 1,
            Err(Full) => refused += 1,
        }
        port.progress();
    }
    pushed
}

/// Everything that a port of a node that lives gets, and is asked for, from `a`.
fn assert_all_goes(a: &mut TestPort<0>, b: &mut TestPort<0>, node: u32, region: RegionId, what: &str) {
    for (kind, push) in PUSHES {
        // As many as a port can have under way at least: the way is not just open once.
        for number in 0..if cfg!(miri) { 8 } else { REQUESTS as u32 } {
            let mut pushed = push(a, node, number, region);
            for _ in 0..20 {
                if pushed.is_ok() {
                    break;
                }
                a.progress();
                b.progress();
                pushed = push(a, node, number, region);
            }
            assert_eq!(pushed, Ok(()), "{kind} {number} behind {what}");
            if kind.contains("message") {
                let arrival = next(b, || {
                    a.progress();
                });
                assert_eq!(arrival.envelope().message, number, "{kind} behind {what}");
                b.release(arrival);
            } else {
                let completed = ended(a, || {
                    b.progress();
                });
                assert_eq!(
                    (completed.message, completed.result.is_ok()),
                    (number, true),
                    "{kind} behind {what}"
                );
            }
        }
    }
}

#[test]
fn r1_requests_that_a_node_does_not_answer_hold_up_none_to_others() {
    for (what, push) in PUSHES.into_iter().skip(2).take(KINDS) {
        let net = Net::new(3);
        let units = units::<0>(&net, 3, 1, None);
        let (mut a, mut b) = (open(units[0], 0), open(units[2], 1));
        let (region, _) = region(&mut b, &[0; 64]);
        let mut pushed = 0;
        // Node 1 takes all in and answers nothing.
        for _ in 0..20 {
            pushed += fill(&mut a, 1, push, region);
            while net.take(1).is_some() {}
        }
        assert!(pushed as usize > WINDOW, "{pushed}");
        assert_eq!(statistics(&a).sent_packets, WINDOW as u64);
        assert_all_goes(&mut a, &mut b, 2, region, what);
    }
}

#[test]
fn r1_what_is_for_nodes_that_are_stopped_holds_up_nothing_to_others() {
    for (what, push) in PUSHES.into_iter().filter(|(what, _)| !what.contains("copied")).take(KINDS) {
        let stopped = if cfg!(miri) { 4 } else { 60 };
        let net = Net::new(stopped + 2);
        let units = units::<0>(&net, stopped as u32 + 2, 1, None);
        let node = stopped as u32 + 1;
        let (mut a, mut b) = (open(units[0], 0), open(units[node as usize], 1));
        let (region, _) = region(&mut b, &[0; 64]);
        for stopped in 1..=stopped {
            net.stop(stopped, true);
            let pushed = fill(&mut a, stopped as u32, push, region);
            assert!(pushed as usize > STOPPED, "{what} {pushed}");
        }
        assert_all_goes(&mut a, &mut b, node, region, what);
    }
}

#[test]
fn r1_a_node_that_goes_on_gets_all_in_order_and_once() {
    let net = Net::new(3);
    let units = units::<0>(&net, 3, 1, None);
    let (mut a, mut b, mut c) = (open(units[0], 0), open(units[1], 1), open(units[2], 1));
    let route = a.route(endpoint(2, 1), torus(2)).unwrap();
    let (region, memory) = region(&mut b, &[0; 64]);
    let rounds = if cfg!(miri) { 2 } else { 20 };
    let (mut sent, mut received, mut updated, mut ended) = (0, 0, 0, 0);
    for _ in 0..rounds {
        net.stop(1, true);
        // Messages and updates in turn, until nothing more is taken.
        let mut refused = 0;
        while refused < 20 {
            let number = sent + updated;
            let pushed = if number % 3 == 0 {
                push_rmw(&mut a, 1, updated % REQUESTS as u32, region, 8, add(1)).map(|()| updated += 1)
            } else {
                push_message(&mut a, 1, sent, 20).map(|()| sent += 1)
            };
            refused += u32::from(pushed.is_err());
            if refused % 5 == 4 {
                a.progress();
            }
        }
        assert_eq!(a.push_short(&route, 7, &[], &[1; 8]), Err(Full), "the quick way knows nothing of nodes");
        net.stop(1, false);
        for _ in 0..200 {
            a.progress();
            b.progress();
            while let Some(arrival) = b.pull() {
                assert_eq!(arrival.envelope().message, received);
                assert_eq!(arrival.data(), pattern(received, 20));
                b.release(arrival);
                received += 1;
            }
            while let Some(completed) = a.completed() {
                let number = ended % REQUESTS as u32;
                assert_eq!(completed, Completed { message: number, result: Ok(ended.into()) });
                ended += 1;
            }
        }
        assert_eq!((received, ended), (sent, updated));
        assert_eq!(a.push_short(&route, 7, &[], &[1; 8]), Ok(()), "all is as before");
        let arrival = next(&mut c, || {
            a.progress();
        });
        c.release(arrival);
    }
    assert_eq!(memory.update(8, Width::Eight, Update::Add(0)), Ok(updated.into()));
    units[0].drain();
}

#[test]
fn r1_what_is_all_for_one_node_stays_in_the_fifo_and_others_get_in() {
    let net = Net::new(3);
    let units = units::<0>(&net, 3, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[2], 1));
    let route = a.route(endpoint(2, 1), torus(2)).unwrap();
    let (_, message) = PUSHES[0];
    let (region, _) = region(&mut b, &[0; 8]);
    net.stop(1, true);
    // Parked it would be less: nothing is pushed for a node that has a list.
    let fifo = INJECTION_ENTRIES - KEPT_ENTRIES + 1;
    assert_eq!(fill(&mut a, 1, message, region) as usize, STOPPED + fifo);
    assert_eq!(a.push_short(&route, 7, &[], &[1; 8]), Err(Full), "the quick way knows nothing of nodes");
    push_message(&mut a, 2, 0, 4).unwrap();
    let arrival = next(&mut b, || {
        a.progress();
    });
    b.release(arrival);
    net.stop(1, false);
    let mut arrived = 0;
    for _ in 0..100 {
        a.progress();
        arrived += core::iter::from_fn(|| net.take(1)).count();
    }
    assert_eq!(arrived, STOPPED + fifo);
    assert_eq!(a.push_short(&route, 7, &[], &[1; 8]), Ok(()), "all is as before");
}

#[test]
fn r1_who_waits_for_a_node_is_told_when_it_goes_on_though_others_took_packets_since() {
    let net = Net::new(3);
    let units = units::<28>(&net, 3, 1, None);
    let (mut a, mut other) = (open(units[0], 0), open(units[0], 1));
    let mut push = |node| {
        let envelope = envelope(endpoint(0, 0), endpoint(node, 1), 0);
        a.push_bcopy(torus(node), &envelope, &[], b"short")
    };
    net.stop(1, true);
    while push(1).is_ok() || other.progress() {}
    // In what is left of the FIFO, then in all of it, as what is for node 1 is parked.
    for round in 0..2 {
        assert_eq!((push(1), push(2)), (Err(Full), Ok(())), "round {round}");
        while other.progress() {}
    }
    Host::<28>::be(3);
    a.arm();
    for _ in 0..100 {
        other.look();
        other.progress();
    }
    Host::<28>::take_woken(3);
    net.stop(1, false);
    for _ in 0..100 {
        other.look();
        other.progress();
        while net.take(1).is_some() {}
    }
    assert!(Host::<28>::take_woken(3), "node 1 takes packets, and who has one was not woken");
}

#[test]
fn p3_r1_of_ports_that_share_a_fifo_the_one_that_waits_for_room_is_woken() {
    for drives in 0..2 {
        let net = Net::new(2);
        let units = units::<29>(&net, 2, 1, None);
        let mut ports: Vec<_> =
            (0..2).map(|c| units[0].open(ClientId(0), 0, c, Sharing::Shared).unwrap()).collect();
        let push = |ports: &mut [TestPort<29>], port: usize| {
            let envelope = envelope(endpoint(0, port as u8), endpoint(1, 0), 0);
            ports[port].push_bcopy(torus(1), &envelope, &[], b"short")
        };
        let waits = 1 - drives;
        net.stop(1, true);
        while push(&mut ports, drives).is_ok() || ports[drives].progress() {}
        assert_eq!(push(&mut ports, waits), Err(Full));
        while ports[drives].progress() {}
        Host::<29>::be(3);
        ports[waits].arm();
        for go_on in [false, true] {
            net.stop(1, !go_on);
            for _ in 0..100 {
                ports[drives].look();
                ports[drives].progress();
            }
            assert_eq!(Host::<29>::take_woken(3), go_on, "context {waits}, node 1 goes on: {go_on}");
        }
        ports[waits].disarm();
    }
}

#[test]
fn r2_what_waits_for_a_node_that_died_gives_its_memory_back() {
    let net = Net::new(3);
    let units = units::<0>(&net, 3, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[2], 1));
    let route = a.route(endpoint(2, 1), torus(2)).unwrap();
    net.stop(1, true);
    let lease = Buffer::new(std::vec![0; 1200].leak()).unwrap().lend();
    for number in 0..30 {
        let data: Source = lease.source().slice(0..100).unwrap();
        let _ = a.push_zcopy(torus(1), &envelope(endpoint(0, 0), endpoint(1, 1), number), &[], &data);
    }
    // Something behind it has it parked.
    push_message(&mut a, 2, 0, 4).unwrap();
    let arrival = next(&mut b, || {
        a.progress();
    });
    b.release(arrival);
    assert!(!lease.is_idle());
    units[0].announce(1, Gone::Died);
    a.progress();
    a.progress();
    assert!(lease.reclaim().is_ok());
    units[0].drain();
    assert_eq!(a.push_short(&route, 7, &[], &[1; 8]), Err(Full), "routes are made anew");
    let route = a.route(endpoint(2, 1), torus(2)).unwrap();
    assert_eq!(a.push_short(&route, 7, &[], &[1; 8]), Ok(()));
}

#[test]
fn r1_r2_what_is_asked_of_a_node_that_died_waits_for_none_that_lives() {
    // As many as can be owe an answer.
    let silent = MOST_NODES as u32;
    let net = Net::new(silent as usize + 2);
    let map = TaskMap::new(silent + 2, 1, MapOrder::TasksFirst).unwrap();
    let adapter = Some(FakeAdapter::new(&net, 0, MTU).with_most_peers(200));
    let setup = setup(adapter, 0, map);
    let mut a = open::<0>(MessageUnit::start(setup).unwrap(), 0);
    let id = RegionId::read_from_bytes(&[1; 8]).unwrap();
    let memory = shared(&[0; 64]);
    for node in 1..=silent + 1 {
        let get = request(Kind::Get, node, node % REQUESTS as u32, 0, 8);
        a.push_get(node, &get, id, Some((&memory, 0)), true).unwrap();
        for _ in 0..4 {
            a.progress();
        }
        assert_eq!(net.take(node as usize).is_some(), node <= silent, "{node}");
    }
    let taken = statistics(&a).failed_packets;
    a.unit().announce(silent + 1, Gone::Died);
    for _ in 0..4 {
        a.progress();
    }
    assert_eq!(
        statistics(&a).failed_packets,
        taken + 1,
        "what is for a node that is gone is refused at once"
    );
}

#[test]
fn r1_copies_for_one_node_leave_room_for_those_for_others() {
    for (slots, bytes) in [(SHORT_SLOTS, 100), (COPY_SLOTS, SHORT_BYTES + 1)] {
        let stopped = slots / 2 - 1;
        let net = Net::new(stopped + 2);
        let units = units_of::<0>(&net, (stopped as u32 + 2, 1), None, 2 * SHORT_BYTES);
        let node = stopped as u32 + 1;
        let (mut a, mut b) = (open(units[0], 0), open(units[node as usize], 1));
        let (region, _) = region(&mut b, &[0; 64]);
        for stopped in 1..=stopped {
            net.stop(stopped, true);
            let most = 0..slots as u32;
            let pushed =
                most.filter(|&number| push_message(&mut a, stopped as u32, number, bytes).is_ok()).count();
            assert_eq!(pushed, if stopped == 1 { slots / 2 } else { 1 }, "{slots} slots, node {stopped}");
            a.progress();
        }
        assert_all_goes(&mut a, &mut b, node, region, "copied messages");
    }
}

#[test]
fn r1_answers_to_nodes_that_are_stopped_leave_room_for_those_to_others() {
    let (last, messages) = if cfg!(miri) { (4, 2) } else { (19, 10) };
    let net = Net::new(last + 1);
    let units = units::<0>(&net, last as u32 + 1, 1, None);
    let (mut a, mut b) = (open(units[0], 0), open(units[last], 1));
    let (region, _) = region(&mut a, &pattern(3, 20_000));
    for stopped in 1..last {
        net.stop(stopped, true);
        let (origin, target) = (endpoint(stopped as u32, 0), endpoint(0, 0));
        for message in 0..WINDOW as u32 {
            let get =
                Envelope { kind: Kind::Get, dispatch: 0, origin, target, message, offset: 0, total: 20_000 };
            net.inject(0, &packet(&get, region.as_bytes(), &[0; 4]));
            a.progress();
        }
    }
    for message in 0..messages {
        let into = shared(&[0; 20_000]);
        let get = Envelope {
            origin: endpoint(last as u32, 1),
            target: endpoint(0, 0),
            ..request(Kind::Get, 0, message, 0, 20_000)
        };
        b.push_get(0, &get, region, Some((&into, 0)), true).unwrap();
        assert_eq!(ended_by(&mut b, &mut a), Completed { message, result: Ok(0) });
        assert!(bytes(&into) == pattern(3, 20_000));
    }
}
