//! The rings of descriptors of a GEM, driver's side (SPEC D-1, D-9).
//!
//! A descriptor is two words, or four where addresses have 64 bits: for the card to receive into, the address with the mark
//! that the driver has it, then what came; for the card to send, the address, then length and marks; and the high half of the
//! address. The card goes round, stops at a descriptor that is the driver's, and gives one back by that mark alone.
//!
//! Of what the card writes nothing is believed but that mark, and a length that is checked: whose descriptors are and what
//! they stand for lies where the card cannot reach. Rings count descriptors on and on; where the card begins anew after an
//! error, the first of its ring is the one that is next, and nothing that is under way has to move.
//!
//! All memory that the card shares is atomics, so this module holds no `unsafe`.

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// Descriptors of a ring.
pub const DESCRIPTORS: usize = 256;
/// Most pieces of a frame.
pub const MOST_PIECES: usize = 3;
/// Words of a descriptor with long addresses, and with short ones.
const LONG: usize = 4;
const SHORT: usize = 2;

/// In the first word of one to receive into: it is the driver's.
const HELD: u32 = 1 << 0;
/// Likewise: the ring begins again behind it.
const AGAIN: u32 = 1 << 1;
/// In its second word: bytes, and whether the frame begins and ends there.
const LENGTH: u32 = 0x1fff;
const WHOLE: u32 = 3 << 14;

/// In the second word of one to send: it is the driver's.
const DONE: u32 = 1 << 31;
/// Likewise: the ring begins again behind it.
const WRAP: u32 = 1 << 30;
/// Likewise: why the frame was not sent.
const FAILURES: u32 = 1 << 29 | 1 << 27 | 1 << 26;
/// Likewise: the frame ends there.
const LAST: u32 = 1 << 15;

/// A ring's words.
pub type Words = [AtomicU32; DESCRIPTORS * LONG];

/// Words that driver and card share. They are aligned to as many bytes as they are, so that all of them have the same high half
/// of the address.
pub const SHARED: usize = 4 * DESCRIPTORS * LONG;

/// The memory that driver and card share: both rings, and one descriptor for each way that is for ever the driver's, the
/// whole ring of queues that are not used.
pub struct Shared {
    pub receive: &'static Words,
    pub transmit: &'static Words,
    pub idle_receive: &'static [AtomicU32; LONG],
    pub idle_transmit: &'static [AtomicU32; LONG],
}

impl Shared {
    /// All of it in `words`, of which there are [`SHARED`]. Nothing is the card's.
    pub fn new(words: &'static [AtomicU32]) -> Option<Self> {
        let (receive, words) = words.split_first_chunk()?;
        let (transmit, words) = words.split_first_chunk()?;
        let (idle_receive, words) = words.split_first_chunk()?;
        let (idle_transmit, _) = words.split_first_chunk()?;
        let shared = Self { receive, transmit, idle_receive, idle_transmit };
        shared.idle_receive[0].store((HELD | AGAIN).to_le(), Ordering::Relaxed);
        shared.idle_transmit[1].store((DONE | WRAP | LAST).to_le(), Ordering::Relaxed);
        Some(shared)
    }
}

/// Descriptors of one way, counted on and on.
struct Ring {
    words: &'static Words,
    /// Words of a descriptor.
    stride: usize,
    /// The number of the one that is the first of the card's ring.
    base: u16,
}

impl Ring {
    fn new(words: &'static Words, long: bool) -> Self {
        Self { words, stride: if long { LONG } else { SHORT }, base: 0 }
    }

    fn word(&self, number: u16, word: usize) -> &'static AtomicU32 {
        let place = usize::from(number.wrapping_sub(self.base)) % DESCRIPTORS;
        &self.words[(place * self.stride + word) % (DESCRIPTORS * LONG)]
    }

    fn read(&self, number: u16, word: usize) -> u32 {
        u32::from_le(self.word(number, word).load(Ordering::Acquire))
    }

    fn write(&self, number: u16, word: usize, value: u32) {
        self.word(number, word).store(value.to_le(), Ordering::Relaxed);
    }

    fn write_high(&self, number: u16, address: u64) {
        if self.stride == LONG {
            self.write(number, 2, (address >> 32) as u32);
        }
    }

    /// `mark` if it is the last of the card's ring.
    fn end(&self, number: u16, mark: u32) -> u32 {
        if usize::from(number.wrapping_sub(self.base)) % DESCRIPTORS == DESCRIPTORS - 1 { mark } else { 0 }
    }
}

/// The place of a descriptor's record.
fn slot(number: u16) -> usize {
    usize::from(number) % DESCRIPTORS
}

/// The ring of buffers to receive into.
pub struct Receive {
    ring: Ring,
    /// The next to come back, the next to be shown to the card, and the next to be filled in.
    head: u16,
    shown: u16,
    tail: u16,
    buffers: Box<[Option<NonNull<[u8]>>; DESCRIPTORS]>,
}

impl Receive {
    pub fn new(words: &'static Words, long: bool) -> Self {
        let ring = Ring::new(words, long);
        for number in 0..DESCRIPTORS as u16 {
            ring.write(number, 0, HELD | ring.end(number, AGAIN));
        }
        Self { ring, head: 0, shown: 0, tail: 0, buffers: Box::new([None; DESCRIPTORS]) }
    }

    /// Whether there is a place for one more.
    pub fn has_room(&self) -> bool {
        usize::from(self.tail.wrapping_sub(self.head)) < DESCRIPTORS
    }

    /// Fills a descriptor in: `buffer`, and where in it the card is to write. There is [room](Self::has_room).
    pub fn add(&mut self, buffer: NonNull<[u8]>, address: u64) {
        self.fill(self.tail, address);
        self.buffers[slot(self.tail)] = Some(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    fn fill(&self, number: u16, address: u64) {
        self.ring.write_high(number, address);
        self.ring.write(number, 1, 0);
        self.ring.write(number, 0, address as u32 & !3 | self.ring.end(number, AGAIN) | HELD);
    }

    /// Whether descriptors were filled in that the card has not been shown.
    pub fn is_fresh(&self) -> bool {
        self.shown != self.tail
    }

    /// Gives the card what was filled in, which is all in memory. Returns the number of the first of these.
    pub fn show(&mut self) -> u16 {
        let first = self.shown;
        while self.shown != self.tail {
            let word = self.ring.read(self.shown, 0);
            self.ring.write(self.shown, 0, word & !HELD);
            self.shown = self.shown.wrapping_add(1);
        }
        first
    }

    /// Whether the card may have come to descriptor `first` before it was shown, and have stopped there.
    pub fn ran_dry_at(&self, first: u16) -> bool {
        first == self.head || self.ring.read(first.wrapping_sub(1), 0) & HELD != 0
    }

    /// Whether the card has been shown buffers that it has not used.
    pub fn has_stock(&self) -> bool {
        self.head != self.shown && self.ring.read(self.shown.wrapping_sub(1), 0) & HELD == 0
    }

    /// Whether the card has given one back.
    pub fn has_come(&self) -> bool {
        self.head != self.shown && self.ring.read(self.head, 0) & HELD != 0
    }

    /// The next one that the card gave back, with its buffer, and the bytes of the frame in it if it holds a whole one.
    pub fn take(&mut self) -> Option<(NonNull<[u8]>, Option<usize>)> {
        while self.has_come() {
            let what = self.ring.read(self.head, 1);
            let buffer = self.buffers[slot(self.head)].take();
            self.head = self.head.wrapping_add(1);
            if let Some(buffer) = buffer {
                return Some((buffer, (what & WHOLE == WHOLE).then_some((what & LENGTH) as usize)));
            }
        }
        None
    }

    /// The card begins anew, with all buffers that it has not given back: `address` says where in one it is to write. They are
    /// to be shown again.
    pub fn restart(&mut self, address: impl Fn(NonNull<[u8]>) -> u64) {
        let (mut came, mut next) = ([0; DESCRIPTORS], self.head);
        while next != self.shown && self.ring.read(next, 0) & HELD != 0 {
            came[slot(next)] = self.ring.read(next, 1);
            next = next.wrapping_add(1);
        }
        let count = next.wrapping_sub(self.head);
        (self.ring.base, self.shown) = (next, next);
        for ahead in 0..DESCRIPTORS as u16 {
            let number = self.head.wrapping_add(ahead);
            match self.buffers[slot(number)] {
                Some(buffer) if ahead >= count => self.fill(number, address(buffer)),
                _ => self.ring.write(number, 0, HELD | self.ring.end(number, AGAIN)),
            }
            if ahead < count {
                self.ring.write(number, 1, came[slot(number)]);
            }
        }
    }
}

/// A frame under way.
#[derive(Clone, Copy, Default)]
struct Frame {
    cookie: u16,
    pieces: u16,
}

/// The ring of frames to send.
pub struct Transmit {
    ring: Ring,
    /// The next to come back, the next to be shown to the card, and the next to be filled in.
    head: u16,
    shown: u16,
    tail: u16,
    /// So many of the next to come back are lost: the card knows of them no more.
    lost: u16,
    /// By first descriptor.
    frames: Box<[Frame; DESCRIPTORS]>,
}

impl Transmit {
    pub fn new(words: &'static Words, long: bool) -> Self {
        let ring = Ring::new(words, long);
        let transmit = Self {
            ring,
            head: 0,
            shown: 0,
            tail: 0,
            lost: 0,
            frames: Box::new([Frame::default(); DESCRIPTORS]),
        };
        transmit.hold_all();
        transmit
    }

    fn hold_all(&self) {
        for number in 0..DESCRIPTORS as u16 {
            self.hold(number);
        }
    }

    fn hold(&self, number: u16) {
        self.ring.write(number, 1, DONE | self.ring.end(number, WRAP));
    }

    /// Whether there is a place for one more frame, and for the descriptor behind it that stops the card.
    pub fn has_room(&self) -> bool {
        usize::from(self.tail.wrapping_sub(self.head)) + MOST_PIECES < DESCRIPTORS
    }

    /// Fills a frame in, of `pieces`, address and length each. There is [room](Self::has_room).
    pub fn add(&mut self, pieces: &[(u64, usize)], cookie: u16) {
        let first = self.tail;
        for &(address, len) in pieces {
            let number = self.tail;
            self.tail = number.wrapping_add(1);
            let last = if usize::from(self.tail.wrapping_sub(first)) == pieces.len() { LAST } else { 0 };
            // The first one is held back, until the frame is shown.
            let held = if number == first { DONE } else { 0 };
            self.ring.write_high(number, address);
            self.ring.write(number, 0, address as u32);
            self.ring.write(number, 1, len as u32 & 0x3fff | last | held | self.ring.end(number, WRAP));
        }
        self.frames[slot(first)] = Frame { cookie, pieces: pieces.len() as u16 };
    }

    /// Whether frames were filled in that the card has not been shown.
    pub fn is_fresh(&self) -> bool {
        self.shown != self.tail
    }

    /// Gives the card what was filled in, which is all in memory.
    pub fn show(&mut self) {
        while self.shown != self.tail {
            let word = self.ring.read(self.shown, 1);
            self.ring.write(self.shown, 1, word & !DONE);
            self.shown = self.shown.wrapping_add(self.frames[slot(self.shown)].pieces);
        }
    }

    /// Whether there is one to [take](Self::take).
    pub fn has_sent(&self) -> bool {
        self.lost != 0 || (self.head != self.shown && self.ring.read(self.head, 1) & DONE != 0)
    }

    /// Whether the card has frames to send.
    pub fn has_unsent(&self) -> bool {
        self.head != self.shown && !self.has_sent()
    }

    /// The cookie of the next frame that the card is done with, and whether it was sent, as the card says.
    pub fn take(&mut self) -> Option<(u16, bool)> {
        if !self.has_sent() {
            return None;
        }
        let Frame { cookie, pieces } = self.frames[slot(self.head)];
        let sent = if self.lost == 0 {
            let sent = self.ring.read(self.head, 1) & FAILURES == 0;
            // The card marks the first alone; it would take the others for frames when it comes by again.
            (0..pieces).for_each(|piece| self.hold(self.head.wrapping_add(piece)));
            sent
        } else {
            self.lost = self.lost.saturating_sub(pieces);
            false
        };
        self.head = self.head.wrapping_add(pieces);
        Some((cookie, sent))
    }

    /// The card begins anew, and forgets all frames that it has not sent.
    pub fn restart(&mut self) {
        self.lost = self.tail.wrapping_sub(self.head);
        self.ring.base = self.tail;
        self.shown = self.tail;
        self.hold_all();
    }
}
