//! Fences of many endpoints by one operation: of tasks' contexts, of geometries (SPEC F-5).

use crate::machine::{machine_of, pattern};
use crate::stage::{LIMITS, Port, Stage, Told};
use pami::endpoint::{ContextOffset, Endpoint};
use pami::factory::FenceFunction;
use pami::geometry::Members;
use pami::send::OPERATIONS;
use pami::{FenceScope, GeometryError, GeometryId, ObjectMemory, OperationError, SendError, WORLD};

const TASKS: u32 = 4;
const CONTEXTS: u8 = 3;

/// Two tasks on each node, each with three contexts.
fn stage() -> Stage {
    let told = Told::new();
    Stage::of(machine_of(TASKS, 2), CONTEXTS, told, |client| {
        client.collectives(LIMITS).factories(2).dispatch(0, told.taker())
    })
}

fn endpoint(stage: &Stage, task: u32, context: u8) -> Endpoint {
    Endpoint::from_parts(stage.at(0).client(), task, ContextOffset(context))
}

fn fence_geometry(stage: &mut Stage, from: usize, id: GeometryId, scope: FenceScope, cookie: usize) {
    let done = stage.done(cookie).unwrap();
    assert_eq!(stage[from].fence_geometry(id, scope, done), Ok(()));
}

/// A fence that context 0 begins waits for these contexts, and no others.
fn waits_for(begin: impl Fn(&mut Stage), targets: &[(u32, u8)]) {
    for task in 0..TASKS {
        for context in 0..CONTEXTS {
            let mut stage = stage();
            let silent = stage.per_task * task as usize + usize::from(context);
            if silent == 0 {
                continue;
            }
            for to in 0..stage.contexts.len() {
                stage.say(0, to, pattern(50, to));
            }
            begin(&mut stage);
            let others: Vec<_> = (0..stage.contexts.len()).filter(|&at| at != silent).collect();
            stage.quiet_of(&others);
            let waits = targets.contains(&(task, context));
            assert_eq!(stage.counts().1, usize::from(!waits), "{context} of task {task}");
            stage.quiet();
            assert_eq!(stage.counts(), (others.len() + 1, 1));
        }
    }
}

fn all_of(tasks: &[u32]) -> Vec<(u32, u8)> {
    tasks.iter().flat_map(|&task| (0..CONTEXTS).map(move |context| (task, context))).collect()
}

#[test]
fn f5_g1_a_fence_of_a_geometry_waits_for_its_endpoints_or_for_all_contexts_of_its_tasks() {
    for scope in [FenceScope::Members, FenceScope::AllContexts] {
        let contexts = |members: &[(u32, u8)], tasks: &[u32]| match scope {
            FenceScope::Members => members.to_vec(),
            FenceScope::AllContexts => all_of(tasks),
        };
        let world = contexts(&[(0, 0), (1, 0), (2, 0), (3, 0)], &[0, 1, 2, 3]);
        waits_for(|stage| fence_geometry(stage, 0, WORLD, scope, 1), &world);
        let made = |stage: &mut Stage, members| {
            let id = stage.create(1, members, None);
            fence_geometry(stage, 0, id, scope, 1);
        };
        let two = |stage: &Stage| Members::range(stage.population(), 0..2, 0, 2, 3).unwrap();
        let listed = contexts(&[(0, 0), (0, 1), (3, 0), (3, 1)], &[0, 3]);
        waits_for(|stage| made(stage, two(stage)), &listed);
        // One of task 2 serves task 0.
        let members = [(0, 2), (0, 0), (2, 1), (3, 1), (3, 2)];
        let grouped = |stage: &Stage| {
            let list: Vec<_> =
                members.iter().map(|&(task, context)| endpoint(stage, task, context)).collect();
            let index = vec![0; list.len()].leak();
            Members::grouped(stage.population(), list.leak(), &[0, 3], index).unwrap()
        };
        waits_for(|stage| made(stage, grouped(stage)), &contexts(&members, &[0, 2, 3]));
    }
}

#[test]
fn f5_a_fence_of_some_contexts_of_tasks_waits_for_these_alone() {
    let begin = |stage: &mut Stage| {
        let done = stage.done(1).unwrap();
        assert_eq!(stage[0].fence_contexts(1..4, 1..CONTEXTS + 1, done), Err(SendError::Unreachable));
        assert_eq!(stage[0].fence_contexts(1..4, 1..3, done), Ok(()));
    };
    waits_for(begin, &[(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]);
}

#[test]
fn f5_r1_everyone_asks_another_endpoint_first() {
    for of_geometry in [true, false] {
        let mut stage = Stage::of(machine_of(TASKS, 1), 1, Told::new(), |client| client.collectives(LIMITS));
        for task in 0..TASKS as usize {
            if of_geometry {
                fence_geometry(&mut stage, task, WORLD, FenceScope::Members, task);
            } else {
                assert_eq!(stage.fence_tasks(task, 0..TASKS, task), Ok(()));
            }
        }
        stage.quiet();
        assert_eq!(stage.ends().len(), TASKS as usize);
        for task in 0..TASKS {
            let fences: Vec<_> = stage.world.fences_of(task).into_values().collect();
            let order = (1..=TASKS).map(|step| ((task + step) % TASKS, 0)).filter(|target| target.0 != task);
            assert_eq!(fences, [order.collect::<Vec<_>>()], "one operation asks all");
        }
    }
}

#[test]
fn f5_g1_a_geometry_is_not_forgotten_before_its_fences_end() {
    for places in [OPERATIONS, 0] {
        let mut stage = stage();
        let members = stage.everyone();
        let id = stage.create(1, members, None);
        let protocol = stage.clients[0].protocol("fences").unwrap();
        let factory = stage.clients[0].register(&protocol, FenceFunction).ok().unwrap();
        // If no place is free it waits in its caller's memory.
        (places..OPERATIONS).for_each(|_| stage.fence(0, 1, 0));
        let memory: &'static ObjectMemory<Port> = Box::leak(Box::default());
        let done = stage.done(9).unwrap();
        let fence = (id, FenceScope::AllContexts);
        assert_eq!(factory.execute_geometry_in(memory, &mut stage[0], fence, done), Ok(()));
        let again = factory.execute_geometry_in(memory, &mut stage[0], fence, done);
        assert_eq!(again, Err(SendError::MemoryInUse));
        assert_eq!(stage[0].destroy_geometry(id), Err(GeometryError::Busy(id)));
        stage.quiet();
        assert_eq!(stage.cookies().last(), Some(&9));
        assert_eq!(stage[0].destroy_geometry(id), Ok(()));
        let gone = stage[0].fence_geometry(id, FenceScope::Members, done);
        assert_eq!(gone, Err(SendError::UnknownGeometry(id)));
        let gone = factory.execute_geometry(&mut stage[0], id, FenceScope::Members, done);
        assert_eq!(gone, Err(SendError::UnknownGeometry(id)));
        // Context 1 is in no world.
        let none = stage[1].fence_geometry(WORLD, FenceScope::Members, done);
        assert_eq!(none, Err(SendError::UnknownGeometry(WORLD)));
    }
}

#[test]
fn d8_f5_a_fence_of_a_geometry_with_a_dead_member_fences_the_others_and_names_it() {
    let told = Told::new();
    let mut stage =
        Stage::of(machine_of(3, 1), 1, told, |client| client.collectives(LIMITS).dispatch(0, told.taker()));
    stage.say(0, 2, pattern(10, 2));
    stage.world.kill(1);
    fence_geometry(&mut stage, 0, WORLD, FenceScope::Members, 5);
    stage.quiet_of(&[0, 1]);
    assert_eq!(stage.counts(), (0, 0));
    stage.quiet_of(&[0, 2]);
    assert_eq!(stage.ends(), [(5, None, Err(OperationError::NodeDead(1)))]);
}
