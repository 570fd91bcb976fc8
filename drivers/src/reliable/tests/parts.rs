//! What senders, receivers and connections decide, one by one: a wire that repairs everything hides what is wrong with them.

use super::super::flights::Flights;
use super::super::handshake::{Connection, Heard, Number, Phase, Word, Words};
use super::super::receiver::{ACK_DELAY_NS, Receiver, Verdict};
use super::super::rto::Rto;
use super::super::sender::Sender;
use crate::adapter::{Lent, RxBuffer};
use crate::link::{Flags, Link, Seq};
use std::boxed::Box;

/// As long as a peer is waited for that was never heard.
const FIRST_NS: u64 = 20_000_000;

/// A frame that says so much has arrived, and may be sent.
fn says(acknowledged: u32, sack: u64, credit: u8) -> Link {
    Link {
        life: 0,
        connection: 0,
        own: 0,
        attempt: 0,
        sequence: Seq::FIRST,
        acknowledged: Seq::FIRST.plus(acknowledged),
        sack,
        credit,
        length: 0,
        flags: Flags::empty(),
    }
}

/// A sender with `sent` packets on the way since time 0, with credit for no more.
fn sender(sent: u32) -> (Sender, Flights) {
    let (mut sender, mut flights) = (Sender::new(Rto::default()), Flights::new());
    sender.acknowledge(&says(0, 0, sent as u8), &mut flights, 0).unwrap();
    for cookie in 0..sent as u16 {
        queue(&mut sender, &mut flights, cookie);
        assert!(sender.sendable().is_some());
        sender.sent();
        flights.get(cookie).unwrap().sent(0);
        sender.start_timer(0);
    }
    (sender, flights)
}

fn queue(sender: &mut Sender, flights: &mut Flights, cookie: u16) {
    assert!(flights.keep(cookie, &[], &[], [Lent::NONE; 2]));
    sender.queue(cookie);
}

#[test]
fn d8_who_is_not_answered_asks_again_after_longer_and_longer_and_sends_less_at_once() {
    let (mut sender, _) = sender(0);
    assert_eq!((sender.timer(), sender.is_late(), sender.burst()), (u64::MAX, false, 8));
    sender.ask(0);
    assert_eq!((sender.timer(), sender.is_late()), (FIRST_NS, false));
    for (times, burst) in [(1, 4), (2, 2), (3, 1), (4, 1)] {
        sender.timed_out(0);
        assert_eq!((sender.timer(), sender.is_late(), sender.burst()), (FIRST_NS << times, true, burst));
    }
    sender.ask(5);
    assert_eq!((sender.timer(), sender.is_late()), (5 + FIRST_NS, false));
    sender.timed_out(0);
    sender.answered(7);
    assert_eq!((sender.timer(), sender.is_late(), sender.burst()), (u64::MAX, false, 8));
}

#[test]
fn r3_who_is_refused_release_asks_again_after_longer_and_longer_unless_it_has_something_to_send() {
    let (mut idle, _) = sender(0);
    assert_eq!((idle.rest(3, 2), idle.is_resting()), (3 + (FIRST_NS << 2), true));
    assert_eq!((idle.start_timer(9), idle.is_resting()), (u64::MAX, false));
    let (mut busy, _) = sender(1);
    assert_eq!((busy.rest(3, 2), busy.is_resting()), (FIRST_NS, false));
}

#[test]
fn d8_a_gap_means_a_loss_once_three_later_packets_have_arrived_and_only_of_what_was_sent_once() {
    for (sack, sends, lost) in [(0b011, 1, false), (0b111, 1, true), (0b111, 2, false)] {
        let (mut sender, mut flights) = sender(4);
        (1..sends).for_each(|_| flights.get(0).unwrap().sent(0));
        let progress = sender.acknowledge(&says(0, sack, 4), &mut flights, 1).unwrap();
        assert_eq!((progress.to_send, flights.get(0).unwrap().is_lost()), (lost, lost));
    }
}

#[test]
fn d8_what_arrived_and_what_may_be_sent_is_room_and_ends_the_waiting() {
    let (mut sender, mut flights) = sender(2);
    sender.timed_out(0);
    let mut hear = |sender: &mut Sender, link: &Link| sender.acknowledge(link, &mut flights, 100).unwrap();
    // Nothing new; then one that arrived, with no more credit than before.
    let progress = hear(&mut sender, &says(0, 0, 2));
    assert_eq!((progress.arrived, progress.room, sender.is_late()), (0, false, true));
    let progress = hear(&mut sender, &says(1, 0, 1));
    assert_eq!((progress.arrived, progress.room, sender.is_late()), (1, true, false));
    // Credit is no answer to what is on the way.
    sender.timed_out(0);
    let progress = hear(&mut sender, &says(1, 0, 2));
    assert_eq!((progress.arrived, progress.room, sender.is_late()), (0, true, true));
    hear(&mut sender, &says(2, 0, 1));
    assert_eq!((sender.outstanding(), sender.timer()), (0, u64::MAX));
    // A packet that waits for credit is sent as soon as there is some.
    let (mut stalled, mut flights) = self::sender(0);
    queue(&mut stalled, &mut flights, 0);
    assert!(stalled.outstanding() > 0 && stalled.on_the_way(0).is_none());
    stalled.timed_out(0);
    let progress = stalled.acknowledge(&says(0, 0, 1), &mut flights, 1).unwrap();
    assert_eq!((progress.room, progress.to_send, stalled.is_late()), (true, true, false));
}

#[test]
fn d8_of_a_packet_that_was_sent_again_no_more_is_measured_than_three_timeouts() {
    for (sends, timeout) in [(1, 3 * 100_000_000), (2, 3 * 3 * FIRST_NS)] {
        let (mut sender, mut flights) = sender(1);
        (1..sends).for_each(|_| flights.get(0).unwrap().sent(0));
        sender.acknowledge(&says(1, 0, 0), &mut flights, 100_000_000).unwrap();
        assert_eq!(sender.rto().timeout(0), timeout, "sent {sends} times");
    }
}

#[test]
fn d8_a_new_peer_is_guessed_to_take_as_long_as_those_that_were_measured() {
    let mut slow = Rto::default();
    slow.measured(100_000_000);
    let guess = Rto::guess([slow, Rto::default()].into_iter());
    assert_eq!(guess.timeout(0), slow.timeout(0));
}

fn buffer() -> RxBuffer {
    RxBuffer::new(Box::leak(Box::new([0; 1])), 0, 1)
}

#[test]
fn d8_a_receiver_keeps_what_was_promised_and_says_what_is_missing() {
    let mut receiver = Receiver::new();
    receiver.promise(4);
    assert!(receiver.is_idle());
    let take = |receiver: &mut Receiver, seq: u32| match receiver.accept(Seq::FIRST.plus(seq), buffer()) {
        Verdict::Kept { in_order } => Some(in_order),
        Verdict::Duplicate(_) | Verdict::Beyond(_) => None,
    };
    // One beyond the promise, one in order, one twice, and two behind a gap.
    assert_eq!([4, 0, 0].map(|seq| take(&mut receiver, seq)), [None, Some(true), None]);
    assert!(receiver.due_at() > 0 && !receiver.is_idle());
    assert_eq!([2, 3].map(|seq| take(&mut receiver, seq)), [Some(false); 2]);
    assert!(receiver.due_at() == 0, "there is a gap");
    // What may still be refused is not acknowledged.
    assert_eq!(receiver.says(), (Seq::FIRST, 0, 4));
    // What the message unit has is not done with.
    assert!(receiver.deliver().is_some() && receiver.deliver().is_none());
    assert_eq!(receiver.says(), (Seq::FIRST.plus(1), 0b11, 3));
    assert!(!receiver.is_idle());
    // It is refused: neither it nor what is behind it is taken until it is void.
    receiver.refuse();
    assert_eq!((receiver.says(), receiver.has_refused()), ((Seq::FIRST, 0b110, 4), true));
    assert_eq!([0, 1].map(|seq| take(&mut receiver, seq)), [None, Some(false)]);
    assert!(receiver.deliver().is_none());
    let mut dropped = 0;
    assert!(receiver.accept_voids(Seq::FIRST, 0b1, |_| dropped += 1));
    assert_eq!((dropped, receiver.has_refused()), (1, false), "the one behind it was there");
    assert!(receiver.deliver().is_some() && receiver.lent() == 1);
    assert_eq!((receiver.says().0, receiver.lent()), (Seq::FIRST.plus(3), 1));
    assert!(!receiver.accept_voids(Seq::FIRST.plus(4), 0, |_| ()), "no leave");
    receiver.given_back();
    assert!(!receiver.is_idle(), "one is held");
    assert!(receiver.give_up().is_some() && receiver.give_up().is_none());
    assert!(receiver.is_idle());
    assert_eq!((receiver.promised(), take(&mut receiver, 1)), (0, None));
}

#[test]
fn d8_a_peer_hears_of_a_packet_after_a_while_and_at_once_when_it_may_send_no_more() {
    let mut receiver = Receiver::new();
    receiver.promise(2);
    assert!(receiver.due_at() > u64::MAX / 2);
    receiver.ack_later(10);
    assert_eq!(receiver.due_at(), 10 + ACK_DELAY_NS);
    receiver.ack_later(11);
    assert!(receiver.due_at() <= 11);
    receiver.told();
    assert!(receiver.due_at() > 11);
}

#[test]
fn r3_what_each_word_means_to_a_connection() {
    let [mine, earlier, theirs, later] = [7, 4, 5, 6].map(Number::new);
    let says = |word, to, own| Words { word, to, own, attempt: 0 };
    // A packet that knows of this side says that the peer has heard the answer.
    let mut answering = Connection::answer(mine, theirs);
    assert_eq!(answering.hear(says(Word::Plain, earlier, theirs)), Heard::Stale);
    assert_eq!(Connection::call(mine).hear(says(Word::Last, mine, theirs)), Heard::Stale);
    for word in [Word::Plain, Word::Last] {
        let mut answering = answering;
        assert_eq!(
            (answering.hear(says(word, mine, theirs)), answering.phase()),
            (Heard::Counts, Phase::Open)
        );
    }
    answering.hear(says(Word::Plain, mine, theirs));
    let mut open = answering;
    assert_eq!((open.phase(), open.is_meant(mine), open.is_meant(theirs)), (Phase::Open, true, false));
    // Of two calls the later counts; an answer to another connection is none to this.
    let mut answering = Connection::answer(mine, theirs);
    assert!(!answering.is_meant(mine));
    assert_eq!(answering.hear(says(Word::Connect, Number::NONE, earlier)), Heard::Stale);
    assert_eq!(answering.says().to, theirs);
    assert_eq!(answering.hear(says(Word::Connect, Number::NONE, later)), Heard::Ask);
    assert_eq!(answering.says().to, later);
    for connection in [&mut answering, &mut open, &mut Connection::call(mine)] {
        let heard = connection.hear(says(Word::Connect, earlier, later));
        assert!(matches!(heard, Heard::Reply(Words { word: Word::Released, .. })), "{heard:?}");
    }
    // Who asks for release and hears a call instead has a peer that has forgotten.
    open.release();
    open.release();
    assert_eq!((open.phase(), open.attempts()), (Phase::Releasing, 2));
    assert_eq!(open.hear(says(Word::Connect, Number::NONE, theirs)), Heard::Stale);
    assert_eq!(open.hear(says(Word::Connect, Number::NONE, later)), Heard::Anew(later));
}
