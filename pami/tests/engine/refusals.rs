//! What arrives for one never stops what arrives for another (SPEC R-1): every table is filled by one origin, and what others
//! send arrives all the same.

use crate::machine::{MTU, Step, machine, pattern};
use crate::stage::{GOT, LIMITS, Stage, Told, envelope, handler, leak, shared, words};
use pami::collective::{Algorithm, Blocks, Collective, Tuning};
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::send::OPERATIONS;
use pami::{
    Active, ClientError, Collect, GeometryId, Limits, Message, Pools, Receive, Send, SendError, Shared, WORLD,
};

const SWITCH: usize = 4 * MTU;

/// These tasks, who send by rendezvous from [`SWITCH`] bytes on.
fn far(tasks: u32) -> Stage {
    Stage::talk(tasks, false, |client| client.rendezvous_from(SWITCH))
}

/// Node 0 answers no get.
fn silent(step: &Step) -> bool {
    !matches!(step, Step::Answer(0, _))
}

#[test]
fn r1_rendezvous_of_an_origin_that_does_not_move_leave_room_for_others() {
    let mut stage = far(4);
    let (a, b, other, target) = (0, 1, 2, 3);
    stage.world.stepped();
    stage.world.lock().unit(0).limit = Some(2 * OPERATIONS);
    for number in 0..OPERATIONS {
        stage.say_told(a, target, pattern(SWITCH, number), number);
    }
    stage.run(&[a, b, other, target], silent);
    stage.say_told(b, target, pattern(SWITCH, 100), 100);
    assert_eq!(stage.immediate(other, target, b"past them"), Ok(()));
    stage.run(&[a, b, other, target], silent);
    let mut came: Vec<_> = stage.got().into_iter().map(|got| got.0).collect();
    came.sort_unstable();
    assert_eq!((came, stage.cookies()), (vec![1, 2], vec![100]));
    stage.world.free_running();
    stage.quiet();
    assert_eq!((stage.counts(), stage.protocol_errors()), ((OPERATIONS, OPERATIONS), 0));
}

#[test]
fn r1_an_origin_gets_no_more_places_than_it_leaves() {
    let mut stage = Stage::talk(2, false, |client| {
        client.rendezvous_from(SWITCH).pools(Pools { receive_requests: 8, ..Pools::LARGE })
    });
    let (target, other) = (1, stage.open(0, 1));
    stage.world.stepped();
    stage.world.lock().unit(0).limit = Some(2 * OPERATIONS);
    // The first origin gets half of all, the other half of the rest.
    for (origin, taken) in [(0, 4), (other, 6)] {
        (0..8).for_each(|number| stage.say(origin, target, pattern(SWITCH, number)));
        stage.run(&[origin, target], silent);
        assert_eq!(stage[target].counters().received, taken);
    }
}

#[test]
fn r1_a_rendezvous_that_finds_no_reception_comes_again_and_what_is_behind_it_stays_behind() {
    for local_behind in [false, true] {
        let mut stage = Stage::talk(3, false, |client| {
            client.rendezvous_from(SWITCH).pools(Pools { receive_requests: 1, ..Pools::LARGE })
        });
        let (a, b, target) = (0, 1, 2);
        stage.world.stepped();
        stage.say(a, target, pattern(SWITCH, 0));
        stage.run(&[a, target], silent);
        // The one, and behind it: a short one, a long eager one, another rendezvous, and a fence.
        stage.say(b, target, pattern(SWITCH, 1));
        assert_eq!(stage.immediate(b, target, &pattern(20, 2)), Ok(()));
        stage.say(b, target, pattern(2 * MTU, 3));
        stage.say_told(b, target, pattern(2 * SWITCH, 4), 0);
        stage.fence(b, target, 1);
        stage.run(&[a, b, target], silent);
        assert_eq!(stage.counts(), (0, 0));
        if local_behind {
            // What is too long to be kept at its origin has to wait.
            assert_eq!(stage.immediate(b, target, &pattern(300, 5)), Err(SendError::Again));
        }
        stage.world.free_running();
        stage.quiet();
        assert_eq!(stage.cookies(), [0, 1]);
        let mut from_b: Vec<_> = stage.got().into_iter().filter(|it| it.0 == 1).map(|it| it.2).collect();
        let order: Vec<_> = from_b.iter().map(Vec::len).filter(|&len| len < SWITCH).collect();
        assert_eq!(order, [20, 2 * MTU]);
        from_b.sort_by_key(Vec::len);
        let all = [(20, 2), (2 * MTU, 3), (SWITCH, 1), (2 * SWITCH, 4)];
        assert!(from_b == all.map(|(len, seed)| pattern(len, seed)));
        // The way is quick again.
        assert_eq!(stage.immediate(b, target, &pattern(300, 5)), Ok(()));
        stage.quiet_of(&[b, target]);
        assert_eq!((stage.counts().0, stage.protocol_errors()), (1, 0));
    }
}

#[test]
fn r1_fences_behind_a_kept_message_leave_room_for_others() {
    for local in [false, true] {
        let mut stage = Stage::talk(3, local, |client| client.rendezvous_from(SWITCH));
        let (a, other, target) = (0, 1, 2);
        stage.say_later(a, target, pattern(10, 0));
        (0..OPERATIONS - 1).for_each(|number| stage.fence(a, target, number));
        stage.quiet_of(&[a, target]);
        stage.say(other, target, pattern(SWITCH, 1));
        stage.fence(other, target, 100);
        stage.quiet();
        assert_eq!(stage.order(), [GOT, 100], "another's message comes in");
        stage.ends();
        stage.accept(target);
        stage.quiet();
        assert_eq!(stage.counts().1, OPERATIONS - 1);
    }
}

#[test]
fn r1_kept_messages_leave_room_for_those_that_are_wanted() {
    for (local, size) in [(false, 10), (true, 10), (false, 2 * SWITCH)] {
        let told = Told::new();
        // Messages with a header are wanted.
        let later = leak(move |_: &mut Active<_>, message: &Message<'_>| {
            (!message.header.is_empty()).then(|| told.whole(message))
        });
        let mut stage = Stage::of(machine(3, local), 1, told, |client| {
            let client =
                client.contexts(2).rendezvous_from(SWITCH).pools(Pools { unexpected: 2, ..Pools::LARGE });
            client.dispatch(0, told.taker()).dispatch_deferring(DEFERRING, later)
        });
        let (a, other, target) = (0, 1, 2);
        (0..5).for_each(|seed| stage.say_later(a, target, pattern(size, seed)));
        stage.quiet_of(&[a, target]);
        assert_eq!(stage.kept(target), 2);
        stage.send(other, Send { header: b"wanted", ..stage.deferred(target, pattern(20, 7)) });
        assert_eq!(stage.immediate(other, target, b"plain"), Ok(()));
        stage.quiet();
        assert_eq!(stage.data().len(), 2, "what is wanted comes in");
        // The other three come as places become free, in order.
        for seed in 0..5 {
            stage.accept(target);
            stage.quiet_of(&[a, target]);
            assert_eq!(stage.data(), [pattern(size, seed)]);
        }
        assert_eq!(
            (stage.kept(target), stage[target].counters().received, stage.protocol_errors()),
            (0, 7, 0)
        );
    }
}

/// A gather of a word from a rank; what the root gets.
fn gather(stage: &mut Stage, rank: u32, geometry: GeometryId, tuning: Tuning, cookie: usize) -> Shared {
    let output = shared(&vec![0; stage.contexts.len()]);
    let call = Collect {
        input: Some((shared(&[rank.into()]), 0)),
        output: (rank == 0).then(|| (output.clone(), 0)),
        blocks: Blocks::equal(8),
        algorithm: Some((Algorithm::Flat, tuning)),
        ..Collect::new(geometry, Collective::Gather, stage.done(cookie).unwrap())
    };
    stage.collect(rank as usize, call);
    output
}

const FLAT: Tuning = Tuning { radix: 2, chunk: 64 };

#[test]
fn r1_more_early_messages_of_collectives_than_places_leave_room_for_others() {
    // Three communicators with eight gathers each, and a root that waits for the last communicator first.
    const TASKS: u32 = 8;
    let mut stage = Stage::with(TASKS, 1, 1, 7, Limits { in_flight: 32, ..LIMITS });
    let members = stage.everyone();
    let geometries = [1, 2, 3].map(|id| stage.create(id, members, None));
    let cookie = |geometry, number: usize, rank| geometry * 1000 + number * 100 + rank as usize;
    for (rank, at) in (1..TASKS).flat_map(|rank| (0..3).map(move |at| (rank, at))) {
        for number in 0..8 {
            gather(&mut stage, rank, geometries[at], FLAT, cookie(at, number, rank));
        }
    }
    stage.rest();
    // The root begins with those that came last.
    for (at, number) in [2, 1, 0].into_iter().flat_map(|at| (0..8).map(move |number| (at, number))) {
        let (cookie, told) = (cookie(at, number, 0), stage.told);
        let output = gather(&mut stage, 0, geometries[at], FLAT, cookie);
        let has_ended = || told.notes().ends.iter().any(|end| end.0 == cookie && end.2.is_ok());
        stage.settle("a gather that is waited for", has_ended);
        assert!(words(&output).into_iter().eq(0..u64::from(TASKS)));
    }
    stage.until(3 * 8 * TASKS as usize);
    assert!(stage.ends().iter().all(|end| end.2.is_ok()));
}

#[test]
fn r1_a_flat_gather_of_more_ranks_than_early_places_leaves_room_for_others() {
    const TASKS: u32 = 140;
    let mut stage = Stage::with(TASKS, 4, 1, 3, LIMITS);
    for rank in 1..TASKS {
        gather(&mut stage, rank, WORLD, FLAT, rank as usize);
    }
    (0..60_000).for_each(|_| stage.tick());
    // The root waits for something else first.
    let before = stage[0].counters().protocol_errors;
    stage.fence(139, 0, 1000);
    let told = stage.told;
    let fenced = || told.notes().ends.iter().any(|end| end.0 == 1000);
    stage.settle("a fence past the gather", fenced);
    let output = gather(&mut stage, 0, WORLD, FLAT, 0);
    stage.until(TASKS as usize + 1);
    assert!(words(&output).into_iter().eq(0..u64::from(TASKS)));
    assert_eq!(stage[0].counters().protocol_errors, before);
}

#[test]
fn r1_however_many_answers_are_owed_others_messages_come_in() {
    const TASKS: u32 = 300;
    let ack = handler(|_| Receive::Done);
    let told = Told::new();
    let nodes = crate::machine::machine(TASKS, false);
    let mut clients = nodes.clone();
    clients.truncate(1);
    let mut stage =
        Stage::of(clients, 1, told, |client| client.contexts(2).dispatch(0, told.taker()).dispatch(1, ack));
    let origins: Vec<_> = (1..TASKS).map(|task| stage.clients[0].endpoint(task, 0).unwrap()).collect();
    stage.world.stepped();
    // As many as all of them can have under way; nothing leaves the target.
    for &origin in &origins {
        for message in 0..OPERATIONS as u32 {
            let envelope = envelope(Kind::EagerFirstAcked, origin, stage.at(0));
            stage.forge(Envelope { dispatch: 1, message, ..envelope }, &[], &[]);
        }
        stage.quiet();
    }
    let total = b"past them".len() as u32;
    let past = Envelope { total, ..envelope(Kind::EagerFirst, origins[0], stage.at(0)) };
    stage.forge(past, &[], b"past them");
    stage.quiet();
    assert_eq!(stage[0].counters().received as usize, origins.len() * OPERATIONS + 1);
    assert_eq!(stage.data().len(), 1);
}

/// Context 1 keeps one message of context 0 and has refused the next.
fn refusing(local: bool) -> Stage {
    let mut stage = Stage::pair(local, |client| client.pools(Pools { unexpected: 1, ..Pools::LARGE }));
    (0..2).for_each(|number| stage.say_later(0, 1, pattern(10, number)));
    stage.quiet();
    assert_eq!(stage.kept(1), 1);
    stage
}

#[test]
fn r1_a_context_that_refused_a_message_is_not_destroyed_before_that_came() {
    let mut stage = refusing(false);
    stage.discard(1);
    while stage.kept(1) == 0 {
        assert_eq!(stage.destroy(1), Err(ClientError::ReceivesUnderWay), "a message is to come");
        // One step of either at a time, so that every moment on the way is tried.
        stage[1].advance();
        stage[0].advance();
    }
    stage.discard(1);
    stage.quiet();
    assert_eq!(stage.destroy(1), Ok(()));
}

#[test]
fn r1_who_was_refused_is_called_after_a_pause_that_grows_that_sleep_ends_and_that_success_resets() {
    let mut stage = refusing(false);
    let world = stage.world;
    let calls = || world.count(Kind::Retry);
    let rounds_to_call = |stage: &mut Stage| {
        let (before, mut rounds) = (calls(), 0);
        while calls() == before {
            stage[1].advance();
            rounds += 1;
        }
        // It comes, in vain or not.
        stage.quiet_of(&[0]);
        stage[1].advance();
        rounds
    };
    let pauses: Vec<_> = (0..9).map(|_| rounds_to_call(&mut stage)).collect();
    assert!(pauses.is_sorted() && pauses[8] > 3000 && pauses[8] < 5000, "{pauses:?}");
    // Nobody polls that long: it sleeps, a little at a time.
    for _ in 0..3 {
        let (before, start) = (calls(), stage[1].now_ns());
        assert!(stage[1].wait_for(40_000_000, |_| calls() > before));
        assert!(stage[1].now_ns() - start < 5_000_000);
        stage.quiet_of(&[0]);
        stage[1].advance();
    }
    stage.discard(1);
    stage.quiet();
    assert_eq!(stage.kept(1), 1);
    stage.say_later(0, 1, pattern(10, 2));
    stage.quiet_of(&[0]);
    assert!(rounds_to_call(&mut stage) < 50);
}

#[test]
fn r1_what_is_behind_a_message_that_is_known_to_be_kept_does_not_ask() {
    let mut stage = Stage::pair(false, |client| client);
    stage.say_later(0, 1, pattern(10, 0));
    stage.send(0, Send { remote_done: stage.done(0), ..stage.deferred(1, pattern(10, 1)) });
    stage.quiet();
    let kinds = |stage: &Stage| [Kind::Asked, Kind::AskedAcked, Kind::EagerFirst].map(|it| stage.count(it));
    assert_eq!((kinds(&stage), stage.kept(1)), ([1, 1, 0], 2));
    // Nobody has accepted them yet.
    assert_eq!(stage.immediate(0, 1, b"does not ask"), Ok(()));
    stage.quiet();
    assert_eq!((kinds(&stage), stage.data().len()), ([1, 1, 1], 1));
}

#[test]
fn r1_for_a_place_that_becomes_free_one_is_called_and_when_there_is_room_for_the_call() {
    let mut stage = Stage::talk(4, false, |client| client.pools(Pools { unexpected: 1, ..Pools::LARGE }));
    for origin in 1..4 {
        stage.say_later(origin, 0, pattern(10, 0));
        stage.quiet_of(&[origin, 0]);
    }
    assert_eq!((stage.kept(0), stage.count(Kind::Retry)), (1, 0));
    stage.discard(0);
    for (muted, calls) in [(Some(0), 0), (None, 1)] {
        stage.world.lock().muted = muted;
        stage.advance(0, 3);
        assert_eq!(stage.count(Kind::Retry), calls, "not both, and not only after a pause");
    }
}

#[test]
fn r1_short_messages_behind_one_that_was_refused_do_not_overtake_it_by_the_quick_way() {
    let mut stage = Stage::pair(false, |client| client.pools(Pools { unexpected: 1, ..Pools::LARGE }));
    // The way is known, and quick.
    assert_eq!(stage.immediate(0, 1, b"first"), Ok(()));
    stage.say_later(0, 1, pattern(10, 0));
    stage.quiet();
    // The next is refused when the others are on their way.
    stage.say_later(0, 1, pattern(10, 1));
    for short in [b"second", b"third ", b"fourth"] {
        // What does not ask finds the way again.
        stage.fence(0, 1, 0);
        stage.quiet_of(&[0]);
        assert_eq!(stage.immediate(0, 1, short), Ok(()));
        stage.quiet_of(&[0]);
    }
    stage.quiet();
    assert_eq!(stage.data(), [b"first"]);
    stage.discard(1);
    stage.quiet();
    assert_eq!((stage.kept(1), stage.data()), (1, [b"second", b"third ", b"fourth"].map(Vec::from).into()));
}

#[test]
fn r1_f1_a_fence_behind_a_message_that_was_refused_waits_until_that_is_accepted() {
    for local in [false, true] {
        let mut stage = refusing(local);
        stage.fence(0, 1, 0);
        stage.quiet();
        for _ in 0..2 {
            assert_eq!((stage.kept(1), stage.counts().1), (1, 0));
            stage.discard(1);
            stage.quiet();
        }
        assert_eq!(stage.cookies(), [0]);
    }
}
