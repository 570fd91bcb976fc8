//! Collectives through the tree network: one member of each node speaks for it, class routes come and go (SPEC G-7).

use crate::collectives::COLLECTIVES;
use crate::machine::{TestNode, Tree, filled, machine_of};
use crate::stage::{Case, LIMITS, Play, Stage, TUNING, bytes, context, domains, shared, with_scratch, words};
use pami::collective::{Algorithm, Blocks, Collective, Element, Need, Operator, Reducer, SelectionError};
use pami::combine::{ClassRoute, WORLDS};
use pami::geometry::Members;
use pami::{
    ClientBuilder, ClientError, Collect, CollectError, GeometryId, Limits, OperationError, Shared, WORLD,
};
use zerocopy::IntoBytes;

const OVER_TREE: [Collective; 5] = [
    Collective::Barrier,
    Collective::Broadcast,
    Collective::Reduce,
    Collective::Allreduce,
    Collective::Allgather,
];

fn stage(nodes: u32, per_node: u32, seed: u64) -> (Stage, Members<'static>) {
    let domains = (per_node > 1).then(|| domains(nodes, per_node));
    let stage = Stage::on_tree(nodes * per_node, per_node, 1, seed, Limits { domains, ..LIMITS });
    let members = stage.everyone();
    (stage, members)
}

fn case(geometry: GeometryId, what: Collective, size: u32, len: usize) -> Case {
    let algorithm = Some(Algorithm::TreeNetwork);
    Case { geometry, what, algorithm, size, root: 0, len, in_place: false, salt: 0, ..Case::default() }
}

/// What goes over the network, from every root, whole and in pieces. Returns how many runs had any data.
fn all_over_tree(stage: &mut Stage, geometry: GeometryId, members: Members<'static>) -> usize {
    let mut salt = 0;
    for what in OVER_TREE {
        let roots = if what.is_rooted() { members.size() } else { 1 };
        for root in 0..roots {
            // A packet has 16 words.
            for len in [0, 1, 16, 130] {
                let in_place = (salt + u64::from(root)).is_multiple_of(3);
                let case = Case { root, in_place, salt, ..case(geometry, what, members.size(), len) };
                Play::new(stage, vec![(case, members)]).run(stage);
                salt += u64::from(len > 0 || what == Collective::Barrier);
            }
        }
    }
    salt as usize
}

fn tree<R>(stage: &Stage, what: impl FnOnce(&mut Tree) -> R) -> R {
    what(stage.world.lock().tree.as_mut().unwrap())
}

fn has_class_route(stage: &Stage, context: usize, id: GeometryId) -> bool {
    stage.contexts[context].geometry(id).unwrap().class_route
}

fn destroy(stage: &mut Stage, id: GeometryId, members: &Members) {
    for rank in 0..members.size() {
        let context = stage.member(members, rank);
        stage.contexts[context].destroy_geometry(id).unwrap();
    }
}

#[test]
fn g7_the_world_combines_and_broadcasts_through_the_tree_network() {
    for nodes in [2, 3, 6] {
        let (mut stage, members) = stage(nodes, 1, u64::from(nodes));
        let runs = all_over_tree(&mut stage, WORLD, members);
        assert!(tree(&stage, |tree| tree.operations) >= runs);
    }
}

/// Three nodes on the tree network.
fn planted() -> Vec<&'static TestNode> {
    let nodes = machine_of(3, 1);
    nodes[0].world.plant();
    nodes
}

#[test]
fn g7_the_world_of_each_client_has_a_class_route_of_its_own() {
    let nodes = planted();
    let first = |&node| ClientBuilder::new(node, "the first").collectives(LIMITS).create().unwrap();
    let mut first: Vec<_> = nodes.iter().map(first).collect();
    let _contexts: Vec<_> = first.iter_mut().map(|client| context(client, 0)).collect();
    let mut stage = Stage::steps(nodes, 1, 12, LIMITS);
    let members = stage.everyone();
    all_over_tree(&mut stage, WORLD, members);
    let carried = ClassRoute::worlds().map(|world| tree(&stage, |tree| tree.operations_of(world)));
    let carried: Vec<_> = carried.collect();
    assert!(matches!(carried[..], [0, own, 0, 0] if own > 0), "{carried:?}");
}

#[test]
fn g7_what_a_client_leaves_on_the_class_route_of_its_place_is_nothing_to_the_next() {
    let nodes = planted();
    let mut stage = Stage::steps(nodes.clone(), 1, 12, LIMITS);
    for rank in [0, 2] {
        stage.start(rank, case(WORLD, Collective::Allreduce, 3, 5), rank as usize);
    }
    stage.rest();
    stage.abandon(1, 7, 1);
    stage.until(3);
    stage.rest();
    for (mut client, context) in stage.clients.into_iter().zip(stage.contexts) {
        assert!(client.destroy_context(context).is_ok() && client.destroy().is_ok());
    }
    let mut stage = Stage::steps(nodes, 1, 13, LIMITS);
    for rank in 0..3 {
        stage.start(rank, case(WORLD, Collective::Allreduce, 3, 5), rank as usize);
    }
    stage.until(3);
    let ends = stage.results();
    assert!(ends.iter().all(|(_, end)| *end == Err(OperationError::Differs)), "{ends:?}");
}

#[test]
fn g7_ranks_of_a_node_combine_among_them_first() {
    for (nodes, per_node) in [(2, 2), (3, 4)] {
        let (mut stage, members) = stage(nodes, per_node, 7);
        all_over_tree(&mut stage, WORLD, members);
    }
    // One packet up from each node, however many ranks it has.
    let (mut stage, members) = stage(3, 4, 8);
    stage.play(&[(case(WORLD, Collective::Allreduce, 12, 1), members)]);
    assert_eq!(tree(&stage, |tree| tree.operations), 1);
}

#[test]
fn g7_ranks_of_a_node_without_known_domains_do_not_use_the_tree_network() {
    let mut stage = Stage::on_tree(6, 2, 1, 3, LIMITS);
    assert!(!has_class_route(&stage, 0, WORLD));
    let members = stage.range(0, 6, 1);
    let id = stage.create(4, members, None);
    assert!(!has_class_route(&stage, 0, id));
    // One task of each node is another matter.
    let members = stage.range(1, 3, 2);
    let id = stage.create(5, members, None);
    assert!(has_class_route(&stage, 1, id));
    all_over_tree(&mut stage, id, members);
}

#[test]
fn g1_geometries_take_class_routes_and_give_them_back() {
    let (mut stage, _) = stage(5, 1, 4);
    let some = stage.listed(&[4, 1, 2]);
    let even = stage.range(0, 3, 2);
    for round in 0..20 {
        let ids = [stage.create(3 + 2 * round, some, None), stage.create(4 + 2 * round, even, None)];
        assert_eq!(tree(&stage, |tree| tree.routes()), 2);
        for (id, members) in ids.into_iter().zip([some, even]) {
            let play = |what| (case(id, what, 3, 40), members);
            stage.play(&OVER_TREE.map(play));
            destroy(&mut stage, id, &members);
        }
        let world = stage.world;
        stage.settle("leaving", || world.lock().tree.as_mut().unwrap().routes() == 0);
    }
}

#[test]
fn g1_without_a_class_route_a_geometry_takes_other_algorithms() {
    let (mut stage, _) = stage(4, 1, 5);
    tree(&stage, |tree| tree.limit = WORLDS + 2);
    let members = stage.range(1, 3, 1);
    let ids = [1, 2, 3].map(|id| stage.create(id, members, None));
    for (id, expected) in ids.into_iter().zip([true, true, false]) {
        for context in 1..4 {
            assert_eq!(has_class_route(&stage, context, id), expected);
        }
        let chosen = Case { algorithm: None, ..case(id, Collective::Allreduce, 3, 5) };
        stage.play(&[(chosen, members)]);
    }
    let forced = case(ids[2], Collective::Allreduce, 3, 5);
    let refused = forced.collect(&stage.contexts[1], 0, stage.done(0).unwrap()).err();
    let unmet =
        |error| matches!(error, CollectError::Selection(SelectionError::Unmet(Algorithm::TreeNetwork, _)));
    assert!(refused.is_some_and(unmet));
    // One is given back; the next geometry has it.
    destroy(&mut stage, ids[0], &members);
    let world = stage.world;
    stage.settle("leaving", || world.lock().tree.as_mut().unwrap().routes() == 1);
    let id = stage.create(6, members, None);
    assert!(has_class_route(&stage, 1, id));
}

#[test]
fn g3_collectives_of_all_kinds_are_in_flight_at_once_on_overlapping_class_routes() {
    for seed in 0..8 {
        let limits = Limits { in_flight: 64, early: 512, ..LIMITS };
        let mut stage = Stage::on_tree(6, 1, 1, seed, limits);
        let range = |first, count, stride| stage.range(first, count, stride);
        let listed = stage.listed(&[4, 0, 3]);
        let members = [range(0, 6, 1), range(0, 3, 2), range(2, 4, 1), listed];
        for (members, id) in members.iter().zip(0..).skip(1) {
            stage.create(id, *members, None);
        }
        if seed % 2 == 1 {
            stage.world.lock().moody = 99 + seed;
        }
        let cases = (0..60).map(|number| {
            let which = stage.random.below(members.len());
            let over_tree = stage.random.below(3) > 0;
            let kinds = if over_tree { &OVER_TREE[..] } else { &COLLECTIVES[..] };
            let what = kinds[stage.random.below(kinds.len())];
            let size = members[which].size();
            let case = Case {
                algorithm: over_tree.then_some(Algorithm::TreeNetwork),
                root: if what.is_rooted() { stage.random.below(size as usize) as u32 } else { 0 },
                in_place: stage.random.below(2) == 0,
                salt: number,
                ..case(GeometryId(which as u32), what, size, [0, 1, 16, 17, 300][stage.random.below(5)])
            };
            (case, members[which])
        });
        let cases: Vec<_> = cases.collect();
        stage.play(&cases);
        assert!(tree(&stage, |tree| tree.operations) > 20);
    }
}

#[test]
fn g3_broadcasts_of_many_sources_come_in_the_order_of_the_calls() {
    let (mut stage, members) = stage(5, 1, 6);
    let cases = (0..40u32).map(|number| {
        let case = Case {
            root: number * 3 % 5,
            salt: number.into(),
            ..case(WORLD, Collective::Broadcast, 5, number as usize % 40)
        };
        (case, members)
    });
    let cases: Vec<_> = cases.collect();
    stage.play(&cases);
}

/// A rank brings some words to an allreduce through the tree network.
fn sum(
    stage: &mut Stage,
    (geometry, members, rank): (GeometryId, &Members, u32),
    words: &[u64],
    output: &Shared,
    reducer: Reducer,
) {
    let context = stage.member(members, rank);
    let collect = Collect {
        input: Some((shared(words), 0)),
        output: Some((output.clone(), 0)),
        blocks: Blocks::equal(words.len()),
        sources: Blocks::equal(words.len()),
        reducer: Some(reducer),
        algorithm: Some((Algorithm::TreeNetwork, TUNING)),
        ..Collect::new(geometry, Collective::Allreduce, stage.done(rank as usize).unwrap())
    };
    stage.collect(context, with_scratch(&stage[context], collect).unwrap());
}

/// An allgather of `all` by all ranks, whose blocks lie between these bounds; what each rank has then, and heard.
fn allgather(
    stage: &mut Stage,
    members: &Members,
    all: &[u8],
    bounds: impl Fn(usize) -> &'static [usize],
) -> Vec<(Vec<u8>, Result<(), OperationError>)> {
    let size = members.size() as usize;
    let outputs: Vec<_> = (0..size).map(|_| filled(&vec![0xFF; all.len()]).share()).collect();
    for (rank, output) in outputs.iter().enumerate() {
        let blocks = Blocks::listed(bounds(rank)).unwrap();
        let own = [&all[bounds(rank)[rank]..bounds(rank)[rank + 1]], &[0]].concat();
        let collect = Collect {
            input: Some((filled(&own).share(), 0)),
            output: Some((output.clone(), 0)),
            blocks,
            sources: blocks,
            algorithm: Some((Algorithm::TreeNetwork, TUNING)),
            ..Collect::new(WORLD, Collective::Allgather, stage.done(rank).unwrap())
        };
        let context = stage.member(members, rank as u32);
        stage.collect(context, with_scratch(&stage[context], collect).unwrap());
    }
    stage.until(size);
    let mut ends = stage.results();
    ends.sort_by_key(|&(rank, _)| rank);
    outputs.iter().map(bytes).zip(ends.into_iter().map(|(_, end)| end)).collect()
}

#[test]
fn g7_blocks_of_any_bytes_come_together_in_the_tree_network() {
    for per_node in [1, 2] {
        let (mut stage, members) = stage(3, per_node, 11);
        let size = members.size() as usize;
        // Every other block is empty, and the last packet no whole elements.
        let bounds: Vec<_> = (0..=size).map(|rank| (rank & !1).pow(2) * 7 + (rank & !1)).collect();
        let all: Vec<u8> = (0..bounds[size]).map(|at| at as u8 ^ 0x5A).collect();
        let bounds: &[usize] = bounds.leak();
        for (output, end) in allgather(&mut stage, &members, &all, |_| bounds) {
            assert!(output == all && end.is_ok());
        }
        assert_eq!(tree(&stage, |tree| tree.operations), all.len().div_ceil(128));
    }
}

#[test]
fn g3_blocks_whose_bounds_differ_fail_at_all_members() {
    let (mut stage, members) = stage(3, 1, 11);
    let bounds = |rank| -> &[usize] { if rank == 1 { &[0, 4, 6, 12] } else { &[0, 4, 8, 12] } };
    for (_, end) in allgather(&mut stage, &members, &[1; 12], bounds) {
        assert_eq!(end, Err(OperationError::Differs));
    }
}

/// An allreduce of one word by all ranks, whose operators are given; what each rank heard.
fn allreduce(
    stage: &mut Stage,
    geometry: GeometryId,
    members: &Members,
    operator: impl Fn(u32) -> Operator,
) -> Vec<Result<(), OperationError>> {
    for rank in 0..members.size() {
        let reducer = Reducer::new(operator(rank), Element::U64).unwrap();
        sum(stage, (geometry, members, rank), &[rank.into()], &shared(&[0]), reducer);
    }
    stage.until(members.size() as usize);
    stage.results().into_iter().map(|end| end.1).collect()
}

#[test]
fn g3_calls_that_differ_fail_at_all_members_and_a_new_geometry_works() {
    let (mut stage, _) = stage(4, 1, 9);
    let members = stage.range(0, 4, 1);
    let id = stage.create(1, members, None);
    assert!(allreduce(&mut stage, id, &members, |_| Operator::Sum).iter().all(Result::is_ok));
    let odd = |rank| if rank == 2 { Operator::Max } else { Operator::Sum };
    let ends = allreduce(&mut stage, id, &members, odd);
    assert_eq!(ends, vec![Err(OperationError::Differs); 4]);
    // Its class route is gone, and nobody waits for it.
    let ends = allreduce(&mut stage, id, &members, |_| Operator::Sum);
    assert!(ends.iter().all(Result::is_err), "{ends:?}");
    let other = Case { algorithm: Some(Algorithm::Ring), ..case(id, Collective::Allreduce, 4, 9) };
    stage.play(&[(other, members)]);
    destroy(&mut stage, id, &members);
    let id = stage.create(2, members, None);
    assert!(has_class_route(&stage, 0, id));
    assert!(allreduce(&mut stage, id, &members, |_| Operator::Sum).iter().all(Result::is_ok));
}

#[test]
fn d8_the_death_of_a_node_ends_what_goes_through_the_tree_network() {
    let (mut stage, _) = stage(4, 1, 10);
    for rank in [0, 1, 3] {
        stage.start(rank, case(WORLD, Collective::Allreduce, 4, 3), rank as usize);
    }
    stage.rest();
    assert_eq!(stage.ends(), []);
    stage.world.kill(2);
    stage.until(3);
    assert!(stage.results().iter().all(|end| end.1 == Err(OperationError::NodeDead(2))));
}

#[test]
fn g9_float_sums_through_the_tree_network_have_the_same_bits_in_all_runs() {
    let mut seen = Vec::new();
    for seed in 0..25 {
        let (mut stage, members) = stage(3, 2, seed);
        let mut outputs = Vec::new();
        for rank in 0..6u32 {
            let parts: Vec<u64> = (0..20)
                .map(|at| (1.0 / (f64::from(rank * 31 + at) + 0.7) * 1e3f64.powi(rank as i32 % 3)).to_bits())
                .collect();
            let output = shared(&[0; 20]);
            let reducer = Reducer::new(Operator::Sum, Element::F64).unwrap();
            sum(&mut stage, (WORLD, &members, rank), &parts, &output, reducer);
            outputs.push(output);
        }
        stage.until(6);
        seen.extend(outputs.iter().map(words));
    }
    assert!(seen.iter().all(|sum| *sum == seen[0]));
    assert!(f64::from_bits(seen[0][0]) > 1.0);
}

#[test]
fn g2_a_network_that_asks_for_alignment_takes_only_what_all_say_is_aligned() {
    let (mut stage, members) = stage(3, 1, 5);
    let sum = case(WORLD, Collective::Allreduce, 3, 4);
    for (alignment, aligned, valid) in [(1, false, true), (1, true, true), (8, false, false), (8, true, true)]
    {
        tree(&stage, |tree| tree.alignment = alignment);
        let any = Collect { aligned, algorithm: None, ..sum.call(sum.memory(0), stage.done(0).unwrap()) };
        let query = stage.contexts[0].query(&any).unwrap();
        assert_eq!(query.metadata.aligned, valid);
        assert_eq!(query.choose(None).unwrap().algorithm == Algorithm::TreeNetwork, valid);
        let named = query.choose(Some(Algorithm::TreeNetwork)).map(drop);
        let unmet = SelectionError::Unmet(Algorithm::TreeNetwork, Need::Aligned);
        assert_eq!(named, if valid { Ok(()) } else { Err(unmet) });
    }
    // Who says so and has others is told, and nothing was started.
    let memory = || Some((Shared::clone(&shared(&[0; 6])), 4));
    let wrong = Collect { aligned: true, input: memory(), ..sum.call(sum.memory(0), stage.done(0).unwrap()) };
    let refused = CollectError::Unaligned(pami::collective::Area::Input);
    assert_eq!(stage.contexts[0].collect(wrong), Err(refused));
    // Nor does an offset tell where the memory is an application's.
    Shared::scope(&mut [0u64; 8].as_mut_bytes()[4..], |memory| {
        let input = Some((memory.clone(), 0));
        let wrong = Collect { aligned: true, input, ..sum.call(sum.memory(0), stage.done(0).unwrap()) };
        assert_eq!(stage.contexts[0].collect(wrong), Err(refused));
    });
    let aligned = Case { aligned: true, ..sum };
    stage.play(&[(aligned, members)]);
    assert!(tree(&stage, |tree| tree.operations) > 0);
}

#[test]
fn r4_a_member_that_gives_up_leaves_the_class_route_to_nobody() {
    for (per_node, seed) in [(1, 1), (1, 2), (2, 3), (2, 4)] {
        let (mut stage, members) = stage(3, per_node, seed);
        assert!(has_class_route(&stage, 0, WORLD));
        let size = members.size();
        for rank in (0..size).rev() {
            if rank == 1 {
                stage.abandon(1, 7, 1);
            } else {
                stage.start(rank, case(WORLD, Collective::Allreduce, size, 130), rank as usize);
            }
        }
        stage.until(size as usize);
        let abandoned = Err(OperationError::Abandoned { rank: 1, reason: 7 });
        assert!(stage.results().into_iter().all(|(_, result)| result == abandoned));
        stage.rest();
        assert!((0..size as usize).all(|context| !has_class_route(&stage, context, WORLD)));
        for what in COLLECTIVES {
            let case = Case { algorithm: None, ..case(WORLD, what, size, 40) };
            stage.play(&[(case, members)]);
        }
    }
}

#[test]
fn r4_what_is_behind_a_given_up_collective_on_its_class_route_ends_and_all_else_goes_on() {
    let given_up = Err(OperationError::Abandoned { rank: 1, reason: 7 });
    for seed in 0..4 {
        let (mut stage, members) = stage(3, 1, seed);
        let id = stage.create(1, members, None);
        let any = |id, algorithm| Case { algorithm, ..case(id, Collective::Allreduce, 3, 5) };
        let (tree, ring) = (any(WORLD, None), any(WORLD, Some(Algorithm::Ring)));
        let other = any(id, None);
        for rank in [0, 2] {
            for (cookie, call) in [tree, tree, tree, ring, other, other, other].into_iter().enumerate() {
                stage.start(rank, call, cookie * 10 + rank as usize);
            }
        }
        stage.rest();
        stage.start(1, tree, 1);
        stage.abandon(1, 7, 11);
        for (cookie, call) in [(2, tree), (3, ring)] {
            stage.start(1, call, cookie * 10 + 1);
        }
        stage.until(12);
        (4..7).for_each(|cookie| _ = stage.start(1, other, cookie * 10 + 1));
        stage.until(21);
        for (cookie, result) in stage.results() {
            assert_eq!(result, if matches!(cookie / 10, 1 | 2) { given_up } else { Ok(()) }, "{cookie}");
        }
    }
}

#[test]
fn r4_who_was_done_with_what_is_given_up_or_begins_it_later_leaves_the_class_route_too() {
    for seed in 0..4 {
        let (mut stage, members) = stage(3, 1, seed);
        let give_up = |stage: &mut Stage| {
            stage.abandon(1, 7, 1);
            stage.rest();
        };
        if seed % 2 == 0 {
            give_up(&mut stage);
        }
        for rank in [0, 2] {
            stage.start(rank, case(WORLD, Collective::Broadcast, 3, 5), rank as usize);
        }
        stage.rest();
        if seed % 2 == 1 {
            give_up(&mut stage);
        }
        assert_eq!(stage.ends().len(), 3);
        assert_eq!([0, 1, 2].map(|context| has_class_route(&stage, context, WORLD)), [false; 3]);
        let any = Case { algorithm: None, ..case(WORLD, Collective::Allreduce, 3, 5) };
        stage.play(&[(any, members)]);
    }
}

#[test]
fn g3_a_call_that_differs_inside_a_node_ends_the_use_of_the_class_route_at_all() {
    for odd in [1, 3] {
        let (mut stage, members) = stage(2, 2, odd);
        let id = stage.create(1, members, Some(domains(2, 2)));
        assert_eq!(tree(&stage, |tree| tree.routes()), 1);
        let other = |rank| if u64::from(rank) == odd { Operator::Max } else { Operator::Sum };
        let ends = allreduce(&mut stage, id, &members, other);
        assert!(ends.iter().all(|end| matches!(end, Err(OperationError::Mismatch(_)))), "{ends:?}");
        stage.rest();
        // What would go there ends as well, and nobody waits for it.
        let ends = allreduce(&mut stage, id, &members, |_| Operator::Sum);
        assert!(ends.iter().all(|end| matches!(end, Err(OperationError::Mismatch(_)))), "{ends:?}");
        stage.rest();
        destroy(&mut stage, id, &members);
        let world = stage.world;
        stage.settle("leaving", || world.lock().tree.as_mut().unwrap().routes() == 0);
    }
}

#[test]
fn g7_roots_that_differ_are_found_though_all_packets_are_alike() {
    for (what, seed) in [(Collective::Reduce, 1), (Collective::Broadcast, 2), (Collective::Broadcast, 3)] {
        let (mut stage, _) = stage(3, 1, seed);
        for rank in 0..3 {
            let call = Case { root: u32::from(rank == 1), ..case(WORLD, what, 3, 5) };
            stage.start(rank, call, rank as usize);
        }
        stage.until(3);
        let ended = stage.results();
        assert!(ended.iter().any(|end| end.1 == Err(OperationError::Differs)), "{ended:?}");
    }
}

#[test]
fn g7_a_single_node_takes_no_class_route() {
    for nodes in [1, 2] {
        let (mut stage, _) = stage(nodes, 2, 1);
        assert_eq!(has_class_route(&stage, 0, WORLD), nodes == 2);
        let members = stage.range(0, 2, 1);
        let id = stage.create(1, members, Some(domains(1, 2)));
        assert!(!has_class_route(&stage, 0, id));
        assert_eq!(tree(&stage, |tree| tree.routes()), 0);
    }
}

#[test]
fn g1_a_context_goes_when_it_has_told_that_it_leaves_a_class_route() {
    let (mut stage, members) = stage(2, 1, 2);
    let id = stage.create(1, members, None);
    stage[0].destroy_geometry(id).unwrap();
    assert_eq!(stage.destroy(0), Err(ClientError::SendsUnderWay), "it has told nobody");
    stage.rest();
    assert_eq!(stage.destroy(0), Ok(()), "nobody waits for it");
}

#[test]
fn n8_a_context_says_that_nothing_moves_when_nothing_can_and_not_before() {
    for per_node in [1, 2] {
        let (mut stage, members) = stage(3, per_node, 1);
        let id = stage.create(1, members, (per_node > 1).then(|| domains(3, per_node)));
        stage.rest();
        stage.world.free_running();
        tree(&stage, |tree| tree.stepped = false);
        let quieten = |stage: &mut Stage| {
            let rounds = (0..10_000).take_while(|_| {
                stage.contexts.iter_mut().map(|context| context.advance()).sum::<usize>() > 0
            });
            assert!(rounds.count() < 10_000, "it is never quiet");
        };
        let over_tree = OVER_TREE.map(|what| case(id, what, members.size(), 130));
        let other = case(id, Collective::Allreduce, members.size(), 20_000);
        let other = Case { algorithm: Some(Algorithm::Ring), ..other };
        let in_runs = Case { scratch_limit: 1000, ..other };
        for (cookie, call) in over_tree.into_iter().chain([other, in_runs]).enumerate() {
            (0..members.size()).for_each(|rank| _ = stage.start(rank, call, cookie * 10 + rank as usize));
            quieten(&mut stage);
            assert_eq!(stage.told.len(), (cookie + 1) * members.size() as usize, "{call:?}");
        }
        stage.all_good();
        destroy(&mut stage, id, &members);
        quieten(&mut stage);
        assert_eq!(tree(&stage, |tree| tree.routes()), 0);
    }
}
