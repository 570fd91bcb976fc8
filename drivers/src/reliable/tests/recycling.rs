//! More nodes than a node has places for peers (SPEC R-3).

use super::bench::Bench;
use super::dice::Dice;
use super::wire::Faults;
use super::{elapse, now, sealed, seeds};
use crate::adapter::{Adapter, FABRIC, Lent, ReliableAdapter};
use crate::link::{Flags, Link, Seq};
use crate::reliable::handshake::Number;
use std::vec::Vec;

const SECOND: u64 = 1_000_000_000;

const BAD: Faults =
    Faults { drop: 100, corrupt: 30, duplicate: 100, reorder: 200, latency: 50_000, jitter: 500_000 };

/// All nodes send to all, themselves among them.
fn all_to_all(nodes: usize, peers: u32, packets: usize, faults: Faults) -> Bench {
    let mut bench = Bench::with_peers(nodes, peers, 1, faults);
    // One after the other, each begins elsewhere.
    for step in 0..nodes {
        for from in 0..nodes {
            bench.order(from as u32, ((from + step) % nodes) as u32, packets);
        }
    }
    bench.run(4000 * SECOND);
    bench
}

fn check(bench: &Bench, most: u16) {
    for node in &bench.nodes {
        let counters = node.link.faults().reliability;
        assert_eq!((counters.beyond_credit, counters.dead_peers, node.failed, node.refused), (0, 0, 0, 0));
        assert!(node.link.peers.len() <= most);
    }
    assert_eq!(bench.overflows(), 0);
}

#[test]
fn r3_three_hundred_nodes_talk_all_to_all() {
    let nodes = if cfg!(miri) { 8 } else { 300 };
    let bench = all_to_all(nodes, 1000, 1, Faults::NONE);
    check(&bench, 28);
    let released: u64 = bench.nodes.iter().map(|node| node.link.faults().reliability.released).sum();
    assert!(released > 300 * 200 || cfg!(miri), "{released}");
}

#[test]
fn r3_a_bad_wire_between_more_nodes_than_places_loses_nothing() {
    let nodes = if cfg!(miri) { 4 } else { 40 };
    for peers in [2, 3, 7] {
        let bench = all_to_all(nodes, peers, 2, BAD);
        check(&bench, peers as u16);
    }
}

/// What a seed says: few nodes, fewer places, any wire.
fn run(seed: u64) -> u64 {
    super::NOW.set(0);
    let mut dice = Dice::new(seed);
    let nodes = 3 + dice.below(4);
    let faults = super::random::faults(&mut dice);
    let mut bench = Bench::with_peers(nodes as usize, 2 + dice.below(2) as u32, seed, faults);
    for _ in 0..1 + dice.below(20) {
        let (from, to) = (dice.below(nodes) as u32, dice.below(nodes) as u32);
        bench.order(from, to, 1 + dice.below(4) as usize);
    }
    bench.run(600 * SECOND);
    bench.nodes.iter().map(|node| node.link.faults().reliability.released).sum()
}

#[test]
fn r3_thousands_of_bad_wires_between_few_places_deliver_everything_once() {
    let released = seeds::run(5_000, 1, || (), |(), seed| run(seed));
    assert!(released > 1000 || cfg!(miri), "the places were too many: {released}");
}

#[test]
fn r3_a_packet_waits_while_all_places_are_busy_and_goes_when_one_is_idle() {
    let mut bench = Bench::with_peers(4, 2, 5, Faults::NONE);
    // Two that take nothing keep both places.
    for busy in [1, 2] {
        bench.nodes[busy].stalled = true;
        bench.order(0, busy as u32, 100);
    }
    let start = now();
    while now() < start + 5 * SECOND {
        let moved = bench.round(|_| true);
        // What has no room goes to the end, as if another context had it.
        let node = &mut bench.nodes[0];
        if let Some(order) = node.orders.pop_front() {
            node.orders.push_back(order);
        }
        bench.elapse(|_| true, moved);
    }
    bench.nodes[0].orders.clear();
    bench.order(0, 3, 5);
    let start = now();
    while now() < start + 5 * SECOND {
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    assert_eq!((bench.nodes[3].received[0], bench.nodes[0].orders.len()), (0, 5), "it waits");
    bench.nodes[2].stalled = false;
    bench.run_until(10 * SECOND, |bench| bench.nodes[3].received[0] == 5);
    assert_eq!(bench.nodes[0].refused + bench.nodes[0].failed, 0);
}

#[test]
fn r3_nodes_that_all_wait_for_each_others_places_go_on() {
    // Each calls the next in the circle, and the one behind it, at once and again.
    let (most, turns) = if cfg!(miri) { (4, 5) } else { (8, 50) };
    for nodes in [3, 4, 5, 8].into_iter().filter(|&nodes| nodes <= most) {
        let mut bench = Bench::with_peers(nodes, 2, nodes as u64, Faults::NONE);
        for turn in 0..turns {
            for node in 0..nodes {
                bench.order(node as u32, ((node + 1 + turn % (nodes - 1)) % nodes) as u32, 1);
            }
        }
        bench.run(100 * SECOND);
        check(&bench, 2);
    }
}

#[test]
fn r3_frames_of_another_life_are_dropped_and_counted() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    for node in &mut bench.nodes {
        node.link.life = 77;
    }
    // All that this life sends, kept for the next.
    std::thread_local! {
        static KEPT: std::cell::RefCell<Vec<(u32, Vec<u8>)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    bench.wire.network().watch = Some(|source, bytes| {
        KEPT.with_borrow_mut(|kept| kept.push((source, bytes.to_vec())));
        false
    });
    bench.order(0, 1, 30);
    bench.order(1, 0, 30);
    bench.run(SECOND);
    let kept = KEPT.take();
    assert!(kept.len() > 60);
    for (life, taken) in [(78, false), (77, true)] {
        let mut bench = Bench::new(2, 1, Faults::NONE);
        bench.nodes[1].link.life = life;
        for (source, bytes) in kept.iter().filter(|(source, _)| *source == 0) {
            bench.wire.network().inject(*source, 1, bytes.clone());
        }
        for _ in 0..5 {
            bench.round(|node| node == 1);
            elapse(1_000_000);
        }
        let stale = bench.nodes[1].link.faults().reliability.stale;
        let frames = kept.iter().filter(|(source, _)| *source == 0).count() as u64;
        assert_eq!(stale == frames, !taken, "{stale} of {frames}");
        assert_eq!(bench.nodes[1].received[0] > 0, taken, "in the same life nothing tells them apart");
    }
}

#[test]
fn r3_frames_of_an_earlier_connection_are_dropped_and_counted() {
    std::thread_local! {
        static KEPT: std::cell::RefCell<Vec<(u32, Vec<u8>)>> = const { std::cell::RefCell::new(Vec::new()) };
    }
    let mut bench = Bench::with_peers(4, 2, 1, Faults::NONE);
    bench.wire.network().watch = Some(|source, bytes| {
        KEPT.with_borrow_mut(|kept| kept.push((source, bytes.to_vec())));
        false
    });
    bench.order(0, 1, 20);
    bench.run(SECOND);
    // Others take the place, so that both forget.
    let kept = KEPT.take();
    bench.order(0, 2, 1);
    bench.order(0, 3, 1);
    bench.run(SECOND);
    assert!(bench.nodes[0].link.faults().reliability.released > 0);
    let calls = bench.nodes[1].link.peers.len();
    for again in 0..2 {
        let before = bench.nodes[1].link.faults().reliability.stale;
        let mut frames = 0;
        for (_, bytes) in kept.iter().filter(|(source, _)| *source == 0) {
            bench.wire.network().inject(0, 1, bytes.clone());
            frames += 1;
        }
        bench.run(SECOND);
        for _ in 0..50 {
            let moved = bench.round(|_| true);
            bench.elapse(|_| true, moved);
        }
        assert_eq!(bench.nodes[1].received[0], 20, "nothing twice");
        assert!(bench.nodes[1].link.faults().reliability.stale >= before + frames - 2, "{again}");
    }
    // The old call was answered, and that came to nothing.
    assert!(bench.nodes[1].link.peers.len() <= calls + 1);
    bench.order(0, 1, 20);
    bench.run(SECOND);
}

#[test]
fn r3_a_stranger_who_lies_keeps_no_place_from_others() {
    let mut bench = Bench::with_peers(4, 2, 3, Faults::NONE);
    bench.order(0, 1, 3);
    bench.run(SECOND);
    // Calls of node 3, which never made them, and releases of what never was.
    for number in 1..if cfg!(miri) { 20 } else { 200 } {
        for flags in [Flags::CONNECT, Flags::RELEASE, Flags::RELEASED, Flags::KEEP] {
            let link = Link {
                life: 0,
                connection: if number % 3 == 0 { number % 7 } else { 0 },
                own: number,
                attempt: number % 4,
                sequence: Seq::FIRST,
                acknowledged: Seq::FIRST,
                sack: 0,
                credit: 8,
                length: 0,
                flags,
            };
            for source in [1, 3] {
                let frame = sealed(&link, source, 0, &[]);
                bench.wire.network().inject(source, 0, frame);
            }
        }
        let moved = bench.round(|_| true);
        bench.elapse(|_| true, moved);
    }
    for to in [1, 2, 3] {
        bench.order(0, to, 10);
    }
    bench.run(10 * SECOND);
}

#[test]
fn r3_a_node_that_answers_an_old_call_and_has_packets_calls_itself_at_once() {
    let mut bench = Bench::with_peers(2, 2, 4, Faults::NONE);
    bench.wire.network().inject(1, 0, sealed(&call(900), 1, 0, &[]));
    bench.order(0, 1, 3);
    let start = now();
    bench.run(SECOND);
    assert!(now() - start < 10_000_000, "after a timeout");
}

#[test]
fn d9_frames_of_no_node_and_of_the_network_that_are_no_notices_are_counted_and_dropped() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    let frames = [(FABRIC, std::vec![0; 64]), (FABRIC, Vec::new()), (2, sealed(&call(1), 2, 0, &[]))];
    for (count, (source, frame)) in frames.into_iter().enumerate() {
        bench.wire.network().inject(source, 0, frame);
        (0..5).for_each(|_| _ = bench.round(|_| true));
        assert_eq!(bench.nodes[0].link.faults().reliability.corrupt, count as u64 + 1);
    }
    assert_eq!(bench.nodes[0].link.peers.len(), 0);
    bench.order(1, 0, 3);
    bench.run(SECOND);
}

/// A node of six whose two places nodes 1 and 2 have, which are idle.
fn full() -> Bench {
    let mut bench = Bench::with_peers(6, 2, 1, Faults::NONE);
    bench.order(0, 1, 1);
    bench.order(0, 2, 1);
    bench.run(SECOND);
    assert_eq!(bench.nodes[0].link.peers.free(), 0);
    bench
}

/// Node `source` calls node 0, which takes the call in and does nothing else.
fn calls(bench: &mut Bench, source: u32, number: u32) {
    bench.wire.network().inject(source, 0, sealed(&call(number), source, 0, &[]));
    assert!(bench.nodes[0].link.receive().is_none());
}

#[test]
fn r3_a_caller_that_waits_is_remembered_once_by_its_last_number() {
    let mut bench = full();
    for (source, number) in [(3, 1), (4, 2), (3, 7), (4, 8)] {
        calls(&mut bench, source, number);
    }
    assert!(bench.nodes[0].link.callers.iter().copied().eq([(3, Number::new(7)), (4, Number::new(8))]));
}

#[test]
fn r2_r3_a_caller_that_died_while_it_waited_gets_no_place_and_the_next_one_does() {
    let mut bench = full();
    calls(&mut bench, 3, 1);
    calls(&mut bench, 4, 2);
    let link = &mut bench.nodes[0].link;
    (1..=3).for_each(|node| link.node_died(node));
    link.let_callers_in();
    assert_eq!([3, 4].map(|node| link.peers.find(node).is_some()), [false, true]);
}

#[test]
fn r2_r3_the_place_of_a_node_that_died_is_free_when_its_buffers_are_back() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    bench.nodes[0].stalled = true;
    bench.order(1, 0, 3);
    bench.run(SECOND);
    bench.nodes[0].node_died(1);
    for left in (0..3).rev() {
        let node = &mut bench.nodes[0];
        assert!(node.link.peers.find(1).is_some());
        node.link.recycle(node.kept.remove(0));
        assert_eq!(node.link.peers.find(1).is_some(), left > 0, "{left} buffers");
    }
}

#[test]
fn r3_a_packet_for_a_node_that_is_not_there_waits_for_no_place_and_is_refused() {
    let mut bench = full();
    let link = &mut bench.nodes[0].link;
    assert_eq!([3, 6].map(|node| link.has_room_for(node)), [false, true]);
    for node in [1, 2] {
        link.node_died(node);
    }
    assert!(!link.queue(6, &[], b"word", [Lent::NONE; 2], 0));
    assert_eq!(link.peers.len(), 0);
}

#[test]
fn r3_a_node_calls_itself_without_a_handshake() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    let link = &mut bench.nodes[0].link;
    assert!(link.queue(0, &[], b"word", [Lent::NONE; 2], 0));
    let index = link.peers.find(0).unwrap();
    assert!(link.peers.get(index).unwrap().connection.is_open());
}

#[test]
fn d8_every_cookie_of_acknowledgements_comes_back() {
    let mut bench = Bench::new(2, 1, Faults::NONE);
    // All but the first are in use.
    bench.nodes[1].link.spares = 1;
    bench.order(0, 1, 100);
    bench.run(SECOND);
    bench.round(|_| true);
    assert_eq!(bench.nodes[1].link.spares, 1);
}

/// A call that the node which sends it remembers nothing of.
fn call(number: u32) -> Link {
    Link {
        life: 0,
        connection: 0,
        own: number,
        attempt: 0,
        sequence: Seq::FIRST,
        acknowledged: Seq::FIRST,
        sack: 0,
        credit: 0,
        length: 0,
        flags: Flags::CONNECT,
    }
}
