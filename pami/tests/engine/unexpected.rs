//! Messages that nobody wants yet (SPEC P-6).

use crate::machine::{MTU, buffer, machine, pattern};
use crate::stage::{DeferringHandler, Port, Stage, Told, envelope, handler, leak};
use pami::packet::{DEFERRING, Envelope, Kind};
use pami::{
    Active, ClientBuilder, ClientError, Layout, Message, OnReceived, Pools, Receive, Received, Send,
    SendError,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SWITCH: usize = 4 * MTU;
/// Bytes of eager messages that are kept.
const ROOM: usize = 2 * SWITCH;

fn two(local: bool) -> Stage {
    Stage::pair(local, |client| client.rendezvous_from(SWITCH))
}

/// A pair whose messages nobody wants, and how often the handler was asked.
fn asked(local: bool, unexpected: usize) -> (Stage, &'static AtomicUsize) {
    let asked: &'static AtomicUsize = leak(AtomicUsize::new(0));
    let later = leak(move |_: &mut Active<Port>, _: &Message<'_>| {
        asked.fetch_add(1, Relaxed);
        None
    });
    (wanted_by(local, Told::new(), later, unexpected), asked)
}

fn wanted_by(local: bool, told: Told, later: DeferringHandler, unexpected: usize) -> Stage {
    Stage::of(machine(2, local), 1, told, |client: ClientBuilder<_>| {
        let client = client.contexts(2).rendezvous_from(SWITCH).pools(Pools {
            unexpected,
            unexpected_bytes: ROOM,
            ..Pools::LARGE
        });
        client.dispatch_deferring(DEFERRING, later)
    })
}

fn kept_round_trip(local: bool) {
    let (mut stage, asked) = asked(local, Pools::LARGE.unexpected);
    let sizes = [0, 1, MTU + 7, SWITCH - 1, 3 * SWITCH];
    let sizes = &sizes[..if local { 4 } else { 5 }];
    for (seed, &size) in sizes.iter().enumerate() {
        let (remote_done, bytes) = (stage.done(seed), stage.deferred(1, pattern(size, seed)));
        stage.send(0, Send { header: &[seed as u8; 5], remote_done, ..bytes });
    }
    stage.quiet();
    assert_eq!(asked.load(Relaxed), sizes.len(), "each is asked for once");
    let kept = stage[1].unexpected().map(|it| (it.header.to_vec(), it.total, it.origin));
    let expected = sizes.iter().zip(0u8..).map(|(&size, seed)| (vec![seed; 5], size, stage.at(0)));
    assert!(kept.eq(expected), "in the order of arrival");
    assert_eq!(stage.ends(), [], "nobody has had them");
    // The last first: acknowledgements name their messages.
    let ids = stage.kept_ids(1);
    for (seed, &id) in ids.iter().enumerate().rev() {
        let then = stage.told.on_received(&[seed as u8]);
        assert!(stage[1].accept(id, buffer(sizes[seed]), then).is_ok());
        assert_eq!(stage.receptions(), [], "no callback inside the call");
        stage.quiet();
        assert_eq!(stage.got(), [(0, vec![seed as u8], pattern(sizes[seed], seed))]);
        assert_eq!(stage.ends(), [(seed, None, Ok(()))]);
    }
    assert_eq!(stage.kept(1), 0);
    let then = stage.told.on_received(&[]);
    let gone = stage[1].accept(ids[0], buffer(8), then).map_err(|(error, _)| error);
    assert_eq!(gone, Err(SendError::NoSuchMessage));
    assert_eq!(stage[1].counters().received, sizes.len() as u64);
    assert_eq!([stage.destroy(1), stage.destroy(0)], [Ok(()); 2]);
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
    let mut stage = two(false);
    stage.say_later(0, 1, pattern(1 << 20, 0));
    stage.quiet();
    assert_eq!([Kind::Rts, Kind::Get].map(|kind| stage.count(kind)), [1, 0]);
    stage.accept(1);
    stage.quiet();
    assert!(stage.data() == [pattern(1 << 20, 0)]);
}

#[test]
fn p6_with_every_place_full_messages_stay_with_their_origin_and_none_is_lost() {
    const MESSAGES: usize = 50;
    let (mut stage, asked) = asked(false, 3);
    assert_eq!(stage.clients[1].attributes().unexpected, 3);
    let bytes = |seed: usize| pattern(if seed.is_multiple_of(3) { SWITCH } else { seed * 20 }, seed);
    (0..MESSAGES).for_each(|seed| stage.say_later(0, 1, bytes(seed)));
    for _ in 0..100 {
        stage[0].advance();
        stage[1].advance();
    }
    assert_eq!((stage.kept(1), stage[1].counters().received), (3, 3));
    assert!(asked.load(Relaxed) > 3, "the first that was refused is offered again");
    assert_eq!(stage.destroy(1), Err(ClientError::ReceivesUnderWay));
    for seed in 0..MESSAGES {
        stage.accept(1);
        stage.quiet();
        assert_eq!(stage.data(), [bytes(seed)], "in the order of the sends");
    }
}

#[test]
fn p6_an_eager_message_longer_than_there_is_room_waits_until_its_handler_has_a_buffer() {
    let (told, ready): (_, &'static AtomicUsize) = (Told::new(), leak(AtomicUsize::new(0)));
    let later = leak(move |active: &mut Active<Port>, message: &Message<'_>| {
        assert_eq!(active.can_keep(message), message.total <= ROOM);
        (ready.load(Relaxed) > 0).then(|| told.whole(message))
    });
    let mut stage = wanted_by(true, told, later, Pools::LARGE.unexpected);
    // What lies in several pieces goes by packets, however long it is.
    let all = pattern(200 * 100, 1);
    let pieces = all.chunks(100).flat_map(|piece| [piece, &[0; 50]].concat()).collect();
    let layout = Layout::Strided { block: 100, stride: 150 };
    stage.send(0, Send { layout, ..stage.deferred(1, pieces) });
    stage.say_later(0, 1, pattern(10, 2));
    for _ in 0..20 {
        stage[0].advance();
        stage[1].advance();
    }
    assert_eq!(stage.kept(1), 0);
    ready.store(1, Relaxed);
    // The handler is asked again now and then.
    (0..10_000).for_each(|_| stage.quiet());
    assert_eq!(stage.data(), [all, pattern(10, 2)]);
}

#[test]
fn r9_p6_what_is_longer_than_there_is_room_is_kept_all_the_same_with_its_data_where_it_is() {
    for local in [true, false] {
        let (mut stage, asked) = asked(local, 2);
        for size in [ROOM + 1, 10 * ROOM] {
            stage.say_later(0, 1, pattern(size, 7));
        }
        stage.quiet();
        assert_eq!((stage.kept(1), asked.load(Relaxed)), (2, 2), "within a node too");
        for size in [ROOM + 1, 10 * ROOM] {
            stage.accept(1);
            stage.quiet();
            assert_eq!(stage.data(), [pattern(size, 7)]);
        }
    }
}

#[test]
fn r9_r1_unexpected_messages_share_their_memory_and_what_finds_no_room_comes_again() {
    for local in [true, false] {
        let (mut stage, _) = asked(local, 6);
        // Four fill it but for a rest, which is too small for the fifth.
        let sizes = [ROOM / 4, ROOM / 4, ROOM / 4, ROOM / 4 - 16, ROOM / 4 - 8, 0];
        for (seed, &size) in sizes.iter().enumerate() {
            stage.say_later(0, 1, pattern(size, seed));
        }
        stage.quiet();
        assert_eq!(stage.kept(1), 4, "the fifth keeps those behind it back");
        // Room in the middle.
        let then = stage.told.on_received(b"");
        let second = stage.kept_ids(1)[1];
        assert!(stage[1].accept(second, buffer(sizes[1]), then).is_ok());
        (0..1000).for_each(|_| stage.quiet());
        assert_eq!((stage.kept(1), stage.data()), (5, vec![pattern(sizes[1], 1)]));
        for seed in [0, 2, 3, 4, 5] {
            stage.accept(1);
            stage.quiet();
            assert_eq!(stage.data(), [pattern(sizes[seed], seed)]);
        }
        assert_eq!([stage.destroy(1), stage.destroy(0)], [Ok(()); 2]);
    }
}

#[test]
fn p6_discarding_tells_the_sender() {
    let mut stage = two(false);
    for (cookie, size) in [10, 2 * MTU, 2 * SWITCH].into_iter().enumerate() {
        stage.send(0, Send { remote_done: stage.done(cookie), ..stage.deferred(1, pattern(size, 0)) });
    }
    stage.quiet();
    for (cookie, id) in stage.kept_ids(1).into_iter().enumerate() {
        assert_eq!(stage[1].discard(id), Ok(()));
        assert_eq!(stage[1].discard(id), Err(SendError::NoSuchMessage));
        stage.quiet();
        assert_eq!(stage.ends(), [(cookie, None, Ok(()))]);
    }
    assert_eq!(stage.count(Kind::Get), 0);
}

#[test]
fn p6_a_message_may_be_accepted_while_it_arrives() {
    let mut stage = Stage::pair(false, |client| client);
    let size = 25 * MTU;
    for (cookie, wanted) in [(0, true), (2, false)] {
        stage.send(0, Send { remote_done: stage.done(cookie), ..stage.deferred(1, pattern(size, 9)) });
        stage[0].advance();
        stage[1].advance();
        if wanted {
            let some_is_to_come = stage.count(Kind::EagerNext) < 24;
            assert!(stage[1].counters().received == 1 && some_is_to_come);
            stage.accept(1);
        } else {
            stage.discard(1);
        }
        stage.quiet();
        let expected = if wanted { vec![pattern(size, 9)] } else { vec![] };
        assert_eq!((stage.data(), stage.ends()), (expected, vec![(cookie, None, Ok(()))]));
    }
}

#[test]
fn f1_a_fence_waits_for_the_callback_of_a_message_that_another_callback_accepted() {
    for local in [true, false] {
        let mut stage = two(local);
        let told = stage.told;
        let first = leak(move |active: &mut Active<Port>, _: Received| {
            told.notes().order.push(1);
            let id = active.unexpected().next().unwrap().id;
            assert!(active.accept(id, buffer(10), told.on_received(b"second")).is_ok());
        });
        (0..2).for_each(|seed| stage.say_later(0, 1, pattern(10, seed)));
        stage.fence(0, 1, 3);
        stage.quiet();
        assert_eq!(stage.order(), [0; 0]);
        let id = stage.kept_ids(1)[0];
        assert!(stage[1].accept(id, buffer(10), OnReceived { call: first, cookie: 0 }).is_ok());
        while stage.counts().1 == 0 {
            stage[1].advance();
            stage.quiet_of(&[0]);
        }
        assert_eq!(stage.order(), [1, crate::stage::GOT, 3]);
    }
}

#[test]
fn d9_p6_a_kept_message_whose_sender_stops_in_the_middle_is_as_long_as_what_came() {
    let done = handler(|_| Receive::Done);
    let mut stage = Stage::hears(2, false, Told::torn(), done, |client| client);
    let asked = envelope(Kind::Asked, stage.at(0), stage.at(1));
    stage.forge(Envelope { dispatch: DEFERRING, total: 100, ..asked }, &[], &pattern(40, 3));
    stage[1].advance();
    let total = |stage: &Stage| stage[1].unexpected().next().map(|unexpected| unexpected.total);
    assert_eq!(total(&stage), Some(100));
    // It begins another instead.
    assert_eq!(stage.immediate(0, 1, &[1]), Ok(()));
    stage.quiet();
    assert_eq!(total(&stage), Some(40));
    stage.accept(1);
    stage[1].advance();
    assert_eq!(stage.data(), [pattern(40, 3)]);
}

#[test]
fn p6_p3_a_message_as_long_as_a_place_is_kept_and_its_context_not_destroyed() {
    let mut stage = Stage::pair(true, |client| {
        client.rendezvous_from(SWITCH).pools(Pools { unexpected: 1, ..Pools::LARGE })
    });
    stage.say_later(0, 1, pattern(SWITCH, 0));
    stage.quiet();
    assert_eq!((stage.kept(1), stage.destroy(1)), (1, Err(ClientError::ReceivesUnderWay)));
    stage.discard(1);
    stage.quiet();
    assert_eq!(stage.destroy(1), Ok(()));
}
