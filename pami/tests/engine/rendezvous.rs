//! Messages whose data stays with the sender until the target wants it (SPEC P-6).

use crate::machine::{MTU, QUEUE, TestNode, buffer, filled, machine, pattern};
use crate::scene::{Ends, Port, advance_all, collector, context, ends, leak, message, pair, send};
use pami::packet::Kind;
use pami::{
    Active, Client, ClientBuilder, Context, Layout, Message, OnPart, OnReceived, OperationError, Part,
    Payload, Receive, Received, RegionFault, Send,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Length, total and result of a reception.
type Ended = (usize, usize, Result<(), OperationError>);
/// Header, bytes, total and whether the message was whole.
type Seen = (Vec<u8>, usize, usize, bool);

const SWITCH: usize = 2048;

/// A pair on two nodes that sends by rendezvous from [`SWITCH`] bytes on.
fn far(handler: crate::scene::Handler) -> ([Client<TestNode>; 2], Context<Port>, Context<Port>) {
    let mut clients = pair(false, |client| client.rendezvous_from(SWITCH).dispatch(0, handler));
    let (origin, target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    (clients, origin, target)
}

fn lent(
    target: &Context<Port>,
    bytes: &[u8],
    done: impl Fn(usize) -> Option<pami::Done<Port>>,
) -> Send<'static, Port> {
    let payload = Payload::Buffer(filled(bytes), 0..bytes.len());
    let target = target.endpoint();
    Send { payload, local_done: done(1), remote_done: done(2), ..message(target, Vec::new()) }
}

fn sorted(ends: &Ends) -> Vec<(usize, Option<usize>, Result<(), OperationError>)> {
    let mut ends = ends.lock().unwrap().clone();
    ends.sort_unstable_by_key(|end| end.0);
    ends
}

#[test]
fn p6_the_switch_over_size_decides_and_can_be_set() {
    let (log, handler) = collector();
    let ([client, _other], mut origin, mut target) = far(handler);
    assert_eq!(client.attributes().rendezvous_from, SWITCH);
    let world = &client.node().world;
    for (size, requests) in [(SWITCH - 1, 0), (SWITCH, 1), (SWITCH + 1, 1), (1 << 20, 1)] {
        let before = [Kind::Rts, Kind::Get, Kind::RendezvousDone].map(|kind| world.count(kind));
        send(&mut origin, message(target.endpoint(), pattern(size, 3)));
        advance_all(&mut [&mut origin, &mut target]);
        let after = [Kind::Rts, Kind::Get, Kind::RendezvousDone].map(|kind| world.count(kind));
        assert_eq!(after, before.map(|count| count + requests), "{size}");
        let (_, _, data) = log.lock().unwrap().pop().unwrap();
        assert_eq!(data, pattern(size, 3));
    }
    assert_eq!(world.lock().unit(0).regions(), 0);
    assert_eq!((origin.counters().protocol_errors, target.counters().protocol_errors), (0, 0));
}

#[test]
fn p6_a_client_that_wants_none_sends_all_eagerly() {
    let (log, handler) = collector();
    let mut clients = pair(false, |client| client.rendezvous_from(usize::MAX).dispatch(0, handler));
    let (mut origin, mut target) = (context(&mut clients[0], 0), context(&mut clients[1], 0));
    send(&mut origin, message(target.endpoint(), pattern(1 << 18, 0)));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(log.lock().unwrap().pop().unwrap().2, pattern(1 << 18, 0));
    assert_eq!(clients[0].node().world.count(Kind::Rts), 0);
}

#[test]
fn p6_the_payload_is_the_senders_again_only_when_it_was_pulled() {
    let (log, handler) = collector();
    let (clients, mut origin, mut target) = far(handler);
    let (ends, done) = ends();
    let bytes = pattern(3 * SWITCH, 8);
    send(&mut origin, lent(&target, &bytes, done));
    for _ in 0..10 {
        origin.advance();
    }
    assert!(ends.lock().unwrap().is_empty(), "nobody has asked for it");
    assert_eq!(clients[0].node().world.lock().unit(0).regions(), 1);
    advance_all(&mut [&mut target, &mut origin]);
    assert_eq!(sorted(ends), [(1, Some(bytes.len()), Ok(())), (2, None, Ok(()))]);
    assert_eq!(log.lock().unwrap().pop().unwrap().2, bytes);
    assert_eq!(clients[0].node().world.lock().unit(0).regions(), 0);
}

#[test]
fn p6_the_data_goes_from_the_senders_memory_to_the_handlers_buffer_and_nowhere_else() {
    // Pulled bytes cross as answers of the unit, none as packets of the contexts.
    let (_, handler) = collector();
    let (clients, mut origin, mut target) = far(handler);
    let size = 5 * SWITCH + 3;
    send(&mut origin, message(target.endpoint(), pattern(size, 1)));
    advance_all(&mut [&mut origin, &mut target]);
    let state = clients[0].node().world.lock();
    let bytes = |kinds: &[Kind]| -> usize {
        state.seen.iter().filter(|seen| kinds.contains(&seen.0)).map(|seen| seen.3).sum()
    };
    assert_eq!(bytes(&[Kind::GetData, Kind::GetLast]), size);
    assert_eq!(bytes(&[Kind::EagerFirst, Kind::EagerFirstAcked, Kind::EagerNext]), 0);
    let kinds: Vec<_> = state.seen.iter().map(|seen| seen.0).filter(|&kind| kind != Kind::GetData).collect();
    assert_eq!(kinds, [Kind::Rts, Kind::Get, Kind::GetLast, Kind::RendezvousDone]);
}

#[test]
fn p6_the_header_comes_with_the_request_and_the_data_does_not() {
    let seen: &'static Mutex<Vec<Seen>> = leak(Mutex::default());
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        let Message { header, data, total, .. } = *message;
        seen.lock().unwrap().push((header.to_vec(), data.len(), total, message.is_whole()));
        Receive::Done
    });
    let (clients, mut origin, mut target) = far(handler);
    let (ends, done) = ends();
    let header = pattern(pami::packet::HEADER_LIMIT, 4);
    send(&mut origin, Send { header: &header, ..lent(&target, &pattern(SWITCH, 0), done) });
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(*seen.lock().unwrap(), [(header, 0, SWITCH, false)]);
    // It is not wanted: the sender has its payload back all the same.
    assert_eq!(sorted(ends), [(1, Some(SWITCH), Ok(())), (2, None, Ok(()))]);
    assert_eq!(clients[0].node().world.count(Kind::Get), 0);
}

#[test]
fn p6_a_buffer_that_is_too_small_gets_the_front() {
    let got: &'static Mutex<Vec<(Vec<u8>, usize, usize)>> = leak(Mutex::default());
    let whole = leak(move |_: &mut Active<Port>, received: Received| {
        assert_eq!(received.result, Ok(()));
        got.lock().unwrap().push((received.buffer.as_slice().to_vec(), received.len, received.total));
    });
    let room: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let handler = leak(move |_: &mut Active<Port>, _: &Message<'_>| {
        Receive::Into(buffer(room.load(Relaxed)), OnReceived { call: whole, cookie: 0 })
    });
    let (_clients, mut origin, mut target) = far(handler);
    let bytes = pattern(2 * SWITCH, 5);
    for len in [0, 1, SWITCH, 2 * SWITCH, 2 * SWITCH + 9] {
        room.store(len, Relaxed);
        send(&mut origin, message(target.endpoint(), bytes.clone()));
        advance_all(&mut [&mut origin, &mut target]);
        let (data, seen, total) = got.lock().unwrap().pop().unwrap();
        let front = len.min(bytes.len());
        assert_eq!((seen, total), (front, bytes.len()));
        assert_eq!(data[..front], bytes[..front]);
        assert!(data[front..].iter().all(|&byte| byte == 0));
    }
}

#[test]
fn p6_pulled_data_can_be_had_in_pieces_and_scattered() {
    let pieces: &'static Mutex<Vec<u8>> = leak(Mutex::default());
    let lasts: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let part = leak(move |_: &mut Active<Port>, part: &Part<'_>| {
        let mut pieces = pieces.lock().unwrap();
        assert_eq!((part.offset, part.result), (pieces.len(), Ok(())));
        pieces.extend(part.data);
        lasts.fetch_add(usize::from(part.is_last()), Relaxed);
    });
    const STRIDED: Layout = Layout::Strided { block: 24, stride: 40 };
    let scattered: &'static Mutex<Vec<u8>> = leak(Mutex::default());
    let whole = leak(move |_: &mut Active<Port>, received: Received| {
        assert_eq!((received.len, received.result), (received.total, Ok(())));
        *scattered.lock().unwrap() = received.buffer.as_slice().to_vec();
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| match message.header {
        b"pieces" => Receive::Packets(OnPart { call: part, cookie: 0 }),
        _ => Receive::Scatter(buffer(2 * message.total), STRIDED, OnReceived { call: whole, cookie: 0 }),
    });
    let (_clients, mut origin, mut target) = far(handler);
    let bytes = pattern(100_000, 6);
    send(&mut origin, Send { header: b"pieces", ..message(target.endpoint(), bytes.clone()) });
    send(&mut origin, Send { header: b"runs", ..message(target.endpoint(), bytes.clone()) });
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!((pieces.lock().unwrap().clone(), lasts.load(Relaxed)), (bytes.clone(), 1));
    let mut expected = vec![0; 2 * bytes.len()];
    for (run, block) in bytes.chunks(24).enumerate() {
        expected[run * 40..run * 40 + block.len()].copy_from_slice(block);
    }
    assert_eq!(*scattered.lock().unwrap(), expected);
}

#[test]
fn p6_with_no_region_left_the_message_goes_eagerly() {
    let (log, handler) = collector();
    let (clients, mut origin, mut target) = far(handler);
    clients[0].node().world.lock().unit(0).limit = Some(1);
    let (ends, done) = ends();
    for seed in 0..3 {
        send(&mut origin, lent(&target, &pattern(SWITCH, seed), done));
    }
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(clients[0].node().world.count(Kind::Rts), 1);
    // Behind one that may be refused.
    assert_eq!(clients[0].node().world.count(Kind::AskedAcked), 2);
    let mut seen: Vec<_> = log.lock().unwrap().iter().map(|(_, _, data)| data.clone()).collect();
    seen.sort();
    let mut expected: Vec<_> = (0..3).map(|seed| pattern(SWITCH, seed)).collect();
    expected.sort();
    assert_eq!(seen, expected);
    assert_eq!(ends.lock().unwrap().len(), 6);
}

#[test]
fn p6_more_rendezvous_than_places_wait_and_none_is_lost() {
    const ORIGINS: u32 = 4;
    let (log, handler) = collector();
    let nodes = machine(ORIGINS + 1, false);
    for node in &nodes {
        node.world.lock().unit(node.task).limit = Some(1000);
    }
    let build = |node| {
        ClientBuilder::new(node, "many").rendezvous_from(SWITCH).dispatch(0, handler).create().unwrap()
    };
    let mut clients: Vec<_> = nodes.iter().map(|&node| build(node)).collect();
    let mut contexts: Vec<_> = clients.iter_mut().map(|client| context(client, 0)).collect();
    let (target, origins) = contexts.split_first_mut().unwrap();
    let world = &nodes[0].world;
    for origin in origins.iter_mut() {
        for seed in 0..40 {
            send(origin, message(target.endpoint(), pattern(SWITCH, seed)));
        }
    }
    // The answers are slow, so the requests pile up.
    world.stepped();
    for _ in 0..2000 {
        for context in origins.iter_mut() {
            context.advance();
        }
        target.advance();
        let mut state = world.lock();
        let sends = state.steps().into_iter().filter(|step| matches!(step, crate::machine::Step::Send(_)));
        for step in sends.collect::<Vec<_>>() {
            state.step(step);
        }
    }
    assert!(log.lock().unwrap().is_empty());
    assert!(world.count(Kind::Rts) >= pami::receive_request::RECEIVE_REQUESTS + QUEUE, "the places are full");
    world.free_running();
    let mut all: Vec<_> = contexts.iter_mut().collect();
    advance_all(&mut all);
    assert_eq!(log.lock().unwrap().len(), 40 * ORIGINS as usize);
    assert!(log.lock().unwrap().iter().all(|(_, _, data)| data.len() == SWITCH));
}

#[test]
fn p6_a_region_that_ends_under_a_pull_ends_the_reception_with_the_fault() {
    let seen: &'static Mutex<Vec<Ended>> = leak(Mutex::default());
    let whole = leak(move |_: &mut Active<Port>, received: Received| {
        seen.lock().unwrap().push((received.len, received.buffer.len(), received.result));
    });
    let handler = leak(move |_: &mut Active<Port>, message: &Message<'_>| {
        Receive::Into(buffer(message.total), OnReceived { call: whole, cookie: 0 })
    });
    let (mut clients, mut origin, mut target) = far(handler);
    let world = clients[0].node().world;
    world.stepped();
    send(&mut origin, message(target.endpoint(), pattern(4 * MTU, 0)));
    // The request, the get and a part of the answer.
    for _ in 0..3 {
        target.advance();
        let mut state = world.lock();
        let step = state.steps()[0];
        state.step(step);
    }
    let region = pami::region::RegionId { index: 0.into(), generation: 1.into() };
    world.lock().unit(0).deregister(region);
    world.free_running();
    target.advance();
    target.advance();
    assert_eq!(*seen.lock().unwrap(), [(0, 4 * MTU, Err(OperationError::Region(RegionFault::Stale)))]);
    assert!(clients[1].destroy_context(target).is_ok());
}
