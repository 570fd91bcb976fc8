//! Memory that local code, the message unit and other contexts read and write at the same time (SPEC P-7, P-8).
//!
//! All accesses are relaxed or stronger atomics of aligned eight-byte words, and of single bytes in the last, broken
//! word. No byte is ever accessed in two sizes, so accesses that meet are never undefined: a reader sees each word as
//! it was before or after a write. [`Shared::update`] is atomic against all others on its word.

use crate::buffer::{Buffer, Control};
use crate::sync::Ordering;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicU8, AtomicU64};

const WORD: usize = size_of::<u64>();

/// A handle of memory in shared use. Clones are counted; the last one gives the [`Buffer`] back, and if it is dropped
/// instead the memory leaks.
pub struct Shared(NonNull<Control>);

// SAFETY: the data is accessed by atomics only, the count is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The range does not lie inside the memory, or the word is not whole or not aligned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misplaced {
    /// It reaches beyond the end.
    Bounds,
    /// The word's offset is not a multiple of its size.
    Unaligned,
}

impl core::fmt::Display for Misplaced {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Bounds => "the range reaches beyond the end of the memory",
            Self::Unaligned => "the word is not aligned to its size",
        })
    }
}

impl core::error::Error for Misplaced {}

/// Size of the word that an [`Update`] changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// 32 bits: operands are cut down, the old value is extended by zeros.
    Four,
    /// 64 bits.
    Eight,
}

/// What becomes of a word (SPEC P-7). Additions wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// The sum with the operand.
    Add(u64),
    /// Bitwise and.
    And(u64),
    /// Bitwise or.
    Or(u64),
    /// Bitwise exclusive or.
    Xor(u64),
    /// The operand.
    Swap(u64),
    /// `new`, if the word is `expected`.
    CompareSwap {
        /// What the word has to be.
        expected: u64,
        /// What it becomes.
        new: u64,
    },
}

impl Update {
    /// The new value of a word that is `old`; of a word of 32 bits, the lower half.
    #[inline]
    fn apply(self, old: u64, mask: u64) -> u64 {
        match self {
            Self::Add(operand) => old.wrapping_add(operand),
            Self::And(operand) => old & operand,
            Self::Or(operand) => old | operand,
            Self::Xor(operand) => old ^ operand,
            Self::Swap(operand) => operand,
            Self::CompareSwap { expected, new } if old == expected & mask => new,
            Self::CompareSwap { .. } => old,
        }
    }
}

/// Part of a range of bytes.
enum Piece {
    /// The bytes `skip..skip + len` of the aligned word at an address.
    Word { address: *mut u8, skip: usize, len: usize },
    /// A byte of the broken word.
    Byte { address: *mut u8 },
}

impl Buffer {
    /// Puts the buffer into shared use.
    pub fn share(self) -> Shared {
        let control = self.into_control();
        let shared = Shared(control);
        shared.control().sources.store(1, Ordering::Relaxed);
        shared
    }
}

impl Shared {
    fn control(&self) -> &Control {
        // SAFETY: the control block lives until the last handle gives the buffer back.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn bytes(&self) -> (NonNull<u8>, usize) {
        // SAFETY: as in `control`.
        unsafe { Control::bytes(self.0) }
    }

    /// Bytes of memory.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes().1
    }

    /// Whether there is no memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ends the shared use.
    ///
    /// # Errors
    /// The handle, when there are others.
    pub fn reclaim(self) -> Result<Buffer, Self> {
        // This is the only handle if the count is one, so none can appear after this look.
        if self.control().sources.load(Ordering::Acquire) != 1 {
            return Err(self);
        }
        self.control().sources.store(0, Ordering::Relaxed);
        let control = self.0;
        core::mem::forget(self);
        // SAFETY: it comes from a buffer, whose last handle this was.
        Ok(unsafe { Buffer::from_control(control) })
    }

    /// Copies bytes from `offset` on into `into`.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Misplaced> {
        let mut rest = into;
        self.pieces(offset, rest.len(), |piece| match piece {
            Piece::Word { address, skip, len } => {
                // SAFETY: an aligned word inside the memory, only ever accessed as an atomic of this size.
                let word =
                    unsafe { AtomicU64::from_ptr(address.cast()) }.load(Ordering::Relaxed).to_ne_bytes();
                let (now, later) = core::mem::take(&mut rest).split_at_mut(len);
                rest = later;
                // Most words are whole, and of known size cheap to copy.
                match <&mut [u8; WORD]>::try_from(&mut *now) {
                    Ok(whole) => *whole = word,
                    Err(_) => now.copy_from_slice(&word[skip..skip + len]),
                }
            }
            Piece::Byte { address } => {
                // SAFETY: a byte of the broken word, only ever accessed as an atomic of this size.
                let byte = unsafe { AtomicU8::from_ptr(address) }.load(Ordering::Relaxed);
                if let Some((now, later)) = core::mem::take(&mut rest).split_first_mut() {
                    *now = byte;
                    rest = later;
                }
            }
        })
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Misplaced> {
        // Most short ones are a word.
        if let Ok(word) = bytes.try_into()
            && let Ok([place]) = self.words(offset, 1)
        {
            place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
            return Ok(());
        }
        self.write_pieces(offset, bytes)
    }

    fn write_pieces(&self, offset: usize, bytes: &[u8]) -> Result<(), Misplaced> {
        let mut rest = bytes;
        self.pieces(offset, bytes.len(), |piece| match piece {
            Piece::Word { address, skip, len } => {
                // SAFETY: as in `read`.
                let word = unsafe { AtomicU64::from_ptr(address.cast()) };
                let (now, later) = rest.split_at(len);
                rest = later;
                if let Ok(whole) = now.try_into() {
                    word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
                    return;
                }
                // The word's other bytes may change meanwhile.
                let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| {
                    let mut new = old.to_ne_bytes();
                    new[skip..skip + len].copy_from_slice(now);
                    Some(u64::from_ne_bytes(new))
                });
            }
            Piece::Byte { address } => {
                if let Some((&now, later)) = rest.split_first() {
                    // SAFETY: as in `read`.
                    unsafe { AtomicU8::from_ptr(address) }.store(now, Ordering::Relaxed);
                    rest = later;
                }
            }
        })
    }

    /// Copies `len` bytes from `offset` here to `at` in `to`, which may be the same memory if the ranges do not meet.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    pub fn copy(&self, offset: usize, to: &Self, at: usize, len: usize) -> Result<(), Misplaced> {
        self.check(offset, len)?;
        to.check(at, len)?;
        let mut bytes = [0; 256];
        let mut done = 0;
        while done < len {
            let now = &mut bytes[..(len - done).min(256)];
            self.read(offset + done, now)?;
            to.write(at + done, now)?;
            done += now.len();
        }
        Ok(())
    }

    /// Changes the word at `offset`, atomically against all other updates and writes of it, and says what it was.
    /// Acquires what the updates before it released, and releases what came before it.
    ///
    /// # Errors
    /// [`Misplaced`]; nothing was changed.
    pub fn update(&self, offset: usize, width: Width, update: Update) -> Result<u64, Misplaced> {
        let (size, mask) = match width {
            Width::Four => (4, u64::from(u32::MAX)),
            Width::Eight => (WORD, u64::MAX),
        };
        self.check(offset, size)?;
        let (data, len) = self.bytes();
        let start = offset - offset % WORD;
        // The broken word is bytes, which no update can change together.
        if !offset.is_multiple_of(size) || start + WORD > len {
            return Err(Misplaced::Unaligned);
        }
        let shift = if cfg!(target_endian = "little") {
            8 * (offset - start)
        } else {
            8 * (start + WORD - offset - size)
        };
        // SAFETY: `start` is a multiple of eight from an aligned address, and the word ends inside the memory; it is
        // only ever accessed as an atomic of this size.
        let word = unsafe { AtomicU64::from_ptr(data.add(start).as_ptr().cast()) };
        let new = |old: u64| {
            let new = update.apply(old >> shift & mask, mask) & mask;
            Some(old & !(mask << shift) | new << shift)
        };
        match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, new) {
            Ok(old) | Err(old) => Ok(old >> shift & mask),
        }
    }

    /// The `count` aligned words of eight bytes from `offset` on, as they are accessed by all.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; [`Misplaced::Unaligned`] if `offset` is no multiple of eight, or the last word is broken.
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64], Misplaced> {
        let len = count.checked_mul(WORD).ok_or(Misplaced::Bounds)?;
        let (data, all) = self.bytes();
        let end = offset.checked_add(len).filter(|&end| end <= all.next_multiple_of(WORD));
        let end = end.ok_or(Misplaced::Bounds)?;
        if !offset.is_multiple_of(WORD) || end > all {
            return Err(Misplaced::Unaligned);
        }
        // SAFETY: the words lie inside the memory, whose data is aligned to 64, and live as long as this handle; being
        // whole they are only ever accessed as atomics of this size.
        Ok(unsafe { slice::from_raw_parts(data.add(offset).as_ptr().cast(), count) })
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), Misplaced> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len());
        inside.then_some(()).ok_or(Misplaced::Bounds)
    }

    /// Calls `each` for the parts of a range, in order; their lengths add up to `len`.
    #[inline]
    fn pieces(&self, offset: usize, len: usize, mut each: impl FnMut(Piece)) -> Result<(), Misplaced> {
        self.check(offset, len)?;
        let (data, all) = self.bytes();
        let whole = all - all % WORD;
        let (mut at, end) = (offset, offset + len);
        while at < end.min(whole) {
            let skip = at % WORD;
            let len = (WORD - skip).min(end - at);
            // SAFETY: the word lies inside the memory, whose data is aligned to 64.
            each(Piece::Word { address: unsafe { data.add(at - skip) }.as_ptr(), skip, len });
            at += len;
        }
        while at < end {
            // SAFETY: inside the memory.
            each(Piece::Byte { address: unsafe { data.add(at) }.as_ptr() });
            at += 1;
        }
        Ok(())
    }
}

impl Clone for Shared {
    #[inline]
    fn clone(&self) -> Self {
        self.control().sources.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Shared {
    #[inline]
    fn drop(&mut self) {
        // What was done through this handle was done before the last one sees the count fall.
        self.control().sources.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
