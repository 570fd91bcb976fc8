//! Lines: they arrive whole, in order, and are written again only when they are free.

use crate::{explore, forever};
use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use rings::buffer::Buffer;

use rings::bell::Bell;
use rings::lines::{self, Arrival, Line};

#[test]
fn n8_no_line_is_slept_through() {
    explore(4, || {
        let (mut sender, mut receiver) = lines::ring(vec![Line::new()].leak(), &mut [], 0).unwrap();
        let bell = forever(Bell::new());
        let interrupt = Arc::new(Notify::new());
        let notifier = interrupt.clone();
        let sending = thread::spawn(move || {
            sender.push_bcopy(&[5; 4], &[], &[]).unwrap();
            if bell.ring().is_some() {
                notifier.notify();
            }
        });
        let arrival = loop {
            bell.arm(0);
            if let Some(arrival) = receiver.pull() {
                break arrival;
            }
            interrupt.wait();
        };
        assert_eq!(arrival.tag(), [5; 4]);
        sending.join().unwrap();
    });
}

/// Loom looks for other orders only where the last access to an atomic was another thread's; the sender of a ring
/// always reads a mark itself before it sets it. So both count their steps, without any ordering of their own.
#[derive(Clone)]
struct Steps(Arc<AtomicUsize>);

impl Steps {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn lines_and_back(lines: usize, tries: u32, hold: bool) {
    explore(4, move || {
        let lines = (0..lines).map(|_| Line::new()).collect::<Vec<_>>();
        let (mut sender, mut receiver) = lines::ring(lines.leak(), vec![0; 50].leak(), 50).unwrap();
        let lease = Buffer::new(vec![9; 300].leak()).unwrap().lend();
        let source = lease.source();
        let steps = Steps::new();
        let senders = steps.clone();
        let sending = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..tries {
                senders.step();
                let pushed = match sent % 2 {
                    0 => sender.push_bcopy(&[sent; 4], &[1], &[sent as u8; 48]),
                    _ => sender.push_zcopy(&[sent; 4], &[2], &source),
                };
                sent += u32::from(pushed.is_ok());
            }
            assert!(sent > 0);
            (sender, sent)
        });
        let mut received = 0;
        let mut check = |arrival: Option<Arrival>| {
            if let Some(arrival) = &arrival {
                assert_eq!(arrival.tag(), [received; 4]);
                assert_eq!(arrival.header(), [1 + received as u8 % 2]);
                let data = arrival.data();
                assert!(if received % 2 == 0 { data == [received as u8; 48] } else { data[0] == 9 });
                received += 1;
            }
            arrival
        };
        steps.step();
        let mut first = check(receiver.pull());
        if !hold {
            steps.step();
            first = None;
        }
        steps.step();
        let second = check(receiver.pull());
        // The other way round than they came.
        steps.step();
        drop(second);
        steps.step();
        drop(first);
        let (sender, sent) = sending.join().unwrap();
        for _ in 0..tries {
            check(receiver.pull());
        }
        assert_eq!((received, sender.sent()), (sent, sent as usize));
        assert!(lease.is_idle());
    });
}

#[test]
fn p9_lines_arrive_whole_in_order_and_are_used_again() {
    lines_and_back(2, 4, false);
}

#[test]
fn p9_lines_that_are_held_are_neither_taken_twice_nor_written() {
    lines_and_back(1, 3, true);
    lines_and_back(2, 4, true);
}

#[test]
fn p9_a_copy_slot_is_written_again_only_when_its_line_is_free() {
    explore(4, || {
        let lines = (0..4).map(|_| Line::new()).collect::<Vec<_>>();
        let (mut sender, mut receiver) = lines::ring(lines.leak(), vec![0; 50].leak(), 50).unwrap();
        let steps = Steps::new();
        let senders = steps.clone();
        let sending = thread::spawn(move || {
            let mut sent = 0;
            for _ in 0..3 {
                senders.step();
                sent += u32::from(sender.push_bcopy(&[sent; 4], &[], &[sent as u8; 50]).is_ok());
            }
            sent
        });
        let mut received = 0;
        let mut pull = || {
            let arrival = receiver.pull();
            if let Some(arrival) = &arrival {
                steps.step();
                assert_eq!((arrival.tag(), arrival.data()), ([received; 4], &[received as u8; 50][..]));
                received += 1;
            }
            steps.step();
        };
        pull();
        pull();
        let sent = sending.join().unwrap();
        (0..3).for_each(|_| pull());
        assert_eq!(received, sent);
    });
}

#[test]
fn p9_nothing_behind_a_gate_is_found_before_it_is_passed() {
    explore(4, || {
        let lines = [(); 2].map(|()| Line::new());
        let (mut sender, mut receiver) = lines::ring(Box::leak(Box::new(lines)), &mut [], 0).unwrap();
        let steps = Steps::new();
        let senders = steps.clone();
        let sending = thread::spawn(move || {
            sender.push_bcopy(&[1; 4], &[], &[]).unwrap();
            senders.step();
            sender.gate(7).unwrap();
            senders.step();
            while sender.push_bcopy(&[2; 4], &[], &[]).is_err() {
                senders.step();
                thread::yield_now();
            }
        });
        let mut seen = Vec::new();
        while seen.last() != Some(&2) {
            steps.step();
            if let Some(gate) = receiver.gate() {
                assert_eq!(seen, [1]);
                assert!(receiver.pull().is_none() && !receiver.is_ready());
                receiver.pass_gate();
                seen.push(gate);
            }
            match receiver.pull() {
                Some(arrival) => seen.push(arrival.tag()[0]),
                None => thread::yield_now(),
            }
        }
        assert_eq!(seen, [1, 7, 2]);
        sending.join().unwrap();
    });
}
