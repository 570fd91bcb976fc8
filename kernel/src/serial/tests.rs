use super::*;
use proptest::prelude::*;
use std::cell::Cell;
use std::vec::Vec;

/// When a UART says that it has room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cause {
    /// While it is empty: SiFive's, the 16550.
    Level,
    /// When it has become half empty, until it is filled again: the PL011.
    Passed,
    /// When it has become empty, until that is cleared by wanting room anew: Cadence's.
    Sticky,
}

/// A UART that sends bytes whenever it is touched, or told to.
struct Fake {
    cause: Cause,
    room: usize,
    waiting: Vec<u8>,
    sent: Vec<u8>,
    told: bool,
    received: bool,
    wants: bool,
    /// Bytes that it sends before each touch, from the last on.
    speed: Vec<usize>,
}

impl Fake {
    fn new(cause: Cause, room: usize) -> Self {
        let (waiting, sent, speed) = (Vec::new(), Vec::new(), Vec::new());
        Self { cause, room, waiting, sent, told: false, received: false, wants: false, speed }
    }

    fn send(&mut self, bytes: usize) {
        for _ in 0..bytes.min(self.waiting.len()) {
            self.sent.push(self.waiting.remove(0));
            let level = if self.cause == Cause::Passed { self.room / 2 } else { 0 };
            self.told |= self.waiting.len() == level;
        }
    }

    fn touch(&mut self) {
        let bytes = self.speed.pop().unwrap_or(0);
        self.send(bytes);
    }

    fn interrupts(&self) -> bool {
        let told = if self.cause == Cause::Level { self.waiting.is_empty() } else { self.told };
        self.wants && told
    }
}

impl SerialPort for Fake {
    fn fill(&mut self, bytes: &[u8]) -> usize {
        self.touch();
        let taken = bytes.len().min(self.room - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        if self.cause == Cause::Passed && self.waiting.len() > self.room / 2 {
            self.told = false;
        }
        taken
    }

    fn has_room(&mut self) -> bool {
        self.touch();
        self.waiting.len() < self.room
    }

    fn interrupt_for(&mut self, received: bool, room: bool) {
        self.touch();
        if self.cause == Cause::Sticky && room && !self.wants {
            self.told = false;
        }
        self.touch();
        (self.received, self.wants) = (received, room);
    }
}

const CAUSES: [Cause; 3] = [Cause::Level, Cause::Passed, Cause::Sticky];

fn never() -> u64 {
    panic!("the time of an unpaced line whose interrupts serve is of no use")
}

#[test]
fn n12_a_line_is_sent_by_its_interrupts_alone() {
    for cause in CAUSES {
        let mut line = Serial::new(Fake::new(cause, 16));
        line.listen(never);
        assert!(
            line.uart.received && !line.uart.wants,
            "{cause:?}: nothing waits, nothing is to tell of room"
        );
        let frame = [7; 100];
        assert!(line.push(&[&frame, &[0]], Worth::Log, never));
        assert_eq!((line.waiting(), line.due_ns()), (101 - 16, None), "{cause:?}");
        let mut interrupts = 0;
        while line.waiting() > 0 {
            line.uart.send(1);
            if line.uart.interrupts() {
                line.serve(never);
                interrupts += 1;
            }
        }
        assert!(!line.uart.wants && line.uart.received, "{cause:?}: it goes on to interrupt");
        line.uart.send(16);
        assert_eq!(line.uart.sent, [&frame[..], &[0]].concat(), "{cause:?}");
        assert!((85 / 16..=11).contains(&interrupts), "{cause:?}: {interrupts} interrupts");
    }
}

#[test]
fn n12_a_full_ring_drops_and_counts_log_lines_and_still_takes_statuses() {
    let mut line = Serial::new(Fake::new(Cause::Level, 0));
    line.listen(never);
    let pushed = (0..1000).filter(|_| line.push(&[&[1; 100]], Worth::Log, never)).count();
    assert_eq!(pushed, (RING_BYTES - STATUS_BYTES) / 100);
    assert_eq!(line.dropped() as usize, 1000 - pushed);
    assert!(line.push(&[&[2; 100]], Worth::Status, never));
    line.drop_one();
    assert_eq!(line.dropped() as usize, 1001 - pushed);
    let mut statuses = 1;
    while line.has_room_for(100) {
        assert!(line.push(&[&[2; 100]], Worth::Status, never));
        statuses += 1;
    }
    assert!(!line.push(&[&[2; 100]], Worth::Status, never) && statuses >= STATUS_BYTES / 100);
}

#[test]
fn n12_who_ends_the_node_sends_what_waits_before_its_own_words() {
    for cause in CAUSES {
        let mut line = Serial::new(Fake::new(cause, 4));
        line.listen(never);
        assert!(line.push(&[b"first"], Worth::Log, never) && line.push(&[b"second"], Worth::Status, never));
        // It sends whenever it is looked at.
        line.uart.speed = std::vec![1; 1000];
        line.say(&[b"last", b" words"], never);
        line.uart.send(4);
        assert_eq!(line.uart.sent, b"firstsecondlast words", "{cause:?}");
        assert!(!line.uart.wants && !line.uart.interrupts() && !line.uart.received, "{cause:?}");
    }
}

#[test]
fn n12_without_interrupts_a_hart_is_told_when_to_look() {
    let now = Cell::new(5);
    let time = || now.get();
    let mut line = Serial::new(Fake::new(Cause::Level, 16));
    assert!(line.push(&[&[1; 40]], Worth::Log, time));
    assert_eq!((line.waiting(), line.due_ns(), line.uart.wants), (24, Some(5 + LOOK_EVERY_NS), false));
    line.uart.send(16);
    line.look(time);
    assert_eq!(line.waiting(), 24, "it is not time yet");
    while let Some(due) = line.due_ns() {
        now.set(due);
        line.uart.send(16);
        line.look(time);
    }
    assert_eq!((line.waiting(), now.get()), (0, 5 + 2 * LOOK_EVERY_NS));
    // What waited before there were interrupts goes by them.
    assert!(line.push(&[&[1; 40]], Worth::Log, time));
    line.listen(time);
    assert!(line.waiting() > 0 && line.uart.wants && line.due_ns().is_none());
}

#[test]
fn n12_a_paced_line_interrupts_when_a_real_one_would() {
    let now = Cell::new(0);
    let time = || now.get();
    // The emulator's takes all there is, at once.
    let mut line = Serial::new(Fake::new(Cause::Level, 1 << 20));
    line.slow_down(115_200);
    line.listen(time);
    assert!(line.push(&[&[1; 40]], Worth::Log, time));
    assert_eq!((line.uart.waiting.len(), line.uart.wants), (16, false));
    let mut interrupts = 0;
    while line.waiting() > 0 {
        line.uart.send(1 << 20);
        assert!(!line.uart.interrupts(), "it would have interrupted at once");
        now.set(line.due_ns().expect("somebody is to look"));
        line.look(time);
        assert!(line.uart.interrupts() && line.due_ns().is_none());
        line.serve(time);
        interrupts += 1;
    }
    assert_eq!((interrupts, now.get()), (2, 2 * 16 * 86_806));
}

#[test]
fn n12_a_line_that_is_slower_than_its_pace_is_looked_at_later_or_interrupts() {
    let now = Cell::new(0);
    let time = || now.get();
    for serves in [false, true] {
        now.set(0);
        let mut line = Serial::new(Fake::new(Cause::Level, 4));
        line.slow_down(1_000_000);
        if serves {
            line.listen(time);
        }
        assert!(line.push(&[&[1; 40]], Worth::Log, time));
        // Nothing leaves the UART meanwhile.
        let due = line.due_ns().expect("somebody is to look");
        now.set(due + 5);
        line.look(time);
        if serves {
            line.serve(time);
            assert!(line.uart.wants && line.due_ns().is_none());
        } else {
            assert_eq!(line.due_ns(), Some(due + 5 + LOOK_EVERY_NS), "not in the past");
        }
    }
}

proptest! {
    /// Whatever frames come when, however fast bytes leave, and whenever interrupts are held: in the end all has left, by
    /// interrupts alone, in order.
    #[test]
    fn n12_no_interrupt_is_lost(
        cause in 0..3usize,
        room in 1..20usize,
        steps in proptest::collection::vec((0..5u8, 0..60usize), 0..80),
        speed in proptest::collection::vec(0..4usize, 0..600),
    ) {
        let mut line = Serial::new(Fake::new(CAUSES[cause], room));
        line.uart.speed = speed;
        line.listen(never);
        let (mut expected, mut next, mut held) = (Vec::new(), 0u8, false);
        for (step, length) in steps {
            match step {
                0 | 1 => {
                    let frame: Vec<u8> = (0..length).map(|_| { next = next.wrapping_add(1); next }).collect();
                    if line.push(&[&frame], Worth::Log, never) {
                        expected.extend(frame);
                    }
                }
                2 => line.uart.send(length),
                3 => {
                    held = !held;
                    if held { line.hold() } else { line.listen(never) }
                    prop_assert!(!held || !line.uart.interrupts());
                }
                _ if line.uart.interrupts() => line.serve(never),
                _ => {}
            }
        }
        if held {
            line.listen(never);
        }
        for _ in 0..10_000 {
            line.uart.send(1);
            if line.uart.interrupts() {
                line.serve(never);
            }
        }
        prop_assert_eq!(line.waiting(), 0);
        prop_assert_eq!(&line.uart.sent, &expected);
        prop_assert!(!line.uart.wants);
    }
}
