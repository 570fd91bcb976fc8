//! What the lists of a geometry say of an algorithm is so (SPEC G-2).

use super::reference::{expected, memory, values};
use super::{Operator, describe, run};
use crate::affinity::{Domains, HartPlace, LEVELS, Level};
use crate::collective::catalogue::Metadata;
use crate::collective::cost::{COSTS, PlacementStatistics};
use crate::collective::memory::Demand;
use crate::collective::{
    Algorithm, AlgorithmList, Blocks, Call, CallError, Collective, Grid, Query, Schedule, Tuning,
};
use crate::mapping::{MapOrder, TaskMap};
use proptest::prelude::*;
use std::vec::Vec;

/// A geometry and a call, in numbers that proptest can make smaller.
#[derive(Debug)]
struct Case {
    collective: Collective,
    nodes: u32,
    per_node: u32,
    /// Sockets, clusters and cores are shared by so many harts.
    shared: [u16; 3],
    order: MapOrder,
    root: u32,
    lens: Vec<usize>,
    equal: bool,
    commutative: bool,
    in_place: bool,
    grid: bool,
    domains: bool,
    tuning: Tuning,
    seed: u64,
}

prop_compose! {
    fn cases()(
        collective in 0..Collective::ALL.len(), nodes in 1u32..8, per_node in 1u32..5, shared in [1u16..5, 1u16..4, 1u16..3], in_nodes: bool, root: u32,
        lens in proptest::collection::vec(0usize..6, 28), flags in any::<[bool; 5]>(),
        radix in 2u32..6, chunk in 1usize..8, seed: u64
    ) -> Case {
        let [equal, commutative, in_place, grid, domains] = flags;
        let order = if in_nodes { MapOrder::TasksFirst } else { MapOrder::NodesFirst };
        let (collective, root) = (Collective::ALL[collective], root % (nodes * per_node));
        let root = if collective.is_rooted() { root } else { 0 };
        let tuning = Tuning { radix, chunk };
        Case {
            collective, nodes, per_node, shared, order, root, lens, equal, commutative, in_place, grid, domains, tuning, seed,
        }
    }
}

fn holds(case: &Case) {
    let size = case.nodes * case.per_node;
    let map = TaskMap::new(case.nodes, case.per_node, case.order).unwrap();
    let [socket, cluster, core] = case.shared.map(|harts| move |hart: u16| hart / harts);
    let place =
        |hart| HartPlace { socket: socket(hart), cluster: cluster(hart), core: core(hart), thread: hart };
    let harts: Vec<_> = (0..case.per_node as u16).map(place).collect();
    let domains = Domains::new(map, &harts, [2, 2, 2, 2, 3]).unwrap();
    let bounds: Vec<usize> = std::iter::once(0)
        .chain(case.lens.iter().take(size as usize).scan(0, |end, len| {
            *end += len;
            Some(*end)
        }))
        .collect();
    // Alltoall's blocks differ from rank to rank; the plain loop has them all alike.
    let equal = case.equal || case.collective == Collective::Alltoall || case.collective.is_of_vectors();
    let blocks = if equal { Blocks::equal(case.lens[0]) } else { Blocks::listed(&bounds).unwrap() };
    let call = |algorithm, rank| Call {
        collective: case.collective,
        algorithm,
        size,
        rank,
        root: case.root,
        blocks,
        sources: blocks,
        in_place: case.in_place,
        commutative: case.commutative,
        tuning: case.tuning,
        grid: case
            .grid
            .then(|| Grid::new(case.per_node, [case.nodes as u16, 1, 1, 1, 1], [true; 5]).unwrap()),
        domains: case.domains.then_some(domains),
    };
    let first = call(Algorithm::Ring, 0);
    let query = Query {
        collective: case.collective,
        algorithms: AlgorithmList::ALL,
        bytes: blocks.longest() * 8,
        element_len: 8,
        metadata: Metadata::of(&first),
        scratch: usize::MAX,
        in_place: case.in_place,
        moves: false,
        placement: PlacementStatistics {
            size,
            per_node: case.per_node,
            fanout: domains.fanout(),
            hops: 1,
            diameter: 3,
            costs: &COSTS,
        },
        tuning: case.tuning,
    };
    // As words, or as maps `x -> a x + b` with `a` and `b` in the halves of a word, which do not commute.
    let operator: fn(u64, u64) -> u64 = if case.commutative {
        u64::wrapping_add
    } else {
        |first, then| {
            let [(a, b), (c, d)] = [first, then].map(|map| ((map >> 32) as u32, map as u32));
            u64::from(a.wrapping_mul(c)) << 32 | u64::from(c.wrapping_mul(b).wrapping_add(d))
        }
    };
    for candidate in query.candidates() {
        let calls: Vec<_> = (0..size).map(|rank| call(candidate.entry.algorithm, rank)).collect();
        if let Err(unmet) = candidate.valid {
            for call in &calls {
                assert_eq!(Schedule::new(call).err(), Some(CallError::Unmet(unmet)));
            }
            continue;
        }
        let most = calls.iter().map(|call| Schedule::new(call).unwrap().scratch_len()).max().unwrap();
        let known = Demand::new(&calls[0], case.per_node).of(blocks.longest());
        assert!(most <= known, "{most} elements of scratch memory, not {known}: {}", describe(&calls[0]));
        let outcome = run(&calls, |call| memory(call, values), operator, case.seed);
        for (rank, output) in outcome.outputs.iter().enumerate() {
            let expected = expected(&calls, rank as u32, operator);
            assert_eq!(output[..expected.len()], expected, "rank {rank} of {}", describe(&calls[0]));
        }
        if candidate.entry.algorithm == Algorithm::Affinity && blocks.longest() > 0 {
            cross_as_little_as_can_be(&calls[0], &domains, &outcome.messages);
        }
        if !case.collective.is_of_vectors() && Demand::new(&calls[0], case.per_node).runs() {
            in_runs(&calls, case.tuning.chunk, operator, case.seed);
        }
    }
}

/// Trees cross the boundaries of a level once a phase for each domain but one (SPEC A-6). Those whose blocks are all empty
/// send nothing.
fn cross_as_little_as_can_be(call: &Call, domains: &Domains, messages: &[(u32, u32)]) {
    use Collective::{Broadcast, Gather, Reduce, Scatter};
    let phases = if matches!(call.collective, Broadcast | Reduce | Gather | Scatter) { 1 } else { 2 };
    let all_have_some = call.collective.is_of_vectors() || call.blocks.are_equal();
    for level in LEVELS {
        let crossed = messages.iter().filter(|(from, to)| !domains.together(level, *from, *to)).count();
        let (count, nodes) = (domains.count(level) as usize, domains.nodes() as usize);
        let least = match call.collective {
            // Up and down in each node, and from each node to each other.
            Collective::Alltoall => {
                2 * (count.max(nodes) - nodes) + if level < Level::Machine { nodes * (nodes - 1) } else { 0 }
            }
            _ => phases * (count - 1),
        };
        let as_little = if all_have_some { crossed == least } else { crossed <= least };
        assert!(as_little, "{crossed} for {least} at {level:?}: {}", describe(call));
    }
}

/// The same, on so many elements of each block at a time.
fn in_runs(calls: &[Call], most: usize, operator: Operator, seed: u64) {
    let mut outputs: Vec<_> = calls.iter().map(|call| memory(call, values)[1].clone()).collect();
    for from in (0..calls[0].longest()).step_by(most) {
        let runs: Vec<_> = calls.iter().map(|call| call.run(from, most)).collect();
        let memory = |run: &Call| {
            let rank = run.rank as usize;
            let [input, _] = memory(&calls[rank], values);
            [input, outputs[rank].clone()]
        };
        outputs = run(&runs, memory, operator, seed).outputs;
    }
    for (rank, output) in outputs.iter().enumerate() {
        let expected = expected(calls, rank as u32, operator);
        let what = describe(&calls[0]);
        assert_eq!(output[..expected.len()], expected, "rank {rank}, {most} at a time, of {what}");
    }
}

proptest! {
    /// And no rank takes more scratch memory than selection reckons with.
    #[test]
    fn g2_every_listed_algorithm_works_where_its_metadata_says_so(case in cases()) {
        holds(&case);
    }
}
