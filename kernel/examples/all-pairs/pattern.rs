//! What is sent: bytes that tell where they come from, in every size and shape.

use core::mem::size_of;
use kernel::{Layout, Shared};

/// Sizes of messages.
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

    /// Whether `memory` has it from `start` on, read from place `skew` of the data of endpoint `from`, and zeros between
    /// and behind.
    pub fn is_in(&self, memory: &Shared, start: usize, skew: usize, from: usize) -> bool {
        let (mut cursor, mut source) = Default::default();
        let (mut at, mut left, mut good) = (0, self.len, true);
        let (mut source_at, mut source_left) = (0, 0);
        while left > 0 {
            let Some((offset, run)) = self.sink.next_run(&mut cursor, left.min(PIECE) as u32) else {
                return false;
            };
            let (offset, run) = (offset as usize, run as usize);
            good &= holds(memory, start + at, offset - at, || 0);
            good &= holds(memory, start + offset, run, || {
                if source_left == 0 {
                    let next = self.source.next_run(&mut source, PIECE as u32).unwrap_or_default();
                    (source_at, source_left) = (next.0 as usize, next.1);
                }
                let value = byte(skew + source_at, from);
                (source_at, source_left) = (source_at + 1, source_left - 1);
                value
            });
            (at, left) = (offset + run, left - run);
        }
        good && holds(memory, start + at, GUARD, || 0)
    }
}

/// Whether `memory` has these bytes.
fn holds(memory: &Shared, start: usize, len: usize, mut expected: impl FnMut() -> u8) -> bool {
    let mut good = true;
    for done in (0..len).step_by(PIECE) {
        let mut bytes = [0; PIECE];
        let bytes = &mut bytes[..PIECE.min(len - done)];
        good &= memory.read(start + done, bytes).is_ok() && bytes.iter().all(|&byte| byte == expected());
    }
    good
}

/// Makes zeros of `len` bytes and what follows them up to an aligned place.
pub fn clear(memory: &Shared, start: usize, len: usize) {
    for at in (start..start + len).step_by(PIECE) {
        let rest = (start + len - at).next_multiple_of(size_of::<u64>());
        // The callers stay inside.
        let _ = memory.write(at, &[0; PIECE][..PIECE.min(rest)]);
    }
}
