//! What a failed collective costs: some packets for each member, however many see it fail (SPEC R-4).

use crate::machine::{World, buffer, machine};
use crate::scene::{Port, advance_all, context, ends};
use crate::stage::results;
use pami::collective::engine::PATIENCE_NS;
use pami::collective::{Algorithm, Blocks, Collective, Element, Operator, Reducer, Tuning};
use pami::geometry::Members;
use pami::packet::Kind;
use pami::{
    ClientBuilder, Collect, Context, Done, GeometryId, Limits, NewGeometry, OperationError, Pools, WORLD,
};

const LIMITS: Limits =
    Limits { geometries: 1, in_flight: 4, always: 0, queued: 8, early: 512, domains: None };

/// A context of each of so many tasks, on nodes of their own.
fn contexts(tasks: u32) -> (&'static World, Vec<Context<Port>>) {
    contexts_within(tasks, LIMITS)
}

fn contexts_within(tasks: u32, limits: Limits) -> (&'static World, Vec<Context<Port>>) {
    let nodes = machine(tasks, false);
    let world = nodes[0].world;
    let create = |node| {
        ClientBuilder::new(node, "failures")
            .pools(Pools { unexpected: 1, ..Pools::LARGE })
            .collectives(limits)
            .create()
    };
    (world, nodes.into_iter().map(|node| context(&mut create(node).unwrap(), 0)).collect())
}

fn advance(contexts: &mut [Context<Port>]) {
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
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

/// Most packets for a failure: a report, an answer and an announcement for each member.
fn most(tasks: u32) -> usize {
    3 * tasks as usize
}

#[test]
fn r4_a_collective_that_every_member_gives_up_takes_three_packets_for_each_at_most() {
    for tasks in [64, 256] {
        let (world, mut contexts) = contexts(tasks);
        let (ended, done) = ends();
        for context in &mut contexts {
            context.abandon(WORLD, 3, done(0).unwrap()).unwrap();
        }
        advance(&mut contexts);
        let sent = world.count(Kind::Collective);
        println!("{tasks} tasks: {sent} packets");
        let abandoned = |end: &Result<_, _>| matches!(end, Err(OperationError::Abandoned { reason: 3, .. }));
        let ended = results(ended);
        assert!(ended.len() == contexts.len() && ended.iter().all(|end| abandoned(&end.1)), "{ended:?}");
        assert!(sent <= most(tasks), "{sent} packets, {tasks} tasks");
    }
}

#[test]
fn r4_a_mismatch_or_a_death_that_every_member_sees_takes_three_packets_for_each_at_most() {
    for (tasks, dies) in [(64, false), (64, true), (256, false), (256, true)] {
        let (world, mut contexts) = contexts(tasks);
        let (ended, done) = ends();
        let calls = tasks as usize - usize::from(dies);
        for (number, context) in contexts.iter_mut().enumerate().take(calls) {
            let operator = if dies || number % 2 == 0 { Operator::Sum } else { Operator::Max };
            context.collect(allreduce(operator, done(number).unwrap())).unwrap();
        }
        if dies {
            advance(&mut contexts);
            contexts.truncate(calls);
            world.kill(tasks - 1);
        }
        advance(&mut contexts);
        // Of each round one, and a clear or a request where there is no credit.
        let rounds = 2 * tasks as usize * tasks.ilog2() as usize;
        let sent = world.count(Kind::Collective);
        println!("{tasks} tasks: {sent} packets, at most {rounds} of them the collective's");
        let ended = results(ended);
        let right = |end: &Result<(), _>| match end {
            Err(OperationError::NodeDead(node)) => dies && *node == tasks - 1,
            end => !dies && matches!(end, Err(OperationError::Mismatch(_))),
        };
        assert!(ended.len() == contexts.len() && ended.iter().all(|end| right(&end.1)), "{ended:?}");
        assert!(sent <= rounds + most(tasks), "{sent} packets, {tasks} tasks");
    }
}

#[test]
fn r4_members_that_tell_all_at_once_do_not_stop_each_other() {
    let (world, mut contexts) = contexts(64);
    let (ended, done) = ends();
    world.stepped();
    for (number, context) in contexts.iter_mut().enumerate() {
        if number < 2 {
            context.abandon(WORLD, 3, done(number).unwrap()).unwrap();
        } else {
            context.collect(Collect::new(WORLD, Collective::Barrier, done(number).unwrap())).unwrap();
        }
    }
    // Those two have no room for more than some.
    contexts[..2].iter_mut().for_each(|context| _ = context.advance());
    world.free_running();
    advance(&mut contexts);
    let ended = results(ended);
    assert_eq!(ended.len(), contexts.len());
    assert!(ended.iter().all(|end| matches!(end.1, Err(OperationError::Abandoned { reason: 3, .. }))));
}

#[test]
fn r4_members_whose_herald_is_silent_are_told_all_the_same() {
    let (world, mut contexts) = contexts(5);
    let (ended, done) = ends();
    for (number, context) in contexts.iter_mut().enumerate().skip(1) {
        if number == 3 {
            context.abandon(WORLD, 3, done(number).unwrap()).unwrap();
        } else {
            context.collect(Collect::new(WORLD, Collective::Barrier, done(number).unwrap())).unwrap();
        }
    }
    // The first computes.
    advance(&mut contexts[1..]);
    assert_eq!(results(ended), []);
    // What has moved since the last look is given another while.
    for _ in 0..3 {
        world.lock().now += PATIENCE_NS;
        advance(&mut contexts[1..]);
    }
    let abandoned = Err(OperationError::Abandoned { rank: 3, reason: 3 });
    assert_eq!(results(ended), [1, 2, 3, 4].map(|number| (number, abandoned)));
    // It hears of it, too, and the report is one of something that all know.
    contexts[0].collect(Collect::new(WORLD, Collective::Barrier, done(0).unwrap())).unwrap();
    advance(&mut contexts);
    assert_eq!(results(ended)[0], (0, abandoned));
    assert_eq!(contexts.iter().map(|context| context.counters().protocol_errors).sum::<u64>(), 0);
}

/// Makes a geometry of all.
fn create(contexts: &mut [Context<Port>], id: GeometryId) {
    let (ended, done) = ends();
    for context in contexts.iter_mut() {
        let members = Members::world(context.population(), 0..1).unwrap();
        let new = NewGeometry { id, members, domains: None, done: done(0).unwrap() };
        context.create_geometry(new).unwrap();
    }
    advance(contexts);
    assert!(
        ended.lock().unwrap().len() == contexts.len()
            && ended.lock().unwrap().iter().all(|end| end.2.is_ok())
    );
}

/// Destroys it at all.
fn destroy(contexts: &mut [Context<Port>], id: GeometryId) {
    for context in contexts.iter_mut() {
        context.destroy_geometry(id).unwrap();
    }
    advance(contexts);
}

#[test]
fn r4_a_failure_in_a_geometry_whose_number_was_anothers_is_told_to_all() {
    let (_, mut contexts) = contexts_within(3, Limits { geometries: 2, ..LIMITS });
    let id = GeometryId(1);
    create(&mut contexts, id);
    let (ended, done) = ends();
    for context in &mut contexts {
        context.abandon(id, 3, done(0).unwrap()).unwrap();
    }
    advance(&mut contexts);
    assert_eq!(ended.lock().unwrap().len(), 3);
    destroy(&mut contexts, id);
    // The number is free once so many others were.
    for other in (2..70).map(GeometryId) {
        create(&mut contexts, other);
        destroy(&mut contexts, other);
    }
    create(&mut contexts, id);
    let (ended, done) = ends();
    contexts[2].abandon(id, 3, done(2).unwrap()).unwrap();
    advance(&mut contexts);
    for number in [0, 1] {
        let barrier = Collect::new(id, Collective::Barrier, done(number).unwrap());
        contexts[number].collect(barrier).unwrap();
    }
    advance(&mut contexts);
    let ended = results(ended);
    assert!(ended.len() == 3 && ended.iter().all(|end| end.1.is_err()), "{ended:?}");
}
