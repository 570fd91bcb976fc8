//! Each geometry chooses from a list of its own (SPEC G-2).

use crate::stage::{Case, LIMITS, Play, Port, Stage, ends};
use pami::collective::{Algorithm, AlgorithmList, Collective, SelectionError};
use pami::geometry::Members;
use pami::{Collect, CollectError, GeometryError, GeometryId, Limits, NewGeometry, OperationError, WORLD};

fn list(text: &str) -> AlgorithmList {
    text.parse().unwrap()
}

fn broadcast(geometry: GeometryId, size: u32) -> Case {
    Case { geometry, what: Collective::Broadcast, size, len: 8, ..Case::default() }
}

/// A geometry with this list at each of its members; how its creation ended at each.
fn create(
    stage: &mut Stage,
    id: u32,
    members: Members<'static>,
    lists: &[AlgorithmList],
) -> Vec<Result<(), OperationError>> {
    let (ended, done) = ends();
    for (rank, &algorithms) in lists.iter().enumerate() {
        let new = NewGeometry::new(GeometryId(id), members, done(rank).unwrap());
        let context = stage.member(&members, rank as u32);
        stage.contexts[context].create_geometry(NewGeometry { algorithms, ..new }).unwrap();
    }
    stage.settle("creation", || ended.len() == lists.len());
    ended.results().into_iter().map(|(_, result)| result).collect()
}

fn change(stage: &mut Stage, id: GeometryId, algorithms: AlgorithmList) {
    for context in &mut stage.contexts {
        assert_eq!(context.set_algorithms(id, algorithms), Ok(()));
    }
}

/// What is chosen for a case, after what the list is asked for.
fn chosen(stage: &Stage, case: &Case) -> Result<Algorithm, SelectionError> {
    let call = case.call(case.memory(0), stage.done(0).unwrap());
    stage.contexts[0].query(&call).unwrap().choose(None).map(|entry| entry.algorithm)
}

/// Messages with data that rank 0 sends in a broadcast of its 64 bytes.
fn sent(stage: &mut Stage, case: Case, members: Members<'static>) -> u64 {
    let before = stage.contexts[0].counters().collective_sent;
    stage.play(&[(case, members)]);
    (stage.contexts[0].counters().collective_sent - before) / 64
}

#[test]
fn g2_geometries_of_the_same_members_choose_each_from_its_own_list() {
    let mut stage = Stage::new(8, 1, 1, 3);
    let members = stage.everyone();
    for (id, algorithms) in [(1, list("broadcast=flat")), (2, list("broadcast=binomial+n-ary,barrier=n-ary"))]
    {
        let ends = create(&mut stage, id, members, &[algorithms; 8]);
        assert!(ends.iter().all(Result::is_ok), "{ends:?}");
        assert_eq!(stage.contexts[3].geometry(GeometryId(id)).unwrap().algorithms, &algorithms);
    }
    let [flat, trees] = [1, 2].map(|id| broadcast(GeometryId(id), 8));
    assert_eq!(
        (chosen(&stage, &flat), chosen(&stage, &trees)),
        (Ok(Algorithm::Flat), Ok(Algorithm::Binomial))
    );
    assert_eq!([flat, trees].map(|case| sent(&mut stage, case, members)), [7, 3]);
    let call = trees.call(trees.memory(0), stage.done(0).unwrap());
    let listed = stage.contexts[0].query(&call).unwrap();
    assert!(listed.candidates().map(|it| it.entry.algorithm).eq([Algorithm::Binomial, Algorithm::Nary]));
    // Other collectives have all of theirs, and the world has its own.
    stage.play(&[(Case { what: Collective::Allgather, ..trees }, members)]);
    assert_eq!(stage.contexts[0].geometry(WORLD).unwrap().algorithms, &AlgorithmList::ALL);
}

#[test]
fn g2_a_call_that_is_known_is_chosen_anew_when_the_list_has_changed() {
    let mut stage = Stage::new(8, 1, 1, 4);
    let members = stage.everyone();
    let case = broadcast(WORLD, 8);
    for (text, messages) in [("broadcast=binomial", 3), ("broadcast=flat", 7), ("broadcast=binomial", 3)] {
        change(&mut stage, WORLD, list(text));
        for _ in 0..3 {
            assert_eq!(sent(&mut stage, case, members), messages, "{text}");
        }
    }
    // Registered again, one algorithm after the other.
    let mut algorithms = *stage.contexts[0].geometry(WORLD).unwrap().algorithms;
    algorithms.add(Collective::Broadcast, Algorithm::Flat).unwrap();
    algorithms.remove(Collective::Broadcast, Algorithm::Binomial);
    change(&mut stage, WORLD, algorithms);
    assert_eq!(sent(&mut stage, case, members), 7);
}

#[test]
fn g2_what_is_not_in_the_list_is_refused_at_every_member_alike() {
    let mut stage = Stage::new(3, 1, 1, 5);
    let members = stage.everyone();
    let mut algorithms = list("broadcast=flat,alltoall=bruck");
    algorithms.clear(Collective::Barrier);
    change(&mut stage, WORLD, algorithms);
    let refused = |stage: &mut Stage, rank: usize, case: Case| {
        let call = case.call(case.memory(rank as u32), stage.done(0).unwrap());
        stage.contexts[rank].collect(call).unwrap_err()
    };
    for rank in 0..3 {
        let forced = Case { algorithm: Some(Algorithm::Binomial), ..broadcast(WORLD, 3) };
        let unlisted = SelectionError::Unlisted(Collective::Broadcast, Algorithm::Binomial);
        assert_eq!(refused(&mut stage, rank, forced), CollectError::Selection(unlisted));
        assert!(unlisted.to_string().contains("binomial is not in the geometry's list"));
        let barrier = stage.barrier(WORLD, 0);
        let empty = SelectionError::Empty(Collective::Barrier);
        assert_eq!(stage.contexts[rank].collect(barrier), Err(CollectError::Selection(empty)));
        let forced =
            Case { algorithm: Some(Algorithm::Nary), what: Collective::Barrier, ..broadcast(WORLD, 3) };
        let unlisted = SelectionError::Unlisted(Collective::Barrier, Algorithm::Nary);
        assert_eq!(refused(&mut stage, rank, forced), CollectError::Selection(unlisted));
        let alltoall = Case { what: Collective::Alltoall, scratch_limit: 8, ..broadcast(WORLD, 3) };
        let unmet = SelectionError::Unmet(Algorithm::Bruck, pami::collective::Need::Scratch);
        assert_eq!(refused(&mut stage, rank, alltoall), CollectError::Selection(unmet));
    }
    // The engine's own barriers, in front of every eighth broadcast, and what is given up, are of no list.
    (0..20).for_each(|_| stage.play(&[(broadcast(WORLD, 3), members)]));
    stage.abandon(1, 7, 1);
    for rank in [0, 2] {
        stage.start(rank, Case { what: Collective::Allreduce, ..broadcast(WORLD, 3) }, 2);
    }
    stage.until(3);
    let ends = stage.results();
    assert!(
        ends.iter().all(|end| end.1 == Err(OperationError::Abandoned { rank: 1, reason: 7 })),
        "{ends:?}"
    );
    assert!(create(&mut stage, 1, members, &[algorithms; 3]).iter().all(Result::is_ok));
}

#[test]
fn g2_r4_members_with_other_lists_hear_of_it_and_go_on_with_the_same_ones() {
    for seed in 0..10 {
        let mut stage = Stage::new(5, 1, 1, seed);
        let members = stage.everyone();
        let (flat, binomial) = (list("broadcast=flat"), list("broadcast=binomial"));
        let mut lists = [flat; 5];
        lists[stage.random.below(5)] = binomial;
        let ends = create(&mut stage, 1, members, &lists);
        assert!(ends.iter().all(|end| matches!(end, Err(OperationError::Mismatch(_)))), "{ends:?}");
        // At run time there is nothing to compare before they choose.
        let allreduce = Case { what: Collective::Allreduce, ..broadcast(WORLD, 5) };
        let odd = stage.random.below(5);
        for rank in 0..5 {
            let algorithms =
                list(if rank == odd { "allreduce=ring" } else { "allreduce=recursive-doubling" });
            assert_eq!(stage.contexts[rank].set_algorithms(WORLD, algorithms), Ok(()));
        }
        for rank in 0..5 {
            stage.start(rank, allreduce, 0);
        }
        stage.until(5);
        let ends = stage.results();
        assert!(ends.iter().all(|end| matches!(end.1, Err(OperationError::Mismatch(_)))), "{ends:?}");
        change(&mut stage, WORLD, list("allreduce=ring"));
        stage.play(&[(allreduce, members)]);
    }
}

#[test]
fn g2_lists_change_between_the_same_two_collectives_whatever_the_order_of_members() {
    const CALLS: usize = 24;
    let lists =
        ["broadcast=flat", "broadcast=binomial", "broadcast=n-ary+pipeline", "broadcast=scatter-allgather"];
    for seed in 0..12 {
        // So few places that some wait for room.
        let limits = Limits { in_flight: 2, always: 0, queued: 2, ..LIMITS };
        let mut stage = Stage::with(4, 1, 1, seed, limits);
        let members = stage.everyone();
        let case =
            |call: usize| Case { salt: call as u64, len: 30, root: call as u32 % 4, ..broadcast(WORLD, 4) };
        let mut play = Play::new(&stage, vec![(case(0), members)]);
        while play.start_one(&mut stage) {}
        stage.settle("the first", || play.is_over());
        let (ended, done) = ends();
        let (mut next, mut changed, mut outputs) = ([1; 4], [0; 4], Vec::new());
        let (mut waits, mut patience) = (0, 300_000);
        while next.iter().any(|&call| call < CALLS) {
            patience -= 1;
            assert!(patience > 0, "there is never room again");
            let rank = stage.random.below(4);
            stage.some_ticks(6);
            let call = next[rank];
            if call == CALLS {
                continue;
            }
            let active = &mut stage.contexts[rank];
            if call % 3 == 0 && changed[rank] < call {
                match active.set_algorithms(WORLD, list(lists[call / 3 % lists.len()])) {
                    Ok(()) => changed[rank] = call,
                    Err(error) => {
                        assert_eq!(error, GeometryError::Busy(WORLD));
                        waits += 1;
                    }
                }
                continue;
            }
            let (collect, output): (Collect<Port>, _) =
                case(call).collect(active, rank as u32, done(call).unwrap()).unwrap();
            match active.collect(collect) {
                Ok(()) => {
                    outputs.push((call, rank as u32, output));
                    next[rank] += 1;
                }
                Err(error) => assert_eq!(error, CollectError::Full { limit: 2 }),
            }
        }
        assert!(waits > 0, "none had to wait: the test shows nothing");
        stage.settle("broadcasts", || ended.len() == 4 * (CALLS - 1));
        assert!(ended.are_good(), "{:?}", ended.results());
        for (call, rank, output) in outputs {
            case(call).check(rank, output.as_ref());
        }
    }
}
