//! Properties of the model. A bound on the number of steps is each test's deadline.

use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

/// Any torus or mesh of up to three dimensions, and small ones of four and five.
fn shapes() -> impl Strategy<Value = TorusShape> {
    let dimension = |extents: std::ops::Range<u16>| (extents, any::<bool>());
    prop_oneof![
        4 => proptest::collection::vec(dimension(1..6), 1..=3),
        1 => proptest::collection::vec(dimension(1..4), 4..=5).prop_filter("small", |dimensions| {
            dimensions.iter().map(|(extent, _)| u32::from(*extent)).product::<u32>() <= 64
        }),
    ]
    .prop_map(|dimensions| {
        let word = |(extent, mesh): &(u16, bool)| format!("{extent}{}", if *mesh { "m" } else { "" });
        dimensions.iter().map(word).collect::<Vec<_>>().join("x").parse().unwrap()
    })
}

/// Sends `traffic` (origin, target) as fast as it goes; `blocked(node, turn)` says who does not eject.
/// Checks that each packet arrives once, in order, over the shortest way, and that all counters agree.
fn deliver(
    shape: TorusShape,
    room: usize,
    traffic: &[(u32, u32)],
    blocked: impl Fn(u32, usize) -> bool,
    thaw: usize,
) {
    let mut torus = Torus::new(shape, room);
    let mut to_send: Vec<VecDeque<Packet>> = (0..shape.nodes()).map(|_| VecDeque::new()).collect();
    let mut sent = HashMap::<(u32, u32), u32>::new();
    for &(origin, target) in traffic {
        let number = sent.entry((origin, target)).or_default();
        let mut frame = number.to_le_bytes().to_vec();
        frame.resize(4 + (*number as usize * 7 + target as usize) % 50, 0);
        *number += 1;
        to_send[origin as usize].push_back(Packet::new(origin, target, frame));
    }
    let (mut arrived, mut left, mut bytes) = (HashMap::<(u32, u32), u32>::new(), traffic.len(), 0);
    let mut turn = 0;
    while left > 0 {
        let mut progress = 0;
        for queue in &mut to_send {
            while let Some(packet) = queue.pop_front() {
                if let Err(packet) = torus.inject(packet) {
                    queue.push_front(packet);
                    break;
                }
                progress += 1;
            }
        }
        progress += torus.step();
        let lengths = |router: &Router| {
            router.inputs.each_ref().map(VecDeque::len).into_iter().max().max(Some(router.ejection.len()))
        };
        let longest = torus.routers.iter().filter_map(lengths).max();
        assert!(longest <= Some(torus.room), "a queue is over its bound");
        assert_bubbles(&torus);
        for node in (0..shape.nodes()).filter(|&node| turn >= thaw || !blocked(node, turn)) {
            while let Some(packet) = torus.eject(node) {
                progress += 1;
                left -= 1;
                assert_eq!(packet.target, node);
                let expected = arrived.entry((packet.origin, node)).or_default();
                assert_eq!(packet.frame[..4], expected.to_le_bytes(), "out of order");
                *expected += 1;
                let (from, to) = (shape.coord(packet.origin).unwrap(), shape.coord(node).unwrap());
                assert_eq!(packet.hops, shape.hops(from, to));
                bytes += packet.frame.len() as u64 * u64::from(packet.hops);
            }
        }
        assert!(progress > 0 || turn < thaw, "deadlock with {left} packets left");
        turn += 1;
    }
    assert_eq!(arrived, sent);
    assert_eq!(torus.in_flight(), 0);
    assert_counters(&torus, traffic, bytes);
}

/// In a ring, at least one place is always free.
fn assert_bubbles(torus: &Torus) {
    for output in (0..LINKS).filter(|output| torus.shape.wraps(output / 2)) {
        let mut free = HashMap::<usize, usize>::new();
        for router in 0..torus.routers.len() {
            if torus.neighbours[router][output] != usize::MAX {
                *free.entry(torus.ring(router, output)).or_default() +=
                    torus.room - torus.routers[router].inputs[output].len();
            }
        }
        assert!(free.values().all(|&free| free > 0), "a ring is full");
    }
}

/// Links carried what the origins' packets crossed; each node's count is that of its packets.
fn assert_counters(torus: &Torus, traffic: &[(u32, u32)], bytes: u64) {
    let links = || torus.counters().flat_map(|counters| counters.links);
    let hops = |&(from, to): &(u32, u32)| {
        u64::from(torus.shape.hops(torus.shape.coord(from).unwrap(), torus.shape.coord(to).unwrap()))
    };
    assert_eq!(links().map(|link| link.packets).sum::<u64>(), traffic.iter().map(hops).sum::<u64>());
    assert_eq!(links().map(|link| link.bytes).sum::<u64>(), bytes);
    for (node, counters) in (0..).zip(torus.counters()) {
        let of_node = || traffic.iter().filter(|(origin, _)| *origin == node);
        assert_eq!(counters.hops, of_node().map(hops).sum::<u64>());
        assert_eq!(counters.injected.packets, of_node().count() as u64);
        let to_node = traffic.iter().filter(|(_, target)| *target == node).count();
        assert_eq!(counters.ejected.packets, to_node as u64);
        for (link, traffic) in counters.links.iter().enumerate() {
            let exists = torus.neighbours[node as usize][link] != usize::MAX;
            assert!(exists || traffic.packets == 0, "a packet crossed a link that is not there");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn d2_random_traffic_arrives_once_in_order_over_the_shortest_way(
        shape in shapes(), room in 2usize..10, stalls in any::<u64>(),
        pairs in proptest::collection::vec(any::<(u32, u32)>(), 0..1500)
    ) {
        let nodes = shape.nodes();
        let traffic: Vec<_> = pairs.iter().map(|(a, b)| (a % nodes, b % nodes)).collect();
        deliver(shape, room, &traffic, |node, turn| stalls >> ((node as usize + turn / 32) % 64) & 1 == 1, 300);
    }

    #[test]
    fn x4_all_to_all_saturation_with_blocked_receivers_never_deadlocks(shape in shapes(), room in 2usize..10) {
        let nodes = shape.nodes();
        let rounds = (4 * room as u32).min(8000 / (nodes * nodes) + 1);
        let traffic: Vec<_> = (0..rounds)
            .flat_map(|_| (0..nodes).flat_map(move |a| (0..nodes).map(move |b| (a, (a + b) % nodes))))
            .collect();
        deliver(shape, room, &traffic, |_, _| true, 200);
    }
}

#[test]
fn x4_rings_full_of_packets_that_go_half_way_round_never_deadlock() {
    for (shape, room) in [("8", 2), ("5", 8), ("3", 2), ("4x4", 3), ("5x3x4", 2), ("3x3x3x3", 2)] {
        let shape: TorusShape = shape.parse().unwrap();
        let half = |rank: u32| {
            let mut coord = shape.coord(rank).unwrap();
            for dimension in 0..shape.dimensions() {
                let extent = shape.extent(dimension);
                coord.0[dimension] = (coord.0[dimension] + extent / 2) % extent;
            }
            shape.rank(coord).unwrap()
        };
        let traffic: Vec<_> =
            (0..50).flat_map(|_| (0..shape.nodes()).map(|rank| (rank, half(rank)))).collect();
        deliver(shape, room, &traffic, |_, turn| turn < 200, 200);
    }
}

#[test]
fn x4_no_node_is_kept_out_of_a_busy_ring() {
    for room in [2, 3, 8] {
        let mut torus = Torus::new("8".parse().unwrap(), room);
        let mut arrived = [0; 8];
        for _ in 0..20_000 {
            for (origin, target) in [(0, 3), (7, 3), (1, 3), (2, 3), (2, 4)] {
                let _ = torus.inject(Packet::new(origin, target, vec![0; 64]));
            }
            torus.step();
            // A receiver that takes one packet a step, so that the ring before it is always full.
            for node in [3, 4] {
                if let Some(packet) = torus.eject(node) {
                    arrived[packet.origin as usize] += 1;
                }
            }
        }
        for origin in [0, 1, 2, 7] {
            assert!(arrived[origin] > 100, "room {room}: of node {origin} arrived {}", arrived[origin]);
        }
    }
}

#[test]
fn x4_a_link_carries_one_packet_a_step() {
    let mut torus = Torus::new("2x2x2".parse().unwrap(), 8);
    for _ in 0..8 {
        torus.inject(Packet::new(0, 7, vec![0; 64])).unwrap();
    }
    assert!(torus.inject(Packet::new(0, 7, vec![])).is_err(), "the injection queue has a bound");
    let mut first = 0;
    while torus.eject(7).is_none() {
        torus.step();
        first += 1;
    }
    assert_eq!(first, 4, "three links and the ejection");
    for _ in 0..7 {
        torus.step();
        assert!(torus.eject(7).is_some());
        assert!(torus.eject(7).is_none());
    }
    assert_eq!((torus.step(), torus.steps()), (0, 11));
}

#[test]
fn d2_a_packet_to_its_own_node_crosses_no_link() {
    deliver("1".parse().unwrap(), 8, &[(0, 0); 100], |_, _| false, 0);
    let mut torus = Torus::new("3x3".parse().unwrap(), 8);
    torus.inject(Packet::new(4, 4, vec![1])).unwrap();
    assert_eq!(torus.step(), 1);
    assert_eq!(torus.eject(4).unwrap().hops, 0);
    assert!(torus.inject(Packet::new(4, 9, vec![])).is_err(), "no such node");
}
