//! Fences (SPEC F-1 to F-6).

use crate::machine::{MTU, QUEUE, Step, TestNode, buffer, filled, machine_of, pattern};
use crate::scene::{
    Port, advance_all, always_later, clients, collector, context, deferred, ends, leak, message, send,
};
use pami::fence::FENCED_AT_ONCE;
use pami::memory::Footprint;
use pami::packet::{DEFERRING, Kind};
use pami::{
    Active, Client, ClientBuilder, Completion, Context, Done, Get, Layout, Message, OnFetched, OnReceived,
    Payload, Put, Receive, Received, Rights, Rmw, RmwOp, Send, SendError, Update, Width,
};
use std::sync::Mutex;

pub const SWITCH: usize = 4 * MTU;

/// What happened, in order.
pub type Events = Mutex<Vec<&'static str>>;

pub fn events() -> (&'static Events, impl Fn(&'static str) -> Done<Port> + Copy) {
    let events: &'static Events = leak(Mutex::default());
    let note = move |name: &'static str| {
        let call = leak(move |_: &mut Active<Port>, completion: Completion| {
            assert_eq!(completion.result, Ok(()));
            events.lock().unwrap().push(name);
        });
        Done { call, cookie: 0 }
    };
    (events, note)
}

pub fn taken(events: &Events) -> Vec<&'static str> {
    events.lock().unwrap().drain(..).collect()
}

/// A handler that notes when a message is in its buffer.
pub fn noting(events: &'static Events) -> crate::scene::Handler {
    let whole = leak(move |_: &mut Active<Port>, _: Received| events.lock().unwrap().push("received"));
    leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        Receive::Into(buffer(message.total), OnReceived { call: whole, cookie: 0 })
    })
}

pub fn two(
    local: bool,
    handler: crate::scene::Handler,
) -> (Vec<Client<TestNode>>, Context<Port>, Context<Port>) {
    let mut clients = clients(2, local, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
    let (origin, target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    (clients, origin, target)
}

#[test]
fn f1_a_fence_waits_for_the_sends_before_it_over_every_path() {
    for local in [false, true] {
        let (events, note) = events();
        let (_clients, mut origin, mut target) = two(local, noting(events));
        let to = target.endpoint();
        for size in [1, MTU + 1, SWITCH, 20 * MTU] {
            send(&mut origin, message(to, pattern(size, 0)));
        }
        origin.retry(|active| active.send_immediate(to, 0, &[], b"now")).unwrap_or(());
        assert_eq!(origin.fence(to, note("fenced")), Ok(()));
        for _ in 0..50 {
            origin.advance();
        }
        assert!(!events.lock().unwrap().contains(&"fenced"), "nobody has received anything");
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(taken(events), ["received", "received", "received", "received", "received", "fenced"]);
    }
}

#[test]
fn f1_a_fence_with_nothing_before_it_is_done_and_not_inside_the_call() {
    for local in [false, true] {
        let (events, note) = events();
        let (_clients, mut origin, mut target) = two(local, noting(events));
        let (to, me) = (target.endpoint(), origin.endpoint());
        assert_eq!(origin.fence(to, note("other")), Ok(()));
        assert_eq!(taken(events), [""; 0]);
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(taken(events), ["other"]);
        assert_eq!(origin.send_immediate(me, 0, &[], b"self"), Ok(()));
        assert_eq!(origin.fence(me, note("own")), Ok(()));
        advance_all(&mut [&mut origin]);
        assert_eq!(taken(events), ["received", "own"]);
    }
}

#[test]
fn f1_other_traffic_goes_on_while_a_fence_waits() {
    let (events, note) = events();
    let (log, handler) = collector();
    let mut clients = clients(3, false, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
    let [mut origin, mut stalled, mut other] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
    send(&mut origin, message(stalled.endpoint(), pattern(10, 0)));
    assert_eq!(origin.fence(stalled.endpoint(), note("fenced")), Ok(()));
    for number in 0..100 {
        send(&mut origin, message(other.endpoint(), pattern(600, number)));
        advance_all(&mut [&mut origin, &mut other]);
    }
    assert_eq!((log.lock().unwrap().len(), taken(events)), (100, vec![]));
    advance_all(&mut [&mut origin, &mut stalled]);
    assert_eq!(taken(events), ["fenced"]);
}

#[test]
fn f1_a_fence_waits_for_kept_messages_and_not_for_those_that_came_after_it() {
    for (local, size) in [(false, 10), (true, 10), (false, 2 * SWITCH)] {
        let (events, note) = events();
        let build = |client: ClientBuilder<TestNode>| {
            client.rendezvous_from(SWITCH).dispatch_deferring(DEFERRING, always_later())
        };
        let mut clients = clients(2, local, build);
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        let to = target.endpoint();
        send(&mut origin, deferred(to, pattern(size, 0)));
        assert_eq!(origin.fence(to, note("first")), Ok(()));
        send(&mut origin, deferred(to, pattern(size, 1)));
        assert_eq!(origin.fence(to, note("second")), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!((target.unexpected().count(), taken(events)), (2, vec![]));
        let then = leak(move |_: &mut Active<Port>, _: Received| events.lock().unwrap().push("received"));
        for expected in [["received", "first"], ["received", "second"]] {
            let id = target.unexpected().next().unwrap().id;
            assert!(target.accept(id, buffer(size), OnReceived { call: then, cookie: 0 }).is_ok());
            advance_all(&mut [&mut origin, &mut target]);
            assert_eq!(taken(events), expected);
        }
    }
}

#[test]
fn f5_a_fence_covers_puts_gets_and_updates() {
    for local in [false, true] {
        let (events, note) = events();
        let (clients, mut origin, mut target) = two(local, noting(events));
        let region = target.register(filled(&pattern(30_000, 3)), Rights::all()).ok().unwrap();
        let (target_endpoint, region_handle) = (target.endpoint(), region.handle());
        let world = clients[0].node().world;
        world.stepped();
        let put = Put {
            target: target_endpoint,
            region: region_handle,
            offset: 0,
            layout: Layout::Contiguous,
            payload: Payload::Static(pattern(10_000, 4).leak()),
            payload_layout: Layout::Contiguous,
            local_done: None,
            // Nobody asks for its end: the fence is all there is.
            remote_done: None,
        };
        assert!(origin.put(put).is_ok());
        let into = buffer(20_000).share();
        let get = Get {
            target: target_endpoint,
            region: region_handle,
            offset: 10_000,
            layout: Layout::Contiguous,
            into: into.clone(),
            at: 0,
            into_layout: Layout::Contiguous,
            len: 20_000,
            done: Some(note("got")),
        };
        assert_eq!(origin.get(get), Ok(()));
        let call = leak(|_: &mut Active<Port>, fetched: pami::Fetched| assert!(fetched.result.is_ok()));
        let op = RmwOp { width: Width::Eight, update: Update::Swap(5) };
        let done = Some(OnFetched { call, cookie: 0 });
        let rmw = Rmw { target: target_endpoint, region: region_handle, offset: 29_992, op, done };
        assert_eq!(origin.rmw(rmw), Ok(()));
        assert_eq!(origin.fence(target_endpoint, note("fenced")), Ok(()));
        // Answers come last.
        for _ in 0..10_000 {
            origin.advance();
            target.advance();
            if events.lock().unwrap().contains(&"fenced") {
                break;
            }
            let mut state = world.lock();
            let ready = state.steps();
            if let Some(&step) = ready.iter().find(|step| matches!(step, Step::Send(_))).or(ready.first()) {
                state.step(step);
            }
        }
        let mut written = vec![0; 10_000];
        region.memory().read(0, &mut written).unwrap();
        assert_eq!(written, pattern(10_000, 4));
        assert_eq!(taken(events), ["got", "fenced"]);
        let mut word = [0; 8];
        region.memory().read(29_992, &mut word).unwrap();
        assert_eq!(word, 5u64.to_le_bytes());
        assert!(into.reclaim().is_ok());
    }
}

#[test]
fn f6_two_fences_in_flight_complete_in_order() {
    for local in [false, true] {
        let (events, note) = events();
        let (_clients, mut origin, mut target) = two(local, noting(events));
        let to = target.endpoint();
        send(&mut origin, message(to, pattern(SWITCH, 0)));
        assert_eq!(origin.fence(to, note("first")), Ok(()));
        send(&mut origin, message(to, pattern(100, 0)));
        assert_eq!(origin.fence(to, note("second")), Ok(()));
        assert_eq!(origin.fence(to, note("third")), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        let seen = taken(events);
        let at = |name| seen.iter().position(|&event| event == name).unwrap();
        assert!(at("first") < at("second") && at("second") < at("third"), "{seen:?}");
        assert_eq!(seen.iter().take(at("second")).filter(|&&event| event == "received").count(), 2);
    }
}

#[test]
fn f6_a_fence_that_finds_the_fifo_full_waits_in_line() {
    let (events, note) = events();
    let (_clients, mut origin, mut target) = two(false, noting(events));
    let to = target.endpoint();
    let mut sent = 0;
    while origin.send_immediate(to, 0, &[], &[7]) == Ok(()) {
        sent += 1;
        origin.advance();
    }
    assert!(sent >= 2 * QUEUE);
    assert_eq!(origin.fence(to, note("fenced")), Ok(()));
    assert_eq!(origin.send_immediate(to, 0, &[], &[8]), Err(SendError::Again), "it would overtake the fence");
    advance_all(&mut [&mut origin, &mut target]);
    let seen = taken(events);
    assert_eq!((seen.len(), seen.last()), (sent + 1, Some(&"fenced")));
}

#[test]
fn f6_room_that_comes_and_goes_lets_no_fence_overtake() {
    for seed in 1..300 {
        let (events, note) = events();
        let handler = noting(events);
        let build =
            |client: ClientBuilder<TestNode>| client.contexts(1).rendezvous_from(SWITCH).dispatch(0, handler);
        let mut clients = clients(2, false, build);
        let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
        let world = &clients[0].node().world;
        world.lock().moody = seed;
        // Nobody asks for the end of the sends, so nothing but their order tells the fence of them.
        for size in [20, SWITCH, 1, 600, 2 * SWITCH, 5] {
            send(&mut origin, message(target.endpoint(), pattern(size, 0)));
        }
        let fenced = match seed % 2 {
            0 => origin.fence(target.endpoint(), note("fenced")),
            _ => origin.fence_tasks(0..2, note("fenced")),
        };
        assert_eq!(fenced, Ok(()));
        while !events.lock().unwrap().contains(&"fenced") {
            origin.advance();
            target.advance();
        }
        let seen = taken(events);
        assert_eq!((seen.len(), seen.last()), (7, Some(&"fenced")), "{seed}: {seen:?}");
        let state = world.lock();
        let gets: Vec<_> =
            state.seen.iter().filter(|seen| seen.0 == Kind::Get && seen.1 == 1).map(|seen| seen.3).collect();
        assert_eq!(gets, [SWITCH, 2 * SWITCH, 0], "{seed}: the get of nothing is the last");
    }
}

#[test]
fn f6_as_many_fences_as_there_are_places_all_complete() {
    let (events, note) = events();
    let (_clients, mut origin, mut target) = two(false, noting(events));
    let to = target.endpoint();
    for _ in 0..pami::send::OPERATIONS {
        assert_eq!(origin.fence(to, note("fenced")), Ok(()));
    }
    assert_eq!(origin.fence(to, note("fenced")), Err(SendError::Again));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(taken(events).len(), pami::send::OPERATIONS);
}

#[test]
fn f5_a_fence_over_tasks_waits_for_all_their_contexts() {
    const TASKS: u32 = 12;
    let nodes = machine_of(TASKS, 2);
    let (events, note) = events();
    let handler = noting(events);
    let build = |node| {
        ClientBuilder::new(node, "all").contexts(2).rendezvous_from(SWITCH).dispatch(0, handler).create()
    };
    let mut clients: Vec<_> = nodes.iter().map(|&node| build(node).unwrap()).collect();
    let mut contexts: Vec<_> =
        clients.iter_mut().flat_map(|client| [0, 1].map(|offset| context(client, offset))).collect();
    let everyone: Vec<_> = contexts.iter().map(|context| context.endpoint()).collect();
    static SOME: [u32; 3] = [0, 7, 11];
    for (number, &to) in everyone.iter().enumerate() {
        contexts[0]
            .retry(|active| {
                let bytes = message(to, pattern(if number % 3 == 0 { SWITCH } else { 50 }, number));
                active.send(bytes).map_err(|(error, _)| error)
            })
            .unwrap();
    }
    assert_eq!(contexts[0].fence_tasks(0..TASKS, note("all")), Ok(()));
    assert_eq!(contexts[0].fence_tasks(&SOME[..], note("some")), Ok(()));
    assert_eq!(contexts[0].fence_tasks(0..0, note("none")), Ok(()));
    assert_eq!(contexts[0].fence_tasks(0..TASKS + 1, note("")), Err(SendError::Unreachable));
    // All but one endpoint take part.
    let (last, rest) = contexts.split_last_mut().unwrap();
    advance_all(&mut rest.iter_mut().collect::<Vec<_>>());
    let seen = taken(events);
    assert!(seen.contains(&"none") && !seen.contains(&"all") && !seen.contains(&"some"), "{seen:?}");
    let mut all: Vec<_> = rest.iter_mut().chain([last]).collect();
    advance_all(&mut all);
    let mut seen = [seen, taken(events)].concat();
    assert_eq!(seen.iter().filter(|&&event| event == "received").count(), everyone.len());
    seen.retain(|&event| event != "received");
    seen.sort_unstable();
    assert_eq!(seen, ["all", "none", "some"]);
}

#[test]
fn f4_a_fence_leaves_nothing_at_the_target_or_the_origin_when_it_is_done() {
    let (events, note) = events();
    let (mut clients, mut origin, mut target) = two(false, noting(events));
    for _ in 0..1000 {
        assert_eq!(origin.fence(target.endpoint(), note("fenced")), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
    }
    assert_eq!(taken(events).len(), 1000);
    assert!(clients[0].destroy_context(origin).is_ok() && clients[1].destroy_context(target).is_ok());
}

#[test]
fn f4_fences_take_no_byte_for_any_message_or_peer() {
    // What grows with peers is a place for the answers to each and, up to a limit, one for half a message; with messages,
    // nothing does: a context has a fixed number of places, and what a fence remembers fits where a send's header and data are noted.
    let of = |tasks: u32| {
        let nodes = machine_of(tasks, 1);
        ClientBuilder::new(nodes[0], "size").create().unwrap().footprint()
    };
    let (small, large) = (of(2), of(64));
    let Footprint { halves, endpoints, origin, ack, .. } = small;
    assert_eq!(small, Footprint { halves, endpoints, ..large });
    let more = (large.halves - halves) * origin + (large.endpoints - endpoints) * ack;
    assert_eq!(large.bytes() - small.bytes(), more);
    const { assert!(pami::fence::STATE_BYTES <= pami::send::STATE_BYTES) };
}

#[test]
fn f4_a_send_after_fences_does_what_it_did_before_them() {
    // The same packets, the same bytes, the same numbers.
    let trace = |fences: usize| {
        let (events, note) = events();
        let (clients, mut origin, mut target) = two(false, noting(events));
        for _ in 0..fences {
            assert_eq!(origin.fence(target.endpoint(), note("fenced")), Ok(()));
            advance_all(&mut [&mut origin, &mut target]);
        }
        clients[0].node().world.lock().seen.clear();
        let (_, done) = ends();
        for size in [5, 5 * MTU - 100, 2 * SWITCH] {
            let bytes = message(target.endpoint(), pattern(size, 0));
            send(&mut origin, Send { remote_done: done(0), ..bytes });
            advance_all(&mut [&mut origin, &mut target]);
        }
        clients[0].node().world.lock().seen.clone()
    };
    assert_eq!(trace(0), trace(10));
}

#[test]
fn f5_a_fence_over_more_targets_than_are_asked_at_once_waits_for_the_last_of_them() {
    let tasks = FENCED_AT_ONCE + 4;
    let build = |client: ClientBuilder<_>| client.contexts(1).dispatch_deferring(DEFERRING, always_later());
    let mut clients = clients(tasks as u32, false, build);
    let mut contexts: Vec<_> = clients.iter_mut().map(|client| context(client, 0)).collect();
    let last = contexts[tasks - 1].endpoint();
    send(&mut contexts[0], deferred(last, pattern(10, 0)));
    let (ended, done) = ends();
    assert_eq!(contexts[0].fence_tasks(0..tasks as u32, done(0).unwrap()), Ok(()));
    // However long the others take.
    advance_all(&mut [&mut contexts[0]]);
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    assert_eq!((contexts[tasks - 1].unexpected().count(), ended.lock().unwrap().len()), (1, 0));
    let id = contexts[tasks - 1].unexpected().next().unwrap().id;
    assert_eq!(contexts[tasks - 1].discard(id), Ok(()));
    advance_all(&mut contexts.iter_mut().collect::<Vec<_>>());
    assert_eq!(ended.lock().unwrap().len(), 1);
}
