//! Immediate and eager sends: content, order, back-pressure and completions.

use crate::machine::{CONTEXTS, MTU, Packet, QUEUE, buffer, filled, machine_of, pattern};
use crate::scene::{
    Port, advance_all, always_later, clients, collector, context, ends, leak, message, pair, send,
};
use crate::shapes::{self, gathered, layouts, reach, scattered};
use pami::endpoint::ContextOffset;
use pami::packet::{DEFERRING, Envelope, HEADER_LIMIT, Kind};
use pami::receive::HALVES_LIMIT;
use pami::{
    Active, ClientBuilder, Completion, Context, Done, Endpoint, Layout, Message, OnPart, OnReceived, Part,
    Payload, Progress, Receive, Received, Send, SendError, Work, WorkSlot,
};
use proptest::prelude::*;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
            layout: Layout::Contiguous,
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
    assert_eq!(target.counters().protocol_errors, 0);
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
        layout: Layout::Contiguous,
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
        layout: Layout::Contiguous,
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
fn n8_a_post_wakes_who_sleeps_unless_it_has_to_wait_behind_another() {
    let [mut client, _] = pair(false, |client| client);
    let world = client.node().world;
    let mut context = context(&mut client, 0);
    let poster = context.poster();
    let slots: [&'static WorkSlot<_>; 3] = core::array::from_fn(|_| leak(WorkSlot::new()));
    let (room, run): (&AtomicUsize, &AtomicUsize) = (leak(AtomicUsize::new(0)), leak(AtomicUsize::new(0)));
    let work = leak(move |_: &mut Active<Port>, _: usize| {
        let may = room.load(Relaxed) > 0;
        run.fetch_add(may.into(), Relaxed);
        if may { Progress::Done } else { Progress::Again }
    });
    let mut posted_asleep = |slot: usize| {
        let before = world.wakes.load(Relaxed);
        let post = move || poster.post(slots[slot], Work { run: work, cookie: 0 }).unwrap();
        *world.meanwhile.lock().unwrap() = Some(Box::new(post));
        context.wait_for(1, |_| world.meanwhile.lock().unwrap().is_none());
        context.advance();
        (world.wakes.load(Relaxed) - before, run.load(Relaxed))
    };
    assert_eq!(posted_asleep(0), (1, 0), "it is woken, and the work finds no room");
    assert_eq!(posted_asleep(1), (0, 0), "it would have to wait as well");
    room.store(1, Relaxed);
    assert_eq!(posted_asleep(2).1, 3);
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
        let send = Send {
            target: to,
            dispatch: 0,
            header: &[],
            payload,
            layout: Layout::Contiguous,
            local_done: None,
            remote_done: None,
        };
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
fn p6_a_message_of_one_packet_that_nobody_is_told_of_takes_no_place() {
    let (log, handler) = collector();
    let [mut a, mut b] = pair(false, |client| client.dispatch(0, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = a.endpoint(1, 0).unwrap();
    let (ended, done) = ends();
    let send = |origin: &mut Context<Port>, number: usize, told: bool| {
        let payload = Payload::Static(vec![number as u8; 300].leak());
        let (local_done, remote_done) = (None, if told { done(number) } else { None });
        let layout = Layout::Contiguous;
        let send = Send { target: to, dispatch: 0, header: &[7], payload, layout, local_done, remote_done };
        origin.send(send).map_err(|(error, _)| error)
    };
    let places = pami::send::OPERATIONS;
    for number in 0..places {
        send(&mut origin, number, true).unwrap();
        // The port's room is not what is in question.
        target.advance();
    }
    assert_eq!(send(&mut origin, places, true), Err(SendError::Again));
    send(&mut origin, places, false).unwrap();
    advance_all(&mut [&mut target, &mut origin]);
    send(&mut origin, places + 1, true).unwrap();
    advance_all(&mut [&mut target, &mut origin]);
    let first: Vec<_> = log.lock().unwrap().iter().map(|(_, _, data)| usize::from(data[0])).collect();
    assert_eq!(first, (0..places + 2).collect::<Vec<_>>(), "in order");
    let ended: Vec<_> = ended.lock().unwrap().drain(..).map(|end| end.0).collect();
    assert_eq!(ended, (0..places).chain([places + 1]).collect::<Vec<_>>());
}

#[test]
fn p5_a_short_buffer_comes_back_before_its_message_is_read() {
    let (_, handler) = collector();
    for local in [false, true] {
        let [mut a, mut b] = pair(local, |client| client.dispatch(0, handler));
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let (ended, done) = ends();
        let send = Send {
            target: a.endpoint(1, 0).unwrap(),
            dispatch: 0,
            header: &[],
            payload: Payload::Buffer(buffer(100), 10..90),
            layout: Layout::Contiguous,
            local_done: done(1),
            remote_done: done(2),
        };
        assert!(origin.send(send).is_ok());
        assert!(ended.lock().unwrap().is_empty(), "callbacks are called by advances");
        origin.advance();
        let len = ended.lock().unwrap().drain(..).next();
        assert!(len.is_some_and(|(cookie, len, result)| cookie == 1 && len >= Some(90) && result.is_ok()));
        advance_all(&mut [&mut target, &mut origin]);
        assert_eq!(ended.lock().unwrap().as_slice(), [(2, None, Ok(()))]);
    }
}

#[test]
fn p6_a_bad_send_is_refused_and_its_payload_given_back() {
    let whole = leak(|_: &mut Active<Port>, _: &Message<'_>| Receive::Done);
    let build =
        |client: ClientBuilder<_>| client.dispatch(0, whole).dispatch_deferring(DEFERRING, always_later());
    let [mut a, mut b] = pair(false, build);
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = a.endpoint(1, 0).unwrap();
    let long = vec![0; origin.immediate_limit() + 1];
    assert_eq!(origin.send_immediate(to, 0, &[], &long), Err(SendError::TooLong));
    assert_eq!(origin.send_immediate(to, 40, &[], &[]), Err(SendError::DispatchId));
    let (error, _) = origin.send(Send { dispatch: 40, ..message(to, vec![0]) }).err().unwrap();
    assert_eq!(error, SendError::DispatchId);
    // What may be wanted later has to lie here as long.
    let (header, one_more) = ([0; HEADER_LIMIT], [0; HEADER_LIMIT + 1]);
    assert_eq!(origin.send_immediate(to, DEFERRING, &header, &[0]), Err(SendError::TooLong));
    for dispatch in [0, DEFERRING] {
        assert_eq!(origin.send_immediate(to, dispatch, &one_more, &[]), Err(SendError::TooLong));
        assert_eq!(origin.send_immediate(to, dispatch, &header, &[]), Ok(()));
    }
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!((target.unexpected().count(), target.counters().received), (1, 2));
    let foreign =
        pami::Endpoint::from_parts(pami::endpoint::ClientId(1), 1, pami::endpoint::ContextOffset(0));
    assert_eq!(origin.send_immediate(foreign, 0, &[], &[]), Err(SendError::ForeignClient));
    let nowhere = pami::Endpoint::from_parts(a.id(), 9, pami::endpoint::ContextOffset(0));
    let payload = Payload::Buffer(buffer(10), 0..10);
    let send = Send {
        target: nowhere,
        dispatch: 0,
        header: &[],
        payload,
        layout: Layout::Contiguous,
        local_done: None,
        remote_done: None,
    };
    let (error, payload) = origin.send(send).err().unwrap();
    assert_eq!(error, SendError::Unreachable);
    assert!(matches!(payload, Payload::Buffer(..)));
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
        Send {
            target: to,
            dispatch: 0,
            header: &[],
            payload,
            layout: Layout::Contiguous,
            local_done,
            remote_done: None,
        }
    }
    let again = leak(move |active: &mut Active<Port>, _: Completion| {
        assert!(active.send(message(to, 3, 10, None)).is_ok());
    });
    // The first fills the queue, so that the second, whose completion sends the fourth, waits in front of the third.
    assert!(origin.send(message(to, 0, 2 * QUEUE * MTU, None)).is_ok());
    assert!(origin.send(message(to, 1, 10, Some(Done { call: again, cookie: 0 }))).is_ok());
    assert!(origin.send(message(to, 2, 30 * MTU, None)).is_ok());
    for _ in 0..100 {
        target.advance();
        origin.advance();
    }
    let seen: Vec<_> = log.lock().unwrap().iter().map(|(_, _, data)| (data[0], data.len())).collect();
    assert_eq!(seen, [(0, 2 * QUEUE * MTU), (1, 10), (2, 30 * MTU), (3, 10)]);
    assert_eq!(target.counters().protocol_errors, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn p10_a_send_gathers_and_its_handler_scatters_as_a_naive_reading_of_the_layouts_says(
        local in any::<bool>(), from in layouts(), to in layouts(), extent in 0usize..4000, room in 0usize..6000,
        header in 0usize..100
    ) {
        // What has an end is used whole.
        let extent = shapes::extent(&from, extent);
        let data = pattern(extent, 2);
        let moved = gathered(&from, &data);
        let got: &'static Mutex<Vec<(Vec<u8>, usize, usize)>> = leak(Mutex::default());
        let call = leak(move |_: &mut Active<Port>, received: Received| {
            got.lock().unwrap().push((received.buffer.as_slice().to_vec(), received.len, received.total));
        });
        let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
            assert_eq!(message.header.len(), header);
            Receive::Scatter(buffer(room), to, OnReceived { call, cookie: 0 })
        });
        let [mut a, mut b] = pair(local, |client| client.dispatch(0, handler).rendezvous_from(1500));
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let payload = Payload::Buffer(filled(&data), 0..extent);
        let header = pattern(header, 1);
        let send = Send { header: &header, payload, layout: from, ..message(target.endpoint(), Vec::new()) };
        prop_assert!(origin.send(send).is_ok());
        advance_all(&mut [&mut origin, &mut target]);
        let (memory, len, total) = got.lock().unwrap().pop().unwrap();
        prop_assert_eq!(total, moved.len());
        // Placing ends at the first run that does not fit; runs may come cut into packets.
        prop_assert!(len <= total);
        prop_assert_eq!(&memory, &scattered(&to, &vec![0; room], 0, &moved[..len]));
        if reach(&to, total).is_some_and(|end| end <= room) {
            prop_assert_eq!(len, total);
        }
    }
}

#[test]
fn p5_every_endpoint_may_be_in_the_middle_of_a_message_to_the_same_context() {
    // As many endpoints as there are places: the table is full.
    const TASKS: u32 = HALVES_LIMIT as u32 / CONTEXTS as u32;
    const PART: usize = 5;
    let (log, take) = collector();
    let mut clients = clients(TASKS, false, |client| client.dispatch(0, take));
    let (world, mut target) = (clients[0].node().world, context(&mut clients[0], 0));
    // Of each endpoint how many packets it has sent; each has three messages of four packets to send.
    let mut left: Vec<_> =
        (0..TASKS).flat_map(|task| (0..CONTEXTS).map(move |context| (task, context, 0))).collect();
    let mut random = 7usize;
    while !left.is_empty() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let at = (random >> 33) % left.len();
        let (task, context, sent) = &mut left[at];
        let origin = Endpoint::from_parts(target.endpoint().client(), *task, ContextOffset(*context));
        let (message, offset) = (*sent / 4, *sent % 4 * PART);
        let envelope = Envelope {
            kind: if offset == 0 { Kind::EagerFirst } else { Kind::EagerNext },
            dispatch: 0,
            origin,
            target: target.endpoint(),
            message: message as u32,
            offset: offset as u32,
            total: 4 * PART as u32,
        };
        let data = pattern(4 * PART, *task as usize * 100 + usize::from(*context) * 10 + message);
        world.forge(Packet::new(envelope, &[*context, message as u8], &data[offset..offset + PART]));
        *sent += 1;
        if *sent == 12 {
            left.swap_remove(at);
        }
        target.advance();
    }
    assert_eq!(target.counters().protocol_errors, 0);
    let log = log.lock().unwrap();
    assert_eq!(log.len(), TASKS as usize * usize::from(CONTEXTS) * 3);
    for (task, header, data) in log.iter() {
        let [context, message] = [header[0], header[1]].map(usize::from);
        assert_eq!(*data, pattern(4 * PART, *task as usize * 100 + context * 10 + message));
    }
    assert!(clients[0].destroy_context(target).is_ok());
}

#[test]
fn r2_who_finds_no_room_for_long_tries_again_less_and_less_often() {
    let mut client = clients(1, true, |client| client).remove(0);
    let mut context = context(&mut client, 0);
    context.set_polls(0);
    // Nothing comes that would end a sleep; there is room after ten seconds.
    let mut tries = 0;
    let sent = context.retry(|active| {
        tries += 1;
        if active.now_ns() < 10_000_000_000 { Err(SendError::Again) } else { Ok(()) }
    });
    assert_eq!(sent, Ok(()));
    assert!(tries < 400, "{tries} tries");
    // It was not overslept by more than the longest pause.
    assert!(context.now_ns() < 10_150_000_000, "{} ns", context.now_ns());
}

#[test]
fn r1_p11_what_waits_for_room_on_one_path_keeps_nothing_from_another() {
    let (log, handler) = collector();
    let build = |node| ClientBuilder::new(node, "paths").contexts(1).dispatch(0, handler).create().unwrap();
    let mut clients: Vec<_> = machine_of(3, 2).into_iter().map(build).collect();
    let [mut origin, mut near, far] = [0, 1, 2].map(|task| context(&mut clients[task], 0));
    clients[0].node().world.stepped();
    while origin.send_immediate(far.endpoint(), 0, &[], &[1]) == Ok(()) {}
    send(&mut origin, message(far.endpoint(), pattern(10, 0)));
    assert_eq!(origin.send_immediate(near.endpoint(), 0, &[], b"past it"), Ok(()));
    near.advance();
    assert_eq!(log.lock().unwrap().len(), 1);
}

#[test]
fn p10_memory_that_is_shared_is_gathered_from_where_the_range_begins() {
    let layout = Layout::Strided { block: 5, stride: 9 };
    for local in [false, true] {
        let (log, handler) = collector();
        let [mut a, mut b] = pair(local, |client| client.dispatch(0, handler));
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let data = pattern(300, 4);
        let payload = Payload::Shared(filled(&data).share(), 30..data.len());
        let bytes = message(target.endpoint(), Vec::new());
        assert!(origin.send(Send { payload, layout, ..bytes }).is_ok());
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(log.lock().unwrap()[0].2, gathered(&layout, &data[30..]));
    }
}

#[test]
fn p5_a_message_that_nobody_handles_is_counted_and_acknowledged() {
    for len in [0, 10, 3 * MTU] {
        let [mut a, mut b] = pair(false, |client| client);
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let (ended, done) = ends();
        let bytes = message(target.endpoint(), pattern(len, 0));
        send(&mut origin, Send { remote_done: done(0), ..bytes });
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!((target.counters().unknown_dispatch, target.counters().protocol_errors), (1, 0));
        assert_eq!(ended.lock().unwrap().len(), 1);
        assert!(b.destroy_context(target).is_ok());
    }
}
