//! The receiving end of a ring of lines.

#[cfg(target_os = "linux")]
use super::RETURNED;
use super::{BEHIND, COPIED, FREE, GATE, INLINE, LENT, Line, Storage, Tag, number};
use crate::buffer::Source;
use crate::sync::Ordering;
use core::ptr::NonNull;
use core::slice;

/// The end that receives. What it writes with each message shares no cache line with the sender's.
#[cfg_attr(target_os = "linux", repr(align(64)))]
pub struct Receiver {
    storage: Storage,
    /// Lines taken so far.
    head: usize,
}

// SAFETY: the copy slots that the storage leads to are only read, under the marks of their lines.
unsafe impl Send for Receiver {}

impl Receiver {
    /// One that begins with line `head`.
    pub(super) fn new(storage: Storage, head: usize) -> Self {
        Self { storage, head }
    }

    /// The next message. Several arrivals may be held at a time and dropped in any order; the sender can use
    /// their lines again, one after the other, once they are dropped.
    #[inline]
    pub fn pull(&mut self) -> Option<Arrival> {
        let head = self.head;
        let line = self.storage.line(head);
        let mark = line.mark.load(Ordering::Acquire);
        if number(mark) != head as u32 || mark == FREE {
            return None;
        }
        self.head = head.wrapping_add(1);
        Some(Arrival { line, mark })
    }

    /// The word of the gate that is next, if one is.
    pub fn gate(&self) -> Option<u32> {
        let line = self.storage.line(self.head);
        let mark = line.mark.load(Ordering::Acquire);
        let next = mark as u8 == GATE && number(mark) == self.head.wrapping_add(BEHIND) as u32;
        // SAFETY: the mark says that the sender wrote the tag, which it leaves as it is until the mark is cleared.
        next.then(|| line.tag.with(|tag| unsafe { (*tag)[0] }))
    }

    /// Passes the gate that is next, if one is.
    pub fn pass_gate(&mut self) {
        if self.gate().is_some() {
            self.storage.line(self.head).mark.store(FREE, Ordering::Release);
            self.head = self.head.wrapping_add(1);
        }
    }

    /// Whether a pull would find a message now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let mark = self.storage.line(self.head).mark.load(Ordering::Relaxed);
        number(mark) == self.head as u32 && mark != FREE
    }

    /// Lines taken since the start.
    #[inline]
    pub fn received(&self) -> usize {
        self.head
    }
}

/// A message, in its line until this is dropped.
pub struct Arrival {
    line: &'static Line,
    /// Its mark, which stays so.
    mark: u64,
}

// SAFETY: an arrival only reads, and clears a mark that is its own to clear; sources may end on any thread.
unsafe impl Send for Arrival {}
// SAFETY: as above.
unsafe impl Sync for Arrival {}

impl Arrival {
    /// What the sender's user said of the message.
    #[inline]
    pub fn tag(&self) -> Tag {
        // SAFETY: the line is the arrival's until its mark is cleared.
        self.line.tag.with(|tag| unsafe { *tag })
    }

    /// The first word of the tag.
    #[inline]
    pub fn word(&self) -> u32 {
        // SAFETY: as in `tag`.
        self.line.tag.with(|tag| unsafe { (*tag)[0] })
    }

    /// Header and data.
    #[inline]
    pub fn parts(&self) -> (&[u8], &[u8]) {
        if self.mark as u8 != INLINE {
            return distant_parts(self.line, self.mark);
        }
        let (header_len, data_len) = inline_lens(self.mark);
        self.line.payload.with(|payload| {
            let header = payload.cast::<u8>();
            // SAFETY: the mark says that the sender wrote header and data into the line, which it leaves as it is until the
            // arrival clears the mark. They fit, by the checks of the pushes.
            unsafe {
                let data = header.add(header_len);
                (slice::from_raw_parts(header, header_len), slice::from_raw_parts(data, data_len))
            }
        })
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &[u8] {
        self.parts().0
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.parts().1
    }
}

/// Header and data of which one or both lie elsewhere, of an arrival of `line` that has this mark.
#[cold]
#[inline(never)]
fn distant_parts(line: &Line, mark: u64) -> (&[u8], &[u8]) {
    let (header_len, _) = inline_lens(mark);
    line.payload.with(|payload| {
        // SAFETY: the mark is set, so the sender wrote the payload in the form that it names before, and leaves it
        // until the arrival clears the mark. Header and data lie in bounds by the checks of the pushes, in the line, in
        // the copy slot that the sender used, or in a source that the line keeps alive.
        unsafe {
            let (header, data, data_len) = match mark as u8 {
                COPIED => {
                    let copied = (*payload).copied;
                    (copied.place, copied.place.add(header_len), copied.data_len)
                }
                form => {
                    let (data, len) = (*payload).lent.source.bytes();
                    let inline = NonNull::new_unchecked(payload.cast_mut().cast::<u8>());
                    (if form == LENT { inline } else { (*payload).copied.place }, data, len)
                }
            };
            let header = slice::from_raw_parts(header.as_ptr(), header_len);
            (header, slice::from_raw_parts(data.as_ptr(), data_len))
        }
    })
}

/// Bytes of header, and of data that lie in the line.
#[inline]
fn inline_lens(mark: u64) -> (usize, usize) {
    (usize::from((mark >> 16) as u16), usize::from((mark >> 8) as u8))
}

impl Drop for Arrival {
    #[inline]
    fn drop(&mut self) {
        if self.mark as u8 >= LENT {
            // Who ends before the mark is clear leaves open whether the loan was given back: then it was (`take_back`).
            #[cfg(target_os = "linux")]
            self.line.mark.store(self.mark & !0xff | u64::from(RETURNED), Ordering::Release);
            // SAFETY: the form says that the payload holds a source, which `push_zcopy` took apart; this is the
            // only arrival of the line, so it is put together once.
            drop(self.line.payload.with(|payload| unsafe { Source::from_raw((*payload).lent.source) }));
        }
        // Release: all was read before the sender writes again.
        self.line.mark.store(FREE, Ordering::Release);
    }
}
