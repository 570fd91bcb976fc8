//! Collectives that are given up before the others know of them (SPEC ).

use crate::stage::{Case, LIMITS, Stage, ends};
use crate::stray_collectives::{ABORT, forge};
use pami::collective::{Algorithm, Collective, Form};
use pami::geometry::Members;
use pami::{Collect, CollectError, GeometryError, GeometryId, Limits, NewGeometry, OperationError, WORLD};

/// Geometries that a context has beside the world.
const MADE: usize = LIMITS.geometries - 1;
const CALLS: usize = 20;

fn reason(id: u32, call: usize) -> u16 {
    id as u16 * 100 + (call / 7) as u16
}

/// Each of tasks `1..` makes all the geometries it can with task 0, and gives up many collectives in each, before task 0 has made
/// the first. Then that makes them, and begins the collectives. Returns the errors of the creations, and the results of the
/// collectives at task 0, by geometry and call.
#[expect(clippy::type_complexity, reason = "only here")]
fn given_up_before_it_is_made(
    others: u32,
    early: usize,
) -> (Vec<OperationError>, Vec<(u32, usize, Result<(), OperationError>)>) {
    let mut stage = Stage::with(1 + others, 1, 1, early as u64, Limits { early, ..LIMITS });
    let population = stage.population();
    let (made, done_making) = ends();
    let (ended, done) = ends();
    let new = |id: u32| {
        NewGeometry::new(
            GeometryId(id),
            Members::range(population, 0..1, 0, 2, id / 10).unwrap(),
            done_making(id as usize).unwrap(),
        )
    };
    let ids = (1..=others).flat_map(|other| (0..MADE as u32).map(move |geometry| 10 * other + geometry));
    for id in ids.clone() {
        let other = id as usize / 10;
        stage.contexts[other].create_geometry(new(id)).unwrap();
        for call in 0..CALLS {
            let abandoned = ended.len() + 1;
            stage.contexts[other].abandon(GeometryId(id), reason(id, call), done(0).unwrap()).unwrap();
            stage.settle("giving up", || ended.len() == abandoned);
        }
    }
    stage.rest();
    assert_eq!(made.len(), 0);
    let mut all = Vec::new();
    for id in ids {
        assert_ne!(stage.contexts[0].create_geometry(new(id)), Err(GeometryError::Again));
        stage.settle("creation", || made.list().iter().filter(|end| end.0 == id as usize).count() == 2);
        let (ended, done) = ends();
        for call in 0..CALLS {
            let barrier = Collect::new(GeometryId(id), Collective::Barrier, done(call).unwrap());
            stage.contexts[0].collect(barrier).unwrap();
            stage.settle("a collective that was given up", || ended.len() == call + 1);
        }
        all.extend(ended.results().into_iter().map(|(call, result)| (id, call, result)));
        for member in [0, id as usize / 10] {
            stage.contexts[member].destroy_geometry(GeometryId(id)).unwrap();
        }
    }
    stage.rest();
    // Others are as they were.
    let case = Case { what: Collective::Allreduce, size: 1 + others, len: 20, ..Case::default() };
    stage.play(&[(case, stage.everyone())]);
    let failed = made.results().into_iter().filter_map(|(_, result)| result.err()).collect();
    (failed, all)
}

#[test]
fn r1_r4_collectives_that_were_given_up_before_their_geometry_is_made_end_as_they_should() {
    for early in [0, 3, 128] {
        let (failed, all) = given_up_before_it_is_made(1, early);
        assert_eq!((failed, all.len()), (vec![], MADE * CALLS));
        for (id, call, result) in all {
            let error = OperationError::Abandoned { rank: 1, reason: reason(id, call) };
            assert_eq!(result, Err(error), "geometry {id}, collective {call}");
        }
    }
}

#[test]
fn r1_r4_of_however_many_geometries_collectives_were_given_up_they_end_with_an_error() {
    for early in [0, 128] {
        let others = 4;
        let (failed, all) = given_up_before_it_is_made(others, early);
        assert_eq!(all.len(), others as usize * MADE * CALLS);
        let abandoned = |error: &OperationError| matches!(error, OperationError::Abandoned { .. });
        assert!(failed.iter().all(abandoned), "{failed:?}");
        assert!(all.iter().all(|(_, _, result)| result.as_ref().is_err_and(abandoned)), "{all:?}");
        // Two of them know the way: both members of each geometry hear the same.
        assert_eq!(failed.len() % 2, 0);
    }
}

#[test]
fn r1_r4_calls_that_were_given_up_before_they_began_here_end_with_an_error() {
    let numbers = [5, 900, 17, 3, 4, 1 << 31, 77, 78, 60_000, u32::MAX, 79, 16, 1 << 30, 3 << 30, 901, 0];
    for early in [0, 3, 128] {
        let mut stage = Stage::with(2, 1, 1, early as u64, Limits { early, ..LIMITS });
        for number in numbers {
            let origin = stage.at(1);
            forge(&mut stage, origin, ABORT, [0, number, 1 << 31, 2 | 7 << 16, 1], &[]);
        }
        assert_eq!(stage.contexts[0].counters().protocol_errors, 0);
        let case = Case {
            what: Collective::Broadcast,
            algorithm: Some(Algorithm::Binomial),
            size: 2,
            len: 1,
            in_place: true,
            ..Case::default()
        };
        let (ended, done) = ends();
        for (place, number) in numbers.into_iter().enumerate() {
            let collect =
                Collect { form: Form::RootOnly, number, ..case.call(case.memory(0), done(place).unwrap()) };
            assert_ne!(stage.contexts[0].collect(collect), Err(CollectError::Form));
            stage.settle("a call that was given up", || ended.len() == place + 1);
        }
        let abandoned = Err(OperationError::Abandoned { rank: 1, reason: 7 });
        for (place, result) in ended.results() {
            assert_eq!(result, abandoned, "number {}", numbers[place]);
        }
        assert_eq!(stage.contexts[0].geometry(WORLD).unwrap().started, 0);
    }
}
