//! A task's memory: handed out once, never taken back (SPEC N-5, N-6).

use crate::arch;
use core::fmt;
use rings::buffer::{Buffer, CONTROL_BYTES};
use spin::Mutex;
use zerocopy::FromZeros;

/// Everything in an arena is aligned to this many bytes: a cache line.
pub const ALIGNMENT: usize = 64;

/// The arena has less left than was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutOfMemory {
    /// Bytes asked for; `usize::MAX` if they are too many to count.
    pub wanted: usize,
    /// Bytes left.
    pub left: usize,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, left } = self;
        write!(f, "out of memory: {wanted} bytes asked for, the task has {left} left (see --memory)")
    }
}

impl core::error::Error for OutOfMemory {}

/// Memory of one task.
pub struct Arena {
    rest: Mutex<&'static mut [u8]>,
}

impl Arena {
    /// An arena that hands out `memory`.
    pub(crate) fn new(memory: &'static mut [u8]) -> Self {
        Self { rest: Mutex::new(memory) }
    }

    /// Bytes left.
    pub fn left(&self) -> usize {
        self.rest.lock().len()
    }

    /// `len` bytes, aligned to `alignment`, with whatever they hold.
    fn take(&self, len: usize, alignment: usize) -> Result<&'static mut [u8], OutOfMemory> {
        let mut rest = self.rest.lock();
        let skip = rest.as_ptr().align_offset(alignment.max(ALIGNMENT));
        let left = rest.len();
        let end =
            skip.checked_add(len).filter(|&end| end <= left).ok_or(OutOfMemory { wanted: len, left })?;
        let (taken, remaining) = core::mem::take(&mut *rest).split_at_mut(end);
        *rest = remaining;
        Ok(&mut taken[skip..])
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
