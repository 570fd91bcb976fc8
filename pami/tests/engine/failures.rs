//! What a failed collective costs: some packets for each member, however many see it fail (SPEC R-4).

use crate::machine::{buffer, machine};
use crate::stage::{Port, Stage, Told};
use pami::collective::engine::PROBE_NS;
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Reducer, Tuning};
use pami::packet::Kind;
use pami::{Collect, Done, GeometryId, Limits, OperationError, Pools, WORLD};

const LIMITS: Limits =
    Limits { geometries: 1, in_flight: 4, always: 0, queued: 8, early: 512, domains: None };

/// A context of each of so many tasks, on nodes of their own.
fn contexts(tasks: u32, geometries: usize) -> Stage {
    Stage::of(machine(tasks, false), 1, Told::new(), |client| {
        client.pools(Pools { unexpected: 1, ..Pools::LARGE }).collectives(Limits { geometries, ..LIMITS })
    })
}

/// An allreduce of one word.
fn allreduce(operator: Operator, done: Done<Port>) -> Collect<Port> {
    Collect {
        blocks: Blocks::equal(1),
        sources: Blocks::equal(1),
        input: Some((buffer(8).share(), 0)),
        output: Some((buffer(8).share(), 0)),
        scratch: Some((buffer(64).share(), 0)),
        reducer: Some(Reducer::new(operator, Element::U64).unwrap()),
        algorithm: Some((Algorithm::RecursiveDoubling, Tuning { radix: 2, chunk: 1 })),
        ..Collect::new(WORLD, Collective::Allreduce, done)
    }
}

/// How every member comes to see the failure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    GivenUp,
    Mismatch,
    Death,
}

#[test]
fn r4_a_collective_that_every_member_sees_fail_takes_three_packets_for_each_at_most() {
    use Cause::*;
    for (tasks, cause) in
        [64, 256].into_iter().flat_map(|tasks| [GivenUp, Mismatch, Death].map(|it| (tasks, it)))
    {
        let mut stage = contexts(tasks, 1);
        let calls = tasks as usize - usize::from(cause == Death);
        for number in 0..calls {
            let odd = cause == Mismatch && number % 2 == 1;
            let call =
                allreduce(if odd { Operator::Max } else { Operator::Sum }, stage.done(number).unwrap());
            if cause == GivenUp { stage.abandon(number, 3, number) } else { stage.collect(number, call) }
        }
        if cause == Death {
            stage.quiet();
            stage.contexts.truncate(calls);
            stage.world.kill(tasks - 1);
        }
        stage.quiet();
        // Of each round one, and a clear or a request where there is no credit.
        let rounds = if cause == GivenUp { 0 } else { 2 * tasks as usize * tasks.ilog2() as usize };
        let sent = stage.count(Kind::Collective);
        println!("{tasks} tasks, {cause:?}: {sent} packets, at most {rounds} of them the collective's");
        let right = |end: &Result<(), _>| match end {
            Err(OperationError::Abandoned { reason: 3, .. }) => cause == GivenUp,
            Err(OperationError::Mismatch(_)) => cause == Mismatch,
            Err(OperationError::NodeDead(node)) => cause == Death && *node == tasks - 1,
            _ => false,
        };
        let ended = stage.results();
        assert!(ended.len() == calls && ended.iter().all(|end| right(&end.1)), "{ended:?}");
        // A report, an answer and an announcement for each member.
        assert!(sent <= rounds + 3 * tasks as usize, "{sent} packets, {tasks} tasks, {cause:?}");
    }
}

#[test]
fn r4_members_that_tell_all_at_once_do_not_stop_each_other() {
    let mut stage = contexts(64, 1);
    stage.world.stepped();
    for number in 0..64 {
        let barrier = stage.barrier(WORLD, number);
        if number < 2 { stage.abandon(number, 3, number) } else { stage.collect(number, barrier) }
    }
    // Those two have no room for more than some.
    stage.turn(&[0, 1]);
    stage.world.free_running();
    stage.quiet();
    let ended = stage.results();
    assert_eq!(ended.len(), 64);
    assert!(ended.iter().all(|end| matches!(end.1, Err(OperationError::Abandoned { reason: 3, .. }))));
}

#[test]
fn r4_members_whose_herald_is_silent_are_told_all_the_same() {
    let mut stage = contexts(5, 1);
    for number in 1..5 {
        let barrier = stage.barrier(WORLD, number);
        if number == 3 { stage.abandon(number, 3, number) } else { stage.collect(number, barrier) }
    }
    // The first computes.
    let others = [1, 2, 3, 4];
    stage.quiet_of(&others);
    assert_eq!(stage.results(), []);
    // What has moved since the last look is given another while.
    for _ in 0..3 {
        stage.world.lock().now += PROBE_NS;
        stage.quiet_of(&others);
    }
    let abandoned = Err(OperationError::Abandoned { rank: 3, reason: 3 });
    assert_eq!(stage.results(), others.map(|number| (number, abandoned)));
    // It hears of it, too, and the report is one of something that all know.
    stage.collect(0, stage.barrier(WORLD, 0));
    stage.quiet();
    assert_eq!((stage.results(), stage.protocol_errors()), (vec![(0, abandoned)], 0));
}

/// Makes a geometry of all.
fn create(stage: &mut Stage, id: GeometryId) {
    let all = stage.contexts.len();
    for context in 0..all {
        assert_eq!(stage.new_geometry(context, id.0, stage.everyone(), context), Ok(()));
    }
    stage.quiet();
    assert_eq!(stage.cookies().len(), all);
}

/// Destroys it at all.
fn destroy(stage: &mut Stage, id: GeometryId) {
    stage.contexts.iter_mut().for_each(|context| context.destroy_geometry(id).unwrap());
    stage.quiet();
}

#[test]
fn r4_a_failure_in_a_geometry_whose_number_was_anothers_is_told_to_all() {
    let mut stage = contexts(3, 2);
    let id = GeometryId(1);
    let abandon = |stage: &mut Stage, context: usize| {
        let done = stage.done(context).unwrap();
        stage[context].abandon(id, 3, done).unwrap();
    };
    create(&mut stage, id);
    (0..3).for_each(|context| abandon(&mut stage, context));
    stage.quiet();
    assert_eq!(stage.ends().len(), 3);
    destroy(&mut stage, id);
    // The number is free once so many others were.
    for other in (2..70).map(GeometryId) {
        create(&mut stage, other);
        destroy(&mut stage, other);
    }
    create(&mut stage, id);
    abandon(&mut stage, 2);
    stage.quiet();
    (0..2).for_each(|context| stage.collect(context, stage.barrier(id, context)));
    stage.quiet();
    let ended = stage.results();
    assert!(ended.len() == 3 && ended.iter().all(|end| end.1.is_err()), "{ended:?}");
}
