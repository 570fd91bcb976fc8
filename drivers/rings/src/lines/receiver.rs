//! The receiving end of a ring of lines.

use super::{COPIED, FORM, FREE, INLINE, LAP, LENT, Line, Storage, Tag};
use crate::buffer::Source;
use crate::sync::Ordering;
use core::ptr::NonNull;
use core::slice;

/// The end that receives.
pub struct Receiver {
    pub(super) storage: Storage,
    /// Lines taken so far.
    pub(super) head: usize,
}

// SAFETY: the copy slots that the pointer leads to are only read, under the marks of their lines.
unsafe impl Send for Receiver {}

impl Receiver {
    /// The next message. Several arrivals may be held at a time and dropped in any order; the sender can use
    /// their lines again, one after the other, once they are dropped.
    #[inline]
    pub fn pull(&mut self) -> Option<Arrival> {
        let (line, lap) = self.storage.line(self.head);
        let mark = line.mark.load(Ordering::Acquire);
        if mark == FREE || mark & LAP != lap {
            return None;
        }
        self.head = self.head.wrapping_add(1);
        let header_len = (mark >> 16) as usize;
        let small = (mark >> 8 & 0xff) as usize;
        let (header, data, data_len) = line.payload.with(|payload| {
            // SAFETY: the mark is set and of this lap: sender wrote the payload in the form it names before it set
            // the mark, and leaves it until the arrival clears it. Header and data lie in bounds by the checks of
            // the pushes; the slot is the one the sender used.
            unsafe {
                let inline = NonNull::new_unchecked(payload.cast_mut().cast::<u8>());
                match mark & FORM {
                    INLINE => (inline, inline.add(header_len), small),
                    COPIED => {
                        let copy = self.storage.copy(small);
                        (copy, copy.add(header_len), (*payload).copied)
                    }
                    form => {
                        let (data, len) = (*payload).lent.source.bytes();
                        (if form == LENT { inline } else { self.storage.copy(small) }, data, len)
                    }
                }
            }
        });
        Some(Arrival { line, header, header_len, data, data_len })
    }

    /// Whether a pull would find a message now.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let (line, lap) = self.storage.line(self.head);
        let mark = line.mark.load(Ordering::Relaxed);
        mark != FREE && mark & LAP == lap
    }

    /// Lines taken since the start.
    pub fn received(&self) -> usize {
        self.head
    }
}

/// A message, in its line until this is dropped.
pub struct Arrival {
    line: &'static Line,
    header: NonNull<u8>,
    header_len: usize,
    data: NonNull<u8>,
    data_len: usize,
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

    /// The header.
    #[inline]
    pub fn header(&self) -> &[u8] {
        self.line.payload.with(|_| ());
        // SAFETY: in the line or in its copy slot, written before the mark was set and left until it is cleared.
        unsafe { slice::from_raw_parts(self.header.as_ptr(), self.header_len) }
    }

    /// The data.
    #[inline]
    pub fn data(&self) -> &[u8] {
        self.line.payload.with(|_| ());
        // SAFETY: as in `header`, or the bytes of a source that the line keeps alive.
        unsafe { slice::from_raw_parts(self.data.as_ptr(), self.data_len) }
    }
}

impl Drop for Arrival {
    #[inline]
    fn drop(&mut self) {
        let form = self.line.mark.load(Ordering::Relaxed) & FORM;
        if form >= LENT {
            // SAFETY: the form says that the payload holds a source, which `push_lend` took apart; this is the
            // only arrival of the line, so it is put together once.
            drop(self.line.payload.with(|payload| unsafe { Source::from_raw((*payload).lent.source) }));
        }
        // Release: all was read before the sender writes again.
        self.line.mark.store(FREE, Ordering::Release);
    }
}
