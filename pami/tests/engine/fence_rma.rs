//! Fences of puts, gets and updates, which the target's message unit answers (SPEC F-5, D-5).

use crate::fences::{SWITCH, two};
use crate::machine::{MTU, buffer, machine, pattern};
use crate::stage::{Port, Stage, Told, bytes, get, put, rmw};
use pami::factory::{FenceFunction, PutFunction};
use pami::packet::Kind;
use pami::send::OPERATIONS;
use pami::{Done, ObjectMemory, OperationError, Payload, Put, Rights, Rmw, SendError, Update};

fn fence_rma(stage: &mut Stage, cookie: usize) {
    let (to, done) = (stage.at(1), stage.done(cookie).unwrap());
    assert_eq!(stage[0].fence_rma(to, done), Ok(()));
}

#[test]
fn f5_d5_a_fence_of_one_sided_operations_is_answered_though_the_target_never_advances() {
    for local in [false, true] {
        let mut stage = two(local);
        let region = stage.region(1, &pattern(30_000, 3), Rights::all());
        let (to, handle) = (stage.at(1), region.handle());
        // These it is not behind, which the target has to take in.
        stage.say(0, 1, pattern(10, 0));
        stage.say_told(0, 1, pattern(SWITCH, 0), 9);
        stage.world.lock().seen.clear();
        stage.put(0, put(to, handle, 0, Payload::Static(pattern(3 * MTU, 4).leak())));
        let into = buffer(5000).share();
        assert_eq!(stage[0].get(get(to, handle, 10_000, &into, 5000)), Ok(()));
        let swap = Rmw { done: stage.told.on_fetched(0), ..rmw(to, handle, 29_992, Update::Swap(5)) };
        assert_eq!(stage[0].rmw(swap), Ok(()));
        fence_rma(&mut stage, 1);
        assert_eq!(stage.cookies(), [0; 0], "not inside the call");
        stage.quiet_of(&[0]);
        assert_eq!(stage.cookies(), [1]);
        let now = bytes(region.memory());
        assert_eq!((&now[..3 * MTU], &now[29_992..]), (&pattern(3 * MTU, 4)[..], &5u64.to_le_bytes()[..]));
        assert_eq!(bytes(&into), pattern(30_000, 3)[10_000..15_000]);
        assert_eq!(stage.fetched().len(), 1);
        assert_eq!(stage.world.count(Kind::Fence), 0);
        let gets = stage.world.lock().seen.iter().filter(|seen| seen.0 == Kind::Get && seen.3 == 0).count();
        assert_eq!(gets, usize::from(!local), "within the node there is nobody to ask");
        stage.quiet();
        assert_eq!(stage.cookies(), [9]);
    }
}

#[test]
fn f5_d5_a_fence_of_one_sided_operations_waits_for_those_before_it_to_be_carried_out() {
    let mut stage = two(false);
    let region = stage.region(1, &[0; 20_000], Rights::all());
    let (to, handle) = (stage.at(1), region.handle());
    stage.world.stepped();
    // More than the injection FIFO has room for: the last wait in line, and so does the fence.
    for number in 0..OPERATIONS - 1 {
        stage.put(0, put(to, handle, 8 * number as u32, Payload::Static(pattern(2 * MTU, number).leak())));
    }
    fence_rma(&mut stage, 1);
    let last = 8 * (OPERATIONS - 2);
    while stage.counts().1 == 0 {
        assert_eq!(stage.ends(), []);
        let moved = stage[0].advance();
        let is_done = bytes(region.memory())[last..last + 2 * MTU] == pattern(2 * MTU, OPERATIONS - 2);
        stage.advance(0, 1);
        assert!(is_done || stage.counts().1 == 0, "done behind what it is behind");
        assert!(stage.step(|_| true) || moved > 0 || stage.counts().1 == 1);
    }
    assert_eq!(bytes(region.memory())[last..last + 2 * MTU], pattern(2 * MTU, OPERATIONS - 2));
}

#[test]
fn f5_m3_a_fence_of_one_sided_operations_knows_of_those_that_factories_send_another_way() {
    let mut stage = Stage::closed(machine(2, true), 2, Told::new(), |client| client.factories(8));
    let protocol = stage.clients[0].protocol("ways").unwrap();
    let loops = stage.clients[0].register(&protocol, PutFunction { local_paths: Some(false) }).ok().unwrap();
    let fence = stage.clients[0].register(&protocol, FenceFunction).ok().unwrap();
    stage.open(0, 0);
    stage.open(1, 0);
    let region = stage.region(1, &[0; 64], Rights::all());
    let (to, handle) = (stage.at(1), region.handle());
    stage.world.stepped();
    let word = || Put { local_done: None, ..put(to, handle, 8, Payload::Static(&[7; 8])) };
    assert!(loops.execute(&mut stage[0], word()).is_ok());
    let memory: &'static ObjectMemory<Port> = Box::leak(Box::default());
    let done: Done<Port> = stage.done(1).unwrap();
    assert_eq!(fence.execute_rma_in(memory, &mut stage[0], to, done), Ok(()));
    assert_eq!(fence.execute_rma_in(memory, &mut stage[0], to, done), Err(SendError::MemoryInUse));
    stage.advance(0, 10);
    assert_eq!((stage.ends(), bytes(region.memory())[8]), (vec![], 0), "the put is on its way");
    stage.run(&[0], |_| true);
    assert_eq!((stage.cookies(), bytes(region.memory())[8]), (vec![1], 7));
    assert_eq!(fence.execute_rma(&mut stage[0], to, done), Ok(()));
    stage.advance(0, 1);
    assert_eq!(stage.cookies(), [1], "there is nothing on its way");
}

#[test]
fn d8_f5_a_fence_of_one_sided_operations_to_a_node_that_dies_says_so() {
    let mut stage = two(false);
    stage.world.stepped();
    fence_rma(&mut stage, 1);
    stage.world.kill(1);
    stage.quiet_of(&[0]);
    assert_eq!(stage.ends(), [(1, None, Err(OperationError::NodeDead(1)))]);
    let (to, done) = (stage.at(1), stage.done(2).unwrap());
    assert_eq!(stage[0].fence_rma(to, done), Err(SendError::Dead(1)));
}
