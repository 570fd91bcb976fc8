//! The rings of legacy descriptors of an 82574L, driver's side (SPEC D-1, D-9).
//!
//! A descriptor is four words: an address, then length and marks, the driver's to the card or the card's to the driver.
//! Those between the card's head and the tail that it was told of are the card's. It says that it is done with one by a
//! mark; of its head nothing is believed.
//!
//! Nor of anything else that it writes but that mark, and a length that is checked: whose descriptors are and what they
//! stand for lies where the card cannot reach. Rings count descriptors on and on; where the card was reset, the first
//! of its ring is the one that is next.
//!
//! All memory that the card shares is atomics, so this module holds no `unsafe`.

use alloc::boxed::Box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// Descriptors of a ring, of which one is never the card's.
pub const DESCRIPTORS: usize = 512;
/// Bytes of a ring.
pub const RING_BYTES: usize = DESCRIPTORS * WORDS * size_of::<u32>();
/// Most pieces of a frame.
pub const MOST_PIECES: usize = 3;
/// Words of a descriptor.
const WORDS: usize = 4;

/// In the last word: the card is done with it.
const DONE: u32 = 1 << 0;
/// In that of one to receive into: the frame ends there; the card's doubts about the frame itself.
const END: u32 = 1 << 1;
const DAMAGED: u32 = 0x97 << 8;
/// In the third word: bytes.
const LENGTH: u32 = 0xffff;
/// In that of one to send: the frame ends there; its checksum is made; what was sent is told.
const LAST: u32 = 1 << 24;
const CHECKSUM: u32 = 1 << 25;
const TELL: u32 = 1 << 27;

/// A ring's words, as the card wants them aligned.
#[repr(align(128))]
pub struct RingWords([AtomicU32; DESCRIPTORS * WORDS]);

impl RingWords {
    /// All zero, never freed: the card knows where they are.
    fn leak() -> &'static Self {
        Box::leak(Box::new(Self([const { AtomicU32::new(0) }; DESCRIPTORS * WORDS])))
    }
}

/// Descriptors of one way, counted on and on.
struct OneRing {
    words: &'static RingWords,
    /// The number of the one that is the first of the card's ring.
    base: u16,
}

impl OneRing {
    /// Where it is in the card's ring.
    fn place(&self, number: u16) -> usize {
        usize::from(number.wrapping_sub(self.base)) % DESCRIPTORS
    }

    fn word(&self, number: u16, word: usize) -> &'static AtomicU32 {
        &self.words.0[(self.place(number) * WORDS + word) % (DESCRIPTORS * WORDS)]
    }

    fn read(&self, number: u16, word: usize) -> u32 {
        u32::from_le(self.word(number, word).load(Ordering::Acquire))
    }

    fn write(&self, number: u16, words: [u32; WORDS]) {
        for (word, value) in words.into_iter().enumerate() {
            self.word(number, word).store(value.to_le(), Ordering::Relaxed);
        }
    }

    fn is_done(&self, number: u16) -> bool {
        self.read(number, 3) & DONE != 0
    }
}

/// The place of a descriptor's record.
fn slot(number: u16) -> usize {
    usize::from(number) % DESCRIPTORS
}

/// The ring of buffers to receive into.
pub struct ReceiveRing {
    ring: OneRing,
    /// The next to come back, the next to be shown to the card, and the next to be filled in.
    head: u16,
    shown: u16,
    tail: u16,
    /// What came last was not the end of its frame.
    within: bool,
    buffers: Box<[Option<NonNull<[u8]>>; DESCRIPTORS]>,
}

impl ReceiveRing {
    pub fn new() -> Self {
        let ring = OneRing { words: RingWords::leak(), base: 0 };
        Self { ring, head: 0, shown: 0, tail: 0, within: false, buffers: Box::new([None; DESCRIPTORS]) }
    }

    pub fn words(&self) -> &'static RingWords {
        self.ring.words
    }

    /// Buffers that are out.
    pub fn len(&self) -> usize {
        usize::from(self.tail.wrapping_sub(self.head))
    }

    /// Fills a descriptor in: `buffer`, and where the card is to write. Fewer than the ring's are out.
    pub fn add(&mut self, buffer: NonNull<[u8]>, address: u64) {
        self.fill(self.tail, address);
        self.buffers[slot(self.tail)] = Some(buffer);
        self.tail = self.tail.wrapping_add(1);
    }

    fn fill(&self, number: u16, address: u64) {
        self.ring.write(number, [address as u32, (address >> 32) as u32, 0, 0]);
    }

    /// How many descriptors were filled in that the card has not been shown, and how many it has or had.
    pub fn fresh(&self) -> (u16, u16) {
        (self.tail.wrapping_sub(self.shown), self.shown.wrapping_sub(self.head))
    }

    /// Gives the card what was filled in, which is all in memory. Returns its tail.
    pub fn show(&mut self) -> usize {
        self.shown = self.tail;
        self.ring.place(self.tail)
    }

    /// Whether the card has given one back.
    pub fn has_come(&self) -> bool {
        self.head != self.shown && self.ring.is_done(self.head)
    }

    /// The next one that the card gave back, with its buffer, and the bytes of the frame in it if it holds a whole one.
    pub fn take(&mut self) -> Option<(NonNull<[u8]>, Option<usize>)> {
        while self.has_come() {
            let (marks, length) = (self.ring.read(self.head, 3), self.ring.read(self.head, 2) & LENGTH);
            let buffer = self.buffers[slot(self.head)].take();
            self.head = self.head.wrapping_add(1);
            let begins = !self.within;
            self.within = marks & END == 0;
            if let Some(buffer) = buffer {
                let is_whole = begins && marks & (END | DAMAGED) == END;
                return Some((buffer, is_whole.then_some(length as usize)));
            }
        }
        None
    }

    /// The card was reset, and has no buffer. All are to be shown again, also those that it had given back: `address`
    /// says where in one it is to write.
    pub fn restart(&mut self, address: impl Fn(NonNull<[u8]>) -> u64) {
        (self.ring.base, self.shown, self.within) = (self.head, self.head, false);
        for ahead in 0..self.len() as u16 {
            let number = self.head.wrapping_add(ahead);
            if let Some(buffer) = self.buffers[slot(number)] {
                self.fill(number, address(buffer));
            }
        }
    }
}

/// A frame under way.
#[derive(Clone, Copy, Default)]
struct FrameSent {
    cookie: u16,
    pieces: u16,
}

/// The ring of frames to send.
pub struct TransmitRing {
    ring: OneRing,
    /// The next to come back, the next to be shown to the card, and the next to be filled in.
    head: u16,
    shown: u16,
    tail: u16,
    /// So many of the next to come back are lost: the card knows of them no more.
    lost: u16,
    /// By first descriptor.
    frames: Box<[FrameSent; DESCRIPTORS]>,
}

impl TransmitRing {
    pub fn new() -> Self {
        let ring = OneRing { words: RingWords::leak(), base: 0 };
        Self {
            ring,
            head: 0,
            shown: 0,
            tail: 0,
            lost: 0,
            frames: Box::new([FrameSent::default(); DESCRIPTORS]),
        }
    }

    pub fn words(&self) -> &'static RingWords {
        self.ring.words
    }

    /// Whether there is a place for one more frame, and for the descriptor behind it that is never the card's.
    pub fn has_room(&self) -> bool {
        usize::from(self.tail.wrapping_sub(self.head)) + MOST_PIECES < DESCRIPTORS
    }

    /// Fills a frame in, of `pieces`, address and length each, at least one. There is [room](Self::has_room).
    pub fn add(&mut self, pieces: &[(u64, usize)], cookie: u16) {
        self.frames[slot(self.tail)] = FrameSent { cookie, pieces: pieces.len() as u16 };
        for (at, &(address, len)) in pieces.iter().enumerate() {
            let last = if at + 1 == pieces.len() { LAST | TELL } else { 0 };
            let what = len as u32 & LENGTH | CHECKSUM | last;
            self.ring.write(self.tail, [address as u32, (address >> 32) as u32, what, 0]);
            self.tail = self.tail.wrapping_add(1);
        }
    }

    /// Whether frames were filled in that the card has not been shown.
    pub fn is_fresh(&self) -> bool {
        self.shown != self.tail
    }

    /// Gives the card what was filled in, which is all in memory. Returns its tail.
    pub fn show(&mut self) -> usize {
        self.shown = self.tail;
        self.ring.place(self.tail)
    }

    /// Whether there is one to [take](Self::take).
    pub fn has_sent(&self) -> bool {
        let last = || self.head.wrapping_add(self.frames[slot(self.head)].pieces).wrapping_sub(1);
        self.lost != 0 || (self.head != self.shown && self.ring.is_done(last()))
    }

    /// Whether the card has frames to send.
    pub fn has_unsent(&self) -> bool {
        self.head != self.shown && !self.has_sent()
    }

    /// The cookie of the next frame that the card is done with, and whether it was sent.
    pub fn take(&mut self) -> Option<(u16, bool)> {
        if !self.has_sent() {
            return None;
        }
        let FrameSent { cookie, pieces } = self.frames[slot(self.head)];
        let sent = self.lost == 0;
        self.lost = self.lost.saturating_sub(pieces);
        self.head = self.head.wrapping_add(pieces);
        Some((cookie, sent))
    }

    /// The card was reset, and forgets all frames that have not come back.
    pub fn restart(&mut self) {
        self.lost = self.tail.wrapping_sub(self.head);
        (self.ring.base, self.shown) = (self.tail, self.tail);
    }
}
