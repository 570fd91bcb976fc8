//! A ring of 64-byte lines, a message in each: shared memory between two contexts (SPEC P-9).
//!
//! | bytes of a line | what |
//! |---|---|
//! | 0..8 | mark: 0 = free, else the form, the lengths and the line's number; written last by the sender, cleared by the receiver |
//! | 8..24 | tag: four words of the user's |
//! | 24..64 | payload |
//!
//! | form | payload |
//! |---|---|
//! | inline | header and data, 40 bytes together |
//! | copied | where header and data lie, in a copy slot of the ring, and number of bytes of data |
//! | lent | 16 bytes for the header; a [`RawSource`] whose bytes the receiver reads where they are |
//! | lent, long header | the same, with the place of the header in a copy slot instead of the header |
//! | gate | none: no message, but where the receiver finds nothing more until it [passes](Receiver::pass_gate) |
//!
//! There is no shared head or tail and no atomic read-modify-write (but the count of a lent source): the sender
//! knows that a line is free because its mark is clear, the receiver that one is there because it has the number that
//! comes next, modulo 2^32; one that an [`Arrival`] still holds from the lap before has another. A copy slot is free
//! again when the line that used it is.

mod receiver;

pub use receiver::{Arrival, Receiver};

use crate::buffer::{RawSource, Source};
use crate::sync::{AtomicU64, Ordering, UnsafeCell, const_fn};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::slice;

/// Most bytes of header and data together that lie in the line itself.
pub const INLINE_BYTES: usize = 40;
/// Most bytes of header that lie in a line beside a lent source.
pub const INLINE_HEADER_BYTES: usize = 16;
/// Most copy slots of a ring.
pub const COPY_SLOTS: usize = 8;

/// What the user says of a message in a line.
pub type Tag = [u32; 4];

const FREE: u64 = 0;
const INLINE: u8 = 1;
const COPIED: u8 = 2;
const LENT: u8 = 3;
const LENT_LONG: u8 = 4;
const GATE: u8 = 5;
/// A loan that is being given back.
#[cfg(target_os = "linux")]
const RETURNED: u8 = 6;
/// A gate's mark has the number of a line so many further on, which no pull looks for there.
const BEHIND: usize = 1 << 31;

/// What a mark says but for the line's number: form, bytes of inline data, bytes of header.
#[inline]
const fn mark(form: u8, data_len: usize, header_len: usize) -> u64 {
    form as u64 | (data_len as u64) << 8 | (header_len as u64) << 16
}

/// The line's number in a mark, that of line `index` since the start being `index` modulo 2^32.
#[inline]
const fn number(mark: u64) -> u32 {
    (mark >> 32) as u32
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Lent {
    header: [MaybeUninit<u8>; INLINE_HEADER_BYTES],
    source: RawSource,
}

#[repr(C)]
union Payload {
    bytes: [MaybeUninit<u8>; INLINE_BYTES],
    copied: Copied,
    lent: Lent,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Copied {
    place: NonNull<u8>,
    data_len: usize,
}

/// One line of a ring.
#[repr(C, align(64))]
pub struct Line {
    mark: AtomicU64,
    tag: UnsafeCell<Tag>,
    payload: UnsafeCell<Payload>,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == 64);

// SAFETY: tag and payload are the sender's while the mark is clear and the receiver's while it is set.
unsafe impl Sync for Line {}
// SAFETY: all that a line holds is `Send`.
unsafe impl Send for Line {}

impl Line {
    const_fn! {
        /// A free line.
        pub fn new() -> Self {
            let payload = Payload { bytes: [MaybeUninit::uninit(); INLINE_BYTES] };
            Self { mark: AtomicU64::new(FREE), tag: UnsafeCell::new([0; 4]), payload: UnsafeCell::new(payload) }
        }
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

/// The storage does not make a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadStorage {
    /// The number of lines is not a power of two.
    Lines,
    /// A copy slot would be longer than 65535 bytes.
    CopyBytes,
}

/// Why nothing was queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No line or no copy slot is free now; the receiver frees them in time.
    Full,
    /// Header or copied data are longer than a copy slot: no retry mends it.
    TooLong,
}

#[derive(Clone, Copy)]
struct Storage {
    lines: &'static [Line],
    /// Their number, a power of two, less one.
    mask: usize,
    copies: NonNull<u8>,
    copy_bytes: usize,
}

impl Storage {
    /// Line number `index` since the start.
    #[inline]
    fn line(&self, index: usize) -> &'static Line {
        // SAFETY: at most `mask`, which is the number of lines less one.
        unsafe { self.lines.get_unchecked(index & self.mask) }
    }

    /// # Safety
    /// `slot` is one of the ring's copy slots.
    #[inline]
    unsafe fn copy(&self, slot: usize) -> NonNull<u8> {
        // SAFETY: the caller's; slots lie one behind the other in memory that belongs to the ring.
        unsafe { self.copies.add(slot * self.copy_bytes) }
    }
}

/// Makes a ring over `lines`, with as many copy slots of `copy_bytes` as `copies` has room for, up to
/// [`COPY_SLOTS`]. With none, only what fits in a line can be sent. What is still in the ring when both ends are
/// gone is leaked.
///
/// # Errors
/// [`BadStorage`].
pub fn ring(
    lines: &'static mut [Line],
    copies: &'static mut [u8],
    copy_bytes: usize,
) -> Result<(Sender, Receiver), BadStorage> {
    ring_at(lines, copies, copy_bytes, 0)
}

/// A ring that begins with the line numbered `index`.
fn ring_at(
    lines: &'static mut [Line],
    copies: &'static mut [u8],
    copy_bytes: usize,
    index: usize,
) -> Result<(Sender, Receiver), BadStorage> {
    if !lines.len().is_power_of_two() {
        return Err(BadStorage::Lines);
    }
    if copy_bytes > usize::from(u16::MAX) {
        return Err(BadStorage::CopyBytes);
    }
    let slots = copies.len().checked_div(copy_bytes).unwrap_or(0).min(COPY_SLOTS);
    for line in lines.iter_mut() {
        *line = Line::new();
    }
    let mask = lines.len() - 1;
    let storage = Storage { lines, mask, copies: NonNull::from(copies).cast(), copy_bytes };
    let sender = Sender {
        storage,
        tail: index,
        slots,
        next_slot: 0,
        used_by: [None; COPY_SLOTS],
        lent: None,
        #[cfg(target_os = "linux")]
        next_is_free: false,
    };
    Ok((sender, Receiver::new(storage, index)))
}

/// The end that sends. What it writes with each message shares no cache line with the receiver's.
#[cfg_attr(target_os = "linux", repr(align(64)))]
pub struct Sender {
    storage: Storage,
    /// Lines filled so far.
    tail: usize,
    slots: usize,
    next_slot: usize,
    /// The line that used each copy slot last.
    used_by: [Option<usize>; COPY_SLOTS],
    /// The line that lent memory last.
    lent: Option<usize>,
    /// The next line was seen to be free.
    #[cfg(target_os = "linux")]
    next_is_free: bool,
}

// SAFETY: the copy slots that the pointer leads to are written only by the one sender.
unsafe impl Send for Sender {}

impl Sender {
    /// Queues a message, copying `header` and `data`.
    ///
    /// # Errors
    /// [`Refused`]; nothing was queued.
    #[inline]
    pub fn push_bcopy(&mut self, tag: &Tag, header: &[u8], data: &[u8]) -> Result<(), Refused> {
        let line = self.free_line()?;
        if header.len() + data.len() <= INLINE_BYTES {
            // SAFETY: a line whose mark is clear is the sender's; both parts fit.
            line.payload.with_mut(|payload| unsafe { write(payload.cast(), header, data) });
            self.publish(line, tag, mark(INLINE, data.len(), header.len()));
            return Ok(());
        }
        let place = self.free_slot(header.len() + data.len())?;
        // SAFETY: the slot is free, so nobody reads it, and both parts fit.
        unsafe { write(place.as_ptr(), header, data) };
        // SAFETY: as above.
        line.payload
            .with_mut(|payload| unsafe { (*payload).copied = Copied { place, data_len: data.len() } });
        self.publish(line, tag, mark(COPIED, 0, header.len()));
        Ok(())
    }

    /// As [`push_bcopy`](Self::push_bcopy) with `word` as the first of the tag and nothing said of the others, for header
    /// and data that are together at most [`INLINE_BYTES`]; longer ones are [`Refused::TooLong`].
    ///
    /// # Errors
    /// [`Refused`]; nothing was queued.
    #[inline(always)]
    pub fn push_inline(&mut self, word: u32, header: &[u8], data: &[u8]) -> Result<(), Refused> {
        if header.len() + data.len() > INLINE_BYTES {
            return Err(Refused::TooLong);
        }
        let tail = self.tail;
        let line = self.free_line()?;
        // SAFETY: a line whose mark is clear is the sender's; both parts fit.
        line.payload.with_mut(|payload| unsafe { write(payload.cast(), header, data) });
        // SAFETY: as above.
        line.tag.with_mut(|tag| unsafe { (*tag)[0] = word });
        self.fill(line, tail, mark(INLINE, data.len(), header.len()));
        Ok(())
    }

    /// As [`push_bcopy`](Self::push_bcopy), with `len` bytes of data that `fill` writes over whatever it finds. `fill` is
    /// not called if nothing is queued.
    ///
    /// # Errors
    /// [`Refused`]; nothing was queued.
    #[inline(always)]
    pub fn push_packed(
        &mut self,
        tag: &Tag,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Refused> {
        let whole = header.len().saturating_add(len);
        let line = self.free_line()?;
        if whole <= INLINE_BYTES {
            line.payload.with_mut(|payload| {
                // SAFETY: a line whose mark is clear is the sender's; both parts fit, and data is initialised before it is lent.
                let data = unsafe {
                    let bytes: *mut u8 = payload.cast();
                    bytes.write_bytes(0, INLINE_BYTES);
                    ptr::copy_nonoverlapping(header.as_ptr(), bytes, header.len());
                    slice::from_raw_parts_mut(bytes.add(header.len()), len)
                };
                fill(data);
            });
            self.publish(line, tag, mark(INLINE, len, header.len()));
            return Ok(());
        }
        let place = self.free_slot(whole)?;
        // SAFETY: the slot is free, so nobody else reaches it, and has room for `whole` bytes; all memory of the slots
        // was initialised when it was given to the ring.
        let bytes = unsafe { slice::from_raw_parts_mut(place.as_ptr(), whole) };
        let (front, data) = bytes.split_at_mut(header.len());
        front.copy_from_slice(header);
        fill(data);
        // SAFETY: a line whose mark is clear is the sender's.
        line.payload.with_mut(|payload| unsafe { (*payload).copied = Copied { place, data_len: len } });
        self.publish(line, tag, mark(COPIED, 0, header.len()));
        Ok(())
    }

    /// Queues a message whose data is read where it lies: a clone of `data` stays until the receiver dropped the
    /// arrival. What fits in a line is copied instead.
    ///
    /// # Errors
    /// [`Refused`]; nothing was queued.
    #[inline]
    pub fn push_zcopy(&mut self, tag: &Tag, header: &[u8], data: &Source) -> Result<(), Refused> {
        if header.len() + data.len() <= INLINE_BYTES {
            return self.push_bcopy(tag, header, data.as_slice());
        }
        let line = self.free_line()?;
        let mark = if header.len() <= INLINE_HEADER_BYTES {
            // Most have none, and a copy of nothing is a call.
            if !header.is_empty() {
                // SAFETY: a line whose mark is clear is the sender's, and the header fits in front of the source.
                line.payload.with_mut(|payload| unsafe { write(payload.cast(), header, &[]) });
            }
            mark(LENT, 0, header.len())
        } else {
            let place = self.free_slot(header.len())?;
            // SAFETY: the slot is free, so nobody reads it, and the header fits.
            unsafe { write(place.as_ptr(), header, &[]) };
            // SAFETY: a line whose mark is clear is the sender's. The source is not in this part of it.
            line.payload.with_mut(|payload| unsafe { (*payload).copied.place = place });
            mark(LENT_LONG, 0, header.len())
        };
        let source = data.clone().into_raw();
        // SAFETY: the line is the sender's.
        line.payload.with_mut(|payload| unsafe { (*payload).lent.source = source });
        self.lent = Some(self.tail);
        self.publish(line, tag, mark);
        Ok(())
    }

    /// Puts a gate behind what was queued, with a word for the receiver, which has to [pass](Receiver::pass_gate) it to find what
    /// is queued after it.
    ///
    /// # Errors
    /// [`Refused::Full`]; there is no gate then.
    pub fn gate(&mut self, word: u32) -> Result<(), Refused> {
        let tail = self.tail;
        let line = self.free_line()?;
        // SAFETY: a line whose mark is clear is the sender's.
        line.tag.with_mut(|tag| unsafe { (*tag)[0] = word });
        line.mark.store(mark(GATE, 0, 0) | (tail.wrapping_add(BEHIND) as u64) << 32, Ordering::Release);
        self.tail = tail.wrapping_add(1);
        #[cfg(target_os = "linux")]
        self.look_ahead();
        Ok(())
    }

    /// Whether the receiver has given back all that was lent, if it gives messages back in the order in which they came.
    pub fn is_settled(&self) -> bool {
        self.lent.is_none_or(|line| !self.holds(line))
    }

    /// Whether the receiver may still use line number `line`, which was filled.
    fn holds(&self, line: usize) -> bool {
        self.tail.wrapping_sub(line) <= self.storage.lines.len()
            && self.storage.line(line).mark.load(Ordering::Acquire) != FREE
    }

    /// Takes back what was lent and not given back, from a receiver that is gone. What it was about to give back counts as given
    /// back: if it was not, it never is.
    ///
    /// # Safety
    /// Nobody receives from the ring any more.
    #[cfg(target_os = "linux")]
    pub unsafe fn take_back(&mut self) {
        if self.lent.take().is_none() {
            return;
        }
        for back in 1..=self.storage.lines.len() {
            let line = self.storage.line(self.tail.wrapping_sub(back));
            let mark = line.mark.load(Ordering::Acquire);
            if matches!(mark as u8, LENT | LENT_LONG) {
                line.mark.store(FREE, Ordering::Relaxed);
                // SAFETY: the mark says that there is a source, and nobody else takes it, says the caller.
                drop(line.payload.with(|payload| unsafe { Source::from_raw((*payload).lent.source) }));
            }
        }
    }

    /// Lines filled since the start.
    pub fn sent(&self) -> usize {
        self.tail
    }

    #[inline]
    fn free_line(&self) -> Result<&'static Line, Refused> {
        let line = self.storage.line(self.tail);
        #[cfg(target_os = "linux")]
        if self.next_is_free {
            return Ok(line);
        }
        // Acquire: the receiver has read what was in the line and in its copy slot.
        if line.mark.load(Ordering::Acquire) == FREE { Ok(line) } else { Err(Refused::Full) }
    }

    /// The next copy slot, marked as used by the line at the tail.
    fn free_slot(&mut self, len: usize) -> Result<NonNull<u8>, Refused> {
        if len > self.storage.copy_bytes || self.slots == 0 {
            return Err(Refused::TooLong);
        }
        let slot = self.next_slot;
        let Some(used_by) = self.used_by.get_mut(slot) else { return Err(Refused::Full) };
        if let Some(user) = *used_by
            && self.tail.wrapping_sub(user) < self.storage.lines.len()
            && self.storage.line(user).mark.load(Ordering::Acquire) != FREE
        {
            return Err(Refused::Full);
        }
        *used_by = Some(self.tail);
        self.next_slot = if slot + 1 < self.slots { slot + 1 } else { 0 };
        // SAFETY: less than `slots`, as many as there are.
        Ok(unsafe { self.storage.copy(slot) })
    }

    #[inline]
    fn publish(&mut self, line: &Line, tag: &Tag, mark: u64) {
        // SAFETY: the line is the sender's until its mark is set below.
        line.tag.with_mut(|cell| unsafe { *cell = *tag });
        self.fill(line, self.tail, mark);
    }

    /// Gives the line at the tail, which is given too, to the receiver.
    #[inline]
    fn fill(&mut self, line: &Line, tail: usize, mark: u64) {
        line.mark.store(mark | (tail as u64) << 32, Ordering::Release);
        self.tail = tail.wrapping_add(1);
        #[cfg(target_os = "linux")]
        self.look_ahead();
    }

    /// Looks whether the next line is free, which the receiver wrote last: before it is wanted, as that takes long.
    #[cfg(target_os = "linux")]
    #[inline]
    fn look_ahead(&mut self) {
        // Acquire: the receiver has read what was in the line and in its copy slot.
        self.next_is_free = self.storage.line(self.tail).mark.load(Ordering::Acquire) == FREE;
    }
}

/// Writes `header` and `data` one behind the other.
///
/// # Safety
/// Both fit in memory at `to` that is the caller's.
#[inline]
unsafe fn write(to: *mut u8, header: &[u8], data: &[u8]) {
    // SAFETY: the caller's.
    unsafe {
        ptr::copy_nonoverlapping(header.as_ptr(), to, header.len());
        ptr::copy_nonoverlapping(data.as_ptr(), to.add(header.len()), data.len());
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
