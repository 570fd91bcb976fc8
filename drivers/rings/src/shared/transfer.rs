//! Copies to, from and within memory in shared use, by the words of the target: where the source is aligned as the target
//! is, words go as they are, in lines by what the port has for that (SPEC H-5), else each is put together of two.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering};
use core::{array, mem, ptr};

const WORD: usize = size_of::<u64>();
/// Words of a line.
const LINE: usize = 8;

/// Copies so many lines of eight words, one at least, from the first address to the second, both multiples of eight. It accesses each
/// word whole, and nothing else.
pub type CopyLines = unsafe fn(*const u64, *mut u64, usize);

/// What copies lines; null as long as words go one by one, which compilers leave apart as they are atomics.
static COPY_LINES: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Lines are copied by `copy` from now on. That costs a call through a pointer for each copy of a line or more.
///
/// # Safety
/// It does what [`CopyLines`] says, if it may read and write all those words, as atomics of their size.
pub unsafe fn copy_lines_by(copy: CopyLines) {
    COPY_LINES.store(copy as *mut (), Ordering::Relaxed);
}

fn copy_lines() -> Option<CopyLines> {
    let copy = COPY_LINES.load(Ordering::Relaxed);
    // SAFETY: what is not null is a function of this type.
    (!copy.is_null()).then(|| unsafe { mem::transmute::<*mut (), CopyLines>(copy) })
}

/// How the memory on one side of a copy is accessed. Parts of words are numbers whose lowest byte is the first, the bytes
/// beyond them 0.
pub(super) trait Access: Copy {
    /// # Safety
    /// A word of this memory at a multiple of eight.
    unsafe fn load(self, word: *const u64) -> u64;

    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn store(self, word: *mut u64, value: u64);

    /// # Safety
    /// `len` bytes of this memory, 1 to 8, of one word at a multiple of eight.
    unsafe fn load_part(self, at: *const u8, len: usize) -> u64;

    /// # Safety
    /// As for [`load_part`](Self::load_part), and fewer than 8.
    unsafe fn store_part(self, at: *mut u8, len: usize, part: u64);
}

/// Memory that nobody else writes, or accesses while it is written.
#[derive(Clone, Copy)]
pub(super) struct Plain;

impl Access for Plain {
    #[inline(always)]
    unsafe fn load(self, word: *const u64) -> u64 {
        // SAFETY: a word of this memory, says the caller.
        unsafe { word.read() }
    }

    #[inline(always)]
    unsafe fn store(self, word: *mut u64, value: u64) {
        // SAFETY: as above.
        unsafe { word.write(value) }
    }

    #[inline(always)]
    unsafe fn load_part(self, at: *const u8, len: usize) -> u64 {
        // SAFETY: bytes of this memory, says the caller.
        (0..len).rev().fold(0, |part, byte| part << 8 | u64::from(unsafe { at.add(byte).read() }))
    }

    #[inline(always)]
    unsafe fn store_part(self, at: *mut u8, len: usize, part: u64) {
        for byte in 0..len {
            // SAFETY: as above.
            unsafe { at.add(byte).write((part >> (8 * byte)) as u8) }
        }
    }
}

/// Memory in shared use: its first and its last address, this one excluded.
#[derive(Clone, Copy)]
pub(super) struct Atomics {
    start: usize,
    end: usize,
}

impl Atomics {
    #[inline(always)]
    pub(super) fn of(data: NonNull<u8>, len: usize) -> Self {
        let start = data.addr().get();
        Self { start, end: start + len }
    }

    /// The word around a byte if it lies whole in the memory, and the byte's place in it.
    #[inline(always)]
    fn word(self, at: *const u8) -> Option<(&'static AtomicU64, u32)> {
        let skip = at.addr() % WORD;
        let start = at.addr() - skip;
        let whole = start >= self.start && self.end - start >= WORD;
        // SAFETY: a word at a multiple of eight inside the memory, only ever accessed as an atomic of this size; the
        // reference does not outlive the copy.
        whole.then(|| (unsafe { AtomicU64::from_ptr(at.sub(skip).cast_mut().cast()) }, 8 * skip as u32))
    }
}

/// The lowest bytes, 1 to 8.
#[inline(always)]
fn lowest(len: usize) -> u64 {
    u64::MAX >> (64 - 8 * len)
}

impl Access for Atomics {
    #[inline(always)]
    unsafe fn load(self, word: *const u64) -> u64 {
        // SAFETY: a whole word, says the caller: it is only ever accessed as an atomic of this size.
        unsafe { AtomicU64::from_ptr(word.cast_mut()) }.load(Ordering::Relaxed)
    }

    #[inline(always)]
    unsafe fn store(self, word: *mut u64, value: u64) {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(word) }.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    unsafe fn load_part(self, at: *const u8, len: usize) -> u64 {
        if let Some((word, shift)) = self.word(at) {
            return u64::from_le(word.load(Ordering::Relaxed)) >> shift & lowest(len);
        }
        (0..len).rev().fold(0, |part, byte| {
            // SAFETY: a byte of a broken word, only ever accessed as an atomic of this size.
            let byte = unsafe { AtomicU8::from_ptr(at.add(byte).cast_mut()) };
            part << 8 | u64::from(byte.load(Ordering::Relaxed))
        })
    }

    #[inline(always)]
    unsafe fn store_part(self, at: *mut u8, len: usize, part: u64) {
        if let Some((word, shift)) = self.word(at) {
            let (mask, part) = ((lowest(len) << shift).to_le(), (part << shift).to_le());
            // The word's other bytes may change meanwhile.
            let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |old| Some(old & !mask | part));
            return;
        }
        for byte in 0..len {
            // SAFETY: as in `load_part`.
            let place = unsafe { AtomicU8::from_ptr(at.add(byte)) };
            place.store((part >> (8 * byte)) as u8, Ordering::Relaxed);
        }
    }
}

/// Copies `len` bytes.
///
/// # Safety
/// They lie in the memories that are so accessed, and do not overlap.
pub(super) unsafe fn copy<S: Access, T: Access>(
    (from, source): (S, *mut u8),
    (to, target): (T, *mut u8),
    len: usize,
) {
    let head = len.min(target.addr().wrapping_neg() % WORD);
    let (count, tail) = ((len - head) / WORD, (len - head) % WORD);
    // SAFETY: all places are inside the ranges. Words of the target are whole as they lie inside its range.
    unsafe {
        if head > 0 {
            to.store_part(target, head, part(from, source, head));
        }
        let (source, target) = (source.add(head), target.add(head));
        if source.addr().is_multiple_of(WORD) {
            copy_words((from, source.cast()), (to, target.cast()), count);
        } else if count > 0 {
            put_words_together((from, source), (to, target.cast()), count);
        }
        if tail > 0 {
            let done = count * WORD;
            to.store_part(target.add(done), tail, part(from, source.add(done), tail));
        }
    }
}

/// Loads 1 to 7 bytes, which may be parts of two words.
///
/// # Safety
/// They are of this memory.
#[inline(always)]
unsafe fn part<S: Access>(from: S, at: *const u8, len: usize) -> u64 {
    let first = len.min(WORD - at.addr() % WORD);
    // SAFETY: the bytes up to the word's end, and those of the next.
    unsafe {
        let part = from.load_part(at, first);
        if first == len { part } else { part | from.load_part(at.add(first), len - first) << (8 * first) }
    }
}

/// # Safety
/// As for [`copy`], of whole words at multiples of eight.
#[inline(always)]
unsafe fn copy_words<S: Access, T: Access>(
    (from, mut source): (S, *const u64),
    (to, mut target): (T, *mut u64),
    count: usize,
) {
    let lines = count / LINE;
    if lines > 0
        && let Some(copy) = copy_lines()
    {
        // SAFETY: words of the ranges.
        unsafe {
            copy(source, target, lines);
            (source, target) = (source.add(lines * LINE), target.add(lines * LINE));
        }
    } else {
        for _ in 0..lines {
            // SAFETY: as above.
            unsafe {
                let words: [u64; LINE] = array::from_fn(|word| from.load(source.add(word)));
                for (word, value) in words.into_iter().enumerate() {
                    to.store(target.add(word), value);
                }
                (source, target) = (source.add(LINE), target.add(LINE));
            }
        }
    }
    for word in 0..count % LINE {
        // SAFETY: as above.
        unsafe { to.store(target.add(word), from.load(source.add(word))) };
    }
}

/// # Safety
/// As for [`copy`], of at least one whole word of the target, from a source that is at no multiple of eight.
#[inline(always)]
unsafe fn put_words_together<S: Access, T: Access>(
    (from, source): (S, *const u8),
    (to, mut target): (T, *mut u64),
    count: usize,
) {
    let skip = source.addr() % WORD;
    let (down, up) = (8 * skip as u32, 8 * (WORD - skip) as u32);
    // SAFETY: the range begins and ends in the middle of a word, both of which may be broken; those between are whole, and
    // there is one fewer of them than of the target's words.
    unsafe {
        let mut carried = from.load_part(source, WORD - skip);
        let mut next = source.add(WORD - skip).cast::<u64>();
        for _ in 0..(count - 1) / LINE {
            for word in 0..LINE {
                let value = u64::from_le(from.load(next.add(word)));
                to.store(target.add(word), (carried | value << up).to_le());
                carried = value >> down;
            }
            (next, target) = (next.add(LINE), target.add(LINE));
        }
        let left = (count - 1) % LINE;
        for word in 0..left {
            let value = u64::from_le(from.load(next.add(word)));
            to.store(target.add(word), (carried | value << up).to_le());
            carried = value >> down;
        }
        let last = from.load_part(next.add(left).cast(), skip);
        to.store(target.add(left), (carried | last << up).to_le());
    }
}
