//! Memory that local code, the message unit and other contexts read and write at the same time (SPEC P-7, P-8).
//!
//! All accesses are relaxed or stronger atomics of eight-byte words at multiples of eight, by address, and of single
//! bytes in front of the first whole word and behind the last: memory that is [somebody else's](Buffer::over) begins and
//! ends anywhere. No byte is ever accessed in two sizes, so accesses that meet are never undefined: a reader sees each
//! word as it was before or after a write. [`Shared::update`] is atomic against all others on its word.

mod extent;
mod scope;
mod spot;
mod transfer;

use crate::buffer::{Buffer, Control};
use crate::sync::Ordering;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::AtomicU64;
pub use extent::Extent;
pub use spot::Spot;
use transfer::{Atomics, Plain};
pub use transfer::{CopyLines, copy_lines_by};

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
    /// The word's address is not a multiple of its size, or it is part of a word that does not lie whole in the memory. Where
    /// the memory [begins at a multiple of eight](Shared::is_aligned), as that of [`Buffer::new`] does, offsets tell.
    Unaligned,
}

impl core::fmt::Display for Misplaced {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Bounds => "the range reaches beyond the end of the memory",
            Self::Unaligned => {
                "the word's address is not a multiple of its size, or it is not whole in the memory"
            }
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

/// Makes a word what it is to be, and says what it was.
#[inline]
fn exchange(word: &AtomicU64, new: impl Fn(u64) -> u64) -> u64 {
    match word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(new(old))) {
        Ok(old) | Err(old) => old,
    }
}

impl Buffer {
    /// Puts the buffer into shared use.
    pub fn share(self) -> Shared {
        let control = self.into_control();
        let shared = Shared(control);
        shared.control().enter();
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

    /// As [`Source::lies`](crate::buffer::Source::lies).
    pub fn lies(&self, within: impl Fn(usize, usize) -> bool) -> bool {
        let (data, len) = self.bytes();
        let counted = within(self.0.addr().get(), size_of::<Control>());
        counted && (len == 0 || within(data.addr().get(), len))
    }

    /// Whether both are handles of one memory.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// Whether there is no memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first byte's address is a multiple of eight, so that offsets and addresses are aligned alike.
    pub fn is_aligned(&self) -> bool {
        self.bytes().0.cast::<u64>().is_aligned()
    }

    /// The whole words of its first `len` bytes, if it has so many and begins at a multiple of eight.
    pub fn first_words(&self, len: u32) -> Option<Words> {
        let (first, all) = self.bytes();
        let there = self.is_aligned() && len as usize <= all;
        there.then_some(Words { first, count: len / WORD as u32 })
    }

    /// Ends the shared use.
    ///
    /// # Errors
    /// The handle, when there are others.
    pub fn reclaim(self) -> Result<Buffer, Self> {
        // This is the only handle if the count is one, so none can appear after this look.
        if self.control().uses() != 1 {
            return Err(self);
        }
        let control = self.0;
        drop(self);
        // SAFETY: it comes from a buffer, whose last handle this was.
        Ok(unsafe { Buffer::from_control(control) })
    }

    /// Copies bytes from `offset` on into `into`.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    #[inline]
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Misplaced> {
        // Most short ones are a word.
        if let Ok(word) = <&mut [u8; WORD]>::try_from(&mut *into)
            && let Ok([place]) = self.words(offset, 1)
        {
            *word = place.load(Ordering::Relaxed).to_ne_bytes();
            return Ok(());
        }
        self.read_bytes(offset, into)
    }

    fn read_bytes(&self, offset: usize, into: &mut [u8]) -> Result<(), Misplaced> {
        let (atomics, from) = self.range(offset, into.len())?;
        // SAFETY: the range lies inside the memory; `into` is the caller's alone.
        unsafe { transfer::copy((atomics, from), (Plain, into.as_mut_ptr()), into.len()) };
        Ok(())
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Misplaced> {
        // Most short ones are a word.
        if let Ok(word) = bytes.try_into()
            && self.write_word(offset, u64::from_ne_bytes(word))
        {
            return Ok(());
        }
        self.write_bytes(offset, bytes)
    }

    /// Writes a word to `offset`, if it lies whole in the memory there, at a multiple of eight. Returns whether it did.
    #[inline(always)]
    pub fn write_word(&self, offset: usize, word: u64) -> bool {
        let Some(place) = self.word(offset) else { return false };
        place.store(word, Ordering::Relaxed);
        true
    }

    /// The word at `offset`, if it lies whole in the memory there, at a multiple of eight.
    #[inline(always)]
    pub fn read_word(&self, offset: usize) -> Option<u64> {
        self.word(offset).map(|word| word.load(Ordering::Relaxed))
    }

    /// The word at `offset`, if it lies whole in the memory, at a multiple of eight.
    #[inline(always)]
    fn word(&self, offset: usize) -> Option<&AtomicU64> {
        // SAFETY: the word lies inside the memory, at a multiple of eight, and lives as long as this handle; being whole it is
        // only ever accessed as an atomic of this size.
        self.place_of_word(offset).map(|place| unsafe { place.as_ref() })
    }

    /// Where the word at `offset` lies, if it is whole in the memory, at a multiple of eight.
    #[inline(always)]
    fn place_of_word(&self, offset: usize) -> Option<NonNull<AtomicU64>> {
        let (data, len) = self.bytes();
        let inside = offset.checked_add(WORD).is_some_and(|end| end <= len);
        if !inside || !(data.addr().get() + offset).is_multiple_of(WORD) {
            return None;
        }
        // SAFETY: it lies inside the memory.
        Some(unsafe { data.add(offset) }.cast())
    }

    #[inline(never)]
    fn write_bytes(&self, offset: usize, bytes: &[u8]) -> Result<(), Misplaced> {
        let (atomics, to) = self.range(offset, bytes.len())?;
        // SAFETY: the range lies inside the memory; nobody writes `bytes` meanwhile.
        unsafe { transfer::copy((Plain, bytes.as_ptr().cast_mut()), (atomics, to), bytes.len()) };
        Ok(())
    }

    /// Copies `len` bytes from `offset` here to `at` in `to`, which may be the same memory if the ranges do not meet.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; nothing was copied.
    pub fn copy(&self, offset: usize, to: &Self, at: usize, len: usize) -> Result<(), Misplaced> {
        let from = self.range(offset, len)?;
        let to = to.range(at, len)?;
        // SAFETY: both ranges lie inside their memory.
        unsafe { transfer::copy(from, to, len) };
        Ok(())
    }

    /// Changes the word at `offset`, atomically against all other updates and writes of it, and says what it was.
    /// Acquires what the updates before it released, and releases what came before it.
    ///
    /// # Errors
    /// [`Misplaced`]; nothing was changed.
    pub fn update(&self, offset: usize, width: Width, update: Update) -> Result<u64, Misplaced> {
        match width {
            Width::Eight => {
                self.check(offset, WORD)?;
                let word = self.word(offset).ok_or(Misplaced::Unaligned)?;
                Ok(exchange(word, |old| update.apply(old, u64::MAX)))
            }
            Width::Four => self.update_half(offset, update),
        }
    }

    /// As [`update`](Self::update), of half a word.
    fn update_half(&self, offset: usize, update: Update) -> Result<u64, Misplaced> {
        const HALF: usize = WORD / 2;
        self.check(offset, HALF)?;
        let (data, len) = self.bytes();
        let address = data.addr().get() + offset;
        let skip = address % WORD;
        // Bytes of a broken word no update can change together.
        if !address.is_multiple_of(HALF) || offset < skip || len - (offset - skip) < WORD {
            return Err(Misplaced::Unaligned);
        }
        let shift = 8 * if cfg!(target_endian = "little") { skip } else { HALF - skip };
        let mask = u64::from(u32::MAX);
        // SAFETY: a word at a multiple of eight that lies whole inside the memory: it is only ever accessed as an atomic of
        // this size.
        let word = unsafe { AtomicU64::from_ptr(data.add(offset - skip).as_ptr().cast()) };
        let old = exchange(word, |old| {
            let new = update.apply(old >> shift & mask, mask) & mask;
            old & !(mask << shift) | new << shift
        });
        Ok(old >> shift & mask)
    }

    /// The `count` aligned words of eight bytes from `offset` on, as they are accessed by all.
    ///
    /// # Errors
    /// [`Misplaced::Bounds`]; [`Misplaced::Unaligned`] if the first of them is at no multiple of eight, or the last is
    /// broken.
    #[inline]
    pub fn words(&self, offset: usize, count: usize) -> Result<&[AtomicU64], Misplaced> {
        let (data, all) = self.bytes();
        let end = count.checked_mul(WORD).and_then(|len| offset.checked_add(len));
        if end.is_none_or(|end| end > all) || !(data.addr().get() + offset).is_multiple_of(WORD) {
            return Err(self.no_words(end));
        }
        // SAFETY: the words lie inside the memory, at multiples of eight, and live as long as this handle; being whole they
        // are only ever accessed as atomics of this size.
        Ok(unsafe { slice::from_raw_parts(data.add(offset).as_ptr().cast(), count) })
    }

    /// What is wrong with words that end there.
    #[cold]
    fn no_words(&self, end: Option<usize>) -> Misplaced {
        let (data, all) = self.bytes();
        let broken = data.addr().get().wrapping_add(all).wrapping_neg() % WORD;
        let within = end.is_some_and(|end| end <= all.saturating_add(broken));
        if within { Misplaced::Unaligned } else { Misplaced::Bounds }
    }

    fn check(&self, offset: usize, len: usize) -> Result<(), Misplaced> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len());
        inside.then_some(()).ok_or(Misplaced::Bounds)
    }

    /// Where the range begins, and how the memory is accessed.
    #[inline]
    fn range(&self, offset: usize, len: usize) -> Result<(Atomics, *mut u8), Misplaced> {
        self.check(offset, len)?;
        let (data, all) = self.bytes();
        // SAFETY: `offset` is at most the memory's length.
        Ok((Atomics::of(data, all), unsafe { data.add(offset) }.as_ptr()))
    }
}

/// Where whole words of memory in shared use lie, from its first byte on. Holds nothing of it.
#[derive(Clone, Copy)]
pub struct Words {
    first: NonNull<u8>,
    count: u32,
}

// SAFETY: it is an address; who makes use of it says why that may be.
unsafe impl Send for Words {}

impl Words {
    /// The address of the word at `offset`, if it lies whole among them, at a multiple of eight. As long as there is a handle of
    /// the memory it is that of a word that is only accessed as an atomic.
    #[inline(always)]
    pub fn at(self, offset: u32) -> Option<*mut u64> {
        // Bits that are set in one at no multiple of eight make it more than there can be.
        let inside = offset.rotate_right(WORD.trailing_zeros()) < self.count;
        inside.then(|| self.first.as_ptr().wrapping_add(offset as usize).cast())
    }
}

impl Clone for Shared {
    #[inline]
    fn clone(&self) -> Self {
        self.control().enter();
        Self(self.0)
    }
}

impl Drop for Shared {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this handle is counted, and ends here.
        unsafe { Control::leave(self.0) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, not(loom)))]
mod apart_tests;
