//! Every algorithm against plain loops.

use super::reference::{expected, memory, value, values};
use super::{Operator, POISON, describe, run, waits_for};
use crate::affinity::{Domains, HartPlace};
use crate::collective::catalogue::{self, AlgorithmEntry, CATALOGUE, Metadata};
use crate::collective::{Algorithm, Blocks, Call, Collective, Grid, Tuning};
use crate::mapping::{MapOrder, TaskMap};
use crate::partition::Partition;
use std::vec;
use std::vec::Vec;

/// `x -> a x + b`, with `a` and `b` in the halves of a word: maps composed, which is associative and not commutative.
fn compose(first: u64, then: u64) -> u64 {
    let [(a, b), (c, d)] = [first, then].map(|map| ((map >> 32) as u32, map as u32));
    u64::from(a.wrapping_mul(c)) << 32 | u64::from(c.wrapping_mul(b).wrapping_add(d))
}

fn add(a: u64, b: u64) -> u64 {
    a.wrapping_add(b)
}

/// A call with what every size has: a grid, and domains of nodes with as many harts as divide it.
struct World {
    size: u32,
    grid: Grid,
    harts: Vec<HartPlace>,
    map: TaskMap,
}

impl World {
    fn new(size: u32) -> Self {
        let per_node = [8, 6, 4, 3, 2].into_iter().find(|&harts| size.is_multiple_of(harts)).unwrap_or(1);
        let nodes = size / per_node;
        let across = [4, 3, 2].into_iter().find(|&extent| nodes.is_multiple_of(extent)).unwrap_or(1);
        let extents = [across as u16, (nodes / across) as u16, 1, 1, 1];
        let hart = |local: u16| HartPlace {
            socket: local / 4,
            cluster: local / 2 % 2,
            core: local % 2,
            thread: local / 2 / 4,
        };
        let mut harts: Vec<_> = (0..per_node as u16).map(hart).collect();
        harts.sort();
        Self {
            size,
            grid: Grid::new(per_node, extents, [size.is_multiple_of(2), size % 4 < 2, true, true, true])
                .unwrap(),
            harts,
            map: TaskMap::new(nodes, per_node, MapOrder::TasksFirst).unwrap(),
        }
    }

    fn domains(&self) -> Domains<'_> {
        Domains::new(self.map, &self.harts, [2, 2, 1, 3, 3]).unwrap()
    }

    fn calls<'a>(
        &self,
        entry: &AlgorithmEntry,
        domains: &'a Domains<'a>,
        blocks: Blocks<'a>,
    ) -> Vec<Call<'a>> {
        let call = |rank| Call {
            collective: entry.collective,
            algorithm: entry.algorithm,
            size: self.size,
            rank,
            root: 0,
            blocks,
            sources: blocks,
            in_place: false,
            commutative: false,
            tuning: Tuning { radix: 3, chunk: 3 },
            grid: Some(self.grid),
            domains: Some(*domains),
        };
        (0..self.size).map(call).collect()
    }
}

/// Runs the calls if they are valid, and compares every rank's output with the plain loop's.
fn check(calls: &[Call], operator: Operator, seed: u64) {
    let entry = catalogue::entry(calls[0].collective, calls[0].algorithm).unwrap();
    if entry.check(&Metadata::of(&calls[0])).is_err() {
        return;
    }
    let outcome = std::panic::catch_unwind(|| run(calls, |call| memory(call, values), operator, seed))
        .unwrap_or_else(|_| panic!("in {}", describe(&calls[0])));
    for (rank, output) in outcome.outputs.iter().enumerate() {
        let expected = expected(calls, rank as u32, operator);
        assert_eq!(output[..expected.len()], expected, "rank {rank} of {}", describe(&calls[0]));
    }
}

/// The roots to try: all of them up to 17 ranks, then the ends and one between.
fn roots(collective: Collective, size: u32) -> Vec<u32> {
    match size {
        _ if !collective.is_rooted() => [0].to_vec(),
        1..=17 => (0..size).collect(),
        _ => [0, size / 3 + 1, size - 1].to_vec(),
    }
}

/// Checks one collective at every size and root, with `len` elements in each block or vector.
fn check_all(collective: Collective, len: impl Fn(u32) -> usize) {
    let mut seed = 1u64;
    for size in 1..=65 {
        let world = World::new(size);
        let domains = world.domains();
        for entry in catalogue::entries(collective) {
            let mut calls = world.calls(entry, &domains, Blocks::equal(len(size)));
            for root in roots(collective, size) {
                seed += 1;
                let commutative: &[bool] = if collective.reduces() { &[false, true] } else { &[true] };
                for &commutative in commutative {
                    for call in &mut calls {
                        call.root = root;
                        call.commutative = commutative;
                        call.in_place = seed.is_multiple_of(3);
                    }
                    check(&calls, if commutative { add } else { compose }, seed);
                }
            }
        }
    }
}

macro_rules! every {
    ($($name:ident: $collective:ident, $len:expr;)*) => {$(
        #[test]
        fn $name() {
            check_all(Collective::$collective, $len);
        }
    )*};
}

every! {
    g3_every_barrier_ends: Barrier, |_| 0;
    g3_every_broadcast_reaches_every_rank: Broadcast, |_| 7;
    g3_every_broadcast_of_one_element_reaches_every_rank: Broadcast, |_| 1;
    g3_every_broadcast_of_blocks_that_divide_reaches_every_rank: Broadcast, |size| size as usize * 2;
    g3_every_reduce_combines_in_order: Reduce, |_| 7;
    g3_every_reduce_of_one_element_combines_in_order: Reduce, |_| 1;
    g3_every_reduce_of_blocks_that_divide_combines_in_order: Reduce, |size| size as usize * 2;
    g3_every_allreduce_combines_in_order: Allreduce, |_| 7;
    g3_every_allreduce_of_one_element_combines_in_order: Allreduce, |_| 1;
    g3_every_allreduce_of_uneven_blocks_combines_in_order: Allreduce, |size| size as usize * 2 + 3;
    g3_every_reduce_scatter_leaves_each_rank_its_block: ReduceScatter, |_| 1;
    g3_every_reduce_scatter_of_longer_blocks_leaves_each_rank_its_own: ReduceScatter, |_| 3;
    g3_every_gather_ends_at_the_root: Gather, |_| 1;
    g3_every_gather_of_longer_blocks_ends_at_the_root: Gather, |_| 3;
    g3_every_scatter_gives_each_rank_its_block: Scatter, |_| 1;
    g3_every_scatter_of_longer_blocks_gives_each_rank_its_own: Scatter, |_| 3;
    g3_every_allgather_ends_at_all: Allgather, |_| 1;
    g3_every_allgather_of_longer_blocks_ends_at_all: Allgather, |_| 3;
    g3_every_alltoall_gives_each_pair_its_block: Alltoall, |_| 1;
    g3_every_alltoall_of_longer_blocks_gives_each_pair_its_own: Alltoall, |_| 3;
    g3_every_scan_combines_in_order: Scan, |_| 3;
    g3_every_exscan_combines_in_order: Exscan, |_| 3;
}

#[test]
fn g8_slices_of_every_block_make_the_whole() {
    const SLICES: u32 = 3;
    let by_block = [
        (Collective::Scatter, Algorithm::Flat),
        (Collective::Gather, Algorithm::Flat),
        (Collective::Allgather, Algorithm::Ring),
    ];
    let bounds = [0, 5, 5, 6, 13, 20];
    for (collective, algorithm) in by_block {
        let entry = catalogue::entry(collective, algorithm).unwrap();
        for (size, blocks) in
            [(5, Blocks::listed(&bounds).unwrap()), (4, Blocks::equal(7)), (1, Blocks::equal(3))]
        {
            let world = World::new(size);
            let domains = world.domains();
            for (root, in_place) in roots(collective, size).into_iter().zip([false, true].into_iter().cycle())
            {
                let calls = world.calls(entry, &domains, blocks).into_iter();
                let calls: Vec<_> = calls.map(|call| Call { root, in_place, ..call }).collect();
                let mut outputs = vec![Vec::new(); size as usize];
                for slice in 0..SLICES {
                    let part = Partition::new(blocks.longest(), SLICES).range(slice);
                    let cut = blocks.cut(part.start, part.len());
                    let sliced: Vec<_> =
                        calls.iter().map(|call| Call { blocks: cut, sources: cut, ..*call }).collect();
                    let whole = |call: &Call| memory(&calls[call.rank as usize], values);
                    for (all, output) in
                        outputs.iter_mut().zip(run(&sliced, whole, add, slice.into()).outputs)
                    {
                        all.resize(output.len(), POISON);
                        // What none but this slice writes.
                        all.iter_mut().zip(output).filter(|(_, new)| *new != POISON).for_each(
                            |(all, new)| {
                                assert!(*all == POISON || *all == new, "{}", describe(&calls[0]));
                                *all = new;
                            },
                        );
                    }
                }
                for (rank, output) in outputs.iter().enumerate() {
                    let expected = expected(&calls, rank as u32, add);
                    assert_eq!(output[..expected.len()], expected, "rank {rank} of {}", describe(&calls[0]));
                }
            }
        }
    }
}

/// Messages of an algorithm among a power of two of ranks on some nodes, `log` its logarithm, from the papers.
fn messages(collective: Collective, algorithm: Algorithm, [size, nodes, log]: [usize; 3]) -> usize {
    use {Algorithm as A, Collective as C};
    let edges = size - 1;
    match (collective, algorithm) {
        // Within nodes only.
        (C::Barrier | C::Allreduce | C::Allgather, A::TreeNetwork) => 2 * (size - nodes),
        (_, A::TreeNetwork) => size - nodes,
        (_, A::SharedMemory | A::DirectRead) => 0,
        (C::Barrier, A::Dissemination) => size * log,
        (C::Barrier, A::Nary | A::Affinity) => 2 * edges,
        (C::ReduceScatter | C::Scan | C::Exscan, A::Affinity) => 2 * edges,
        (C::Alltoall, A::Affinity) => 2 * (size - nodes) + nodes * (nodes - 1),
        (C::Broadcast, A::ScatterAllgather) => edges + size * edges,
        (C::Broadcast | C::Reduce, A::Binomial | A::Nary | A::Flat | A::Affinity) => edges,
        (C::Reduce | C::Allreduce, A::RecursiveDoubling) => size * log,
        (C::Reduce, A::Rabenseifner) => size * log + edges,
        (C::Reduce, A::Ring) => size * edges + edges,
        (C::Allreduce, A::Binomial | A::Affinity) => 2 * edges,
        (C::Allreduce, A::Rabenseifner) => 2 * size * log,
        (C::Allreduce, A::Ring) => 2 * size * edges,
        (C::ReduceScatter | C::Alltoall, A::Pairwise) => size * edges,
        (C::ReduceScatter | C::Allgather, A::Ring) => size * edges,
        (C::ReduceScatter, A::RecursiveHalving) => size * log,
        (C::Gather | C::Scatter, _) => edges,
        (C::Allgather | C::Alltoall, A::Bruck) | (C::Allgather, A::RecursiveDoubling) => size * log,
        (C::Allgather, A::GatherBroadcast | A::Affinity) => 2 * edges,
        // Rank r hears from those 1, 2, 4, ... below it; an exclusive scan first moves up by one.
        (C::Scan, _) => size * log - edges,
        (C::Broadcast | C::Reduce, A::Pipeline) | (C::Broadcast, A::Rectangle) => edges * PIECES,
        (C::Exscan, _) => edges * log,
        _ => panic!("no figure for {collective:?} {algorithm:?}"),
    }
}

/// Pieces that pipelines cut the vectors of the next test in.
const PIECES: usize = 4;

#[test]
fn g3_every_algorithm_sends_as_many_messages_as_its_paper_says() {
    for (size, log) in [(1u32, 0), (2, 1), (8, 3), (64, 6)] {
        let world = World::new(size);
        let domains = world.domains();
        for entry in CATALOGUE {
            // As many elements as there are ranks, so that no block is empty.
            let len = if entry.collective.is_of_vectors() { size as usize * 4 } else { 1 };
            let mut calls = world.calls(entry, &domains, Blocks::equal(len));
            for call in &mut calls {
                call.commutative = true;
                call.tuning = Tuning { radix: 2, chunk: len / PIECES.min(len) };
            }
            let sent = run(&calls, |call| memory(call, values), add, 1).messages.len();
            let sizes = [size as usize, domains.nodes() as usize, log];
            let expected = messages(entry.collective, entry.algorithm, sizes);
            assert_eq!(sent, expected, "{}", describe(&calls[0]));
        }
    }
}

#[test]
fn g3_without_data_nothing_is_sent() {
    for entry in CATALOGUE.iter().filter(|entry| entry.collective != Collective::Barrier) {
        for size in [1, 2, 3, 8, 13] {
            let world = World::new(size);
            let domains = world.domains();
            let mut calls = world.calls(entry, &domains, Blocks::equal(0));
            calls.iter_mut().for_each(|call| call.commutative = true);
            if entry.check(&Metadata::of(&calls[0])).is_ok() {
                let outcome = run(&calls, |call| memory(call, values), add, 1);
                assert_eq!(outcome.messages, []);
            }
        }
    }
}

/// Boundaries of blocks whose lengths come from `len`.
fn bounds(size: u32, len: impl Fn(u32) -> usize) -> Vec<usize> {
    let ends = (0..size).scan(0, |end, rank| {
        *end += len(rank);
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

#[test]
fn g3_blocks_of_any_lengths_end_where_equal_ones_do() {
    use Collective::{Allgather, Gather, ReduceScatter, Scatter};
    let lens: [fn(u32) -> usize; 3] =
        [|rank| (rank * 7 + 3) as usize % 5, |rank| if rank == 2 { 9 } else { 0 }, |rank| rank as usize % 2];
    for size in 1..=65 {
        let world = World::new(size);
        let domains = world.domains();
        for (seed, len) in lens.iter().enumerate() {
            let bounds = bounds(size, len);
            let blocks = Blocks::listed(&bounds).unwrap();
            let of_blocks = |entry: &&AlgorithmEntry| {
                matches!(entry.collective, Allgather | Gather | ReduceScatter | Scatter)
            };
            for entry in CATALOGUE.iter().filter(of_blocks) {
                let mut calls = world.calls(entry, &domains, blocks);
                for root in roots(entry.collective, size) {
                    for call in &mut calls {
                        call.root = root;
                        call.in_place = (root + size).is_multiple_of(2);
                    }
                    check(&calls, compose, seed as u64);
                    calls.iter_mut().for_each(|call| call.commutative = true);
                    check(&calls, add, seed as u64);
                    calls.iter_mut().for_each(|call| call.commutative = false);
                }
            }
        }
    }
}

#[test]
fn g3_alltoallv_gives_each_pair_its_block() {
    let len = |from: u32, to: u32| (from * 3 + to * 5) as usize % 4;
    for size in 1..=65 {
        let world = World::new(size);
        let domains = world.domains();
        let sent: Vec<_> = (0..size).map(|from| bounds(size, |to| len(from, to))).collect();
        let received: Vec<_> = (0..size).map(|to| bounds(size, |from| len(from, to))).collect();
        let entry = catalogue::entry(Collective::Alltoall, Algorithm::Pairwise).unwrap();
        let mut calls = world.calls(entry, &domains, Blocks::equal(0));
        for (rank, call) in calls.iter_mut().enumerate() {
            call.blocks = Blocks::listed(&sent[rank]).unwrap();
            call.sources = Blocks::listed(&received[rank]).unwrap();
        }
        check(&calls, add, u64::from(size));
    }
}

#[test]
fn g3_radix_and_chunk_change_nothing_but_the_way() {
    let tuned = |entry: &&AlgorithmEntry| {
        use Algorithm::{Dissemination, Nary, Pipeline, Rectangle};
        matches!(entry.algorithm, Dissemination | Nary | Pipeline | Rectangle)
    };
    for size in [1, 2, 5, 16, 27, 40] {
        let world = World::new(size);
        let domains = world.domains();
        for entry in CATALOGUE.iter().filter(tuned) {
            for (radix, chunk) in [(2, 1), (4, 2), (7, 5), (64, 100), (u32::MAX, usize::MAX)] {
                let mut calls = world.calls(entry, &domains, Blocks::equal(11));
                calls.iter_mut().for_each(|call| call.tuning = Tuning { radix, chunk });
                check(&calls, compose, u64::from(radix));
            }
        }
    }
}

#[test]
fn g9_sums_of_floats_have_the_same_bits_at_all_ranks_and_in_all_runs() {
    fn add(a: u64, b: u64) -> u64 {
        (f64::from_bits(a) + f64::from_bits(b)).to_bits()
    }
    fn floats(rank: u32, len: usize) -> Vec<u64> {
        // Of very different sizes, so that any other order gives other bits.
        let float = |index| {
            let value = value(rank, index);
            let scale = [1e-8, 1.0, 1e8][value as usize / 2 % 3];
            (((value >> 11) as f64 / 1e15 - 4.5) * scale).to_bits()
        };
        (0..len).map(float).collect()
    }
    for size in [2, 3, 7, 8, 12, 31, 48] {
        let world = World::new(size);
        let domains = world.domains();
        for entry in catalogue::entries(Collective::Allreduce) {
            let mut calls = world.calls(entry, &domains, Blocks::equal(17));
            calls.iter_mut().for_each(|call| call.commutative = true);
            let runs = (0..10).map(|seed| run(&calls, |call| memory(call, floats), add, seed));
            let outputs: Vec<_> = runs.flat_map(|run| run.outputs).collect();
            assert!(outputs.iter().all(|output| *output == outputs[0]), "{}", describe(&calls[0]));
        }
    }
}

#[test]
fn g3_nobody_leaves_a_barrier_before_all_have_come() {
    for size in 2..=33 {
        let world = World::new(size);
        let domains = world.domains();
        for entry in catalogue::entries(Collective::Barrier) {
            let calls = world.calls(entry, &domains, Blocks::equal(0));
            for late in 0..size {
                assert!(waits_for(&calls, late, late.into()), "rank {late} late: {}", describe(&calls[0]));
            }
        }
        // What is no barrier is found out: who gets a broadcast waits for the root and for nobody else.
        let broadcast = catalogue::entry(Collective::Broadcast, Algorithm::Flat).unwrap();
        let calls = world.calls(broadcast, &domains, Blocks::equal(1));
        assert!(waits_for(&calls, 0, 1));
        assert!((1..size).all(|late| size == 2 || !waits_for(&calls, late, late.into())), "{size} ranks");
    }
}
