//! Jobs of more endpoints than a context remembers what it owes to (SPEC ).

use crate::machine::{MTU, Packet, TestNode, machine, pattern};
use crate::scene::{Handler, Port, advance_all, collector, context, deferred, ends, message, send};
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::wait::wait_on;
use pami::{ClientBuilder, ClientError, Context, Factor, OnReceived, Process, Recipe, Rights, Send, Split};

/// More than the places for two peers.
const TASKS: u32 = 12;
/// How long a context waits for questions after what it has forgotten.
const QUESTIONS_NS: u64 = 64_000_000_000;

/// A context of each task, with places for two peers.
fn contexts(
    nodes: &[&'static TestNode],
    handler: Handler,
    build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>,
) -> Vec<Context<Port>> {
    let create = |&node| {
        let client = ClientBuilder::new(node, "crowded").peers(2).dispatch(0, handler);
        let mut context = context(&mut build(client).create().unwrap(), 0);
        context.set_polls(0);
        context
    };
    nodes.iter().map(create).collect()
}

/// Lets time pass, and everybody sleep, until `over`, for some seconds at most.
fn settle(contexts: &mut [Context<Port>], over: impl Fn() -> bool) {
    wait_on(contexts, 20 * 1_000_000_000, |_| over());
}

/// Lets a second pass.
fn rest(contexts: &mut [Context<Port>]) {
    wait_on(contexts, 1_000_000_000, |_| false);
}

fn errors(contexts: &[Context<Port>]) -> u64 {
    contexts.iter().map(|context| context.counters().protocol_errors).sum()
}

#[test]
fn r9_r1_answers_to_more_origins_than_have_places_all_come_and_once() {
    for len in [10, 3 * MTU] {
        let (log, handler) = collector();
        let nodes = machine(TASKS, false);
        let mut contexts = contexts(&nodes, handler, |client| client);
        let (to, world) = (contexts[0].endpoint(), nodes[0].world);
        let (ended, done) = ends();
        // The target takes all in, and cannot answer anybody meanwhile.
        world.lock().muted = Some(0);
        for (number, origin) in contexts.iter_mut().enumerate().skip(1) {
            for part in 0..2 {
                let remote_done = done(2 * number + part);
                send(origin, Send { remote_done, ..message(to, pattern(len, 2 * number + part)) });
            }
            origin.fence(to, done(100 + number).unwrap()).unwrap();
        }
        rest(&mut contexts);
        assert_eq!(ended.lock().unwrap().len(), 0);
        world.lock().muted = None;
        let others = TASKS as usize - 1;
        settle(&mut contexts, || ended.lock().unwrap().len() == 3 * others);
        rest(&mut contexts);
        assert!(world.count(Kind::Query) > 0 && world.count(Kind::Unknown) > 0);
        let mut ended: Vec<_> =
            ended.lock().unwrap().iter().map(|&(cookie, _, result)| (cookie, result)).collect();
        ended.sort_unstable_by_key(|&(cookie, _)| cookie);
        let expected = (2..2 * others + 2).chain(101..101 + others);
        assert_eq!(ended, expected.map(|cookie| (cookie, Ok(()))).collect::<Vec<_>>(), "{len} bytes");
        let log = log.lock().unwrap();
        assert_eq!((log.len(), errors(&contexts)), (2 * others, 0), "{len} bytes");
        for number in 1..=others {
            let own: Vec<_> =
                log.iter().filter(|entry| entry.0 as usize == number).map(|entry| &entry.2).collect();
            assert_eq!(own, [&pattern(len, 2 * number), &pattern(len, 2 * number + 1)], "in order");
        }
    }
}

#[test]
fn r9_l3_a_message_that_is_processed_is_told_of_once_and_is_added_once_though_the_answer_was_forgotten() {
    let (_, handler) = collector();
    let nodes = machine(TASKS, false);
    let mut contexts = contexts(&nodes, handler, |client| client);
    let (to, world) = (contexts[0].endpoint(), nodes[0].world);
    let filled = crate::machine::filled;
    let sum = contexts[0].register(filled(&[0; 64]), Rights::all()).ok().unwrap();
    let sealed = contexts[0].register(filled(&[0; 64]), Rights::READ).ok().unwrap();
    let (ended, done) = ends();
    world.lock().muted = Some(0);
    for (number, origin) in contexts.iter_mut().enumerate().skip(1) {
        for (region, cookie) in [(sum.handle(), number), (sealed.handle(), 100 + number)] {
            let memory = filled(&[1u64.to_ne_bytes(); 8].concat()).share();
            let process = Process {
                target: to,
                region,
                offset: 0,
                memory,
                range: 0..64,
                recipe: Recipe::accumulate(Factor::I64(1)),
                split: Split::TargetOnly,
                local_done: None,
                remote_done: done(cookie),
            };
            origin.process(process).unwrap();
        }
    }
    rest(&mut contexts);
    world.lock().muted = None;
    let others = TASKS as usize - 1;
    settle(&mut contexts, || ended.lock().unwrap().len() == 2 * others);
    rest(&mut contexts);
    let ended = ended.lock().unwrap();
    let of = |good: bool| {
        ended.iter().filter(move |(cookie, _, result)| (*cookie < 100) == good && result.is_ok() == good)
    };
    assert_eq!((of(true).count(), of(false).count(), ended.len()), (others, others, 2 * others), "{ended:?}");
    assert_eq!(crate::stage::words(sum.memory()), [others as u64; 8]);
    assert_eq!(errors(&contexts), 0);
}

#[test]
fn r9_r1_who_keeps_messages_of_more_origins_waiting_than_have_places_gets_them_all_in_the_end() {
    let (log, handler) = collector();
    let nodes = machine(TASKS, false);
    let later = crate::scene::always_later();
    let build = |client: ClientBuilder<TestNode>| {
        client.pools(pami::Pools { unexpected: 1, ..pami::Pools::LARGE }).dispatch_deferring(DEFERRING, later)
    };
    let mut contexts = contexts(&nodes, handler, build);
    let to = contexts[0].endpoint();
    let (ended, done) = ends();
    for (number, origin) in contexts.iter_mut().enumerate().skip(1) {
        send(origin, Send { remote_done: done(number), ..deferred(to, pattern(20, number)) });
        // Behind it.
        send(origin, message(to, pattern(30, number)));
    }
    rest(&mut contexts);
    assert_eq!((contexts[0].unexpected().count(), ended.lock().unwrap().len()), (1, 0));
    let received = crate::scene::leak(|_: &mut pami::Active<Port>, _: pami::Received| {});
    for number in 0..TASKS as usize - 1 {
        settle(&mut contexts, || ended.lock().unwrap().len() >= number);
        wait_on(&mut contexts, 20 * 1_000_000_000, |contexts| contexts[0].unexpected().count() == 1);
        let id = contexts[0].unexpected().next().expect("one is kept").id;
        let then = OnReceived { call: received, cookie: 0 };
        assert!(contexts[0].accept(id, crate::machine::buffer(20), then).is_ok());
    }
    let others = TASKS as usize - 1;
    settle(&mut contexts, || ended.lock().unwrap().len() + log.lock().unwrap().len() == 2 * others);
    assert_eq!(
        (ended.lock().unwrap().len(), log.lock().unwrap().len(), errors(&contexts)),
        (others, others, 0)
    );
}

#[test]
fn d9_questions_and_answers_to_them_that_nobody_asked_for_change_nothing() {
    let (_, handler) = collector();
    let nodes = machine(TASKS, false);
    let mut contexts = contexts(&nodes, handler, |client| client);
    let (me, other) = (contexts[0].endpoint(), contexts[1].endpoint());
    let world = nodes[0].world;
    let (ended, done) = ends();
    world.stepped();
    send(&mut contexts[0], Send { remote_done: done(1), ..message(other, pattern(10, 1)) });
    for (kind, data) in [(Kind::Unknown, &[0xff; 8][..]), (Kind::Unknown, &[]), (Kind::Query, &[])] {
        let envelope =
            Envelope { kind, dispatch: 0, origin: other, target: me, message: 0, offset: 0, total: 0 };
        world.forge(Packet::new(envelope, &[], data));
        contexts[0].advance();
    }
    assert_eq!((ended.lock().unwrap().len(), contexts[0].counters().protocol_errors), (0, 2));
    // One who asks for what never was is told so.
    let envelope = Envelope {
        kind: Kind::Query,
        dispatch: 0,
        origin: other,
        target: me,
        message: 9,
        offset: 0,
        total: 0,
    };
    world.forge(Packet::new(envelope, &[], &[0xff; 8]));
    world.free_running();
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    assert_eq!((world.count(Kind::Unknown), ended.lock().unwrap().len()), (1, 1));
}

#[test]
fn r9_d9_an_origin_that_never_asks_holds_no_context_for_ever() {
    let (log, handler) = collector();
    let nodes = machine(TASKS, false);
    let mut client = ClientBuilder::new(nodes[0], "crowded").peers(1).dispatch(0, handler).create().unwrap();
    let mut target = context(&mut client, 0);
    let (me, world) = (target.endpoint(), nodes[0].world);
    // Of more origins than have places, each wants to hear of its message, and cannot be told meanwhile.
    world.lock().muted = Some(0);
    for task in 1..TASKS {
        let origin = client.endpoint(task, 0).unwrap();
        let kind = Kind::EagerFirstAcked;
        let envelope = Envelope { kind, dispatch: 0, origin, target: me, message: 0, offset: 0, total: 1 };
        world.forge(Packet::new(envelope, &[], &[1]));
        target.advance();
    }
    world.lock().muted = None;
    while target.advance() > 0 {}
    assert_eq!((log.lock().unwrap().len(), target.counters().protocol_errors), (TASKS as usize - 1, 0));
    // Those that found no place may still ask.
    let Err((ClientError::SendsUnderWay, mut target)) = client.destroy_context(target) else {
        panic!("it waits for their questions");
    };
    world.lock().now += QUESTIONS_NS - 1;
    target.advance();
    let Err((ClientError::SendsUnderWay, mut target)) = client.destroy_context(target) else {
        panic!("it waits for their questions");
    };
    world.lock().now += 1;
    target.advance();
    assert!(client.destroy_context(target).is_ok());
}
