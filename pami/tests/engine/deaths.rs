//! Nodes that die: what waits for them ends with an error that names them, the rest goes on (SPEC D-8).

use crate::machine::{MTU, Step, TestNode, World, buffer, filled, pattern};
use crate::scene::{
    Ends, Port, advance_all, always_later, clients, context, ends, fetches, leak, message, send,
};
use pami::packet::DEFERRING;
use pami::{
    Active, Client, Context, Get, Layout, Message, OnPart, OnReceived, OperationError, Part, Payload, Put,
    Receive, Received, Rights, Rmw, RmwOp, Send, SendError, Update, Width,
};
use std::sync::Mutex;

/// Length, total and result of a reception.
type Ended = (usize, usize, Result<(), OperationError>);

const SWITCH: usize = 4 * MTU;
const DEAD: Result<(), OperationError> = Err(OperationError::NodeDead(1));

/// Starts an operation.
type Start<'a> = &'a dyn Fn(&mut Context<Port>);

/// Length, total and result of each message in its buffer.
type Got = Mutex<Vec<(u32, usize, usize, Result<(), OperationError>)>>;

/// Three tasks on three nodes; the second is the one that dies.
struct Scene {
    clients: Vec<Client<TestNode>>,
    world: &'static World,
    origin: Context<Port>,
    dying: Context<Port>,
    other: Context<Port>,
    got: &'static Got,
}

fn scene() -> Scene {
    let got: &'static Got = leak(Mutex::default());
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        let Received { origin, len, total, result, .. } = received;
        got.lock().unwrap().push((origin.task(), len, total, result));
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        Receive::Into(buffer(message.total), OnReceived { call, cookie: 0 })
    });
    scene_with(handler, got)
}

fn scene_with(handler: crate::scene::Handler, got: &'static Got) -> Scene {
    let mut clients = clients(3, false, |client| {
        client.rendezvous_from(SWITCH).dispatch(0, handler).dispatch_deferring(DEFERRING, always_later())
    });
    let [origin, dying, other] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
    Scene { world: clients[0].node().world, clients, origin, dying, other, got }
}

fn sorted(ends: &Ends) -> Vec<(usize, Option<usize>, Result<(), OperationError>)> {
    let mut ends = ends.lock().unwrap().clone();
    ends.sort_by_key(|end| (end.0, end.1.is_none()));
    ends
}

fn buffered(
    to: pami::Endpoint,
    len: usize,
    done: impl Fn(usize) -> Option<pami::Done<Port>>,
    cookie: usize,
) -> Send<'static, Port> {
    let payload = Payload::Buffer(filled(&pattern(len, cookie)), 0..len);
    Send { payload, local_done: done(cookie), remote_done: done(cookie), ..message(to, Vec::new()) }
}

#[test]
fn d8_every_operation_to_a_dead_node_ends_with_its_name_and_gives_its_buffer_back() {
    let Scene { mut clients, world, mut origin, mut dying, mut other, got } = scene();
    // The fence over all tasks asks these as well.
    let mut rest = [context(&mut clients[0], 1), context(&mut clients[2], 1)];
    let region = dying.register(buffer(10_000), Rights::all()).ok().unwrap();
    let (to, handle) = (dying.endpoint(), region.handle());
    let (ends, done) = ends();
    let (fetched, on_fetched) = fetches();
    // Nothing moves any more, so all of it is under way: some in line, some in the FIFO, some on its way.
    send(&mut origin, buffered(to, SWITCH, done, 0));
    origin.advance();
    world.stepped();
    send(&mut origin, buffered(to, 300, done, 1));
    send(&mut origin, buffered(to, 3 * MTU, done, 2));
    let into = buffer(1000).share();
    let get = Get {
        target: to,
        region: handle,
        offset: 0,
        layout: Layout::Contiguous,
        into: into.clone(),
        at: 0,
        into_layout: Layout::Contiguous,
        len: 1000,
        done: done(4),
    };
    assert_eq!(origin.get(get), Ok(()));
    let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
    let rmw = Rmw { target: to, region: handle, offset: 0, op, done: on_fetched(0) };
    assert_eq!(origin.rmw(rmw), Ok(()));
    let put = Put {
        target: to,
        region: handle,
        offset: 0,
        layout: Layout::Contiguous,
        payload: Payload::Buffer(buffer(9000), 0..9000),
        payload_layout: Layout::Contiguous,
        local_done: done(3),
        remote_done: done(3),
    };
    assert!(origin.put(put).is_ok());
    assert_eq!(origin.fence(to, done(5).unwrap()), Ok(()));
    assert_eq!(origin.fence_tasks(0..3, done(6).unwrap()), Ok(()));
    send(&mut origin, buffered(other.endpoint(), 20, done, 7));
    send(&mut origin, buffered(other.endpoint(), 2 * SWITCH, done, 8));
    for _ in 0..10 {
        origin.advance();
    }
    assert_eq!(*ends.lock().unwrap(), []);
    assert_eq!(origin.dead_node(), None);
    world.kill(1);
    world.free_running();
    let [own, far] = &mut rest;
    advance_all(&mut [&mut origin, &mut other, own, far]);
    assert_eq!(origin.dead_node(), Some(1));
    let fine = Ok(());
    let expected = [
        (0, Some(SWITCH), DEAD),
        (0, None, DEAD),
        (1, Some(300), DEAD),
        (1, None, DEAD),
        (2, Some(3 * MTU), DEAD),
        (2, None, DEAD),
        (3, Some(9000), DEAD),
        (3, None, DEAD),
        (4, None, DEAD),
        (5, None, DEAD),
        // The other tasks are fenced.
        (6, None, DEAD),
        (7, Some(20), fine),
        (7, None, fine),
        (8, Some(2 * SWITCH), fine),
        (8, None, fine),
    ];
    assert_eq!(sorted(ends), expected);
    assert_eq!(fetched.lock().unwrap()[0].result, Err(OperationError::NodeDead(1)));
    let expected = [(0, 20, 20, Ok(())), (0, 2 * SWITCH, 2 * SWITCH, Ok(()))];
    assert_eq!(*got.lock().unwrap(), expected, "what was for the living is there");
    assert!(into.reclaim().is_ok());
    assert_eq!(world.lock().unit(0).regions(), 0);
    assert!(clients[0].destroy_context(origin).is_ok() && clients[2].destroy_context(other).is_ok());
}

#[test]
fn d8_a_new_operation_to_a_dead_node_is_refused_with_its_name() {
    let Scene { world, mut origin, dying, mut other, got, .. } = scene();
    let to = dying.endpoint();
    // The path is known from before.
    assert_eq!(origin.send_immediate(to, 0, &[], &[]), Ok(()));
    assert_eq!((origin.dead_node(), origin.death_of(to)), (None, None));
    world.kill(1);
    assert_eq!([to, other.endpoint()].map(|whom| origin.death_of(whom)), [Some(1), None]);
    assert_eq!(origin.send_immediate(to, 0, &[], &[]), Err(SendError::Dead(1)));
    let (error, payload) = origin.send(buffered(to, 10, |_| None, 0)).err().unwrap();
    assert_eq!(error, SendError::Dead(1));
    assert!(matches!(payload, Payload::Buffer(..)));
    let (_, done) = ends();
    assert_eq!(origin.fence(to, done(0).unwrap()), Err(SendError::Dead(1)));
    assert_eq!(origin.send_immediate(other.endpoint(), 0, &[], &[1]), Ok(()));
    advance_all(&mut [&mut origin, &mut other]);
    assert_eq!(*got.lock().unwrap(), [(0, 1, 1, Ok(()))]);
}

#[test]
fn d8_a_fence_over_tasks_with_a_dead_one_fences_the_others_and_names_it() {
    let Scene { mut clients, world, mut origin, mut other, .. } = scene();
    let mut rest = [context(&mut clients[0], 1), context(&mut clients[2], 1)];
    world.kill(1);
    let (ends, done) = ends();
    assert_eq!(origin.fence_tasks(0..3, done(0).unwrap()), Ok(()));
    advance_all(&mut [&mut origin, &mut other]);
    assert_eq!(*ends.lock().unwrap(), [], "two contexts have not answered");
    let [own, far] = &mut rest;
    advance_all(&mut [&mut origin, &mut other, own, far]);
    assert_eq!(*ends.lock().unwrap(), [(0, None, DEAD)]);
}

/// A message of each sort that is half-way when its sender dies.
#[test]
fn d8_receptions_from_a_dead_node_end_with_its_name() {
    let got: &'static Got = leak(Mutex::default());
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        let Received { origin, len, total, result, buffer, .. } = received;
        assert_eq!(buffer.as_slice()[..len], pattern(total, 1)[..len]);
        got.lock().unwrap().push((origin.task(), len, total, result));
    });
    let parts: &'static Mutex<Vec<Ended>> = leak(Mutex::default());
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
        parts.lock().unwrap().push((part.offset, part.data.len(), part.result));
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| match message.header {
        b"parts" => Receive::Packets(OnPart { call: part, cookie: 0 }),
        b"runs" => {
            Receive::Scatter(buffer(message.total), Layout::Contiguous, OnReceived { call, cookie: 0 })
        }
        _ => Receive::Into(buffer(message.total), OnReceived { call, cookie: 0 }),
    });
    for (header, len) in [
        ("into", 20 * MTU - 8000),
        ("into", 2 * SWITCH),
        ("parts", SWITCH - 1),
        ("parts", 2 * SWITCH),
        ("runs", SWITCH - 1),
        ("runs", 3 * SWITCH),
        ("later", SWITCH - 1),
        ("later", 2 * SWITCH),
    ] {
        let Scene { mut clients, world, mut origin, mut dying, mut other, .. } = scene_with(handler, got);
        world.stepped();
        let bytes = message(origin.endpoint(), pattern(len, 1));
        let dispatch = if header == "later" { DEFERRING } else { 0 };
        send(&mut dying, Send { header: header.as_bytes(), dispatch, ..bytes });
        // A few packets come through: the request, the get and some data, or the first of the eager data.
        for _ in 0..3 {
            let mut state = world.lock();
            if let Some(&step) = state.steps().first() {
                state.step(step);
            }
            drop(state);
            origin.advance();
        }
        assert_eq!(*got.lock().unwrap(), []);
        world.kill(1);
        world.free_running();
        advance_all(&mut [&mut origin, &mut other]);
        if header == "later" {
            let id = origin.unexpected().next().unwrap().id;
            assert!(origin.accept(id, buffer(len), OnReceived { call, cookie: 0 }).is_ok());
            advance_all(&mut [&mut origin, &mut other]);
        }
        if header == "parts" {
            let parts: Vec<_> = parts.lock().unwrap().drain(..).collect();
            let (last, before) = parts.split_last().unwrap();
            assert!(before.iter().all(|part| part.2 == Ok(())));
            assert_eq!((last.0, last.1, last.2), (before.iter().map(|part| part.1).sum(), 0, DEAD));
        } else {
            let (from, front, total, result) = got.lock().unwrap().pop().expect("the callback is called");
            assert!((from, total, result) == (1, len, DEAD) && front < len, "{header} {len}");
        }
        // The rest goes on, and nothing is left behind.
        send(&mut other, message(origin.endpoint(), pattern(SWITCH, 1)));
        advance_all(&mut [&mut origin, &mut other]);
        assert_eq!(got.lock().unwrap().pop(), Some((2, SWITCH, SWITCH, Ok(()))));
        assert!(clients[0].destroy_context(origin).is_ok(), "{header} {len}");
    }
}

#[test]
fn d8_what_is_owed_to_a_dead_node_is_dropped() {
    let Scene { mut clients, world, mut origin, mut dying, .. } = scene();
    let (_, done) = ends();
    let to = origin.endpoint();
    for len in [10, SWITCH] {
        send(&mut dying, buffered(to, len, done, 0));
    }
    assert_eq!(dying.fence(to, done(1).unwrap()), Ok(()));
    dying.advance();
    world.kill(1);
    advance_all(&mut [&mut origin]);
    assert!(clients[0].destroy_context(origin).is_ok());
}

#[test]
fn d8_a_fence_whose_target_dies_before_an_older_get_is_done_names_it() {
    let Scene { world, mut origin, mut dying, .. } = scene();
    let region = dying.register(buffer(10_000), Rights::READ).ok().unwrap();
    let (ends, done) = ends();
    world.stepped();
    let get = Get {
        target: dying.endpoint(),
        region: region.handle(),
        offset: 0,
        layout: Layout::Contiguous,
        into: buffer(10_000).share(),
        at: 0,
        into_layout: Layout::Contiguous,
        len: 10_000,
        done: done(0),
    };
    assert_eq!(origin.get(get), Ok(()));
    assert_eq!(origin.fence(dying.endpoint(), done(1).unwrap()), Ok(()));
    // The fence is answered, and the get is not.
    for _ in 0..20 {
        let mut state = world.lock();
        let step = state.steps().into_iter().find(|&step| step != Step::Answer(1, 0));
        step.into_iter().for_each(|step| state.step(step));
        drop(state);
        origin.advance();
        dying.advance();
    }
    assert_eq!(world.count(pami::packet::Kind::FenceAck), 1);
    assert_eq!(*ends.lock().unwrap(), []);
    world.kill(1);
    advance_all(&mut [&mut origin]);
    assert_eq!(sorted(ends), [(0, None, DEAD), (1, None, DEAD)]);
}

#[test]
fn d8_a_message_without_payload_in_line_to_a_dead_node_ends_with_its_name() {
    let Scene { world, mut origin, dying, .. } = scene();
    let (ends, done) = ends();
    let to = dying.endpoint();
    world.stepped();
    // More than the FIFO holds, so that the other is in line.
    send(&mut origin, buffered(to, 3 * MTU, done, 0));
    for cookie in 1..20 {
        send(&mut origin, Send { local_done: done(cookie), ..message(to, Vec::new()) });
    }
    origin.advance();
    let sent: Vec<_> = ends.lock().unwrap().drain(..).collect();
    assert!(sent.len() < 19 && sent.iter().all(|end| end.2.is_ok()), "{sent:?}");
    world.kill(1);
    advance_all(&mut [&mut origin]);
    let ended = sorted(ends);
    let dead = |end: &&(usize, Option<usize>, Result<(), OperationError>)| end.0 > 0 && end.2 == DEAD;
    assert_eq!(ended.iter().filter(dead).count() + sent.len(), 19, "{ended:?}");
}

#[test]
fn d8_a_message_whose_rest_is_in_the_fifo_when_its_sender_dies_is_received_whole() {
    let Scene { world, mut origin, mut dying, got, .. } = scene();
    world.stepped();
    send(&mut dying, message(origin.endpoint(), pattern(2 * MTU, 0)));
    let first = world.lock().steps()[0];
    world.lock().step(first);
    while origin.advance() > 0 {}
    assert_eq!(*got.lock().unwrap(), []);
    // Another node's death has the context look for halves; when it sees its FIFO empty the rest comes, and then the death.
    world.lock().last_words = Some(1);
    world.kill(2);
    for _ in 0..5 {
        origin.advance();
    }
    assert_eq!(*got.lock().unwrap(), [(1, 2 * MTU, 2 * MTU, Ok(()))]);
}

#[test]
fn d8_a_reception_of_a_dead_node_ends_when_its_memory_is_back_though_another_goes_on_meanwhile() {
    let got: &'static Got = leak(Mutex::default());
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        got.lock().unwrap().push((received.origin.task(), received.len, received.total, received.result));
    });
    let part = leak(|_: &mut Active<Port>, _: &Part<'_>| ());
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| match message.origin.task() {
        1 => Receive::Into(buffer(message.total), OnReceived { call, cookie: 0 }),
        _ => Receive::Packets(OnPart { call: part, cookie: 0 }),
    });
    let Scene { world, mut origin, mut dying, mut other, .. } = scene_with(handler, got);
    let to = origin.endpoint();
    // The first is pulled in more pieces than are under way at once.
    for (from, len) in [(&mut other, 40 << 10), (&mut dying, SWITCH)] {
        send(from, message(to, pattern(len, 0)));
        while from.advance() > 0 {}
    }
    world.stepped();
    while origin.advance() > 0 {}
    let step = |wanted: fn(&Step) -> bool| {
        let mut state = world.lock();
        let step = state.steps().into_iter().find(wanted);
        step.inspect(|&step| state.step(step)).is_some()
    };
    for _ in 0..2 {
        assert!(step(|step| matches!(step, Step::Send(key) if key.1 == 0)), "the get of a piece");
    }
    assert_eq!(world.lock().port(to).injection.len(), 1, "the other get lends memory");
    world.kill(1);
    while origin.advance() > 0 {}
    while step(|step| matches!(step, Step::Answer(2, 0))) {}
    while origin.advance() > 0 {}
    assert_eq!(*got.lock().unwrap(), []);
    world.free_running();
    advance_all(&mut [&mut origin, &mut other]);
    assert_eq!(*got.lock().unwrap(), [(1, 0, SWITCH, DEAD)]);
}

#[test]
fn r2_for_whom_a_context_waits_is_noted_and_nobody_wakes_to_look_after_them() {
    const SECOND: u64 = 1_000_000_000;
    let Scene { world, mut origin, mut dying, mut other, .. } = scene();
    let region = dying.register(buffer(1000), Rights::all()).ok().unwrap();
    let (ends, done) = ends();
    let (_, fetched) = fetches();
    let (to, handle) = (dying.endpoint(), region.handle());
    let watched = |context: &mut Context<Port>| {
        world.lock().awaited.clear();
        // Each sleep notes it once.
        assert!(!context.wait_for(10 * SECOND + SECOND / 2, |_| false));
        let mut awaited = std::mem::take(&mut world.lock().awaited);
        assert!(awaited.pop().is_none_or(|last| last.is_none()), "the wait is over");
        awaited.into_iter().flatten().collect::<Vec<_>>()
    };
    assert_eq!(watched(&mut origin), [0; 0], "nobody is waited for");
    // Somebody may say whom it waits for.
    origin.watch(to);
    let noted = world.lock().awaited.pop();
    assert_eq!((noted, watched(&mut origin)), (Some(Some(1)), vec![]));
    world.stepped();
    let get = |origin: &mut Context<Port>| {
        let (layout, into_layout) = (Layout::Contiguous, Layout::Contiguous);
        let into = buffer(1000).share();
        let get = Get {
            target: to,
            region: handle,
            offset: 0,
            layout,
            into,
            at: 0,
            into_layout,
            len: 1000,
            done: done(0),
        };
        assert_eq!(origin.get(get), Ok(()));
    };
    let op = RmwOp { width: Width::Eight, update: Update::Add(1) };
    let asks: [Start<'_>; 5] = [
        &get,
        &|origin| {
            let rmw = Rmw { target: to, region: handle, offset: 0, op, done: fetched(0) };
            assert_eq!(origin.rmw(rmw), Ok(()));
        },
        &|origin| assert_eq!(origin.fence(to, done(0).unwrap()), Ok(())),
        &|origin| send(origin, Send { remote_done: done(0), ..message(to, vec![1; 10]) }),
        &|origin| send(origin, message(to, vec![1; SWITCH])),
    ];
    for ask in asks {
        ask(&mut origin);
        assert_eq!(watched(&mut origin), [1]);
        world.free_running();
        advance_all(&mut [&mut origin, &mut dying]);
        world.stepped();
    }
    assert_eq!(ends.lock().unwrap().len(), 3);
    // Nor does a message stop in the middle unnoticed, whether its sender was to bring the rest or to be asked for it.
    for len in [2 * MTU, SWITCH] {
        send(&mut dying, message(other.endpoint(), pattern(len, 0)));
        let first = world.lock().steps()[0];
        world.lock().step(first);
        while other.advance() > 0 {}
        assert_eq!(watched(&mut other), [1]);
        world.free_running();
        advance_all(&mut [&mut dying, &mut other]);
        world.stepped();
    }
    assert_eq!((watched(&mut other), watched(&mut origin)), (vec![], vec![]));
}

#[test]
fn r2_a_node_whose_job_ended_is_no_dead_one_and_what_wants_something_of_it_ends() {
    let Scene { world, mut origin, mut dying, mut other, got, .. } = scene();
    const ENDED: Result<(), OperationError> = Err(OperationError::NodeEnded(1));
    let to = dying.endpoint();
    let (ends, done) = ends();
    // What it sent before its end arrives after it.
    send(&mut dying, message(origin.endpoint(), pattern(10, 0)));
    advance_all(&mut [&mut dying]);
    world.stepped();
    send(&mut origin, Send { remote_done: done(0), ..message(to, vec![1; 10]) });
    assert_eq!(origin.fence(to, done(1).unwrap()), Ok(()));
    world.lock().ended.insert(1);
    for _ in 0..5 {
        origin.advance();
    }
    assert_eq!(*got.lock().unwrap(), [(1, 10, 10, Ok(()))]);
    assert_eq!(sorted(ends), [(0, None, ENDED), (1, None, ENDED)]);
    assert_eq!(origin.send_immediate(to, 0, &[], &[]), Err(SendError::Ended(1)));
    assert_eq!(origin.send(buffered(to, 10, |_| None, 0)).err().unwrap().0, SendError::Ended(1));
    assert_eq!((origin.dead_node(), origin.death_of(to)), (None, None), "it did not die");
    // Who dies first is named first, whatever its rank, and whoever ended before.
    world.kill(2);
    world.kill(0);
    assert_eq!(other.dead_node(), Some(2));
    let _ = other.advance();
}

#[test]
fn d8_who_dies_before_it_is_asked_for_its_data_keeps_nobody_else_from_being_asked() {
    for dead_first in [false, true] {
        let Scene { world, mut origin, mut dying, mut other, got, .. } = scene();
        world.lock().muted = Some(0);
        let mut senders = [&mut dying, &mut other];
        if !dead_first {
            senders.reverse();
        }
        for sender in senders {
            send(sender, message(origin.endpoint(), pattern(SWITCH, 0)));
            advance_all(&mut [sender, &mut origin]);
        }
        world.kill(1);
        advance_all(&mut [&mut origin]);
        world.lock().muted = None;
        advance_all(&mut [&mut origin, &mut other]);
        let mut got = got.lock().unwrap().clone();
        got.sort_unstable_by_key(|one| one.0);
        assert_eq!(got, [(1, 0, SWITCH, DEAD), (2, SWITCH, SWITCH, Ok(()))]);
    }
}
