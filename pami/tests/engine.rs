//! The engine over an in-process machine: every claim of issue "Boot, wire, send" that needs no hardware.

mod machine;

use machine::{MTU, TestNode, TestPort, buffer, machine, pattern};
use pami::packet::{Envelope, Kind};
use pami::{
    Active, Client, ClientBuilder, ClientError, Completion, Context, Done, Message, OnPart, OnReceived, Part,
    Payload, Progress, Receive, Received, Send, SendError, Work, WorkSlot,
};
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

type Port = TestPort;
type Log = Mutex<Vec<(u32, Vec<u8>, Vec<u8>)>>;

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

fn context(client: &mut Client<TestNode>, offset: u8) -> Context<Port> {
    let memory = client.context_memory().unwrap();
    client.create_context(offset, memory).unwrap()
}

/// A handler that takes messages into buffers, and the list that they end in.
fn collector() -> (&'static Log, pami::dispatch::Handler<Port>) {
    let log: &'static Log = leak(Mutex::new(Vec::new()));
    let headers: &'static Mutex<Vec<Vec<u8>>> = leak(Mutex::new(Vec::new()));
    let whole = leak(move |_: &mut Active<Port>, received: Received| {
        assert_eq!(received.len, received.total);
        let header = headers.lock().unwrap()[received.cookie].clone();
        let data = received.buffer.as_slice()[..received.len].to_vec();
        log.lock().unwrap().push((received.origin.task(), header, data));
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        let mut headers = headers.lock().unwrap();
        headers.push(message.header.to_vec());
        Receive::Into(buffer(message.total), OnReceived { call: whole, cookie: headers.len() - 1 })
    });
    (log, handler)
}

fn pair(
    local: bool,
    build: impl Fn(ClientBuilder<TestNode>) -> ClientBuilder<TestNode>,
) -> [Client<TestNode>; 2] {
    let nodes = machine(2, local);
    [0, 1].map(|task| build(ClientBuilder::new(nodes[task], "test").contexts(2)).create().unwrap())
}

fn advance_all(contexts: &mut [&mut Context<Port>]) {
    while contexts.iter_mut().map(|context| context.advance()).sum::<usize>() > 0 {}
}

const SIZES: [usize; 9] = [0, 1, 8, 64, MTU - 1, MTU, MTU + 1, 3 * MTU, 1 << 20];

fn every_size_arrives(local: bool) {
    let (log, handler) = collector();
    let [mut a, mut b] = pair(local, |client| client.dispatch(3, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 1));
    let to = a.endpoint(1, 1).unwrap();
    for (seed, size) in SIZES.into_iter().enumerate() {
        let header = pattern(seed * 12, 7);
        let mut data = buffer(size);
        data.as_mut_slice()[..size].copy_from_slice(&pattern(size, seed));
        let bytes = Box::leak(data.as_slice()[..size].to_vec().into_boxed_slice());
        let send = Send {
            target: to,
            dispatch: 3,
            header: &header,
            payload: Payload::Static(bytes),
            local_done: None,
            remote_done: None,
        };
        assert!(origin.send(send).is_ok());
        if header.len() + size <= origin.immediate_limit() {
            advance_all(&mut [&mut origin, &mut target]);
            origin.send_immediate(to, 3, &header, bytes).unwrap();
        }
        advance_all(&mut [&mut origin, &mut target]);
        for (from, header_seen, data) in log.lock().unwrap().drain(..) {
            assert_eq!((from, &header_seen), (0, &header));
            assert_eq!(data, pattern(size, seed), "size {size}");
        }
    }
    assert_eq!(target.counters().strays, 0);
    assert_eq!(origin.counters().sent, target.counters().received);
}

#[test]
fn p6_messages_of_every_size_arrive_whole_over_the_torus() {
    every_size_arrives(false);
}

#[test]
fn p6_messages_of_every_size_arrive_whole_through_shared_memory() {
    every_size_arrives(true);
}

#[test]
fn p5_a_handler_may_take_packets() {
    let seen: &'static Mutex<Vec<u8>> = leak(Mutex::new(Vec::new()));
    let lasts: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
        let mut seen = seen.lock().unwrap();
        assert_eq!((part.offset, part.cookie), (seen.len(), 5));
        seen.extend(part.data);
        lasts.fetch_add(usize::from(part.is_last()), Relaxed);
    });
    let handler =
        leak(move |_: &mut Active<Port>, _: &Message<'_>| Receive::Packets(OnPart { call: part, cookie: 5 }));
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let data = pattern(10 * MTU + 3, 1);
    let payload = Payload::Static(data.clone().leak());
    let target_endpoint = a.endpoint(1, 0).unwrap();
    let send = Send {
        target: target_endpoint,
        dispatch: 0,
        header: b"h",
        payload,
        local_done: None,
        remote_done: None,
    };
    assert!(origin.send(send).is_ok());
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(*seen.lock().unwrap(), data);
    assert_eq!(lasts.load(Relaxed), 1);
}

#[test]
fn p5_completions_give_the_buffer_back_and_tell_of_the_target() {
    let (_, handler) = collector();
    let [mut a, mut b] = pair(true, |client| client.dispatch(0, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let back: &'static Mutex<Vec<(usize, Option<usize>)>> = leak(Mutex::new(Vec::new()));
    let done = leak(move |_: &mut Active<Port>, completion: Completion| {
        let len = completion.buffer.map(|buffer| buffer.as_slice().len());
        back.lock().unwrap().push((completion.cookie, len));
    });
    let lent = buffer(4 * MTU);
    let len = lent.as_slice().len();
    let send = Send {
        target: a.endpoint(1, 0).unwrap(),
        dispatch: 0,
        header: &[],
        payload: Payload::Buffer(lent, 0..len),
        local_done: Some(Done { call: done, cookie: 1 }),
        remote_done: Some(Done { call: done, cookie: 2 }),
    };
    assert!(origin.send(send).is_ok());
    advance_all(&mut [&mut origin]);
    assert!(back.lock().unwrap().is_empty(), "the target still reads the buffer");
    advance_all(&mut [&mut target]);
    advance_all(&mut [&mut origin, &mut target]);
    let mut seen = back.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [(1, Some(len)), (2, None)]);
}

#[test]
fn p5_callbacks_may_send() {
    let count: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let bounce = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        if count.fetch_add(1, Relaxed) < 100 {
            active.send_immediate(message.origin, 0, &[], message.data).unwrap();
        }
        Receive::Done
    });
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, bounce));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    origin.send_immediate(a.endpoint(1, 0).unwrap(), 0, &[], b"ping").unwrap();
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(count.load(Relaxed), 101);
}

#[test]
fn p4_every_context_reaches_every_context_itself_included() {
    let (log, handler) = collector();
    let [mut a, mut b] = pair(true, |client| client.dispatch(0, handler));
    let mut contexts = [context(&mut a, 0), context(&mut a, 1), context(&mut b, 0), context(&mut b, 1)];
    for (from, context) in contexts.iter_mut().enumerate() {
        for to in 0..4u8 {
            let endpoint = a.endpoint(u32::from(to / 2), to % 2).unwrap();
            context.send_immediate(endpoint, 0, &[], &[from as u8, to]).unwrap();
        }
    }
    let [w, x, y, z] = &mut contexts;
    advance_all(&mut [w, x, y, z]);
    let mut seen: Vec<_> = log.lock().unwrap().iter().map(|(_, _, data)| (data[0], data[1])).collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..16).map(|n| (n / 4, n % 4)).collect::<Vec<_>>());
}

#[test]
fn p11_posted_work_waits_in_order_for_a_stalled_receiver() {
    const POSTS: usize = 100_000;
    static SLOTS: [WorkSlot<Port>; POSTS] = [const { WorkSlot::new() }; POSTS];
    let seen: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let in_order = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        let number = u64::from_le_bytes(message.data.try_into().unwrap());
        assert_eq!(number, seen.fetch_add(1, Relaxed) as u64);
        Receive::Done
    });
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, in_order));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = a.endpoint(1, 0).unwrap();
    let work = leak(move |active: &mut Active<Port>, cookie: usize| {
        match active.send_immediate(to, 0, &[], &(cookie as u64).to_le_bytes()) {
            Ok(()) => Progress::Done,
            Err(SendError::Again) => Progress::Again,
            Err(other) => panic!("{other}"),
        }
    });
    let poster = origin.poster();
    for (cookie, slot) in SLOTS.iter().enumerate() {
        poster.post(slot, Work { run: work, cookie }).unwrap();
    }
    for _ in 0..100 {
        origin.advance();
    }
    assert_eq!(seen.load(Relaxed), 0);
    assert!(
        poster.post(&SLOTS[POSTS - 1], Work { run: work, cookie: 0 }).is_err(),
        "its slot is in the queue"
    );
    while seen.load(Relaxed) < POSTS {
        target.advance();
        origin.advance();
    }
}

#[test]
fn p11_sends_go_on_when_the_receiver_does_and_stay_in_order() {
    let (log, handler) = collector();
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = a.endpoint(1, 0).unwrap();
    let mut number = 0u32;
    let mut send = |origin: &mut Context<Port>| {
        let mut data = pattern(2 * MTU, 3);
        data[..4].copy_from_slice(&number.to_le_bytes());
        let payload = Payload::Static(data.leak());
        let send =
            Send { target: to, dispatch: 0, header: &[], payload, local_done: None, remote_done: None };
        let result = origin.send(send).map_err(|(error, _)| error);
        number += u32::from(result.is_ok());
        result
    };
    let taken = std::iter::repeat_with(|| send(&mut origin)).take_while(Result::is_ok).count();
    assert!(taken >= pami::send::OPERATIONS);
    assert_eq!(origin.send_immediate(to, 0, &[], &[]), Err(SendError::Again), "it would overtake");
    let mut sent = taken;
    while sent < 300 {
        target.advance();
        origin.advance();
        sent += usize::from(send(&mut origin).is_ok());
    }
    advance_all(&mut [&mut target, &mut origin]);
    let numbers: Vec<_> = log
        .lock()
        .unwrap()
        .iter()
        .map(|(_, _, data)| u32::from_le_bytes(data[..4].try_into().unwrap()))
        .collect();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>());
}

#[test]
fn p1_running_out_says_of_what() {
    let nodes = machine(1, true);
    let client = |name| ClientBuilder::new(nodes[0], name);
    let first = client("a").create().unwrap();
    assert_eq!(client("a").create().err(), Some(ClientError::NameTaken));
    let _second = client("b").create().unwrap();
    assert_eq!(client("c").create().err(), Some(ClientError::Exhausted { what: "clients", limit: 2 }));
    assert!(first.destroy().is_ok());
    let mut third = client("c").contexts(2).create().unwrap();
    assert_eq!(
        client("d").contexts(9).create().err(),
        Some(ClientError::Exhausted { what: "contexts", limit: 4 })
    );
    let context = context(&mut third, 1);
    let (error, mut third) = third.destroy().err().unwrap();
    assert_eq!(error, ClientError::ContextsAlive(1));
    let memory = third.destroy_context(context).ok().unwrap();
    let context = third.create_context(0, memory).unwrap();
    assert!(third.destroy_context(context).is_ok());
    assert!(third.destroy().is_ok());
}

#[test]
fn p4_only_the_clients_own_endpoints_have_addresses() {
    let nodes = machine(3, true);
    let client = ClientBuilder::new(nodes[0], "few").task_list(&[0, 2]).contexts(2).create().unwrap();
    assert!(client.endpoint(2, 1).is_ok());
    assert_eq!(client.endpoint(1, 0), Err(ClientError::UnknownTask(1)));
    assert_eq!(client.endpoint(2, 2), Err(ClientError::UnknownContext(2)));
    let mistake = ClientBuilder::new(nodes[0], "bad").task_range(1..4).create().err();
    assert_eq!(mistake, Some(ClientError::UnknownTask(3)));
    let handler = collector().1;
    let twice =
        ClientBuilder::new(nodes[0], "twice").dispatch(1, handler).dispatch(1, handler).create().err();
    assert_eq!(twice, Some(ClientError::DispatchId(1)));
}

#[test]
fn p6_a_bad_send_is_refused_and_its_payload_given_back() {
    let [mut a, _b] = pair(false, |client| client);
    let mut origin = context(&mut a, 0);
    let to = a.endpoint(1, 0).unwrap();
    let long = vec![0; origin.immediate_limit() + 1];
    assert_eq!(origin.send_immediate(to, 0, &[], &long), Err(SendError::TooLong));
    assert_eq!(origin.send_immediate(to, 32, &[], &[]), Err(SendError::DispatchId));
    let foreign =
        pami::Endpoint::from_parts(pami::endpoint::ClientId(1), 1, pami::endpoint::ContextOffset(0));
    assert_eq!(origin.send_immediate(foreign, 0, &[], &[]), Err(SendError::ForeignClient));
    let nowhere = pami::Endpoint::from_parts(a.id(), 9, pami::endpoint::ContextOffset(0));
    let payload = Payload::Buffer(buffer(10), 0..10);
    let send =
        Send { target: nowhere, dispatch: 0, header: &[], payload, local_done: None, remote_done: None };
    let (error, payload) = origin.send(send).err().unwrap();
    assert_eq!(error, SendError::Unreachable);
    assert!(matches!(payload, Payload::Buffer(..)));
}

fn any_packet() -> impl Strategy<Value = (u8, u8, u32, u32, u32, u32, Vec<u8>)> {
    let small = || prop_oneof![0u32..40, any::<u32>()];
    let data = proptest::collection::vec(any::<u8>(), 0..40);
    (0u8..6, 0u8..40, 0u32..6, small(), small(), small(), data)
}

proptest! {
    #[test]
    fn d9_no_sequence_of_packets_disturbs_a_context(packets in proptest::collection::vec(any_packet(), 0..60)) {
        let part = leak(|_: &mut Active<Port>, part: &Part<'_>| assert!(part.offset + part.data.len() <= part.total));
        let take = leak(move |_: &mut Active<Port>, message: &Message<'_>| match message.data.len() % 3 {
            0 => Receive::Into(buffer(20), OnReceived { call: leak(|_: &mut Active<Port>, _: Received| ()), cookie: 0 }),
            1 => Receive::Done,
            _ => Receive::Packets(OnPart { call: part, cookie: 0 }),
        });
        let [mut a, mut b] = pair(false, |client| client.dispatch(0, take).dispatch(1, take));
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let wires = &a.node().wires;
        for (kind, dispatch, task, message, offset, total, data) in packets {
            let kind = [Kind::Hello, Kind::Go, Kind::First, Kind::Next, Kind::FirstAcked, Kind::Ack][usize::from(kind)];
            let total = total.min(1 << 16);
            let len = data.len().min(total.saturating_sub(offset) as usize);
            let sender = pami::Endpoint::from_parts(b.id(), task, pami::endpoint::ContextOffset(task as u8 % 3));
            let to = target.endpoint();
            let envelope = Envelope { kind, dispatch, origin: sender, target: to, message, offset, total };
            wires.queue(to).lock().unwrap().push_back(machine::Packet::new(envelope, &data[..len]));
            target.advance();
            origin.advance();
        }
        // It still serves its own.
        let before = target.counters().received;
        origin.send_immediate(a.endpoint(1, 0).unwrap(), 0, &[], &[1]).unwrap();
        advance_all(&mut [&mut origin, &mut target]);
        prop_assert_eq!(target.counters().received, before + 1);
    }
}

#[test]
fn p2_several_threads_post_to_a_locked_context_while_another_advances_it() {
    const THREADS: usize = 4;
    const POSTS: usize = 500;
    let ran: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let work = leak(move |_: &mut Active<Port>, cookie: usize| {
        ran.fetch_add(cookie, Relaxed);
        Progress::Done
    });
    let [mut a, _b] = pair(true, |client| client);
    let locked = pami::LockedContext::new(context(&mut a, 0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let poster = locked.poster();
            scope.spawn(move || {
                for _ in 0..POSTS {
                    poster.post(leak(WorkSlot::new()), Work { run: work, cookie: 1 }).unwrap();
                }
            });
        }
        while ran.load(Relaxed) < THREADS * POSTS {
            let mut guard = locked.lock();
            assert!(locked.try_lock().is_none(), "two ways into one context");
            guard.advance();
        }
    });
    assert!(locked.try_lock().is_some());
    assert_eq!(locked.into_inner().advance(), 0);
}

#[test]
fn p13_a_client_tells_its_attributes() {
    let nodes = machine(6, false);
    let client = ClientBuilder::new(nodes[4], "told").contexts(3).create().unwrap();
    let attributes = client.attributes();
    assert_eq!((attributes.task, attributes.tasks, attributes.contexts), (4, 6, 3));
    assert_eq!((attributes.clock_hz, attributes.dispatch_ids), (1_000_000_000, 32));
    assert_eq!(attributes.torus.coord(4), Some(attributes.coord));
    assert_eq!((client.name(), client.id().0), ("told", 0));
}

#[test]
fn p6_a_send_from_a_completion_does_not_cut_into_an_earlier_one() {
    let (log, handler) = collector();
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = a.endpoint(1, 0).unwrap();
    fn message(
        to: pami::Endpoint,
        fill: u8,
        len: usize,
        local_done: Option<Done<Port>>,
    ) -> Send<'static, Port> {
        let payload = Payload::Static(vec![fill; len].leak());
        Send { target: to, dispatch: 0, header: &[], payload, local_done, remote_done: None }
    }
    let again = leak(move |active: &mut Active<Port>, _: Completion| {
        assert!(active.send(message(to, 3, 10, None)).is_ok());
    });
    // The first fills the queue, so that the second, whose completion sends the fourth, waits in front of the third.
    assert!(origin.send(message(to, 0, 8 * MTU, None)).is_ok());
    assert!(origin.send(message(to, 1, 10, Some(Done { call: again, cookie: 0 }))).is_ok());
    assert!(origin.send(message(to, 2, 20 * MTU, None)).is_ok());
    for _ in 0..100 {
        target.advance();
        origin.advance();
    }
    let seen: Vec<_> = log.lock().unwrap().iter().map(|(_, _, data)| (data[0], data.len())).collect();
    assert_eq!(seen, [(0, 8 * MTU), (1, 10), (2, 20 * MTU), (3, 10)]);
    assert_eq!(target.counters().strays, 0);
}

#[test]
fn d9_a_packet_that_changes_its_messages_length_is_a_stray() {
    let part =
        leak(|_: &mut Active<Port>, part: &Part<'_>| assert!(part.offset + part.data.len() <= part.total));
    let take =
        leak(move |_: &mut Active<Port>, _: &Message<'_>| Receive::Packets(OnPart { call: part, cookie: 0 }));
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, take));
    let (_origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (from, to) = (a.endpoint(0, 0).unwrap(), target.endpoint());
    let envelope = Envelope {
        kind: Kind::First,
        dispatch: 0,
        origin: from,
        target: to,
        message: 1,
        offset: 0,
        total: 100,
    };
    let longer = Envelope { kind: Kind::Next, offset: 60, total: u32::MAX, ..envelope };
    for (envelope, len) in [(envelope, 60), (longer, 400)] {
        a.node().wires.queue(to).lock().unwrap().push_back(machine::Packet::new(envelope, &pattern(len, 0)));
        target.advance();
    }
    assert_eq!(target.counters().strays, 1);
    let (error, _) = b.destroy_context(target).err().expect("half a message is there");
    assert_eq!(error, ClientError::ReceivesUnderWay);
}
