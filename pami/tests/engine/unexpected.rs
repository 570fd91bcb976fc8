//! Messages that nobody wants yet (SPEC P-6).

use crate::machine::{MTU, Packet, buffer, pattern};
use crate::scene::{
    DeferringHandler, Port, advance_all, always_later, context, deferred, ends, leak, pair, send,
};
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::{
    Active, ClientBuilder, ClientError, Completion, Done, Message, OnReceived, Receive, Received, Send,
    SendError, UnexpectedId,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SWITCH: usize = 4 * MTU;

type Got = Mutex<Vec<(usize, Vec<u8>)>>;

/// Writes down what comes under which cookie.
fn receiver() -> (&'static Got, impl Fn(usize) -> OnReceived<Port> + Copy) {
    let got: &'static Got = leak(Mutex::default());
    let call = leak(move |_: &mut Active<Port>, received: Received| {
        assert_eq!((received.len, received.result), (received.total, Ok(())));
        got.lock().unwrap().push((received.cookie, received.buffer.as_slice()[..received.len].to_vec()));
    });
    (got, move |cookie| OnReceived { call, cookie })
}

/// A handler that wants all later, and how often it was asked.
fn later() -> (&'static AtomicUsize, DeferringHandler) {
    let asked: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let handler = leak(move |_: &mut Active<Port>, _: &Message<'_>| {
        asked.fetch_add(1, Relaxed);
        None
    });
    (asked, handler)
}

fn kept_round_trip(local: bool) {
    let (asked, handler) = later();
    let [mut a, mut b] =
        pair(local, |client| client.rendezvous_from(SWITCH).dispatch_deferring(DEFERRING, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (ends, done) = ends();
    let sizes = [0, 1, MTU + 7, SWITCH - 1, 3 * SWITCH];
    let sizes = &sizes[..if local { 4 } else { 5 }];
    for (seed, &size) in sizes.iter().enumerate() {
        let header = [seed as u8; 5];
        let bytes = deferred(target.endpoint(), pattern(size, seed));
        send(&mut origin, Send { header: &header, remote_done: done(seed), ..bytes });
    }
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(asked.load(Relaxed), sizes.len(), "each is asked for once");
    let unexpected: Vec<_> = target
        .unexpected()
        .map(|unexpected| (unexpected.header.to_vec(), unexpected.total, unexpected.origin, unexpected.id))
        .collect();
    let shapes: Vec<_> =
        unexpected.iter().map(|(header, total, from, _)| (header.clone(), *total, *from)).collect();
    let expected = sizes.iter().zip(0u8..).map(|(&size, seed)| (vec![seed; 5], size, origin.endpoint()));
    assert_eq!(shapes, expected.collect::<Vec<_>>(), "in the order of arrival");
    assert!(ends.lock().unwrap().is_empty(), "nobody has had them");

    // The last first: acknowledgements name their messages.
    let (got, then) = receiver();
    for (seed, (.., id)) in unexpected.iter().enumerate().rev() {
        assert!(target.accept(*id, buffer(sizes[seed]), then(seed)).is_ok());
        assert!(got.lock().unwrap().is_empty(), "no callback inside the call");
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(got.lock().unwrap().drain(..).collect::<Vec<_>>(), [(seed, pattern(sizes[seed], seed))]);
        assert_eq!(ends.lock().unwrap().drain(..).collect::<Vec<_>>(), [(seed, None, Ok(()))]);
    }
    assert_eq!(target.unexpected().count(), 0);
    let gone = target.accept(unexpected[0].3, buffer(8), then(0)).map_err(|(error, _)| error);
    assert_eq!(gone, Err(SendError::NoSuchMessage));
    assert_eq!(target.counters().received, sizes.len() as u64);
    assert!(b.destroy_context(target).is_ok() && a.destroy_context(origin).is_ok());
}

#[test]
fn p6_a_message_kept_is_accepted_later_over_the_torus() {
    kept_round_trip(false);
}

#[test]
fn p6_a_message_kept_is_accepted_later_through_shared_memory() {
    kept_round_trip(true);
}

#[test]
fn p6_a_kept_rendezvous_leaves_its_data_where_it_is() {
    let (_, handler) = later();
    let [mut a, mut b] =
        pair(false, |client| client.rendezvous_from(SWITCH).dispatch_deferring(DEFERRING, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    send(&mut origin, deferred(target.endpoint(), pattern(1 << 20, 0)));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!((a.node().world.count(Kind::Rts), a.node().world.count(Kind::Get)), (1, 0));
    let id = target.unexpected().next().unwrap().id;
    let (got, then) = receiver();
    assert!(target.accept(id, buffer(1 << 20), then(0)).is_ok());
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(got.lock().unwrap()[0].1, pattern(1 << 20, 0));
}

#[test]
fn p6_with_every_place_full_messages_stay_with_their_origin_and_none_is_lost() {
    const MESSAGES: usize = 50;
    let (asked, handler) = later();
    let [mut a, mut b] = pair(false, |client| {
        client.unexpected(3).rendezvous_from(SWITCH).dispatch_deferring(DEFERRING, handler)
    });
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    assert_eq!(b.attributes().unexpected, 3);
    for seed in 0..MESSAGES {
        let size = if seed % 3 == 0 { SWITCH } else { seed * 20 };
        send(&mut origin, deferred(target.endpoint(), pattern(size, seed)));
    }
    for _ in 0..100 {
        origin.advance();
        target.advance();
    }
    assert_eq!((target.unexpected().count(), target.counters().received), (3, 3));
    assert!(asked.load(Relaxed) > 3, "the first that was refused is offered again");
    let (error, mut target) = b.destroy_context(target).err().unwrap();
    assert_eq!(error, ClientError::ReceivesUnderWay);
    let (got, then) = receiver();
    for seed in 0..MESSAGES {
        let (id, total) =
            target.unexpected().map(|unexpected| (unexpected.id, unexpected.total)).next().unwrap();
        assert!(target.accept(id, buffer(total), then(seed)).is_ok());
        advance_all(&mut [&mut origin, &mut target]);
    }
    let mut got = got.lock().unwrap();
    got.sort_by_key(|(seed, _)| *seed);
    for (seed, (cookie, data)) in got.iter().enumerate() {
        let size = if seed % 3 == 0 { SWITCH } else { seed * 20 };
        assert_eq!((*cookie, data), (seed, &pattern(size, seed)), "in the order of the sends");
    }
    assert_eq!(got.len(), MESSAGES);
}

#[test]
fn p6_an_eager_message_longer_than_a_place_waits_until_its_handler_has_a_buffer() {
    let (got, then) = receiver();
    let ready: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let handler = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        assert_eq!(active.can_keep(message), message.total <= SWITCH);
        if ready.load(Relaxed) == 0 {
            return None;
        }
        Some(Receive::Into(buffer(message.total), then(7)))
    });
    // Through shared memory a message of any length is eager.
    let [mut a, mut b] =
        pair(true, |client| client.rendezvous_from(SWITCH).dispatch_deferring(DEFERRING, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    send(&mut origin, deferred(target.endpoint(), pattern(10 * SWITCH, 1)));
    send(&mut origin, deferred(target.endpoint(), pattern(10, 2)));
    for _ in 0..20 {
        origin.advance();
        target.advance();
    }
    assert_eq!(target.unexpected().count(), 0);
    ready.store(1, Relaxed);
    // The handler is asked again now and then.
    for _ in 0..10_000 {
        advance_all(&mut [&mut origin, &mut target]);
    }
    assert_eq!(*got.lock().unwrap(), [(7, pattern(10 * SWITCH, 1)), (7, pattern(10, 2))]);
}

#[test]
fn p6_discarding_tells_the_sender() {
    let (_, handler) = later();
    let [mut a, mut b] =
        pair(false, |client| client.rendezvous_from(SWITCH).dispatch_deferring(DEFERRING, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (ends, done) = ends();
    for (cookie, size) in [10, 2 * MTU, 2 * SWITCH].into_iter().enumerate() {
        let bytes = deferred(target.endpoint(), pattern(size, 0));
        send(&mut origin, Send { remote_done: done(cookie), ..bytes });
    }
    advance_all(&mut [&mut origin, &mut target]);
    let ids: Vec<UnexpectedId> = target.unexpected().map(|unexpected| unexpected.id).collect();
    for (cookie, id) in ids.into_iter().enumerate() {
        assert_eq!(target.discard(id), Ok(()));
        assert_eq!(target.discard(id), Err(SendError::NoSuchMessage));
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(ends.lock().unwrap().pop(), Some((cookie, None, Ok(()))));
    }
    assert_eq!(a.node().world.count(Kind::Get), 0);
}

#[test]
fn p6_a_message_may_be_accepted_while_it_arrives() {
    let (_, handler) = later();
    let [mut a, mut b] = pair(false, |client| client.dispatch_deferring(DEFERRING, handler));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (ends, done) = ends();
    let size = 25 * MTU;
    let bytes = deferred(target.endpoint(), pattern(size, 9));
    send(&mut origin, Send { remote_done: done(0), ..bytes });
    origin.advance();
    target.advance();
    let id = target.unexpected().next().unwrap().id;
    assert!(
        target.counters().received == 1 && a.node().world.count(Kind::EagerNext) < 24,
        "some is still to come"
    );
    let (got, then) = receiver();
    assert!(target.accept(id, buffer(size), then(1)).is_ok());
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(*got.lock().unwrap(), [(1, pattern(size, 9))]);
    assert_eq!(*ends.lock().unwrap(), [(0, None, Ok(()))]);
    // And one that is not wanted after all.
    let bytes = deferred(target.endpoint(), pattern(size, 9));
    send(&mut origin, Send { remote_done: done(2), ..bytes });
    origin.advance();
    target.advance();
    let id = target.unexpected().next().unwrap().id;
    assert_eq!(target.discard(id), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    assert_eq!(ends.lock().unwrap().last(), Some(&(2, None, Ok(()))));
    assert_eq!(got.lock().unwrap().len(), 1);
}

#[test]
fn f1_a_fence_waits_for_the_callback_of_a_message_that_another_callback_accepted() {
    for local in [true, false] {
        let log: &'static Mutex<Vec<&str>> = leak(Mutex::default());
        let second = leak(move |_: &mut Active<Port>, _: Received| log.lock().unwrap().push("second"));
        let first = leak(move |active: &mut Active<Port>, _: Received| {
            log.lock().unwrap().push("first");
            let id = active.unexpected().next().unwrap().id;
            assert!(active.accept(id, buffer(10), OnReceived { call: second, cookie: 0 }).is_ok());
        });
        let fenced = leak(move |_: &mut Active<Port>, _: Completion| log.lock().unwrap().push("fenced"));
        let (_, handler) = later();
        let [mut a, mut b] = pair(local, |client| client.dispatch_deferring(DEFERRING, handler));
        let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
        for seed in 0..2 {
            send(&mut origin, deferred(target.endpoint(), pattern(10, seed)));
        }
        assert_eq!(origin.fence(target.endpoint(), Done { call: fenced, cookie: 0 }), Ok(()));
        advance_all(&mut [&mut origin, &mut target]);
        assert_eq!(*log.lock().unwrap(), [""; 0]);
        let id = target.unexpected().next().unwrap().id;
        assert!(target.accept(id, buffer(10), OnReceived { call: first, cookie: 0 }).is_ok());
        while !log.lock().unwrap().contains(&"fenced") {
            target.advance();
            while origin.advance() > 0 {}
        }
        assert_eq!(*log.lock().unwrap(), ["first", "second", "fenced"]);
    }
}

#[test]
fn d9_p6_a_kept_message_whose_sender_stops_in_the_middle_is_as_long_as_what_came() {
    let done = leak(|_: &mut Active<Port>, _: &Message<'_>| Receive::Done);
    let [mut a, mut b] =
        pair(false, |client| client.dispatch(1, done).dispatch_deferring(DEFERRING, always_later()));
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    let (from, to) = (origin.endpoint(), target.endpoint());
    let envelope = Envelope {
        kind: Kind::Asked,
        dispatch: DEFERRING,
        origin: from,
        target: to,
        message: 0,
        offset: 0,
        total: 100,
    };
    a.node().world.forge(Packet::new(envelope, &[], &pattern(40, 3)));
    target.advance();
    assert_eq!(target.unexpected().next().map(|unexpected| unexpected.total), Some(100));
    // It begins another instead.
    assert_eq!(origin.send_immediate(to, 1, &[], &[1]), Ok(()));
    advance_all(&mut [&mut origin, &mut target]);
    let (id, total) = target.unexpected().map(|unexpected| (unexpected.id, unexpected.total)).next().unwrap();
    assert_eq!(total, 40);
    let (got, then) = receiver();
    assert!(target.accept(id, buffer(40), then(0)).is_ok());
    target.advance();
    assert_eq!(*got.lock().unwrap(), [(0, pattern(40, 3))]);
}

#[test]
fn p6_p3_a_message_as_long_as_a_place_is_kept_and_its_context_not_destroyed() {
    let build = |client: ClientBuilder<_>| {
        client.rendezvous_from(SWITCH).unexpected(1).dispatch_deferring(DEFERRING, always_later())
    };
    let [mut a, mut b] = pair(true, build);
    let (mut origin, mut target) = (context(&mut a, 0), context(&mut b, 0));
    send(&mut origin, deferred(target.endpoint(), pattern(SWITCH, 0)));
    advance_all(&mut [&mut origin, &mut target]);
    let id = target.unexpected().next().expect("one is kept").id;
    let (error, mut target) = b.destroy_context(target).err().expect("one is kept");
    assert_eq!((error, target.discard(id)), (ClientError::ReceivesUnderWay, Ok(())));
    advance_all(&mut [&mut origin, &mut target]);
    assert!(b.destroy_context(target).is_ok());
}
