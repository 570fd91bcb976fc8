//! What a hart did and when, kept in memory, and as it goes to the host (SPEC X-6).
//!
//! A frame's payload is numbers of 6 bits a byte, the last byte of each with bit 7, all others with bit 6: none is zero. The first
//! is the hart. A second that is 0 is followed by how many records came before, in frames that may be lost, and by records of four
//! numbers each: nanoseconds since the record before, in a frame's first since the node's start; the two words of the [`Event`]; the
//! endpoint of the context that it happened at. A second that is 1 is followed by how many harts the node has, how many records the
//! hart kept, and how many at most found no room: it comes behind all of them.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use pami::endpoint::Endpoint;
use pami::trace::Event;

/// Bytes of a record in memory.
pub const RECORD_BYTES: usize = size_of::<Record>();
/// Most bytes of a frame's payload.
pub const PAYLOAD_BYTES: usize = 480;
/// Most bytes of four numbers.
const MOST_BYTES: usize = 4 * u64::BITS.div_ceil(6) as usize;

/// Room for a record: when, what, and where.
pub type Record = [AtomicU64; 4];
/// The payload of a frame.
pub type Payload = heapless::Vec<u8, PAYLOAD_BYTES>;

/// What a hart did. The hart writes alone, anybody may read; what finds no room is counted, and so is all that comes later.
#[derive(Debug)]
pub struct Timeline<'a> {
    records: &'a [Record],
    kept: AtomicUsize,
    dropped: AtomicU64,
}

impl<'a> Timeline<'a> {
    /// Nothing was done yet.
    pub const fn new(records: &'a [Record]) -> Self {
        Self { records, kept: AtomicUsize::new(0), dropped: AtomicU64::new(0) }
    }

    /// Keeps an event. One that says of the last that it was nothing takes that back.
    #[inline]
    pub fn note(&self, now_ns: u64, at: u64, event: Event) {
        let kept = self.kept.load(Ordering::Relaxed);
        let dropped = self.dropped.load(Ordering::Relaxed);
        let undone = match event {
            Event::Unsent => true,
            // Whatever happened in it is behind its begin.
            Event::Advanced(0) => {
                let last = kept.checked_sub(1).and_then(|last| self.records.get(last));
                last.is_some_and(|[_, what, ..]| what.load(Ordering::Relaxed) == Event::Advance.to_words()[0])
            }
            _ => false,
        };
        if dropped > 0 {
            return self.dropped.store(dropped + 1, Ordering::Relaxed);
        }
        if undone {
            return self.kept.store(kept.saturating_sub(1), Ordering::Relaxed);
        }
        let Some(record) = self.records.get(kept) else {
            return self.dropped.store(1, Ordering::Relaxed);
        };
        let [what, more] = event.to_words();
        for (word, value) in record.iter().zip([now_ns, what, more, at]) {
            word.store(value, Ordering::Relaxed);
        }
        self.kept.store(kept + 1, Ordering::Release);
    }

    /// Gives the payloads of all frames of hart `hart`, of `harts`, to `send`, in order.
    pub fn send(&self, hart: u64, harts: u64, mut send: impl FnMut(&[u8])) {
        let kept = self.kept.load(Ordering::Acquire).min(self.records.len());
        let begin = |tag, count| {
            let mut payload = Payload::new();
            put(&mut payload, &[hart, tag, count]);
            payload
        };
        let (mut payload, mut last_ns) = (begin(0, 0), 0);
        for (before, record) in (0..).zip(&self.records[..kept]) {
            let [now_ns, what, more, at] = record.each_ref().map(|word| word.load(Ordering::Relaxed));
            if payload.len() + MOST_BYTES > PAYLOAD_BYTES {
                send(&payload);
                (payload, last_ns) = (begin(0, before), 0);
            }
            put(&mut payload, &[now_ns.saturating_sub(last_ns), what, more, at]);
            last_ns = now_ns;
        }
        send(&payload);
        let mut end = begin(1, harts);
        put(&mut end, &[kept as u64, self.dropped.load(Ordering::Relaxed)]);
        send(&end);
    }
}

/// Appends numbers, for which there is room.
fn put(payload: &mut Payload, numbers: &[u64]) {
    for &number in numbers {
        let groups = (u64::BITS - number.leading_zeros()).div_ceil(6).max(1);
        for group in (0..groups).rev() {
            let mark = if group == 0 { 0x80 } else { 0x40 };
            let _ = payload.push((number >> (6 * group)) as u8 & 0x3f | mark);
        }
    }
}

/// What a payload says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimelinePart<'a> {
    hart: u64,
    before: u64,
    end: Option<End>,
    numbers: Numbers<'a>,
    now_ns: u64,
}

/// What the last part of a hart says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct End {
    /// Harts of the node.
    pub harts: u64,
    /// Events that the hart has kept.
    pub kept: u64,
    /// Events that found no room, at most: of what came to nothing, each is counted twice.
    pub dropped: u64,
}

/// What a hart did, and when, in nanoseconds since the node's start; the context's endpoint, if one is meant.
pub type Moment = (u64, Event, Endpoint);

impl<'a> TimelinePart<'a> {
    /// Reads a payload. `None`: it is none.
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let mut numbers = Numbers(payload);
        let (hart, tag, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let (before, end) = match tag {
            0 => (count, None),
            1 => {
                let (kept, dropped) = (numbers.next()?, numbers.next()?);
                (kept, Some(End { harts: count, kept, dropped }))
            }
            _ => return None,
        };
        Some(Self { hart, before, end, numbers, now_ns: 0 })
    }

    /// The hart that it is of.
    pub fn hart(&self) -> u64 {
        self.hart
    }

    /// How many events the parts before it have.
    pub fn before(&self) -> u64 {
        self.before
    }

    /// How many events there were, if this part is the hart's last.
    pub fn end(&self) -> Option<End> {
        self.end
    }
}

/// The records; they end before one that is none.
impl Iterator for TimelinePart<'_> {
    type Item = Moment;

    fn next(&mut self) -> Option<Moment> {
        let mut number = || self.numbers.next();
        let (passed, words, at) = (number()?, [number()?, number()?], number()?);
        self.now_ns = self.now_ns.checked_add(passed)?;
        Some((self.now_ns, Event::from_words(words)?, Endpoint::from_bits(at)))
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut number = 0u64;
        while let Some((&byte, rest)) = self.0.split_first() {
            self.0 = rest;
            number = number << 6 | u64::from(byte & 0x3f);
            match byte & 0xc0 {
                0x80 => return Some(number),
                0x40 => {}
                _ => break,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pami::trace::CollectiveCall;
    use std::vec::Vec;

    fn records(count: usize) -> Vec<Record> {
        (0..count).map(|_| Record::default()).collect()
    }

    /// What comes out of it, and what its end says.
    fn told(timeline: &Timeline<'_>) -> (Vec<Moment>, [u64; 2]) {
        let (mut moments, mut ends) = (Vec::new(), Vec::new());
        timeline.send(63, 64, |payload| {
            assert!(payload.len() <= PAYLOAD_BYTES && !payload.contains(&0));
            let part = TimelinePart::read(payload).expect("a payload");
            assert_eq!((part.hart(), part.before()), (63, moments.len() as u64));
            ends.extend(part.end());
            moments.extend(part);
        });
        let &[End { harts: 64, kept, dropped }] = &ends[..] else { panic!("{ends:?}") };
        (moments, [kept, dropped])
    }

    #[test]
    fn x6_what_a_hart_did_reads_back_in_order_whatever_the_numbers() {
        let records = records(100);
        let timeline = Timeline::new(&records);
        let call = CollectiveCall { what: 3, geometry: u32::MAX, number: u32::MAX, called: true };
        let far = Endpoint::from_bits(u64::MAX);
        let mut expected = Vec::new();
        for step in 0..100u64 {
            let event = match step % 4 {
                0 => Event::Send(far),
                1 => Event::Collective(call),
                2 => Event::Sleep,
                _ => Event::Task(step as u32),
            };
            let now_ns = if step == 99 { u64::MAX } else { step << (step % 50) };
            let now_ns = now_ns.max(expected.last().map_or(0, |&(last, ..): &Moment| last));
            timeline.note(now_ns, step, event);
            expected.push((now_ns, event, Endpoint::from_bits(step)));
        }
        assert_eq!(told(&timeline), (expected, [100, 0]));
    }

    #[test]
    fn x6_what_came_to_nothing_is_not_kept() {
        let records = records(9);
        let timeline = Timeline::new(&records);
        let peer = Endpoint::from_bits(5);
        let events = [
            Event::Advance,
            Event::Advanced(0),
            Event::Send(peer),
            Event::Unsent,
            Event::Advance,
            Event::Receive(peer),
            Event::Advanced(0),
        ];
        (10..).zip(events).for_each(|(now_ns, event)| timeline.note(now_ns, 0, event));
        let (moments, end) = told(&timeline);
        let kept: Vec<_> = moments.into_iter().map(|(now_ns, event, _)| (now_ns, event)).collect();
        assert_eq!(kept, [(14, Event::Advance), (15, Event::Receive(peer)), (16, Event::Advanced(0))]);
        assert_eq!(end, [3, 0]);
    }

    #[test]
    fn x6_what_finds_no_room_is_counted_and_nothing_behind_it_is_kept() {
        let records = records(2);
        let timeline = Timeline::new(&records);
        for event in [Event::Wait, Event::Advance, Event::Send(Endpoint::from_bits(1)), Event::Unsent] {
            timeline.note(7, 0, event);
        }
        timeline.note(8, 0, Event::Advanced(0));
        let (moments, end) = told(&timeline);
        assert_eq!((moments.len(), end), (2, [2, 3]));
    }

    #[test]
    fn x6_bytes_of_any_kind_are_no_trouble() {
        for bytes in [
            &[][..],
            &[0x80],
            &[0x80, 0x82],
            &[0x80, 0x80],
            &[0x80, 0x81, 0x80, 0x80],
            &[0x00, 0x80],
            &[0xff; 9],
        ] {
            assert_eq!(TimelinePart::read(bytes), None, "{bytes:?}");
        }
        assert_eq!(
            TimelinePart::read(&[0x80, 0x80, 0x80, 0x41, 0x80, 0x8f, 0x80]).expect("a payload").count(),
            0
        );
    }
}
