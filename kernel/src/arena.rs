//! A task's memory: handed out once, never taken back (SPEC N-5, N-6), from all the pieces of RAM that it is made of (SPEC B-3).

use crate::arch;
use crate::layout::PIECES;
use core::fmt;
use heapless::Vec;
use rings::buffer::{Buffer, CONTROL_BYTES};
use spin::Mutex;
use zerocopy::FromZeros;

/// Everything in an arena is aligned to this many bytes: a cache line.
pub const ALIGNMENT: usize = 64;

/// The arena has less left, in one piece, than was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Bytes asked for; `usize::MAX` if they are too many to count.
    pub wanted: usize,
    /// Bytes left in the largest piece.
    pub left: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, left } = self;
        write!(
            f,
            "out of memory: {wanted} bytes asked for, the task has {left} left in one piece (see --memory)"
        )
    }
}

impl core::error::Error for OutOfMemory {}

/// Memory of one task.
pub struct Arena {
    pieces: Mutex<Vec<&'static mut [u8], PIECES>>,
}

impl Arena {
    /// An arena that hands out `pieces`, the first with room for what is wanted.
    pub(crate) fn new(pieces: Vec<&'static mut [u8], PIECES>) -> Self {
        Self { pieces: Mutex::new(pieces) }
    }

    /// Bytes left in the largest piece.
    pub fn left(&self) -> usize {
        self.pieces.lock().iter().map(|piece| piece.len()).max().unwrap_or(0)
    }

    /// `len` bytes, aligned to `alignment`, with whatever they hold.
    fn take(&self, len: usize, alignment: usize) -> Result<&'static mut [u8], OutOfMemory> {
        let alignment = alignment.max(ALIGNMENT);
        let found = self.pieces.lock().iter_mut().find_map(|piece| {
            let skip = piece.as_ptr().align_offset(alignment);
            let end = skip.checked_add(len).filter(|&end| end <= piece.len())?;
            let (taken, rest) = core::mem::take(piece).split_at_mut(end);
            *piece = rest;
            Some(&mut taken[skip..])
        });
        found.ok_or_else(|| OutOfMemory { wanted: len, left: self.left() })
    }

    fn bytes_of<T>(&self, len: usize) -> Result<usize, OutOfMemory> {
        let bytes = len.checked_mul(size_of::<T>());
        bytes.ok_or_else(|| OutOfMemory { wanted: usize::MAX, left: self.left() })
    }

    /// `len` zeroed values.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn slice<T: FromZeros>(&self, len: usize) -> Result<&'static mut [T], OutOfMemory> {
        let memory = self.take(self.bytes_of::<T>(len)?, align_of::<T>())?;
        Ok(arch::memory::zeroed(memory, len))
    }

    /// `len` values that `value` makes, in order.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn fill<T>(&self, len: usize, value: impl FnMut() -> T) -> Result<&'static mut [T], OutOfMemory> {
        let memory = self.take(self.bytes_of::<T>(len)?, align_of::<T>())?;
        Ok(arch::memory::filled(memory, len, value))
    }

    /// `value`, moved into the arena.
    ///
    /// # Errors
    /// [`OutOfMemory`]; `value` is dropped.
    pub fn place<T>(&self, value: T) -> Result<&'static mut T, OutOfMemory> {
        let memory = self.take(size_of::<T>(), align_of::<T>())?;
        Ok(arch::memory::placed(memory, value))
    }

    /// A buffer of `len` zeroed bytes for messages.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn buffer(&self, len: usize) -> Result<Buffer, OutOfMemory> {
        let out = |wanted| OutOfMemory { wanted, left: self.left() };
        let whole = len.checked_add(CONTROL_BYTES).ok_or_else(|| out(usize::MAX))?;
        let memory: &'static mut [u8] = self.slice(whole)?;
        Buffer::new(memory).map_err(|_| out(whole))
    }
}
