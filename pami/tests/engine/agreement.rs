//! Members' calls: those that differ fail at all, those that may differ do not (SPEC G-2, G-3).

use crate::machine::buffer;
use crate::stage::{Case, Port, Stage, TUNING, leak, shared, with_scratch, words};
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Order, Reducer, UserOperator};
use pami::{Collect, CollectError, OperationError, Shared, WORLD};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What each of two members hears that call these; the second begins when all that comes of the first's call has come.
fn both(calls: [(Case, Operator); 2]) -> Vec<Result<(), OperationError>> {
    let mut stage = Stage::new(2, 1, 1, 1);
    let told = stage.told;
    let mut outputs = Vec::new();
    for (rank, (case, operator)) in calls.iter().enumerate() {
        let memory = case.memory(rank as u32);
        let reducer = case.what.reduces().then(|| Reducer::new(*operator, Element::U64).unwrap());
        let collect = Collect { reducer, ..case.call(memory.clone(), told.done(rank).unwrap()) };
        let collect = with_scratch(&stage.contexts[rank], collect).unwrap();
        stage.contexts[rank].collect(collect).unwrap();
        outputs.push(memory);
        stage.rest();
    }
    stage.until(2);
    let results: Vec<_> = stage.results().into_iter().map(|end| end.1).collect();
    for (rank, [_, output]) in outputs.iter().enumerate().filter(|(rank, _)| results[*rank].is_ok()) {
        calls[rank].0.check(rank as u32, output.as_ref());
    }
    results
}

#[test]
fn g3_calls_that_differ_in_one_thing_alone_fail_at_all_members() {
    let case =
        |what, algorithm| Case { what, algorithm: Some(algorithm), size: 2, len: 5, ..Case::default() };
    let sum = case(Collective::Allreduce, Algorithm::RecursiveDoubling);
    let block = case(Collective::Allgather, Algorithm::Ring);
    let moved = case(Collective::Alltoall, Algorithm::Pairwise);
    let all = Operator::Sum;
    for calls in [
        [(sum, all), (sum, Operator::Max)],
        [(sum, all), (case(Collective::Scan, Algorithm::RecursiveDoubling), all)],
        [(sum, all), (case(Collective::Allreduce, Algorithm::Ring), all)],
        // Who has nothing to do hears it too.
        [(block, all), (Case { len: 0, ..block }, all)],
        [(moved, all), (Case { in_place: true, ..moved }, all)],
    ] {
        let ends = both(calls);
        let mismatch = |end: &Result<_, _>| matches!(end, Err(OperationError::Mismatch(_)));
        assert!(ends.iter().all(mismatch), "{calls:?}: {ends:?}");
    }
    // Whether the root works in place is its own affair.
    let gather = case(Collective::Gather, Algorithm::Flat);
    assert_eq!(both([(Case { in_place: true, ..gather }, all), (gather, all)]), [Ok(()), Ok(())]);
}

/// Bounds of blocks of these lengths.
fn blocks(lens: impl Iterator<Item = usize>) -> Blocks<'static> {
    let ends = lens.scan(0, |at, len| {
        *at += len;
        Some(*at)
    });
    let bounds: Vec<usize> = std::iter::once(0).chain(ends).collect();
    Blocks::listed(bounds.leak()).unwrap()
}

#[test]
fn g2_members_that_know_other_blocks_choose_by_what_all_know() {
    let stage = Stage::new(3, 1, 1, 1);
    let told = stage.told;
    let uneven = blocks([3, 9, 5].into_iter());
    for (blocks, known_blocks, bytes) in
        [(uneven, true, 9), (uneven, false, 0), (Blocks::equal(7), true, 7), (Blocks::equal(7), false, 7)]
    {
        let any = Collect {
            blocks,
            known_blocks,
            ..Collect::new(WORLD, Collective::Gather, told.done(0).unwrap())
        };
        assert_eq!(stage.contexts[0].query(&any).unwrap().bytes, bytes, "{blocks:?}, known: {known_blocks}");
    }
}

const RANKS: u32 = 3;

/// Bytes that go from a rank to another of an alltoall.
fn len(from: u32, to: u32) -> usize {
    (20 + 7 * from + 11 * to) as usize
}

fn bytes(from: u32, to: u32) -> Vec<u8> {
    (0..len(from, to)).map(|at| (from as usize * 100 + to as usize * 31 + at) as u8).collect()
}

/// An alltoall of blocks that are all of other lengths, and its output.
fn uneven_alltoall(
    rank: u32,
    in_place: bool,
    algorithm: Option<Algorithm>,
    done: pami::Done<Port>,
) -> (Collect<Port>, Shared) {
    let sent: Vec<u8> = (0..RANKS).flat_map(|to| bytes(rank, to)).collect();
    let received = (0..RANKS).map(|from| len(from, rank)).sum();
    let memory = buffer(sent.len().max(received)).share();
    let input = buffer(sent.len()).share();
    if in_place { &memory } else { &input }.write(0, &sent).unwrap();
    let collect = Collect {
        input: (!in_place).then_some((input, 0)),
        output: Some((memory.clone(), 0)),
        blocks: blocks((0..RANKS).map(|to| len(rank, to))),
        sources: blocks((0..RANKS).map(|from| len(from, rank))),
        in_place,
        algorithm: algorithm.map(|algorithm| (algorithm, TUNING)),
        ..Collect::new(WORLD, Collective::Alltoall, done)
    };
    (collect, memory)
}

#[test]
fn g3_blocks_of_an_alltoall_arrive_where_those_that_are_received_lie() {
    let mut stage = Stage::new(RANKS, 1, 1, 2);
    let told = stage.told;
    for in_place in [false, true] {
        let (any, _) = uneven_alltoall(0, in_place, None, told.done(0).unwrap());
        let query = stage.contexts[0].query(&any).unwrap();
        let valid = query.candidates().filter(|it| it.valid.is_ok()).map(|it| Some(it.entry.algorithm));
        let algorithms: Vec<_> = valid.chain([None]).collect();
        assert!(algorithms.len() > 1);
        for algorithm in algorithms {
            let told = stage.told;
            let outputs: Vec<Shared> = (0..RANKS)
                .map(|rank| {
                    let active = &mut stage.contexts[rank as usize];
                    let (collect, output) = uneven_alltoall(rank, in_place, algorithm, told.done(0).unwrap());
                    let collect = with_scratch(active, collect).unwrap();
                    active.collect(collect).unwrap();
                    output
                })
                .collect();
            stage.until(RANKS as usize);
            stage.all_good();
            for (rank, output) in (0..).zip(outputs) {
                let expected: Vec<u8> = (0..RANKS).flat_map(|from| bytes(from, rank)).collect();
                let mut got = vec![0; expected.len()];
                output.read(0, &mut got).unwrap();
                assert_eq!(got, expected, "rank {rank}, {algorithm:?}, in place: {in_place}");
            }
        }
    }
    // In place blocks that do not stay where they are need memory for all at once; other blocks need none.
    for in_place in [false, true] {
        let (any, _) = uneven_alltoall(0, in_place, None, told.done(0).unwrap());
        let needed = stage.contexts[0].scratch_len(&Collect { scratch_limit: 16, ..any });
        let fits = needed.map_or_else(|error| matches!(error, CollectError::Selection(_)), |len| len <= 16);
        assert!(fits, "in place: {in_place}: {needed:?}");
        assert_eq!(needed.is_ok(), !in_place);
    }
}

/// Adds words.
fn add(into: &mut [u8], from: &[u8], _: Order) {
    for (into, from) in into.chunks_exact_mut(8).zip(from.chunks_exact(8)) {
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        into.copy_from_slice(&word(into).wrapping_add(word(from)).to_ne_bytes());
    }
}

#[test]
fn g3_elements_of_an_operator_of_ones_own_are_of_any_length_up_to_1024() {
    let mut stage = Stage::new(3, 1, 1, 3);
    let call = |rank: u64, element_len: usize, done| {
        let len = element_len / 8 * 200;
        let input: Vec<u64> = (0..len as u64).map(|at| at * 1000 + rank).collect();
        let output = shared(&vec![0; len]);
        let operator = UserOperator { combine: leak(add), element_len, commutes: true };
        let collect = Collect {
            input: Some((shared(&input), 0)),
            output: Some((output.clone(), 0)),
            blocks: Blocks::equal(200),
            sources: Blocks::equal(200),
            reducer: Some(Reducer::user(operator).unwrap()),
            ..Collect::new(WORLD, Collective::Allreduce, done)
        };
        (collect, output)
    };
    for element_len in [24, 40, 1024] {
        let told = stage.told;
        let mut outputs = Vec::new();
        for rank in 0..3 {
            let (collect, output) = call(rank, element_len, told.done(0).unwrap());
            let active = &mut stage.contexts[rank as usize];
            let collect = with_scratch(active, collect).unwrap();
            active.collect(collect).unwrap();
            outputs.push(output);
        }
        stage.until(3);
        stage.all_good();
        for output in outputs {
            assert!(words(&output).into_iter().eq((0..element_len as u64 / 8 * 200).map(|at| at * 3000 + 3)));
        }
    }
    let told = stage.told;
    let (long, _) = call(0, 1032, told.done(0).unwrap());
    assert_eq!(stage.contexts[0].collect(long), Err(CollectError::ElementLen(1032)));
}

/// An operator may call the library that is just calling the engine, and holds what it then waits for.
#[test]
fn g9_an_operator_of_ones_own_runs_in_no_call() {
    static IN_CALL: AtomicBool = AtomicBool::new(false);
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    fn watched(into: &mut [u8], from: &[u8], order: Order) {
        assert!(!IN_CALL.load(Relaxed), "an operator runs in a call");
        RUNS.fetch_add(1, Relaxed);
        add(into, from, order);
    }
    let mut stage = Stage::new(2, 1, 1, 3);
    let told = stage.told;
    let operator = UserOperator { combine: leak(watched), element_len: 8, commutes: true };
    let outputs = [0, 1].map(|rank| {
        let output = shared(&[0]);
        let collect = Collect {
            input: Some((shared(&[5 + rank as u64]), 0)),
            output: Some((output.clone(), 0)),
            blocks: Blocks::equal(1),
            sources: Blocks::equal(1),
            reducer: Some(Reducer::user(operator).unwrap()),
            ..Collect::new(WORLD, Collective::Allreduce, told.done(0).unwrap())
        };
        let collect = with_scratch(&stage[rank], collect).unwrap();
        IN_CALL.store(true, Relaxed);
        stage[rank].collect(collect).unwrap();
        IN_CALL.store(false, Relaxed);
        // All that the other wants comes before its call.
        stage.rest();
        output
    });
    stage.until(2);
    stage.all_good();
    assert_eq!((outputs.map(|output| words(&output)[0]), RUNS.load(Relaxed)), ([11; 2], 2));
}
