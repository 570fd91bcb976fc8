//! Fences (SPEC F-1 to F-6).

use crate::machine::{MTU, QUEUE, Step, buffer, machine_of, pattern};
use crate::stage::{GOT, Stage, Told, bytes, get, put, rmw};
use pami::fence::FENCED_AT_ONCE;
use pami::memory::Footprint;
use pami::packet::Kind;
use pami::send::OPERATIONS;
use pami::{ClientBuilder, Get, Payload, Pools, Rights, Rmw, SendError, Update};

pub const SWITCH: usize = 4 * MTU;

pub fn two(local: bool) -> Stage {
    Stage::pair(local, |client| client.rendezvous_from(SWITCH))
}

/// What comes last of what can go.
pub fn answers_last(stage: &Stage) -> bool {
    stage.step(|step| matches!(step, Step::Send(_))) || stage.step(|_| true)
}

#[test]
fn f1_a_fence_waits_for_the_sends_before_it_over_every_path() {
    for local in [false, true] {
        let mut stage = two(local);
        for size in [1, MTU + 1, SWITCH, 20 * MTU] {
            stage.say(0, 1, pattern(size, 0));
        }
        let to = stage.at(1);
        stage[0].retry(|active| active.send_immediate(to, 0, &[], b"now")).unwrap_or(());
        stage.fence(0, 1, 1);
        stage.advance(0, 50);
        assert_eq!(stage.counts().1, 0, "nobody has received anything");
        stage.quiet();
        assert_eq!(stage.order(), [GOT, GOT, GOT, GOT, GOT, 1]);
    }
}

#[test]
fn f1_a_fence_with_nothing_before_it_is_done_and_not_inside_the_call() {
    for local in [false, true] {
        let mut stage = two(local);
        stage.fence(0, 1, 1);
        assert_eq!(stage.order(), [0; 0]);
        stage.quiet();
        assert_eq!(stage.order(), [1]);
        assert_eq!(stage.immediate(0, 0, b"self"), Ok(()));
        stage.fence(0, 0, 2);
        stage.quiet_of(&[0]);
        assert_eq!(stage.order(), [GOT, 2]);
    }
}

#[test]
fn f1_other_traffic_goes_on_while_a_fence_waits() {
    let mut stage = Stage::talk(3, false, |client| client.rendezvous_from(SWITCH));
    let (stalled, other) = (1, 2);
    stage.say(0, stalled, pattern(10, 0));
    stage.fence(0, stalled, 1);
    for number in 0..100 {
        stage.say(0, other, pattern(600, number));
        stage.quiet_of(&[0, other]);
    }
    assert_eq!(stage.counts(), (100, 0));
    stage.quiet_of(&[0, stalled]);
    assert_eq!(stage.cookies(), [1]);
}

#[test]
fn f1_a_fence_waits_for_kept_messages_and_not_for_those_that_came_after_it() {
    for (local, size) in [(false, 10), (true, 10), (false, 2 * SWITCH)] {
        let mut stage = two(local);
        for number in [1, 2] {
            stage.say_later(0, 1, pattern(size, number));
            stage.fence(0, 1, number);
        }
        stage.quiet();
        assert_eq!((stage.kept(1), stage.order()), (2, vec![]));
        for number in [1, 2] {
            stage.accept(1);
            stage.quiet();
            assert_eq!(stage.order(), [GOT, number]);
        }
    }
}

#[test]
fn f5_a_fence_covers_puts_gets_and_updates() {
    for local in [false, true] {
        let mut stage = two(local);
        let region = stage.region(1, &pattern(30_000, 3), Rights::all());
        let (to, handle) = (stage.at(1), region.handle());
        stage.world.stepped();
        // Nobody asks for its end: the fence is all there is.
        stage.put(0, put(to, handle, 0, Payload::Static(pattern(10_000, 4).leak())));
        let into = buffer(20_000).share();
        let (got, fetched) = (stage.done(1), stage.told.on_fetched(0));
        assert_eq!(stage[0].get(Get { done: got, ..get(to, handle, 10_000, &into, 20_000) }), Ok(()));
        let swap = Rmw { done: fetched, ..rmw(to, handle, 29_992, Update::Swap(5)) };
        assert_eq!(stage[0].rmw(swap), Ok(()));
        stage.fence(0, 1, 2);
        for _ in 0..10_000 {
            stage[0].advance();
            stage[1].advance();
            if stage.counts().1 == 2 {
                break;
            }
            answers_last(&stage);
        }
        let now = bytes(region.memory());
        assert_eq!(now[..10_000], pattern(10_000, 4));
        assert_eq!(stage.order(), [1, 2]);
        assert_eq!(now[29_992..], 5u64.to_le_bytes());
        assert!(stage.fetched().iter().all(|fetched| fetched.result.is_ok()));
        assert!(into.reclaim().is_ok());
    }
}

#[test]
fn f6_two_fences_in_flight_complete_in_order() {
    for local in [false, true] {
        let mut stage = two(local);
        stage.say(0, 1, pattern(SWITCH, 0));
        stage.fence(0, 1, 1);
        stage.say(0, 1, pattern(100, 0));
        stage.fence(0, 1, 2);
        stage.fence(0, 1, 3);
        stage.quiet();
        assert_eq!(stage.cookies(), [1, 2, 3]);
        let order = stage.order();
        let received = order.iter().take_while(|&&event| event != 2).filter(|&&event| event == GOT).count();
        assert_eq!(received, 2, "{order:?}");
    }
}

#[test]
fn f6_a_fence_that_finds_the_fifo_full_waits_in_line() {
    let mut stage = two(false);
    let mut sent = 0;
    while stage.immediate(0, 1, &[7]) == Ok(()) {
        sent += 1;
        stage[0].advance();
    }
    assert!(sent >= 2 * QUEUE);
    stage.fence(0, 1, 1);
    assert_eq!(stage.immediate(0, 1, &[8]), Err(SendError::Again), "it would overtake the fence");
    stage.quiet();
    let order = stage.order();
    assert_eq!((order.len(), order.last()), (sent + 1, Some(&1)));
}

#[test]
fn f6_room_that_comes_and_goes_lets_no_fence_overtake() {
    for seed in 1..300 {
        let told = Told::new();
        let mut stage = Stage::of(machine_of(2, 1), 1, told, |client| {
            client.rendezvous_from(SWITCH).dispatch(0, told.taker())
        });
        stage.world.lock().moody = seed;
        // Nobody asks for the end of the sends, so nothing but their order tells the fence of them.
        for size in [20, SWITCH, 1, 600, 2 * SWITCH, 5] {
            stage.say(0, 1, pattern(size, 0));
        }
        match seed % 2 {
            0 => stage.fence(0, 1, 1),
            _ => assert_eq!(stage.fence_tasks(0, 0..2, 1), Ok(())),
        }
        while stage.counts().1 == 0 {
            stage[0].advance();
            stage[1].advance();
        }
        assert_eq!(stage.order(), [GOT, GOT, GOT, GOT, GOT, GOT, 1], "{seed}");
        let state = stage.world.lock();
        let gets = state.seen.iter().filter(|seen| seen.0 == Kind::Get && seen.1 == 1).map(|seen| seen.3);
        assert!(gets.eq([SWITCH, 2 * SWITCH, 0]), "{seed}: the get of nothing is the last");
    }
}

#[test]
fn f6_as_many_fences_as_there_are_places_all_complete() {
    let mut stage = two(false);
    (0..OPERATIONS).for_each(|number| stage.fence(0, 1, number));
    let (to, done) = (stage.at(1), stage.done(0).unwrap());
    assert_eq!(stage[0].fence(to, done), Err(SendError::Again));
    stage.quiet();
    assert_eq!(stage.ends().len(), OPERATIONS);
}

#[test]
fn f5_a_fence_over_tasks_waits_for_all_their_contexts() {
    const TASKS: u32 = 12;
    static SOME: [u32; 3] = [0, 7, 11];
    let told = Told::new();
    let mut stage = Stage::of(machine_of(TASKS, 2), 2, told, |client| {
        client.rendezvous_from(SWITCH).dispatch(0, told.taker())
    });
    let all = stage.contexts.len();
    for to in 0..all {
        let bytes = pattern(if to % 3 == 0 { SWITCH } else { 50 }, to);
        let target = stage.at(to);
        let send = |active: &mut pami::Active<_>| {
            active.send(crate::stage::message(target, bytes.clone())).map_err(|(error, _)| error)
        };
        stage[0].retry(send).unwrap();
    }
    let (whole, some, none) = (1, 2, 3);
    assert_eq!(stage.fence_tasks(0, 0..TASKS, whole), Ok(()));
    assert_eq!(stage.fence_tasks(0, &SOME[..], some), Ok(()));
    assert_eq!(stage.fence_tasks(0, 0..0, none), Ok(()));
    assert_eq!(stage.fence_tasks(0, 0..TASKS + 1, 9), Err(SendError::Unreachable));
    // All but one endpoint take part.
    stage.quiet_of(&(0..all - 1).collect::<Vec<_>>());
    assert_eq!(stage.cookies(), [none]);
    stage.quiet();
    let mut ended = stage.cookies();
    ended.sort_unstable();
    assert_eq!((stage.data().len(), ended), (all, vec![whole, some]));
}

#[test]
fn f4_a_fence_leaves_nothing_at_the_target_or_the_origin_when_it_is_done() {
    let mut stage = two(false);
    for number in 0..1000 {
        stage.fence(0, 1, number);
        stage.quiet();
    }
    assert_eq!(stage.ends().len(), 1000);
    assert_eq!([stage.destroy(0), stage.destroy(1)], [Ok(()); 2]);
}

#[test]
fn f4_fences_take_no_byte_for_any_message_or_peer() {
    // What grows with peers is a place for the answers to each and, up to a limit, one for half a message; with messages,
    // nothing does: a context has a fixed number of places, and what a fence remembers fits where a send's header and data are noted.
    let of = |tasks: u32| {
        let nodes = machine_of(tasks, 1);
        ClientBuilder::new(nodes[0], "size").pools(Pools::LARGE).create().unwrap().footprint()
    };
    let (small, large) = (of(2), of(64));
    let Footprint { halves, records, origin, ack, .. } = small;
    assert_eq!(small, Footprint { halves, records, ..large });
    let more = (large.halves - halves) * origin + (large.records - records) * ack;
    assert_eq!(large.bytes() - small.bytes(), more);
}

#[test]
fn f4_a_send_after_fences_does_what_it_did_before_them() {
    // The same packets, the same bytes, the same numbers.
    let trace = |fences: usize| {
        let mut stage = two(false);
        for number in 0..fences {
            stage.fence(0, 1, number);
            stage.quiet();
        }
        stage.world.lock().seen.clear();
        for size in [5, 5 * MTU - 100, 2 * SWITCH] {
            stage.say_told(0, 1, pattern(size, 0), 0);
            stage.quiet();
        }
        stage.world.lock().seen.clone()
    };
    assert_eq!(trace(0), trace(10));
}

#[test]
fn f5_a_fence_over_more_targets_than_are_asked_at_once_waits_for_the_last_of_them() {
    let tasks = FENCED_AT_ONCE + 4;
    let mut stage = Stage::of(machine_of(tasks as u32, 1), 1, Told::new(), |client| {
        client.dispatch_deferring(pami::packet::DEFERRING, crate::stage::always_later())
    });
    let last = tasks - 1;
    stage.say_later(0, last, pattern(10, 0));
    assert_eq!(stage.fence_tasks(0, 0..tasks as u32, 0), Ok(()));
    // However long the others take.
    stage.quiet_of(&[0]);
    stage.quiet();
    assert_eq!((stage.kept(last), stage.counts().1), (1, 0));
    stage.discard(last);
    stage.quiet();
    assert_eq!(stage.cookies(), [0]);
}
