//! Collectives that are called again and again: what their members say to each other is the same each time, whatever is
//! known of the call by then (SPEC G-3, Q-4).

use crate::stage::{Case, LIMITS, Stage, domains};
use pami::collective::{Algorithm, Collective};
use pami::{GeometryId, Limits, OperationError};

const TIMES: u64 = 12;
/// Calls of one collective from which on it is begun without a look at its steps: one that is new, one that is known, one that
/// finds its steps and looks at them.
const LEARNT: u64 = 3;

/// A call of a word. An allreduce begins with one to a member and one from it.
fn word(geometry: GeometryId, what: Collective, in_place: bool, salt: u64) -> Case {
    let algorithm = (what == Collective::Allreduce).then_some(Algorithm::RecursiveDoubling);
    Case { geometry, what, algorithm, size: 4, len: 1, in_place, salt, ..Case::default() }
}

/// Members of the world, each of which calls this word and hears of its end; of how many the call went without a look at the
/// steps, which is behind one at the collective network.
fn at_a_glance(stage: &mut Stage, case: Case) -> usize {
    let begun = (0..case.size).map(|rank| {
        let before = stage.world.lock().network_looks;
        let output = stage.start(rank, case, rank as usize);
        (output, stage.world.lock().network_looks == before)
    });
    let begun: Vec<_> = begun.collect();
    stage.until(case.size as usize);
    assert!(stage.results().iter().all(|(_, result)| result.is_ok()));
    (0..).zip(&begun).for_each(|(rank, (output, _))| case.check(rank, output.as_ref()));
    begun.iter().filter(|(_, glance)| *glance).count()
}

#[test]
fn q4_calls_in_turn_are_begun_without_a_look_at_their_steps() {
    // One at a time, two in turn in one geometry, and two in turn in each of two.
    for (geometries, calls) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let mut stage = Stage::new(4, 1, 1, 8);
        let members = stage.everyone();
        let ids = [stage.create(1, members, None), stage.create(2, members, None)];
        for salt in 0..TIMES {
            for id in &ids[..geometries] {
                for in_place in [false, true].into_iter().take(calls) {
                    let case = word(*id, Collective::Allreduce, in_place, salt);
                    let expected = if salt < LEARNT { 0 } else { 4 };
                    assert_eq!(at_a_glance(&mut stage, case), expected, "{geometries}, {calls}, {salt}");
                }
            }
        }
    }
}

#[test]
fn g3_q4_words_that_are_called_again_go_well_whatever_else_there_is() {
    // Members have credit for many words, for one, and for none.
    for (early, moody) in [(128, 0), (128, 99), (8, 5), (4, 0), (3, 7)] {
        for per_node in [1, 4] {
            let mut stage = Stage::with(4, per_node, 1, 5, Limits { early, ..LIMITS });
            stage.world.lock().moody = moody;
            let members = stage.everyone();
            let id = stage.create(1, members, None);
            for salt in 0..TIMES {
                // The same again and again, so that nothing of its steps is looked at, then two in turn, and what is in
                // flight together.
                for salt in 0..=LEARNT {
                    stage.play(&[(word(id, Collective::Allreduce, false, salt), members)]);
                }
                if (early, moody) == (128, 0) {
                    assert_eq!(at_a_glance(&mut stage, word(id, Collective::Allreduce, false, salt)), 4);
                }
                stage.play(&[(word(id, Collective::Allreduce, false, salt), members)]);
                stage.play(&[(word(id, Collective::Allreduce, true, salt), members)]);
                let cases =
                    [Collective::Allreduce, Collective::Broadcast, Collective::Scan, Collective::Barrier];
                let case = cases[salt as usize % cases.len()];
                let again = word(id, Collective::Allreduce, false, salt + 1);
                stage.play(&[
                    (again, members),
                    (word(id, case, salt % 3 == 0, salt), members),
                    (again, members),
                ]);
            }
            assert_eq!(stage.protocol_errors(), 0);
        }
    }
}

#[test]
fn g3_a6_a_call_crosses_as_many_boundaries_each_time() {
    let mut stage = Stage::new(4, 2, 1, 6);
    let members = stage.everyone();
    let id = stage.create(1, members, Some(domains(2, 2)));
    let crossings =
        |stage: &Stage| [0, 1, 2, 3].map(|rank| stage.contexts[rank].geometry(id).unwrap().crossings);
    let mut times = (0..5).map(|salt| {
        let before = crossings(&stage);
        stage.play(&[(word(id, Collective::Allreduce, false, salt), members)]);
        let after = crossings(&stage);
        [0, 1, 2, 3].map(|rank| after[rank].since(&before[rank]))
    });
    let first = times.next().unwrap();
    assert_ne!(first[0], Default::default());
    times.for_each(|time| assert_eq!(time, first));
}

#[test]
fn r2_a_call_that_is_known_ends_when_a_member_has_died_and_sends_it_nothing() {
    let mut stage = Stage::new(2, 1, 1, 7);
    let members = stage.everyone();
    let case = Case { size: 2, ..word(pami::WORLD, Collective::Allreduce, false, 1) };
    (0..4).for_each(|_| stage.play(&[(case, members)]));
    stage.rest();
    stage.world.kill(1);
    let before = stage.world.lock().carried;
    // No advance has heard of it.
    stage.start(0, case, 0);
    assert_eq!(stage.world.lock().carried, before);
    let told = stage.told;
    stage.settle("the end", || told.len() == 1);
    assert_eq!(stage.results(), [(0, Err(OperationError::NodeDead(1)))]);
}
