use super::*;
use std::vec::Vec;
use std::{thread, vec};

const RING: usize = 16;
/// Longest packet that fits.
const LONGEST: usize = RING * LINE_BYTES;

fn memory(nodes: usize, ring: usize) -> &'static [PacketLine] {
    (0..Segment::lines(nodes, ring)).map(|_| PacketLine::new()).collect::<Vec<_>>().leak()
}

fn pair() -> (PacketSender, PacketReceiver, Segment) {
    let segment = Segment::new(memory(2, RING), 2, RING).unwrap();
    (segment.sender(0, 1), segment.receiver(0, 1), segment)
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed * 7) as u8).collect()
}

/// What the next packet is, and its bytes.
fn pull(receiver: &mut PacketReceiver) -> Option<(Form, Vec<u8>)> {
    let mut into = [0xee; LONGEST];
    let (form, len) = receiver.pull(&mut into)?.unwrap();
    receiver.tell();
    Some((form, into[..len].to_vec()))
}

#[test]
fn h1_packets_of_every_length_and_shape_arrive_whole_and_in_order() {
    let (mut sender, mut receiver, _) = pair();
    let step = if cfg!(miri) { 41 } else { 1 };
    for len in (0..=LONGEST).step_by(step) {
        for first in [0, 1, 7, 8, 32, 33, 56, 57, 120] {
            let whole = bytes(len, len);
            let (front, rest) = whole.split_at(first.min(len));
            let (middle, back) = rest.split_at(rest.len() / 3);
            let form = if len % 2 == 0 { Form::Packet } else { Form::Bare };
            assert!(sender.push(form, &[front, middle, &[], back]));
            assert!(!receiver.is_empty());
            assert_eq!(pull(&mut receiver), Some((form, whole)));
            assert!(receiver.is_empty());
        }
    }
    assert_eq!(pull(&mut receiver), None);
}

#[test]
fn h1_a_full_ring_takes_nothing_until_the_receiver_tells_of_a_quarter() {
    let (mut sender, mut receiver, _) = pair();
    for number in 0..RING as u8 {
        assert!(sender.push(Form::Packet, &[&[number]]));
    }
    assert!(!sender.push(Form::Packet, &[]) && !sender.has_room(1));
    for number in 0..RING as u8 / 4 {
        assert!(!sender.has_room(1));
        let mut into = [0; 1];
        assert_eq!(receiver.pull(&mut into), Some(Ok((Form::Packet, 1))));
        assert_eq!(into, [number]);
        assert_eq!(receiver.tell(), number + 1 == RING as u8 / 4);
    }
    assert!(sender.has_room(RING / 4) && !sender.has_room(RING / 4 + 1));
    assert!(!sender.push(Form::Packet, &[&[0; (RING / 4) * LINE_BYTES + 1]]));
    assert!(sender.push(Form::Packet, &[&[0; (RING / 4) * LINE_BYTES]]));
}

#[test]
fn h1_payload_is_never_taken_for_a_mark() {
    let (mut sender, mut receiver, _) = pair();
    // Words that would be marks of the lines to come, wherever they fall.
    for lap in 0..3 * RING as u64 {
        let forged: Vec<u8> = (0..2 * WORDS as u64)
            .flat_map(|word| (Ring::mark(lap * 2 + RING as u64 + word % 4) | 1).to_le_bytes())
            .collect();
        assert!(sender.push(Form::Packet, &[&forged]));
        assert_eq!(pull(&mut receiver), Some((Form::Packet, forged)));
        assert!(receiver.is_empty());
    }
}

#[test]
fn d9_a_mark_that_cannot_be_is_nothing_and_a_length_that_cannot_be_is_refused() {
    let segment = Segment::new(memory(2, RING), 2, RING).unwrap();
    let mut receiver = segment.receiver(0, 1);
    let line = |at: usize| segment.ring(0, 1).line(at as u64);
    let mut into = [0; LONGEST];
    for wrong in [1, Ring::mark(1), Ring::mark(RING as u64), u64::MAX, MOST_BYTES as u64] {
        line(0)[MARK].store(wrong, Ordering::Relaxed);
        assert_eq!(receiver.pull(&mut into), None);
    }
    // Longer than where it is to go, and longer than the ring.
    line(0)[MARK].store(Ring::mark(0) | 11, Ordering::Relaxed);
    assert_eq!(receiver.pull(&mut into[..10]), Some(Err(TooLong)));
    line(1)[MARK].store(Ring::mark(1) | MOST_BYTES as u64, Ordering::Relaxed);
    let mut long = vec![0; MOST_BYTES];
    assert_eq!(receiver.pull(&mut long), Some(Err(TooLong)));
    // The next is looked for behind it.
    let next = 1 + lines_of(MOST_BYTES);
    assert!(receiver.is_empty());
    line(next)[MARK].store(Ring::mark(next as u64) | 8, Ordering::Relaxed);
    line(next)[FIRST].store(u64::from_le_bytes(*b"all well"), Ordering::Relaxed);
    assert_eq!(receiver.pull(&mut into), Some(Ok((Form::Packet, 8))));
    assert_eq!(&into[..8], b"all well");
}

#[test]
fn d9_credit_that_cannot_be_gives_no_room() {
    let (mut sender, _, segment) = pair();
    for _ in 0..RING {
        assert!(sender.push(Form::Packet, &[]));
    }
    for wrong in [RING as u64 + 1, u64::MAX, 1 << 63] {
        segment.ring(0, 1).taken.store(wrong, Ordering::Relaxed);
        assert!(!sender.has_room(1));
    }
    segment.ring(0, 1).taken.store(3, Ordering::Relaxed);
    assert!(sender.has_room(3) && !sender.has_room(4));
    segment.ring(0, 1).taken.store(2, Ordering::Relaxed);
    assert!(sender.has_room(3) && !sender.has_room(4));
}

#[test]
fn h1_a_segment_is_of_so_many_lines_and_nodes() {
    assert!(Segment::new(memory(2, RING), 3, RING).is_none());
    assert!(Segment::new(&[], 0, RING).is_none());
    assert!(Segment::new(memory(1, 12), 1, 12).is_none());
    assert!(Segment::new(memory(17, 4), 17, 4).is_none());
    let segment = Segment::new(memory(3, 4), 3, 4).unwrap();
    // Each pair has a ring of its own.
    for (from, to) in [(0, 0), (0, 1), (1, 0), (2, 1), (1, 2), (2, 2)] {
        assert!(segment.sender(from, to).push(Form::Packet, &[&[from as u8, to as u8]]));
    }
    for (from, to) in [(0, 0), (0, 1), (1, 0), (2, 1), (1, 2), (2, 2)] {
        assert_eq!(pull(&mut segment.receiver(from, to)), Some((Form::Packet, vec![from as u8, to as u8])));
    }
    assert!(segment.receiver(0, 2).is_empty());
    let desk = segment.desk(1);
    desk.call(2);
    desk.call(63);
    assert_eq!(desk.callers(), 1 << 2);
}

#[test]
fn n8_a_desk_tells_one_of_several_to_wake_and_for_what_is_wanted_alone() {
    let (.., segment) = pair();
    let desk = segment.desk(0);
    let wakes = |what| {
        let mut rings = 0;
        desk.wake(what, || rings += 1);
        rings == 1
    };
    assert!(!wakes(PACKET | ROOM));
    desk.arm(PACKET);
    assert!(!wakes(ROOM) && wakes(PACKET) && !wakes(PACKET));
    desk.arm(ROOM);
    assert!(!wakes(PACKET));
    // Who has not rung yet keeps nobody from it, and takes no later sleep for the one that it rings for.
    desk.wake(ROOM, || {
        assert!(wakes(ROOM));
        desk.arm(PACKET);
    });
    assert!(wakes(PACKET) && !wakes(PACKET));
    assert_eq!(desk.rings(), 4);
}

#[test]
fn h1_threads_exchange_packets_of_all_lengths() {
    let (mut sender, mut receiver, _) = pair();
    let count = if cfg!(miri) { 60 } else { 100_000 };
    let sending = thread::spawn(move || {
        for number in 0..count {
            let packet = bytes(number, number * 37 % (LONGEST / 2));
            let (front, back) = packet.split_at(packet.len() / 2);
            while !sender.push(Form::Packet, &[front, back]) {
                thread::yield_now();
            }
        }
    });
    for number in 0..count {
        let packet = loop {
            match pull(&mut receiver) {
                Some(packet) => break packet,
                None => thread::yield_now(),
            }
        };
        assert_eq!(packet, (Form::Packet, bytes(number, number * 37 % (LONGEST / 2))));
    }
    sending.join().unwrap();
}
