//! Packets in memory that processes share: they arrive whole, lines are written again only when they were read, and nobody
//! sleeps through a packet or through room.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::thread;
use rings::packets::{Form, LINE_BYTES, PACKET, PacketLine, ROOM, Segment, published};

const RING: usize = 4;

fn segment() -> Segment {
    let lines = (0..Segment::lines(1, RING)).map(|_| PacketLine::new()).collect::<Vec<_>>();
    *forever(Segment::new(lines.leak(), 1, RING).unwrap())
}

#[test]
fn h1_a_packet_is_whole_once_its_mark_is_there() {
    explore(3, || {
        let segment = segment();
        let (mut sender, mut receiver) = (segment.sender(0, 0), segment.receiver(0, 0));
        let sending = thread::spawn(move || assert!(sender.push(Form::Packet, &[&[7; LINE_BYTES + 8]])));
        let mut into = [0; LINE_BYTES + 8];
        if let Some(pulled) = receiver.pull(&mut into) {
            assert_eq!(pulled, Ok((Form::Packet, LINE_BYTES + 8)));
            assert_eq!(into, [7; LINE_BYTES + 8]);
        }
        sending.join().unwrap();
    });
}

#[test]
fn h1_lines_are_written_again_only_when_they_were_read() {
    explore(3, || {
        let segment = segment();
        let (mut sender, mut receiver) = (segment.sender(0, 0), segment.receiver(0, 0));
        for number in 0..RING as u8 {
            assert!(sender.push(Form::Packet, &[&[number; 8]]));
        }
        let sending = thread::spawn(move || sender.push(Form::Packet, &[&[RING as u8; 8]]));
        let mut into = [0; 8];
        for number in 0..RING as u8 {
            assert_eq!(receiver.pull(&mut into), Some(Ok((Form::Packet, 8))));
            assert_eq!(into, [number; 8]);
            receiver.tell();
        }
        let sent = sending.join().unwrap();
        assert_eq!(receiver.pull(&mut into).is_some(), sent);
        assert!(!sent || into == [RING as u8; 8]);
    });
}

#[test]
fn n8_no_packet_is_slept_through() {
    explore(3, || {
        let segment = segment();
        let (mut sender, mut receiver) = (segment.sender(0, 0), segment.receiver(0, 0));
        let desk = segment.desk(0);
        let interrupt = Arc::new(Notify::new());
        let notifier = interrupt.clone();
        let sending = thread::spawn(move || {
            desk.call(0);
            assert!(sender.push(Form::Packet, &[]));
            published();
            desk.wake(PACKET, || notifier.notify());
        });
        loop {
            desk.arm(PACKET);
            if desk.callers() == 1 && receiver.pull(&mut []).is_some() {
                break;
            }
            interrupt.wait();
        }
        sending.join().unwrap();
    });
}

#[test]
fn n8_no_room_is_slept_through() {
    explore(3, || {
        let segment = segment();
        let (mut sender, mut receiver) = (segment.sender(0, 0), segment.receiver(0, 0));
        let desk = segment.desk(0);
        for _ in 0..RING {
            assert!(sender.push(Form::Packet, &[]));
        }
        let interrupt = Arc::new(Notify::new());
        let notifier = interrupt.clone();
        let receiving = thread::spawn(move || {
            assert!(receiver.pull(&mut []).is_some() && receiver.tell());
            published();
            desk.wake(ROOM, || notifier.notify());
        });
        loop {
            desk.arm(PACKET | ROOM);
            if sender.has_room(1) {
                break;
            }
            interrupt.wait();
        }
        receiving.join().unwrap();
    });
}
