//! Members that are ahead of others, or wait for them (SPEC, G-6).

use crate::stage::{Case, LIMITS, Port, Stage, leak, shared, with_scratch};
use pami::collective::{Algorithm, Blocks, Collective, Element, Form, Operator, Reducer};
use pami::geometry::Members;
use pami::packet::Kind;
use pami::{
    Active, Announcement, Collect, CollectError, Done, GeometryId, Limits, OnAnnounced, OperationError, WORLD,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Collectives that one member ends while no other begins any.
fn done_alone(stage: &mut Stage, context: usize, call: impl Fn(Done<Port>) -> Collect<Port>) -> usize {
    let told = stage.told;
    for _ in 0..60 {
        let active = &mut stage.contexts[context];
        let collect = with_scratch(active, call(told.done(0).unwrap())).unwrap();
        assert!(matches!(active.collect(collect), Ok(()) | Err(CollectError::Full { .. })));
        (0..50).for_each(|_| stage.tick());
    }
    stage.rest();
    stage.ends().len()
}

#[test]
fn r1_a_member_that_waits_for_nobody_is_two_windows_ahead_at_most() {
    let uneven = |bounds: [usize; 4]| Blocks::listed(bounds.to_vec().leak()).unwrap();
    let plain = |what, blocks, sources| {
        move |done| Collect {
            input: Some((shared(&[1; 8]), 0)),
            output: Some((shared(&[0; 8]), 0)),
            reducer: Reducer::new(Operator::Sum, Element::U64).ok().filter(|_| what == Collective::Allreduce),
            blocks,
            sources,
            ..Collect::new(WORLD, what, done)
        }
    };
    let (none, one) = (Blocks::equal(0), Blocks::equal(1));
    let (first, last) = (uneven([0, 1, 1, 1]), uneven([0, 1, 1, 2]));
    for (rank, what, blocks, sources) in [
        (0, Collective::Broadcast, one, one),
        (0, Collective::Allreduce, none, none),
        (0, Collective::Allgather, none, none),
        (0, Collective::Allgather, first, first),
        (1, Collective::Alltoall, last, none),
    ] {
        let mut stage = Stage::with(3, 1, 1, 1, Limits { in_flight: 128, early: 512, ..LIMITS });
        // All but the eighth, which has a barrier in front, and those that may begin before that is done.
        assert_eq!(done_alone(&mut stage, rank, plain(what, blocks, sources)), 14, "{what:?} {blocks:?}");
    }
    // So it is with one that has no share of what its task does.
    let mut stage = Stage::with(2, 1, 2, 1, Limits { in_flight: 128, early: 512, ..LIMITS });
    let members = Members::world(stage.population(), 0..2).unwrap();
    let id = stage.create(1, members, None);
    let sum = plain(Collective::Allreduce, one, one);
    let shares = |done| Collect { geometry: id, divided: true, ..sum(done) };
    // The creation was the first.
    assert_eq!(done_alone(&mut stage, 1, shares), 13);
}

fn case(geometry: u32, what: Collective, len: usize) -> Case {
    Case { geometry: GeometryId(geometry), what, size: 2, len, ..Case::default() }
}

#[test]
fn r1_collectives_wait_neither_for_those_of_another_geometry_nor_for_calls() {
    let mut stage = Stage::new(2, 1, 1, 2);
    let members = stage.everyone();
    let id = stage.create(1, members, None);
    let told = stage.told;
    // A barrier that the other does not begin, and a call that it does not hear of.
    stage.start(0, case(0, Collective::Barrier, 0), 0);
    let call =
        Case { algorithm: Some(Algorithm::Flat), in_place: true, ..case(1, Collective::Broadcast, 900) };
    let collect = call.call(call.memory(0), told.done(1).unwrap());
    stage.contexts[0].collect(Collect { form: Form::RootOnly, number: 0, ..collect }).unwrap();
    for _ in 0..20 {
        stage.play(&[(case(id.0, Collective::Allreduce, 3), members)]);
    }
    assert_eq!(stage.ends(), []);
}

#[test]
fn r1_r4_what_one_geometry_has_in_flight_leaves_room_for_every_other() {
    let mut stage = Stage::with(2, 1, 1, 3, Limits { in_flight: 2, ..LIMITS });
    let members = stage.everyone();
    (1..8).for_each(|id| _ = stage.create(id, members, None));
    let barrier = |stage: &mut Stage, id| {
        let barrier = stage.barrier(GeometryId(id), 0);
        stage[0].collect(barrier)
    };
    let most = (0..60).take_while(|_| barrier(&mut stage, 0).is_ok()).count();
    assert!((2..60).contains(&most));
    for id in 1..8 {
        assert_eq!(barrier(&mut stage, id), Ok(()), "geometry {id}");
    }
}

#[test]
fn r2_the_death_of_a_node_leaves_what_came_early_for_geometries_without_it() {
    let mut stage = Stage::new(3, 1, 1, 4);
    let members = stage.range(1, 2, 1);
    let id = stage.create(1, members, None);
    let told = stage.told;
    let sum = Case { root: 1, ..case(id.0, Collective::Broadcast, 3) };
    let output = [1, 0].map(|rank: u32| {
        let active = &mut stage.contexts[1 + rank as usize];
        let (collect, output) = sum.collect(active, rank, told.done(0).unwrap()).unwrap();
        active.collect(collect).unwrap();
        stage.rest();
        if rank == 1 {
            stage.world.kill(0);
        }
        stage.rest();
        output
    });
    stage.until(2);
    stage.all_good();
    sum.check(0, output[1].as_ref());
}

#[test]
fn r4_what_was_given_up_early_ends_that_collective_alone() {
    let mut stage = Stage::new(3, 1, 1, 5);
    let members = stage.everyone();
    let id = stage.create(1, members, None);
    let gather = Case { size: 3, ..case(0, Collective::Gather, 2) };
    let other = Case { geometry: id, ..gather };
    stage.start(1, gather, 1);
    stage.abandon(1, 9, 11);
    stage.rest();
    // The first, and the second of another geometry, go on beside the second.
    stage.start(0, gather, 0);
    stage.start(0, other, 20);
    stage.start(0, gather, 10);
    stage.rest();
    stage.start(1, other, 21);
    for (case, cookie) in [(gather, 2), (other, 22), (gather, 12)] {
        stage.start(2, case, cookie);
    }
    stage.until(9);
    for (cookie, result) in stage.results() {
        let given_up = Err(OperationError::Abandoned { rank: 1, reason: 9 });
        let second = cookie / 10 == 1;
        // A leaf of the second may be done before it hears.
        assert!(result == if second { given_up } else { Ok(()) } || cookie == 12, "{cookie}: {result:?}");
    }
}

#[test]
fn r4_collectives_between_those_that_were_given_up_end_alike_at_all_members() {
    const CALLS: usize = 24;
    let mut stage = Stage::with(2, 1, 1, 6, Limits { in_flight: 64, ..LIMITS });
    let told = stage.told;
    for (rank, call) in [1, 0].into_iter().flat_map(|rank| (0..CALLS).map(move |call| (rank, call))) {
        let done = told.done(rank * CALLS + call).unwrap();
        // So many reasons cannot be told apart: some in between end with those.
        let started = if rank == 1 && call % 2 == 0 {
            stage.contexts[1].abandon(WORLD, call as u16, done)
        } else {
            stage.contexts[rank].collect(Collect::new(WORLD, Collective::Barrier, done))
        };
        assert_eq!(started, Ok(()));
        if call == CALLS - 1 {
            stage.rest();
        }
    }
    stage.until(2 * CALLS);
    let results = stage.results();
    for (call, (here, there)) in results[..CALLS].iter().zip(&results[CALLS..]).enumerate() {
        assert_eq!(here.1.is_ok(), there.1.is_ok(), "call {call}: {here:?}, {there:?}");
        assert!(here.1.is_err() || call % 2 == 1);
    }
}

#[test]
fn r4_a_creation_that_was_given_up_early_ends_for_those_whom_only_it_names() {
    let mut stage = Stage::new(4, 1, 1, 7);
    let range = |first, count| stage.range(first, count, 1);
    // Who finds that the lists differ does not know of the last.
    for (task, members) in [(0, range(0, 2)), (1, range(0, 3)), (2, range(2, 2)), (3, range(2, 2))] {
        assert_eq!(stage.new_geometry(task, 7, members, task), Ok(()));
        stage.rest();
    }
    stage.until(4);
    assert!(stage.results().iter().all(|end| matches!(end.1, Err(OperationError::Mismatch(_)))));
}

/// A call that only the root is instructed to begin.
fn root_only(stage: &mut Stage, rank: u32, len: usize, number: u32, cookie: usize) {
    let call =
        Case { algorithm: Some(Algorithm::Flat), in_place: true, ..case(0, Collective::Broadcast, len) };
    let collect = call.call(call.memory(rank), stage.done(cookie).unwrap());
    stage.collect(rank as usize, Collect { form: Form::RootOnly, number, ..collect });
}

#[test]
fn g6_the_number_of_a_call_that_failed_may_be_used_again() {
    let mut stage = Stage::new(2, 1, 1, 8);
    for (lens, result) in [([900, 800], Err(OperationError::Mismatch(0))), ([900, 900], Ok(()))] {
        for rank in 0..2 {
            root_only(&mut stage, rank, lens[rank as usize], 5, 0);
            stage.rest();
        }
        stage.until(2);
        assert_eq!(stage.results().into_iter().map(|end| end.1).collect::<Vec<_>>(), [result; 2]);
    }
}

#[test]
fn g6_who_begins_nothing_when_called_is_called_again_once_in_each_advance() {
    let mut stage = Stage::new(2, 1, 1, 9);
    let told = stage.told;
    let own = told.done(1).unwrap();
    let (calls, may): (&'static AtomicUsize, &'static AtomicBool) = (leak(0.into()), leak(false.into()));
    let call = leak(move |active: &mut Active<Port>, announcement: Announcement, _: usize| {
        assert!(calls.fetch_add(1, Relaxed) < 100, "it is called for ever");
        if may.load(Relaxed) {
            let output = Some((shared(&[0; 3]), 0));
            active.collect(Collect { output, ..announcement.collect(own) }).unwrap();
        }
    });
    stage.contexts[1].on_announced(Some(OnAnnounced { call, cookie: 0 }));
    root_only(&mut stage, 0, 3, 1, 0);
    for _ in 0..200 {
        stage.contexts[0].advance();
        let steps = stage.world.lock().steps();
        steps.into_iter().for_each(|step| stage.world.lock().step(step));
    }
    for count in 1..10 {
        stage.contexts[1].advance();
        assert_eq!(calls.load(Relaxed), count);
    }
    may.store(true, Relaxed);
    stage.until(2);
    stage.all_good();
}

#[test]
fn r1_credit_for_short_messages_comes_back_so_that_none_has_to_ask() {
    const CALLS: usize = 200;
    let mut stage = Stage::with(2, 1, 1, 10, Limits { early: 16, ..LIMITS });
    for call in 1..=CALLS {
        for rank in [1, 0] {
            stage.start(rank, case(0, Collective::Broadcast, 2), 0);
            (0..40).for_each(|_| stage.tick());
        }
        stage.until(2 * call);
    }
    let counters = [0, 1].map(|rank: usize| stage.contexts[rank].counters());
    let counted = counters.map(|counters| (counters.collective_sent, counters.collective_received));
    let bytes = (16 * CALLS) as u64;
    assert_eq!(counted, [(bytes, 0), (0, bytes)], "bytes of data, a packet of two words for each call");
    let seen = &stage.world.lock().seen;
    let empty =
        |from| seen.iter().filter(|seen| (seen.0, seen.1, seen.3) == (Kind::Collective, from, 0)).count();
    // The barriers, and news of credit for every second short message.
    let barriers = CALLS / 8;
    assert!(empty(0) <= barriers + barriers / 2, "{} from the root", empty(0));
    assert!(empty(1) <= barriers + (CALLS + barriers) / 2, "{} to the root", empty(1));
}

#[test]
fn r2_for_whom_a_collective_waits_is_noted_and_a_sleeper_asks_whom_it_is_to_send_to() {
    let mut stage = Stage::new(3, 1, 1, 11);
    let awaited = |stage: &mut Stage| {
        stage.world.lock().awaited.clear();
        assert!(!stage.contexts[0].wait_for(3_000_000_000, |_| false));
        let mut awaited: Vec<_> = stage.world.lock().awaited.iter().copied().flatten().collect();
        awaited.sort_unstable();
        awaited.dedup();
        awaited
    };
    assert_eq!(awaited(&mut stage), [0; 0]);
    let flat = |what, len| Case { algorithm: Some(Algorithm::Flat), size: 3, ..case(0, what, len) };
    stage.start(0, flat(Collective::Gather, 1), 0);
    assert_eq!(awaited(&mut stage), [1, 2], "contributions");
    (1..3).for_each(|rank| _ = stage.start(rank, flat(Collective::Gather, 1), 0));
    stage.until(3);
    stage.ends();
    stage.start(0, flat(Collective::Broadcast, 900), 0);
    assert_eq!(awaited(&mut stage), [1, 2], "word that the data may come");
    // What the others mean is less, and says nothing by itself.
    (1..3).for_each(|rank| _ = stage.start(rank, flat(Collective::Broadcast, 1), 0));
    stage.until(3);
    let ends = stage.ends();
    assert!(ends.iter().all(|end| matches!(end.2, Err(OperationError::Mismatch(_)))), "{ends:?}");
}
