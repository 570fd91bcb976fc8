//! What arrives for one never stops what arrives for another (SPEC R-1): every table is filled by one origin, and what others
//! send arrives all the same.

use crate::machine::{MTU, Packet, Step, TestNode, World, buffer, pattern};
use crate::scene::{
    Port, advance_all, always_later, clients, collector, context, deferred, ends, leak, message, send,
};
use crate::stage::{LIMITS, Stage, shared, words};
use pami::collective::{Algorithm, Blocks, Collective, Tuning};
use pami::geometry::Members;
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::send::OPERATIONS;
use pami::{
    Active, Client, ClientBuilder, ClientError, Collect, Context, GeometryId, Limits, Message, OnReceived,
    Receive, Received, Send,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SWITCH: usize = 4 * MTU;

/// Lets everything move but answers of node `from`.
fn move_all_but_answers_of(from: u32, world: &World, contexts: &mut [&mut Context<Port>]) {
    loop {
        let moved: usize = contexts.iter_mut().map(|context| context.advance()).sum();
        let mut state = world.lock();
        let step =
            state.steps().into_iter().find(|step| !matches!(step, Step::Answer(node, _) if *node == from));
        match step {
            Some(step) => state.step(step),
            None if moved == 0 => return,
            None => {}
        }
    }
}

#[test]
fn r1_rendezvous_of_an_origin_that_does_not_move_leave_room_for_others() {
    let (log, handler) = collector();
    let build = |client: ClientBuilder<_>| client.rendezvous_from(SWITCH).dispatch(0, handler);
    let mut clients = clients(4, false, build);
    let [mut a, mut b, mut other, mut target] = [0, 1, 2, 3].map(|task| context(&mut clients[task], 0));
    let world = clients[0].node().world;
    world.stepped();
    world.lock().unit(0).limit = Some(2 * OPERATIONS);
    let to = target.endpoint();
    // Node 0 answers no get.
    let (ended, done) = ends();
    for number in 0..OPERATIONS {
        send(&mut a, Send { remote_done: done(number), ..message(to, pattern(SWITCH, number)) });
    }
    move_all_but_answers_of(0, world, &mut [&mut a, &mut b, &mut other, &mut target]);
    send(&mut b, Send { remote_done: done(100), ..message(to, pattern(SWITCH, 100)) });
    assert_eq!(other.send_immediate(to, 0, &[], b"past them"), Ok(()));
    move_all_but_answers_of(0, world, &mut [&mut a, &mut b, &mut other, &mut target]);
    let came: Vec<_> = log.lock().unwrap().drain(..).map(|(from, ..)| from).collect();
    assert_eq!((came.contains(&1), came.contains(&2), came.contains(&0)), (true, true, false), "{came:?}");
    assert_eq!(ended.lock().unwrap().iter().map(|end| end.0).collect::<Vec<_>>(), [100]);
    // And the others come in the order that they were sent in.
    world.free_running();
    advance_all(&mut [&mut a, &mut b, &mut other, &mut target]);
    assert_eq!((log.lock().unwrap().len(), ended.lock().unwrap().len()), (OPERATIONS, OPERATIONS + 1));
    assert_eq!(target.counters().protocol_errors + a.counters().protocol_errors, 0);
}

#[test]
fn r1_an_origin_gets_no_more_places_than_it_leaves() {
    let (_, handler) = collector();
    let build =
        |client: ClientBuilder<_>| client.rendezvous_from(SWITCH).receive_requests(8).dispatch(0, handler);
    let mut clients = clients(2, false, build);
    let mut origins = [0, 1].map(|offset| context(&mut clients[0], offset));
    let mut target = context(&mut clients[1], 0);
    let world = clients[0].node().world;
    world.stepped();
    world.lock().unit(0).limit = Some(2 * OPERATIONS);
    // Node 0 answers no get. The first origin gets half of all, the other half of the rest.
    for (origin, taken) in origins.iter_mut().zip([4, 6]) {
        for number in 0..8 {
            send(origin, message(target.endpoint(), pattern(SWITCH, number)));
        }
        move_all_but_answers_of(0, world, &mut [origin, &mut target]);
        assert_eq!(target.counters().received, taken);
    }
}

#[test]
fn r1_a_rendezvous_that_finds_no_reception_comes_again_and_what_is_behind_it_stays_behind() {
    for local_behind in [false, true] {
        let (log, handler) = collector();
        let build = |client: ClientBuilder<_>| {
            client.rendezvous_from(SWITCH).receive_requests(1).dispatch(0, handler)
        };
        let mut clients = clients(3, false, build);
        let [mut a, mut b, mut target] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
        let world = clients[0].node().world;
        world.stepped();
        let to = target.endpoint();
        send(&mut a, message(to, pattern(SWITCH, 0)));
        move_all_but_answers_of(0, world, &mut [&mut a, &mut target]);
        let (ended, done) = ends();
        send(&mut b, message(to, pattern(SWITCH, 1)));
        // Behind it: a short one, a long eager one, another rendezvous, and a fence.
        assert_eq!(b.send_immediate(to, 0, &[], &pattern(20, 2)), Ok(()));
        send(&mut b, message(to, pattern(2 * MTU, 3)));
        send(&mut b, Send { remote_done: done(0), ..message(to, pattern(2 * SWITCH, 4)) });
        assert_eq!(b.fence(to, done(1).unwrap()), Ok(()));
        move_all_but_answers_of(0, world, &mut [&mut a, &mut b, &mut target]);
        assert_eq!((log.lock().unwrap().len(), ended.lock().unwrap().len()), (0, 0));
        if local_behind {
            // What is too long to be kept at its origin has to wait.
            let long = b.send_immediate(to, 0, &[], &pattern(300, 5));
            assert_eq!(long, Err(pami::SendError::Again));
        }
        world.free_running();
        advance_all(&mut [&mut a, &mut b, &mut target]);
        let from_b: Vec<_> =
            log.lock().unwrap().iter().filter(|it| it.0 == 1).map(|it| it.2.clone()).collect();
        let lens = [(SWITCH, 1), (20, 2), (2 * MTU, 3), (2 * SWITCH, 4)];
        assert_eq!(from_b.len(), lens.len());
        for (len, seed) in lens {
            assert!(from_b.contains(&pattern(len, seed)), "{seed}");
        }
        let order: Vec<_> = from_b.iter().map(Vec::len).filter(|&len| len < SWITCH).collect();
        assert_eq!(order, [20, 2 * MTU]);
        assert_eq!(ended.lock().unwrap().iter().map(|end| end.0).collect::<Vec<_>>(), [0, 1]);
        // The way is quick again.
        assert_eq!(b.send_immediate(to, 0, &[], &pattern(300, 5)), Ok(()));
        advance_all(&mut [&mut b, &mut target]);
        assert_eq!(
            (log.lock().unwrap().len(), b.counters().protocol_errors + target.counters().protocol_errors),
            (6, 0)
        );
    }
}

#[test]
fn r1_fences_behind_a_kept_message_leave_room_for_others() {
    for local in [false, true] {
        let (log, handler) = collector();
        let build = |client: ClientBuilder<_>| {
            client.rendezvous_from(SWITCH).dispatch(0, handler).dispatch_deferring(DEFERRING, always_later())
        };
        let mut clients = clients(3, local, build);
        let [mut a, mut other, mut target] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
        let to = target.endpoint();
        send(&mut a, deferred(to, pattern(10, 0)));
        let (ended, done) = ends();
        for number in 0..OPERATIONS - 1 {
            assert_eq!(a.fence(to, done(number).unwrap()), Ok(()));
        }
        advance_all(&mut [&mut a, &mut target]);
        send(&mut other, message(to, pattern(SWITCH, 1)));
        assert_eq!(other.fence(to, done(100).unwrap()), Ok(()));
        advance_all(&mut [&mut a, &mut other, &mut target]);
        assert_eq!(log.lock().unwrap().len(), 1, "another's message comes in");
        assert_eq!(ended.lock().unwrap().drain(..).map(|end| end.0).collect::<Vec<_>>(), [100]);
        let id = target.unexpected().next().unwrap().id;
        let call = leak(|_: &mut Active<Port>, _: Received| {});
        assert!(target.accept(id, buffer(10), OnReceived { call, cookie: 0 }).is_ok());
        advance_all(&mut [&mut a, &mut other, &mut target]);
        assert_eq!(ended.lock().unwrap().len(), OPERATIONS - 1);
    }
}

#[test]
fn r1_kept_messages_leave_room_for_those_that_are_wanted() {
    for (local, size) in [(false, 10), (true, 10), (false, 2 * SWITCH)] {
        let (log, handler) = collector();
        // Messages with a header are wanted.
        let later = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
            (!message.header.is_empty()).then(|| handler(active, message))
        });
        let build = |client: ClientBuilder<_>| {
            client
                .rendezvous_from(SWITCH)
                .unexpected(2)
                .dispatch(0, handler)
                .dispatch_deferring(DEFERRING, later)
        };
        let mut clients = clients(3, local, build);
        let [mut a, mut other, mut target] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
        let to = target.endpoint();
        for seed in 0..5 {
            send(&mut a, deferred(to, pattern(size, seed)));
        }
        advance_all(&mut [&mut a, &mut target]);
        assert_eq!(target.unexpected().count(), 2);
        let header = b"wanted";
        send(&mut other, Send { header, ..deferred(to, pattern(20, 7)) });
        assert_eq!(other.send_immediate(to, 0, &[], b"plain"), Ok(()));
        advance_all(&mut [&mut a, &mut other, &mut target]);
        assert_eq!(log.lock().unwrap().len(), 2, "what is wanted comes in");
        // The other three come as places become free, in order.
        let call = leak(|_: &mut Active<Port>, received: Received| {
            assert_eq!(received.buffer.as_slice(), pattern(received.total, received.cookie));
        });
        for cookie in 0..5 {
            let id = target.unexpected().next().unwrap().id;
            assert!(target.accept(id, buffer(size), OnReceived { call, cookie }).is_ok());
            advance_all(&mut [&mut a, &mut target]);
        }
        assert_eq!((target.unexpected().count(), target.counters().received), (0, 7));
        assert_eq!(target.counters().protocol_errors + a.counters().protocol_errors, 0);
    }
}

#[test]
fn r1_more_early_messages_of_collectives_than_places_leave_room_for_others() {
    // Three communicators with eight gathers each, and a root that waits for the last communicator first.
    const TASKS: u32 = 8;
    let mut stage = Stage::with(TASKS, 1, 1, 7, Limits { in_flight: 32, ..LIMITS });
    let members = Members::world(stage.population(), 0..1).unwrap();
    let geometries: Vec<GeometryId> = (1..4).map(|id| stage.create(id, members, None)).collect();
    let (ended, done) = ends();
    let start = |stage: &mut Stage, rank: u32, geometry: usize, number: usize| {
        let input = shared(&[u64::from(rank)]);
        let output = (rank == 0).then(|| shared(&[0; TASKS as usize]));
        let cookie = geometry * 1000 + number * 100 + rank as usize;
        let call = Collect {
            input: Some((input, 0)),
            output: output.clone().map(|output| (output, 0)),
            blocks: Blocks::equal(8),
            algorithm: Some((Algorithm::Flat, Tuning { radix: 2, chunk: 64 })),
            ..Collect::new(geometries[geometry], Collective::Gather, done(cookie).unwrap())
        };
        assert_eq!(stage.contexts[rank as usize].collect(call), Ok(()));
        output
    };
    for rank in 1..TASKS {
        for geometry in 0..3 {
            for number in 0..8 {
                start(&mut stage, rank, geometry, number);
            }
        }
    }
    stage.rest();
    // The root begins with those that came last.
    for geometry in [2, 1, 0] {
        for number in 0..8 {
            let output = start(&mut stage, 0, geometry, number).unwrap();
            let cookie = geometry * 1000 + number * 100;
            let has_ended = || ended.lock().unwrap().iter().any(|end| end.0 == cookie && end.2.is_ok());
            stage.settle("a gather that is waited for", has_ended);
            assert!(words(&output).into_iter().eq(0..u64::from(TASKS)));
        }
    }
    let all = 3 * 8 * TASKS as usize;
    stage.settle("every end", || ended.lock().unwrap().len() == all);
    assert!(ended.lock().unwrap().iter().all(|end| end.2.is_ok()));
}

#[test]
fn r1_a_flat_gather_of_more_ranks_than_early_places_leaves_room_for_others() {
    const TASKS: u32 = 140;
    let mut stage = Stage::with(TASKS, 4, 1, 3, LIMITS);
    let (ended, done) = ends();
    let start = |stage: &mut Stage, rank: u32, what, len: usize| {
        let output = shared(&vec![0; TASKS as usize]);
        let call = Collect {
            input: Some((shared(&[u64::from(rank)]), 0)),
            output: Some((output.clone(), 0)),
            blocks: Blocks::equal(len),
            algorithm: (what == Collective::Gather)
                .then_some((Algorithm::Flat, Tuning { radix: 2, chunk: 64 })),
            ..Collect::new(pami::WORLD, what, done(rank as usize).unwrap())
        };
        assert_eq!(stage.contexts[rank as usize].collect(call), Ok(()));
        output
    };
    for rank in 1..TASKS {
        start(&mut stage, rank, Collective::Gather, 8);
    }
    for _ in 0..60_000 {
        stage.tick();
    }
    // The root waits for something else first.
    let before = stage.contexts[0].counters().protocol_errors;
    let asked: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let fenced = leak(move |_: &mut Active<Port>, _: pami::Completion| _ = asked.fetch_add(1, Relaxed));
    let root = stage.contexts[0].endpoint();
    assert_eq!(stage.contexts[139].fence(root, pami::Done { call: fenced, cookie: 0 }), Ok(()));
    stage.settle("a fence past the gather", || asked.load(Relaxed) == 1);
    let output = start(&mut stage, 0, Collective::Gather, 8);
    stage.settle("the gather", || ended.lock().unwrap().len() == TASKS as usize);
    assert!(words(&output).into_iter().eq(0..u64::from(TASKS)));
    assert_eq!(stage.contexts[0].counters().protocol_errors, before);
}

#[test]
fn r1_however_many_answers_are_owed_others_messages_come_in() {
    const TASKS: u32 = 300;
    let (log, handler) = collector();
    let ack = leak(|_: &mut Active<Port>, _: &Message<'_>| Receive::Done);
    let build = |client: ClientBuilder<_>| client.dispatch(0, handler).dispatch(1, ack);
    let mut clients = clients(TASKS, false, build);
    let mut target = context(&mut clients[0], 0);
    let origins: Vec<_> = (1..TASKS).map(|task| clients[0].endpoint(task, 0).unwrap()).collect();
    let world = clients[0].node().world;
    world.stepped();
    let to = target.endpoint();
    let forge = |kind, dispatch, origin, message, data: &[u8]| {
        let total = data.len() as u32;
        let envelope = Envelope { kind, dispatch, origin, target: to, message, offset: 0, total };
        world.forge(Packet::new(envelope, &[], data));
    };
    // As many as all of them can have under way; nothing leaves the target.
    for &origin in &origins {
        for place in 0..OPERATIONS as u32 {
            forge(Kind::EagerFirstAcked, 1, origin, place, &[]);
        }
        while target.advance() > 0 {}
    }
    forge(Kind::EagerFirst, 0, origins[0], 0, b"past them");
    while target.advance() > 0 {}
    assert_eq!(target.counters().received as usize, origins.len() * OPERATIONS + 1);
    assert_eq!(log.lock().unwrap().len(), 1);
}

/// A context that keeps one message of `origin` and has refused the next.
fn refusing(local: bool) -> (Vec<Client<TestNode>>, Context<Port>, Context<Port>, &'static World) {
    let build = |client: ClientBuilder<_>| client.unexpected(1).dispatch_deferring(DEFERRING, always_later());
    let mut clients = clients(2, local, build);
    let [mut origin, mut target] = [0, 1].map(|task| context(&mut clients[task], 0));
    let (to, world) = (target.endpoint(), clients[0].node().world);
    (0..2).for_each(|number| send(&mut origin, deferred(to, pattern(10, number))));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(target.unexpected().count(), 1);
    (clients, origin, target, world)
}

fn discard_kept(target: &mut Context<Port>) {
    let id = target.unexpected().next().expect("one is kept").id;
    assert_eq!(target.discard(id), Ok(()));
}

#[test]
fn r1_a_context_that_refused_a_message_is_not_destroyed_before_that_came() {
    let (mut clients, mut origin, mut target, _) = refusing(false);
    discard_kept(&mut target);
    while target.unexpected().count() == 0 {
        let (error, same) = clients[1].destroy_context(target).err().expect("a message is to come");
        assert_eq!(error, ClientError::ReceivesUnderWay);
        target = same;
        // One step of either at a time, so that every moment on the way is tried.
        target.advance();
        origin.advance();
    }
    discard_kept(&mut target);
    advance_all(&mut [&mut origin, &mut target]);
    assert!(clients[1].destroy_context(target).is_ok());
}

#[test]
fn r1_who_was_refused_is_called_after_a_pause_that_grows_that_sleep_ends_and_that_success_resets() {
    let (_clients, mut origin, mut target, world) = refusing(false);
    let calls = || world.count(Kind::Retry);
    let rounds_to_call = |target: &mut Context<Port>, origin: &mut Context<Port>| {
        let (before, mut rounds) = (calls(), 0);
        while calls() == before {
            target.advance();
            rounds += 1;
        }
        // It comes, in vain or not.
        advance_all(&mut [origin]);
        target.advance();
        rounds
    };
    let pauses: Vec<_> = (0..9).map(|_| rounds_to_call(&mut target, &mut origin)).collect();
    assert!(pauses.is_sorted() && pauses[8] > 3000 && pauses[8] < 5000, "{pauses:?}");
    // Nobody polls that long: it sleeps, a little at a time.
    for _ in 0..3 {
        let (before, start) = (calls(), target.now_ns());
        assert!(target.wait_for(40_000_000, |_| calls() > before));
        assert!(target.now_ns() - start < 5_000_000);
        advance_all(&mut [&mut origin]);
        target.advance();
    }
    discard_kept(&mut target);
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(target.unexpected().count(), 1);
    send(&mut origin, deferred(target.endpoint(), pattern(10, 2)));
    advance_all(&mut [&mut origin]);
    assert!(rounds_to_call(&mut target, &mut origin) < 50);
}

#[test]
fn r1_what_is_behind_a_message_that_is_known_to_be_kept_does_not_ask() {
    let (log, handler) = collector();
    let build =
        |client: ClientBuilder<_>| client.dispatch(0, handler).dispatch_deferring(DEFERRING, always_later());
    let mut clients = clients(2, false, build);
    let [mut origin, mut target] = [0, 1].map(|task| context(&mut clients[task], 0));
    let (to, world) = (target.endpoint(), clients[0].node().world);
    send(&mut origin, deferred(to, pattern(10, 0)));
    let (_, done) = ends();
    send(&mut origin, Send { remote_done: done(0), ..deferred(to, pattern(10, 1)) });
    advance_all(&mut [&mut origin, &mut target]);
    let kinds = || [Kind::Asked, Kind::AskedAcked, Kind::EagerFirst].map(|kind| world.count(kind));
    assert_eq!((kinds(), target.unexpected().count()), ([1, 1, 0], 2));
    // Nobody has accepted them yet.
    assert_eq!(origin.send_immediate(to, 0, &[], b"does not ask"), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!((kinds(), log.lock().unwrap().len()), ([1, 1, 1], 1));
}

#[test]
fn r1_for_a_place_that_becomes_free_one_is_called_and_when_there_is_room_for_the_call() {
    let build = |client: ClientBuilder<_>| client.unexpected(1).dispatch_deferring(DEFERRING, always_later());
    let mut clients = clients(4, false, build);
    let [mut target, mut first, mut second, mut third] =
        [0, 1, 2, 3].map(|task| context(&mut clients[task], 0));
    let (to, world) = (target.endpoint(), clients[0].node().world);
    for origin in [&mut first, &mut second, &mut third] {
        send(origin, deferred(to, pattern(10, 0)));
        advance_all(&mut [origin, &mut target]);
    }
    assert_eq!((target.unexpected().count(), world.count(Kind::Retry)), (1, 0));
    world.lock().muted = Some(0);
    discard_kept(&mut target);
    (0..3).for_each(|_| _ = target.advance());
    assert_eq!(world.count(Kind::Retry), 0);
    world.lock().muted = None;
    (0..3).for_each(|_| _ = target.advance());
    assert_eq!(world.count(Kind::Retry), 1, "not both, and not only after a pause");
}

#[test]
fn r1_short_messages_behind_one_that_was_refused_do_not_overtake_it_by_the_quick_way() {
    let (log, handler) = collector();
    let build = |client: ClientBuilder<_>| {
        client.unexpected(1).dispatch(0, handler).dispatch_deferring(DEFERRING, always_later())
    };
    let mut clients = clients(2, false, build);
    let [mut origin, mut target] = [0, 1].map(|task| context(&mut clients[task], 0));
    let to = target.endpoint();
    // The way is known, and quick.
    assert_eq!(origin.send_immediate(to, 0, &[], b"first"), Ok(()));
    send(&mut origin, deferred(to, pattern(10, 0)));
    advance_all(&mut [&mut origin, &mut target]);
    // The next is refused when the others are on their way.
    send(&mut origin, deferred(to, pattern(10, 1)));
    let (_, done) = ends();
    for short in [b"second", b"third ", b"fourth"] {
        // What does not ask finds the way again.
        assert_eq!(origin.fence(to, done(0).unwrap()), Ok(()));
        advance_all(&mut [&mut origin]);
        assert_eq!(origin.send_immediate(to, 0, &[], short), Ok(()));
        advance_all(&mut [&mut origin]);
    }
    advance_all(&mut [&mut origin, &mut target]);
    let came = || log.lock().unwrap().iter().map(|it| it.2.clone()).collect::<Vec<_>>();
    assert_eq!(came(), [b"first"]);
    discard_kept(&mut target);
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(target.unexpected().count(), 1);
    assert_eq!(came(), [b"first".as_slice(), b"second", b"third ", b"fourth"]);
}

#[test]
fn r1_f1_a_fence_behind_a_message_that_was_refused_waits_until_that_is_accepted() {
    for local in [false, true] {
        let (_clients, mut origin, mut target, _) = refusing(local);
        let (ended, done) = ends();
        assert_eq!(origin.fence(target.endpoint(), done(0).unwrap()), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        for _ in 0..2 {
            assert_eq!((target.unexpected().count(), ended.lock().unwrap().len()), (1, 0));
            discard_kept(&mut target);
            advance_all(&mut [&mut origin, &mut target]);
        }
        assert_eq!(ended.lock().unwrap().len(), 1);
    }
}
