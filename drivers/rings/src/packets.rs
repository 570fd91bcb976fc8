//! Rings of packets in memory that processes share (SPEC H-1).
//!
//! A [`Segment`] has a ring for each ordered pair of nodes, made of 64-byte lines, and a desk for each node. All of it is atomic
//! words, zero at first: nothing that another process writes there does more than make wrong packets.
//!
//! | bytes of a line | what |
//! |---|---|
//! | 0..8 | mark, written last: the line's number in 48 bits, counted from 1; the form; bytes of the packet. Not written in a packet's further lines |
//! | 8..64 | packet, 56 bytes of it |
//!
//! The receiver knows that a packet is there by the number that comes next, so there is no shared head or tail. A mark is never
//! payload: a line that was used for something else before has a number of a lap before. What was taken out is told in batches,
//! by a word that the sender looks at when it has used up what it knew of.
//!
//! Sleep is as everywhere ([`sleep`](crate::sleep)): who falls asleep says so at its [`Desk`], passes a fence and looks once
//! more; who has published something passes a fence and looks at the desk.

use crate::sync::{AtomicU64, Ordering, fence};

/// Bytes of a packet in one line.
pub const LINE_BYTES: usize = 56;
/// Most nodes of a segment.
pub const MOST_NODES: usize = 16;
/// Lines of a ring between processes: 2 MiB, for all that a node may have under way to another.
pub const RING_LINES: usize = 32768;
/// Longest packet, in bytes.
pub const MOST_BYTES: usize = 0x7fff;

const WORDS: usize = LINE_BYTES / 8;
const MARK: usize = 0;
const FIRST: usize = 1;
/// Bits of a mark below the number: the form on top of the length.
const NUMBER_SHIFT: u32 = 16;
const FORM: u64 = 1 << 15;
/// Words of a desk's line.
const WANTS: usize = 0;
const CALLERS: usize = 1;
const RINGS: usize = 2;
/// Bits of what is wanted, below the number of the sleep.
const WANTED: u64 = PACKET | ROOM;

/// What a sleeper wants to be woken for: a packet that came in.
pub const PACKET: u64 = 1;
/// Room in a ring that was full.
pub const ROOM: u64 = 2;

/// A line of a segment.
#[repr(C, align(64))]
pub struct PacketLine {
    words: [AtomicU64; 1 + WORDS],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<PacketLine>() == 64);

impl PacketLine {
    /// A line of zeros.
    pub fn new() -> Self {
        Self { words: core::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Default for PacketLine {
    fn default() -> Self {
        Self::new()
    }
}

/// Lines that a packet of so many bytes takes.
pub const fn lines_of(bytes: usize) -> usize {
    if bytes == 0 { 1 } else { bytes.div_ceil(LINE_BYTES) }
}

/// What a packet is to its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One of the layer above.
    Packet,
    /// A bare frame.
    Bare,
}

/// The memory of all rings between so many nodes.
#[derive(Clone, Copy)]
pub struct Segment {
    lines: &'static [PacketLine],
    nodes: usize,
    /// Lines of each ring, a power of two.
    ring: usize,
}

impl Segment {
    /// Lines of a segment of so many nodes, with rings of `ring` lines.
    pub const fn lines(nodes: usize, ring: usize) -> usize {
        nodes + nodes * nodes * (1 + ring)
    }

    /// The segment in `lines`, if they are as many as it has, nodes are 1 to [`MOST_NODES`], and `ring` is a power of two from 4 on.
    pub fn new(lines: &'static [PacketLine], nodes: usize, ring: usize) -> Option<Self> {
        let fits = (1..=MOST_NODES).contains(&nodes) && ring.is_power_of_two() && ring >= 4;
        (fits && lines.len() == Self::lines(nodes, ring)).then_some(Self { lines, nodes, ring })
    }

    /// Bytes of that of so many nodes, with rings of [`RING_LINES`].
    pub const fn bytes(nodes: usize) -> usize {
        Self::lines(nodes, RING_LINES) * size_of::<PacketLine>()
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// The desk of a node, which is one of them.
    ///
    /// # Panics
    /// It is not.
    pub fn desk(&self, node: usize) -> Desk {
        assert!(node < self.nodes, "there is no node {node} in the segment");
        Desk { words: &self.lines[node].words, all: u64::MAX >> (64 - self.nodes) }
    }

    fn ring(&self, from: usize, to: usize) -> Ring {
        assert!(from < self.nodes && to < self.nodes, "there is no ring from node {from} to {to}");
        let pair = from * self.nodes + to;
        let rings = &self.lines[self.nodes + self.nodes * self.nodes..];
        Ring {
            lines: &rings[pair * self.ring..(pair + 1) * self.ring],
            taken: &self.lines[self.nodes + pair].words[0],
        }
    }

    /// The end of node `from` of its ring to node `to`. To be asked once.
    ///
    /// # Panics
    /// There is no such node.
    pub fn sender(&self, from: usize, to: usize) -> PacketSender {
        PacketSender { ring: self.ring(from, to), sent: 0, taken: 0 }
    }

    /// The end of node `to` of the ring from node `from`. To be asked once.
    ///
    /// # Panics
    /// There is no such node.
    pub fn receiver(&self, from: usize, to: usize) -> PacketReceiver {
        PacketReceiver { ring: self.ring(from, to), taken: 0, told: 0 }
    }
}

/// To be passed between what was published and a look at desks.
#[inline]
pub fn published() {
    fence(Ordering::SeqCst);
}

/// Where a node says that it sleeps, and others that they have something for it.
#[derive(Clone, Copy)]
pub struct Desk {
    words: &'static [AtomicU64; 1 + WORDS],
    /// Bits of all nodes.
    all: u64,
}

impl Desk {
    /// For the node: it is about to sleep until there is something of what it `wants`. It must look once more before it does.
    pub fn arm(&self, wants: u64) {
        // Nobody else changes the number.
        let before = self.words[WANTS].load(Ordering::Relaxed);
        self.words[WANTS].swap((before | WANTED).wrapping_add(1) | wants & WANTED, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// For others, behind [`published`]: calls `ring`, which wakes the node, if it sleeps and wants some of `what`. Others do not
    /// ring for this sleep once that is done, and until then they do: who stands still or dies halfway keeps nobody asleep.
    #[inline]
    pub fn wake(&self, what: u64, ring: impl FnOnce()) {
        let wants = self.words[WANTS].load(Ordering::Relaxed);
        if wants & what != 0 {
            self.words[RINGS].fetch_add(1, Ordering::Relaxed);
            ring();
            // Not if it is about to sleep again already.
            let _ = self.words[WANTS].compare_exchange(
                wants,
                wants & !WANTED,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }

    /// How often anybody has rung, or is about to.
    pub fn rings(&self) -> u64 {
        self.words[RINGS].load(Ordering::Relaxed)
    }

    /// For node `caller`: it will put something into its ring to the node. Once is enough.
    pub fn call(&self, caller: usize) {
        self.words[CALLERS].fetch_or(1 << (caller % 64), Ordering::Relaxed);
    }

    /// The nodes that have [called](Self::call), a bit each.
    #[inline]
    pub fn callers(&self) -> u64 {
        self.words[CALLERS].load(Ordering::Relaxed) & self.all
    }
}

struct Ring {
    lines: &'static [PacketLine],
    /// Lines that the receiver has said to have taken.
    taken: &'static AtomicU64,
}

impl Ring {
    #[inline(always)]
    fn line(&self, number: u64) -> &'static [AtomicU64; 1 + WORDS] {
        &self.lines[number as usize & (self.lines.len() - 1)].words
    }

    /// The number in the mark of line `line` since the start.
    #[inline(always)]
    const fn mark(line: u64) -> u64 {
        line.wrapping_add(1) << NUMBER_SHIFT
    }
}

/// The end that sends.
pub struct PacketSender {
    ring: Ring,
    /// Lines filled, and those of them that are known to be taken.
    sent: u64,
    taken: u64,
}

impl PacketSender {
    /// Whether a packet of so many lines has room now.
    #[inline]
    pub fn has_room(&mut self, lines: usize) -> bool {
        self.free() >= lines || self.look(lines)
    }

    #[inline]
    fn free(&self) -> usize {
        self.ring.lines.len() - (self.sent - self.taken) as usize
    }

    /// Looks at what was taken since. A number that cannot be changes nothing.
    #[inline(never)]
    fn look(&mut self, lines: usize) -> bool {
        // Acquire: the receiver has read what is overwritten from here on.
        let taken = self.ring.taken.load(Ordering::Acquire);
        if (self.taken..=self.sent).contains(&taken) {
            self.taken = taken;
        }
        self.free() >= lines
    }

    /// Queues the packet of `parts`, one behind the other. False without room, or if it is longer than [`MOST_BYTES`].
    #[inline]
    pub fn push(&mut self, form: Form, parts: &[&[u8]]) -> bool {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let lines = lines_of(len);
        if len > MOST_BYTES || !self.has_room(lines) {
            return false;
        }
        let mut writer = Writer { ring: &self.ring, line: self.sent, word: FIRST, carried: 0, bits: 0 };
        for part in parts {
            writer.put(part);
        }
        writer.end();
        let form = if form == Form::Bare { FORM } else { 0 };
        let mark = Ring::mark(self.sent) | form | len as u64;
        self.ring.line(self.sent)[MARK].store(mark, Ordering::Release);
        self.sent += lines as u64;
        true
    }
}

/// Writes bytes into lines, word by word.
struct Writer<'a> {
    ring: &'a Ring,
    line: u64,
    /// The next word.
    word: usize,
    /// What was written of it, as its lowest bits.
    carried: u64,
    bits: u32,
}

impl Writer<'_> {
    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.ring.line(self.line)[self.word].store(word.to_le(), Ordering::Relaxed);
        self.word += 1;
        if self.word == FIRST + WORDS {
            (self.line, self.word) = (self.line + 1, FIRST);
        }
    }

    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        if self.bits == 0 {
            self.put_words(words);
        } else {
            for &word in words {
                let word = u64::from_le_bytes(word);
                self.word(self.carried | word << self.bits);
                self.carried = word >> (64 - self.bits);
            }
        }
        for &byte in rest {
            self.carried |= u64::from(byte) << self.bits;
            self.bits += 8;
            if self.bits == 64 {
                self.word(self.carried);
                (self.carried, self.bits) = (0, 0);
            }
        }
    }

    /// Words that are not put together, whole lines at once.
    #[inline(always)]
    fn put_words(&mut self, words: &[[u8; 8]]) {
        let first = words.len().min((FIRST + WORDS - self.word) % WORDS);
        let (first, rest) = words.split_at(first);
        first.iter().for_each(|&word| self.word(u64::from_le_bytes(word)));
        let (lines, last) = rest.as_chunks::<WORDS>();
        for words in lines {
            let line = self.ring.line(self.line);
            for (place, &word) in line[FIRST..].iter().zip(words) {
                place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
            }
            self.line += 1;
        }
        last.iter().for_each(|&word| self.word(u64::from_le_bytes(word)));
    }

    #[inline(always)]
    fn end(&mut self) {
        if self.bits > 0 {
            self.word(self.carried);
        }
    }
}

/// A packet did not fit where it was to be put; it is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

/// The end that receives.
pub struct PacketReceiver {
    ring: Ring,
    /// Lines taken, and those of them that the sender was told of.
    taken: u64,
    told: u64,
}

impl PacketReceiver {
    #[inline(always)]
    fn mark(&self) -> Option<u64> {
        // Acquire: what the sender has written before.
        let mark = self.ring.line(self.taken)[MARK].load(Ordering::Acquire);
        (mark >> NUMBER_SHIFT << NUMBER_SHIFT == Ring::mark(self.taken)).then_some(mark)
    }

    /// Whether nothing is there.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.mark().is_none()
    }

    /// Copies the next packet to the front of `into`, and takes it out. Returns its form, and how many bytes it has.
    #[inline]
    pub fn pull(&mut self, into: &mut [u8]) -> Option<Result<(Form, usize), TooLong>> {
        let mark = self.mark()?;
        let len = (mark & (FORM - 1)) as usize;
        let form = if mark & FORM == 0 { Form::Packet } else { Form::Bare };
        // A packet longer than the ring is none that a sender of ours has sent.
        let fits = lines_of(len) <= self.ring.lines.len();
        let pulled = into.get_mut(..len).filter(|_| fits).map(|into| self.copy(into));
        self.taken += lines_of(len) as u64;
        Some(pulled.map(|()| (form, len)).ok_or(TooLong))
    }

    #[inline(always)]
    fn copy(&self, into: &mut [u8]) {
        let (lines, rest) = into.as_chunks_mut::<LINE_BYTES>();
        let mut number = self.taken;
        for bytes in lines {
            let (words, _) = bytes.as_chunks_mut::<8>();
            for (to, word) in words.iter_mut().zip(&self.ring.line(number)[FIRST..]) {
                *to = word.load(Ordering::Relaxed).to_ne_bytes();
            }
            number += 1;
        }
        let words = self.ring.line(number)[FIRST..].iter();
        for (to, word) in rest.chunks_mut(8).zip(words) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes()[..to.len()]);
        }
    }

    /// Tells the sender of what was taken, if that is a quarter of the ring. Returns whether it did.
    #[inline]
    pub fn tell(&mut self) -> bool {
        let due = self.taken - self.told >= self.ring.lines.len() as u64 / 4;
        if due {
            self.told = self.taken;
            // Release: what was read is not read any more.
            self.ring.taken.store(self.taken, Ordering::Release);
        }
        due
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
