//! Properties of the model. A bound on the number of steps is each test's deadline.

use super::*;
use crate::fabric::dice::Dice;
use pami::combine::{AluOperation, Element, Operator, Status, WORLDS, combine};
use proptest::prelude::*;

fn payload(node: u32, sequence: u32, elements: usize, element: Element) -> Vec<u8> {
    let value = |i: usize| i64::from(node * 7919 + sequence * 31 + i as u32 * 3) - 40_000;
    let words = (0..elements).map(value);
    match element {
        Element::I32 | Element::U32 => words.flat_map(|word| (word as u32).to_le_bytes()).collect(),
        Element::I64 | Element::U64 => words.flat_map(|word| (word as u64).to_le_bytes()).collect(),
        // Sums of these depend on their order.
        Element::F32 => words.flat_map(|word| ((word as f32).exp2() + 0.1).to_le_bytes()).collect(),
        Element::F64 => words.flat_map(|word| (1.0 / (word as f64 + 0.5)).to_le_bytes()).collect(),
        _ => unreachable!("not in the routers"),
    }
}

/// The combination in the documented order, by recursion.
fn expected(
    tree: TreeShape,
    roles: &[Role],
    rank: u32,
    operation: AluOperation,
    part: &impl Fn(u32) -> Vec<u8>,
) -> Option<Vec<u8>> {
    let own = roles[rank as usize].contributes.then(|| part(rank));
    let below = [0, 1].map(|side| expected(tree, roles, tree.child(rank, side)?, operation, part));
    [own, below[0].clone(), below[1].clone()].into_iter().flatten().reduce(|mut left, right| {
        combine(operation, &mut left, &right).unwrap();
        left
    })
}

fn contribution(operation: AluOperation, sequence: u32, payload: Vec<u8>) -> RoutedPacket {
    RoutedPacket::contribution(operation, sequence, payload)
}

/// Runs `count` combinations on `route`; the nodes inject and take in an order drawn from `seed`. Returns what each
/// receiver got.
fn run(
    tree: &mut Tree,
    route: ClassRoute,
    roles: &[Role],
    operation: AluOperation,
    count: u32,
    elements: usize,
    seed: u64,
) -> Vec<Vec<Arc<RoutedPacket>>> {
    let nodes = roles.len();
    let mut next = vec![0; nodes];
    let mut got = vec![Vec::new(); nodes];
    let mut dice = Dice::new(seed, 0, 0, 0);
    let mut turns = 0;
    while (0..nodes).any(|node| {
        (roles[node].contributes && next[node] < count)
            || (roles[node].receives && got[node].len() < count as usize)
    }) {
        for node in 0..nodes {
            // A third of the nodes is slow at any time.
            if roles[node].contributes && next[node] < count && dice.below(3) > 0 {
                let part = payload(node as u32, next[node], elements, operation.element());
                if tree.inject(node as u32, route, contribution(operation, next[node], part)).is_ok() {
                    next[node] += 1;
                }
            }
            if dice.below(3) > 0
                && let Some(packet) = tree.eject(node as u32, route)
            {
                got[node].push(packet);
            }
        }
        tree.step();
        turns += 1;
        assert!(turns < 10_000 * (count as usize + 1), "no end");
    }
    got
}

fn check(
    tree: &mut Tree,
    route: ClassRoute,
    roles: &[Role],
    operation: AluOperation,
    count: u32,
    elements: usize,
    seed: u64,
) {
    let got = run(tree, route, roles, operation, count, elements, seed);
    for sequence in 0..count {
        let part = |node| payload(node, sequence, elements, operation.element());
        let right = expected(tree.shape, roles, 0, operation, &part).unwrap();
        for (got, role) in got.iter().zip(roles) {
            assert_eq!(got.len(), if role.receives { count as usize } else { 0 });
            let Some(packet) = got.get(sequence as usize) else { continue };
            assert_eq!(packet.body, Body::Combine { operation, status: Status::Good });
            assert_eq!((packet.sequence, &packet.payload), (sequence, &right), "{operation:?}");
        }
    }
}

#[test]
fn d3_every_operator_and_type_is_combined_on_every_tree_of_up_to_65_nodes() {
    for nodes in 1..=65 {
        let roles = vec![Role::BOTH; nodes];
        let mut tree = Tree::new(nodes as u32, 3);
        for (operation, seed) in AluOperation::all().zip(0..) {
            check(&mut tree, ClassRoute::WORLD, &roles, operation, 2, 3, seed);
        }
        assert_eq!(tree.in_flight(), 0);
    }
}

#[test]
fn d3_a_combination_takes_two_steps_a_layer_and_one_to_the_node() {
    for (nodes, depth) in [(1, 0), (2, 1), (3, 1), (4, 2), (7, 2), (8, 3), (64, 6), (65, 6)] {
        let mut tree = Tree::new(nodes, 8);
        for node in 0..nodes {
            tree.inject(node, ClassRoute::WORLD, contribution(AluOperation::NOTHING, 0, vec![1, 0, 0, 0]))
                .unwrap();
        }
        while tree.step() > 0 {}
        assert_eq!(tree.steps(), 2 * depth + 1, "{nodes} nodes");
        for node in 0..nodes {
            assert_eq!(tree.eject(node, ClassRoute::WORLD).unwrap().payload, nodes.to_le_bytes());
        }
        // One packet over each link in each direction.
        let up: Vec<u64> = tree.counters().map(|counters| counters.up.packets).collect();
        assert!(up.iter().enumerate().all(|(rank, &packets)| packets == u64::from(rank > 0)));
        let down: u64 = tree.counters().flat_map(|counters| counters.down).map(|link| link.packets).sum();
        assert_eq!(down, u64::from(nodes) - 1);
    }
}

#[test]
fn d3_large_vectors_are_pipelined_a_packet_a_step() {
    let (nodes, packets) = (8, 100);
    let mut tree = Tree::new(nodes, 8);
    let (mut sent, mut got) = (vec![0; 8], 0);
    while got < packets {
        for node in 0..nodes {
            let part = contribution(AluOperation::NOTHING, sent[node as usize], vec![0; 8]);
            if sent[node as usize] < packets && tree.inject(node, ClassRoute::WORLD, part).is_ok() {
                sent[node as usize] += 1;
            }
        }
        assert!(tree.step() > 0);
        for node in 0..nodes {
            got += u32::from(tree.eject(node, ClassRoute::WORLD).is_some() && node == nodes - 1);
        }
    }
    assert!(tree.steps() <= u64::from(packets) + 2 * 3 + 1, "{} steps", tree.steps());
}

#[test]
fn g9_floating_point_sums_have_the_same_bits_whatever_the_order_of_arrival() {
    let operation = AluOperation::new(Operator::Sum, Element::F64).unwrap();
    let roles = [Role::BOTH; 23];
    let sums: Vec<_> = (0..100)
        .map(|seed| {
            let mut tree = Tree::new(23, 2);
            run(&mut tree, ClassRoute::WORLD, &roles, operation, 3, 16, seed)
        })
        .collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]));
    // Another order gives other bits: the values are such that it matters.
    let part = |node| payload(node, 0, 16, Element::F64);
    let backwards = (0..23).rev().map(part).reduce(|mut left, right| {
        combine(operation, &mut left, &right).unwrap();
        left
    });
    assert_ne!(sums[0][0][0].payload, backwards.unwrap());
}

fn any_roles() -> impl Strategy<Value = Vec<Role>> {
    proptest::collection::vec((any::<bool>(), any::<bool>()), 1..=65).prop_map(|roles| {
        roles.into_iter().map(|(contributes, receives)| Role { contributes, receives }).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn d3_a_class_route_combines_its_contributors_for_its_receivers(roles in any_roles(), seed: u64, room in 1usize..5) {
        let owner = roles.iter().position(|role| role.is_member());
        prop_assume!(roles.iter().any(|role| role.contributes));
        let mut tree = Tree::new(roles.len() as u32, room);
        let change = tree.allocate(owner.unwrap() as u32, 77, &roles).unwrap();
        let members: Vec<_> = (0..).zip(&roles).filter(|(_, role)| role.is_member()).map(|(rank, &role)| (rank, role)).collect();
        prop_assert_eq!((change.tag, &change.members), (77, &members));
        let operation = AluOperation::new(Operator::Sum, Element::F32).unwrap();
        check(&mut tree, change.route, &roles, operation, 4, 2, seed);
        // The way is no longer than it must be: no more links than the smallest sub-tree has, each way.
        let up: u64 = tree.counters().map(|counters| counters.up.packets).sum();
        prop_assert!(up <= 4 * roles.len() as u64);
        let released = tree.release(owner.unwrap() as u32, change.route).unwrap();
        prop_assert_eq!(released.members, members);
        prop_assert!(tree.routers.iter().all(|router| router.states[WORLDS..].iter().all(Option::is_none)));
    }

    #[test]
    fn d3_broadcasts_from_any_member_reach_all_receivers_in_one_order(
        roles in any_roles(), senders in proptest::collection::vec(any::<u32>(), 1..40), room in 1usize..5
    ) {
        let members: Vec<u32> = (0..).zip(&roles).filter(|(_, role)| role.is_member()).map(|(rank, _)| rank).collect();
        prop_assume!(!members.is_empty());
        let mut tree = Tree::new(roles.len() as u32, room);
        let route = tree.allocate(members[0], 0, &roles).unwrap().route;
        let mut waiting: Vec<_> = (0..).zip(&senders).map(|(number, sender)| {
            RoutedPacket::broadcast(members[*sender as usize % members.len()], number, number.to_le_bytes().to_vec())
        }).collect();
        let mut got: Vec<Vec<Arc<RoutedPacket>>> = vec![Vec::new(); roles.len()];
        for _ in 0..20_000 {
            waiting.retain(|packet| tree.inject(packet.origin, route, packet.clone()).is_err());
            let moved = tree.step();
            for (node, got) in (0..).zip(&mut got) {
                got.extend(tree.eject(node, route));
            }
            if moved == 0 && waiting.is_empty() && tree.in_flight() == 0 {
                break;
            }
        }
        prop_assert_eq!((waiting.len(), tree.in_flight()), (0, 0));
        let receivers: Vec<_> = roles.iter().zip(&got).filter(|(role, _)| role.receives).map(|(_, got)| got).collect();
        for got in &receivers {
            prop_assert_eq!(got.len(), senders.len());
            prop_assert_eq!(*got, receivers[0]);
        }
    }

    #[test]
    fn x4_class_routes_do_not_hold_each_other_up(nodes in 2u32..40, seed: u64) {
        let mut tree = Tree::new(nodes, 2);
        let roles = vec![Role::BOTH; nodes as usize];
        let blocked = tree.allocate(0, 1, &roles).unwrap().route;
        // All but one contribute on one route, and nobody takes the results of the world's.
        for node in 1..nodes {
            while tree.inject(node, blocked, contribution(AluOperation::NOTHING, 0, vec![])).is_ok() {}
        }
        for _ in 0..1000 {
            for node in 0..nodes {
                let _ = tree.inject(node, ClassRoute::WORLD, contribution(AluOperation::NOTHING, 0, vec![]));
            }
            tree.step();
        }
        prop_assert_eq!(tree.step(), 0, "both are stuck");
        let free = tree.allocate(nodes - 1, 2, &roles).unwrap().route;
        check(&mut tree, free, &roles, AluOperation::NOTHING, 3, 1, seed);
    }
}

#[test]
fn d3_class_routes_run_out_and_come_back() {
    let mut tree = Tree::new(8, 8);
    let roles = [Role::BOTH; 8];
    let routes: Vec<_> =
        (WORLDS..CLASS_ROUTES).map(|tag| tree.allocate(3, tag as u32, &roles).unwrap().route).collect();
    assert_eq!(tree.allocate(0, 99, &roles), Err(Status::Exhausted));
    // One router's table is as full as the others'.
    let mut alone = [Role::default(); 8];
    alone[7] = Role::BOTH;
    assert_eq!(tree.allocate(7, 99, &alone), Err(Status::Exhausted));
    assert_eq!(tree.release(2, routes[5]), None, "it is not node 2's");
    assert!(ClassRoute::worlds().all(|world| tree.release(3, world).is_none()));
    assert_eq!(tree.release(3, routes[5]).unwrap().members.len(), 8);
    assert_eq!(tree.release(3, routes[5]), None);
    let again = tree.allocate(0, 99, &roles).unwrap().route;
    assert_eq!(again.id, routes[5].id);
    assert_ne!(again, routes[5]);
    let late = contribution(AluOperation::NOTHING, 0, vec![]);
    assert!(tree.inject(1, routes[5], late.clone()).is_err(), "of the route before");
    assert!(tree.inject(1, again, late).is_ok());
}

#[test]
fn d3_sub_trees_that_do_not_touch_share_a_number() {
    let mut tree = Tree::new(15, 4);
    let roles = |members: &[usize]| {
        let mut roles = vec![Role::default(); 15];
        members.iter().for_each(|&rank| roles[rank] = Role::BOTH);
        roles
    };
    // The left half, the right half, two leaves below one router of the right half, and across.
    let (left, right) = (roles(&[1, 7, 10]), roles(&[2, 12]));
    let (below, across) = (roles(&[13, 14]), roles(&[7, 14]));
    let routes = [&left, &right, &below, &across].map(|roles| {
        let owner = roles.iter().position(|role| role.is_member()).unwrap();
        tree.allocate(owner as u32, 0, roles).unwrap().route
    });
    assert_eq!(routes.map(|route| usize::from(route.id) - WORLDS), [0, 0, 0, 1]);
    for (route, roles) in routes.into_iter().zip([&left, &right, &below, &across]) {
        check(&mut tree, route, roles, AluOperation::NOTHING, 3, 2, 5);
    }
    assert_eq!(tree.release(13, routes[2]).unwrap().members, [(13, Role::BOTH), (14, Role::BOTH)]);
    check(&mut tree, routes[1], &right, AluOperation::NOTHING, 3, 2, 6);
}

#[test]
fn g3_contributions_that_differ_give_a_status_and_no_result() {
    let sum = |element| AluOperation::new(Operator::Sum, element).unwrap();
    let good = contribution(sum(Element::U32), 5, vec![1; 8]);
    for odd in [
        contribution(sum(Element::I32), 5, vec![1; 8]),
        contribution(sum(Element::U32), 6, vec![1; 8]),
        contribution(sum(Element::U32), 5, vec![1; 4]),
    ] {
        for who in 0..5 {
            let mut tree = Tree::new(5, 4);
            for node in 0..5 {
                let part = if node == who { &odd } else { &good };
                tree.inject(node, ClassRoute::WORLD, part.clone()).unwrap();
            }
            while tree.step() > 0 {}
            let last = std::iter::from_fn(|| tree.eject(4, ClassRoute::WORLD)).last().unwrap();
            assert!(matches!(last.body, Body::Combine { status: Status::Mismatch, .. }), "{last:?}");
            assert!(last.payload.is_empty());
        }
    }
}

#[test]
fn g3_a_contributor_that_leaves_spoils_what_waits_for_it_and_no_more() {
    for dead in 0..10 {
        let mut tree = Tree::new(10, 8);
        let part = |sequence| contribution(AluOperation::NOTHING, sequence, vec![1, 0, 0, 0]);
        // The one that dies has contributed once.
        for node in 0..10 {
            for sequence in 0..if node == dead { 1 } else { 2 } {
                tree.inject(node, ClassRoute::WORLD, part(sequence)).unwrap();
            }
        }
        while tree.step() > 0 {}
        tree.node_died(dead);
        for node in (0..10).filter(|&node| node != dead) {
            tree.inject(node, ClassRoute::WORLD, part(2)).unwrap();
        }
        while tree.step() > 0 {}
        for node in 0..10 {
            let got: Vec<_> = std::iter::from_fn(|| tree.eject(node, ClassRoute::WORLD)).collect();
            let statuses = got.iter().map(|packet| match packet.body {
                Body::Combine { status, .. } => (status, packet.origin, packet.payload.first().copied()),
                Body::Broadcast => unreachable!("nobody broadcast"),
            });
            let spoiled = (Status::Dead, dead, None);
            assert!(
                statuses.eq([(Status::Good, 0, Some(10)), spoiled, spoiled]),
                "node {dead} left: {got:?}"
            );
        }
    }
}

#[test]
fn g3_when_a_whole_sub_tree_has_left_the_others_hear_of_it() {
    let mut tree = Tree::new(15, 8);
    for dead in [3, 7, 8] {
        tree.node_died(dead);
    }
    for node in (0..15).filter(|node| ![3, 7, 8].contains(node)) {
        tree.inject(node, ClassRoute::WORLD, contribution(AluOperation::NOTHING, 0, vec![])).unwrap();
    }
    while tree.step() > 0 {}
    let got = tree.eject(14, ClassRoute::WORLD).unwrap();
    assert!(matches!(got.body, Body::Combine { status: Status::Dead, .. }) && got.origin == 3, "{got:?}");
    assert_eq!(tree.in_flight(), 14, "one for each node but the one that took it");
}

#[test]
fn x4_who_does_not_take_holds_its_class_route_up_at_bounded_memory() {
    let mut tree = Tree::new(8, 4);
    let mut taken = 0;
    for _ in 0..1000 {
        for node in 0..8 {
            let part = contribution(AluOperation::NOTHING, 0, vec![]);
            taken += u32::from(tree.inject(node, ClassRoute::WORLD, part).is_ok() && node == 0);
            if node != 5 {
                tree.eject(node, ClassRoute::WORLD);
            }
        }
        tree.step();
    }
    // What lies before node 5, in the routers on the way down, and at the inputs.
    assert!(taken <= 4 * 5, "{taken}");
    assert_eq!(tree.step(), 0);
    let mut text = String::new();
    tree.describe(5, &mut text).unwrap();
    assert!(text.contains("route 0: own 4") && text.contains("down 4, node 4"), "{text}");
    tree.eject(5, ClassRoute::WORLD).unwrap();
    assert!(tree.step() > 0);
}

#[test]
fn d9_who_has_no_part_in_a_route_injects_nothing() {
    let mut tree = Tree::new(4, 4);
    let roles = [Role::CONTRIBUTES, Role::RECEIVES, Role::default(), Role::BOTH];
    let route = tree.allocate(0, 0, &roles).unwrap().route;
    let part = contribution(AluOperation::NOTHING, 0, vec![]);
    assert!(tree.inject(1, route, part.clone()).is_err(), "it receives only");
    assert!(tree.inject(2, route, part.clone()).is_err(), "it is no member");
    assert!(tree.inject(4, route, part.clone()).is_err(), "it is no node");
    assert!(tree.inject(2, route, RoutedPacket::broadcast(2, 0, vec![])).is_err());
    assert!(tree.inject(1, route, RoutedPacket::broadcast(1, 0, vec![])).is_ok());
    assert!(tree.inject(0, route, part).is_ok());
}
