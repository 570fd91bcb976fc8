//! Packets that no honest peer sends (SPEC D-9).

use crate::machine::{CONTEXTS, Packet, TestNode, World, buffer, filled, pattern};
use crate::scene::{
    DeferringHandler, Port, advance_all, always_later, clients, context, deferred, ends, fetches, leak,
    message, pair, send,
};
use pami::client::PEERS;
use pami::device::{Arrival, REQUESTS};
use pami::endpoint::{ClientId, ContextOffset};
use pami::packet::{DEFERRING, Envelope, HEADER_LIMIT, Kind};
use pami::send::OPERATIONS;
use pami::{
    Active, ClientBuilder, ClientError, Context, Endpoint, Get, Layout, Message, OnPart, OnReceived, Part,
    Payload, Pools, Put, Receive, Received, RegionFault, Rights, Rmw, RmwOp, Send, Update, Width,
};
use proptest::prelude::*;

/// Kind, dispatch, task, message, offset and total, header, data.
type Forged = (Kind, u8, u32, u32, u32, u32, Vec<u8>, Vec<u8>);

fn any_packet() -> impl Strategy<Value = Forged> {
    let kind = proptest::sample::select((0..=u8::MAX).filter_map(Kind::from_byte).collect::<Vec<_>>());
    let small = || prop_oneof![0u32..40, any::<u32>()];
    // Numbers of operations and receptions that are under way, too.
    let message = prop_oneof![0u32..700, any::<u32>()];
    let bytes = || prop_oneof![Just(vec![0; 8]), proptest::collection::vec(any::<u8>(), 0..40)];
    let region = (0u8..3, 0u8..3).prop_map(|(index, generation)| vec![index, 0, 0, 0, generation, 0, 0, 0]);
    let data = prop_oneof![bytes(), region];
    (kind, 0u8..40, 0u32..6, message, small(), small(), bytes(), data)
}

fn forge(world: &World, client: ClientId, target: Endpoint, forged: Forged) {
    let (kind, dispatch, task, message, offset, total, header, data) = forged;
    let total = total.min(1 << 16);
    let origin = Endpoint::from_parts(client, task, ContextOffset(task as u8 % 3));
    // What the packet parser sees to.
    let fits = kind.is_first() || kind == Kind::EagerNext;
    let len = if fits { data.len().min(total.saturating_sub(offset) as usize) } else { data.len() };
    let total = if fits && len == 0 && kind != Kind::EagerNext { 0 } else { total };
    let envelope = Envelope { kind, dispatch, origin, target, message, offset, total };
    world.forge(Packet::new(envelope, &header, &data[..len]));
}

/// A handler that does all that a handler can.
fn anything() -> (crate::scene::Handler, DeferringHandler) {
    let part =
        leak(|_: &mut Active<Port>, part: &Part<'_>| assert!(part.offset + part.data.len() <= part.total));
    let whole = leak(|_: &mut Active<Port>, received: Received| {
        assert!(received.len <= received.total && received.len <= received.buffer.len());
    });
    let take = move |message: &Message<'_>| {
        let on = OnReceived { call: whole, cookie: 0 };
        match (message.header.len() + message.total) % 5 {
            0 => Some(Receive::Into(buffer(20), on)),
            1 => Some(Receive::Done),
            2 => Some(Receive::Packets(OnPart { call: part, cookie: 0 })),
            3 => Some(Receive::Scatter(buffer(20), Layout::Strided { block: 3, stride: 4 }, on)),
            _ => None,
        }
    };
    let plain =
        leak(move |_: &mut Active<Port>, message: &Message<'_>| take(message).unwrap_or(Receive::Done));
    let later = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        // What no place has room for would be offered for ever.
        take(message).or(if active.can_keep(message) { None } else { Some(Receive::Done) })
    });
    (plain, later)
}

fn discard_all(context: &mut Context<Port>) {
    let ids: Vec<_> = context.unexpected().map(|unexpected| unexpected.id).collect();
    for id in ids {
        let _ = context.discard(id);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn d9_no_sequence_of_packets_disturbs_a_context(
        packets in proptest::collection::vec(any_packet(), 0..60),
        peers in prop_oneof![Just(1), Just(PEERS)],
    ) {
        let (take, later) = anything();
        let whole = leak(|_: &mut Active<Port>, _: &Message<'_>| Receive::Done);
        let build = |client: ClientBuilder<TestNode>| {
            client.peers(peers).rendezvous_from(1000).dispatch(0, take).dispatch(31, whole).dispatch_deferring(DEFERRING, later)
        };
        let [mut a, mut b] = pair(false, build);
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        let world = a.node().world;
        // Some of its own is under way.
        let (ends, done) = ends();
        for (cookie, len) in [10, 600, 3000].into_iter().enumerate() {
            let bytes = message(origin.endpoint(), pattern(len, 0));
            send(&mut target, Send { dispatch: 31, remote_done: done(cookie), ..bytes });
        }
        prop_assert_eq!(target.fence(origin.endpoint(), done(3).unwrap()), Ok(()));
        target.advance();
        let (client, to) = (b.id(), target.endpoint());
        for forged in packets {
            forge(world, client, to, forged);
            target.advance();
        }
        // What waits for a place of the unexpected queue gets one in time.
        for _ in 0..40 {
            discard_all(&mut target);
            advance_all(&mut [&mut origin, &mut target]);
            // Who has found no place for an answer is asked in time.
            for _ in 0..if peers == 1 { 500 } else { 0 } {
                let _ = target.advance() + origin.advance();
            }
        }
        // It still serves its own, and each operation has ended once.
        let before = target.counters().received;
        prop_assert!(origin.send_immediate(to, 31, &[], &[1]).is_ok());
        advance_all(&mut [&mut origin, &mut target]);
        prop_assert_eq!(target.counters().received, before + 1);
        let mut ends: Vec<_> = ends.lock().unwrap().iter().map(|end| end.0).collect();
        ends.sort_unstable();
        prop_assert_eq!(ends, [0, 1, 2, 3]);
    }
}

#[test]
fn d9_a_first_packet_may_have_no_second() {
    let [mut a, mut b] = pair(false, |client| client.dispatch(1, anything().0));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let to = target.endpoint();
    forge(a.node().world, b.id(), to, (Kind::EagerFirst, 1, 0, 0, 0, 11, vec![], vec![0]));
    target.advance();
    assert_eq!(origin.send_immediate(to, 1, &[], &[1]), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!((target.counters().received, target.counters().protocol_errors), (2, 1));
}

#[test]
fn d9_a_first_packet_that_begins_in_the_middle_is_a_stray() {
    let [mut a, mut b] = pair(false, |client| client.dispatch(1, anything().0));
    let (_origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (origin, to) = (a.endpoint(0, 0).unwrap(), target.endpoint());
    let envelope = Envelope {
        kind: Kind::EagerFirst,
        dispatch: 1,
        origin,
        target: to,
        message: 1,
        offset: 8,
        total: 20,
    };
    a.node().world.forge(Packet::new(envelope, &[], &[0; 12]));
    target.advance();
    assert_eq!((target.counters().received, target.counters().protocol_errors), (0, 1));
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
        kind: Kind::EagerFirst,
        dispatch: 0,
        origin: from,
        target: to,
        message: 1,
        offset: 0,
        total: 100,
    };
    let longer = Envelope { kind: Kind::EagerNext, offset: 60, total: u32::MAX, ..envelope };
    for (envelope, len) in [(envelope, 60), (longer, 400)] {
        a.node().world.forge(Packet::new(envelope, &[], &pattern(len, 0)));
        target.advance();
    }
    assert_eq!(target.counters().protocol_errors, 1);
    let (error, _) = b.destroy_context(target).err().expect("half a message is there");
    assert_eq!(error, ClientError::ReceivesUnderWay);
}

#[test]
fn d9_r1_a_forged_answer_is_a_stray_that_ends_nothing_and_sends_nothing_again() {
    let build = |client: ClientBuilder<_>| {
        client.pools(Pools { unexpected: 1, ..Pools::LARGE }).dispatch_deferring(DEFERRING, always_later())
    };
    let mut clients = clients(3, false, build);
    let [mut origin, mut target] = [0, 1].map(|task| context(&mut clients[task], 0));
    let (from, to, world) = (origin.endpoint(), target.endpoint(), clients[0].node().world);
    let (ended, done) = ends();
    send(&mut origin, Send { remote_done: done(0), ..deferred(to, pattern(10, 0)) });
    send(&mut origin, deferred(to, pattern(10, 1)));
    advance_all(&mut [&mut origin]);
    let numbers: Vec<_> =
        world.lock().port(to).reception.iter().map(|packet| packet.envelope().message).collect();
    let [unexpected, refused] = numbers[..] else { panic!("{numbers:?}") };
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(target.unexpected().count(), 1);
    let sent = world.lock().seen.len();
    let other = clients[2].endpoint(2, 0).unwrap();
    let set = (1u64 << (unexpected as usize % REQUESTS)).to_le_bytes();
    let forged: [(_, _, _, &[u8]); 6] = [
        (Kind::Retry, to, unexpected, &[]),
        (Kind::Retry, to, refused.wrapping_add(REQUESTS as u32), &[]),
        (Kind::Retry, other, refused, &[]),
        // Nor is another's answer one, or one to a rendezvous that it is not.
        (Kind::Ack, other, 0, &set),
        (Kind::Admitted, other, 0, &set),
        (Kind::RendezvousDone, to, unexpected, &[]),
    ];
    for (count, (kind, by, message, data)) in forged.into_iter().enumerate() {
        let envelope = Envelope { kind, dispatch: 0, origin: by, target: from, message, offset: 0, total: 0 };
        world.forge(Packet::new(envelope, &[], data));
        advance_all(&mut [&mut origin]);
        assert_eq!(origin.counters().protocol_errors, count as u64 + 1, "{kind:?}");
    }
    assert_eq!((world.lock().seen.len(), ended.lock().unwrap().len()), (sent, 0));
}

#[test]
fn d9_a_context_ends_nothing_that_its_message_unit_answers() {
    let [mut a, mut b] = pair(false, |client| client);
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (from, to, world) = (origin.endpoint(), target.endpoint(), a.node().world);
    let region = target.register(filled(&pattern(2000, 1)), Rights::all()).ok().unwrap();
    let ((ended, done), (fetched, on_fetched)) = (ends(), fetches());
    world.stepped();
    let into = buffer(2000).share();
    let (layout, region) = (Layout::Contiguous, region.handle());
    let get = Get {
        target: to,
        region,
        offset: 0,
        layout,
        into: into.clone(),
        at: 0,
        into_layout: layout,
        len: 2000,
        done: done(0),
    };
    origin.get(get).unwrap();
    let put = Put {
        target: to,
        region,
        offset: 0,
        layout,
        payload: Payload::Static(&[1; 8]),
        payload_layout: layout,
        local_done: None,
        remote_done: done(1),
    };
    assert!(origin.put(put).is_ok());
    let op = RmwOp { width: Width::Eight, update: Update::Add(7) };
    origin.rmw(Rmw { target: to, region, offset: 8, op, done: on_fetched(2) }).unwrap();
    for (count, kind) in [Kind::Ack, Kind::Admitted, Kind::FenceAck, Kind::Refused].into_iter().enumerate() {
        let dispatch = if kind == Kind::Refused { RegionFault::Rights as u8 } else { 0 };
        let envelope = Envelope { kind, dispatch, origin: to, target: from, message: 0, offset: 0, total: 0 };
        world.forge(Packet::new(envelope, &[], &7u64.to_le_bytes()));
        advance_all(&mut [&mut origin]);
        assert!(ended.lock().unwrap().is_empty() && fetched.lock().unwrap().is_empty(), "{kind:?}");
        assert_eq!(origin.counters().protocol_errors, 3 * (count as u64 + 1), "{kind:?}");
    }
    world.free_running();
    advance_all(&mut [&mut origin, &mut target]);
    let mut told: Vec<_> = ended.lock().unwrap().iter().map(|end| (end.0, end.2)).collect();
    told.sort_unstable_by_key(|end| end.0);
    assert_eq!(told, [(0, Ok(())), (1, Ok(()))]);
    assert!(fetched.lock().unwrap()[0].result.is_ok() && into.reclaim().is_ok());
}

#[test]
fn d9_nothing_is_owed_to_an_endpoint_that_does_not_exist() {
    let build = |client: ClientBuilder<_>| {
        client.pools(Pools { unexpected: 1, ..Pools::LARGE }).dispatch_deferring(DEFERRING, always_later())
    };
    let [mut a, mut b] = pair(false, build);
    let (_origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    // One is kept and wants to be acknowledged, another is refused, and a third's fence is behind nothing.
    for (number, kind) in [Kind::Asked, Kind::Asked, Kind::Fence].into_iter().enumerate() {
        let origin = Endpoint::from_parts(b.id(), 0, ContextOffset(CONTEXTS + number as u8));
        let envelope = Envelope {
            kind,
            dispatch: DEFERRING,
            origin,
            target: target.endpoint(),
            message: REQUESTS as u32,
            offset: 0,
            total: 0,
        };
        a.node().world.forge(Packet::new(envelope, &[], &[]));
        target.advance();
        assert_eq!(target.counters().protocol_errors, number as u64 + 1, "{kind:?}");
    }
    // An endpoint that does has so many operations, and so much of a header.
    let (strays, origin) = (target.counters().protocol_errors, a.endpoint(0, 0).unwrap());
    for (kind, message, header) in
        [(Kind::Fence, OPERATIONS as u32, 0), (Kind::Asked, REQUESTS as u32, HEADER_LIMIT + 1)]
    {
        let (dispatch, target) = (DEFERRING, target.endpoint());
        let envelope = Envelope { kind, dispatch, origin, target, message, offset: 0, total: 0 };
        a.node().world.forge(Packet::new(envelope, &vec![0; header], &[]));
    }
    while target.advance() > 0 {}
    assert_eq!(target.counters().protocol_errors, strays + 2);
    let id = target.unexpected().next().expect("one is kept").id;
    assert_eq!(target.discard(id), Ok(()));
    assert!(b.destroy_context(target).is_ok());
}

#[test]
fn d9_an_rts_whose_data_reaches_beyond_what_a_region_can_have_is_dropped() {
    const TOTAL: u32 = 100;
    for local in [false, true] {
        let mut clients = pair(local, |client| client);
        let mut target = context(&mut clients[1], 0);
        let (origin, to) = (clients[0].endpoint(0, 0).unwrap(), target.endpoint());
        let counts = [u32::MAX, u32::MAX - TOTAL + 1, u32::MAX - TOTAL].map(|offset| {
            let (kind, dispatch, message) = (Kind::Rts, 0, 0);
            let envelope = Envelope { kind, dispatch, origin, target: to, message, offset, total: TOTAL };
            clients[0].node().world.forge(Packet::new(envelope, &[], &[0; 8]));
            advance_all(&mut [&mut target]);
            (target.counters().protocol_errors, target.counters().unknown_dispatch)
        });
        assert_eq!(counts, [(1, 0), (2, 0), (2, 1)]);
    }
}
