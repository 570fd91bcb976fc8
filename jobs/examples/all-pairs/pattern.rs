//! What is sent: bytes that tell where they come from, in every size and shape.

use core::mem::size_of;
use kernel::{Layout, Shared};

/// Sizes of what is moved.
pub const SIZES: usize = 8;
/// The largest of them.
pub const LARGEST: usize = 1 << 20;
/// Zeros that must be left behind every piece of data.
pub const GUARD: usize = 64;
/// Bytes that are looked at in one piece.
const PIECE: usize = 512;

/// Byte `at` of the data of endpoint `from`.
pub fn byte(at: usize, from: usize) -> u8 {
    (at.wrapping_mul(7) ^ (at >> 9) ^ from.wrapping_mul(31)) as u8
}

/// By which bits each byte of the data of two endpoints differs.
pub fn difference(a: usize, b: usize) -> u8 {
    byte(0, a) ^ byte(0, b)
}

/// Everything around a packet's size, and a long one. They rise.
pub fn sizes(mtu: usize) -> [usize; SIZES] {
    [0, 1, 8, 64, mtu - 1, mtu, mtu + 1, LARGEST]
}

/// What a put or get moves.
#[derive(Clone, Copy)]
pub struct Shape {
    pub len: usize,
    /// In the memory that is read.
    pub source: Layout,
    /// In the memory that is written; runs rise.
    pub sink: Layout,
}

/// Number of shapes.
pub const SHAPES: usize = SIZES + 3;
const STRIDED: Layout = Layout::Strided { block: 24, stride: 40 };
const INDEXED: Layout = Layout::Indexed(&[(5, 100), (300, 3000), (4000, 1)]);

/// All shapes, the largest last.
pub fn shapes(mtu: usize) -> [Shape; SHAPES] {
    let mut shapes = [Shape { len: 3101, source: STRIDED, sink: INDEXED }; SHAPES];
    shapes[1] = Shape { len: 4096, source: Layout::Contiguous, sink: STRIDED };
    shapes[2] = Shape { len: 3101, source: INDEXED, sink: Layout::Contiguous };
    for (shape, len) in shapes[3..].iter_mut().zip(sizes(mtu)) {
        *shape = Shape { len, source: Layout::Contiguous, sink: Layout::Contiguous };
    }
    shapes
}

impl Shape {
    /// Bytes that it spans where it is written.
    pub fn reach(&self) -> usize {
        self.sink.reach(self.len as u32).unwrap_or(u32::MAX) as usize
    }

    /// Whether `memory` has it from `start` on, as it was read from a place like `like`, and zeros between and behind.
    pub fn is_in(&self, memory: &Shared, start: usize, like: Like) -> bool {
        let (mut sink, mut source) = Default::default();
        let (mut at, mut left) = (0, self.len);
        let mut good = true;
        while left > 0 {
            let Some((offset, run)) = self.sink.next_run(&mut sink, left.min(PIECE) as u32) else {
                return false;
            };
            let offset = offset as usize;
            good &= is_zero(memory, start + at, offset - at);
            (at, left) = (offset, left - run as usize);
            let mut rest = run;
            while rest > 0 {
                let Some((from, len)) = self.source.next_run(&mut source, rest) else { return false };
                good &= like.is_at(from as usize, memory, start + at, len as usize);
                at += len as usize;
                rest -= len;
            }
        }
        good && is_zero(memory, start + at, GUARD)
    }
}

/// Data that differs from some other by the same bits in each byte: that of two endpoints does.
#[derive(Clone, Copy)]
pub struct Like<'a> {
    pub memory: &'a Shared,
    pub start: usize,
    pub difference: u8,
}

impl Like<'_> {
    /// Whether `len` bytes of `memory` from `start` on are like those from place `from` on; at most [`PIECE`].
    fn is_at(&self, from: usize, memory: &Shared, start: usize, len: usize) -> bool {
        let (mut like, mut seen) = ([self.difference; PIECE], [0; PIECE]);
        let read = self.memory.read(self.start + from, &mut like[..len]);
        let read = read.and_then(|()| memory.read(start, &mut seen[..len]));
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        let words = like.chunks_exact(8).zip(seen.chunks_exact(8));
        let difference = u64::from_ne_bytes([self.difference; 8]);
        read.is_ok()
            && words.map(|(a, b)| word(a) ^ word(b) ^ difference).fold(0, |all, bits| all | bits) == 0
    }
}

fn is_zero(memory: &Shared, start: usize, len: usize) -> bool {
    (0..len).step_by(PIECE).all(|done| {
        let mut bytes = [0; PIECE];
        let read = memory.read(start + done, &mut bytes[..PIECE.min(len - done)]);
        read.is_ok() && bytes.iter().all(|&byte| byte == 0)
    })
}

/// Makes zeros of `len` bytes and what follows them up to an aligned place.
pub fn clear(memory: &Shared, start: usize, len: usize) {
    for at in (start..start + len).step_by(PIECE) {
        let rest = (start + len - at).next_multiple_of(size_of::<u64>());
        // The callers stay inside.
        let _ = memory.write(at, &[0; PIECE][..PIECE.min(rest)]);
    }
}
