//! The request that whoever has the context looks at: if a word ends it in the advance of that look, what is told of it is handed
//! over here, and its slot is free at once.

use super::Request;
use crate::data::WORD;
use crate::status::Status;
use core::sync::atomic::{AtomicU64, Ordering};
use rings::table::Key;

/// Of the only context. Whoever has that alone writes it, in calls and in the handlers of an advance.
#[derive(Default)]
pub(crate) struct Awaited {
    /// Slot and generation, as the context's number is 0; 0, which is no request's, if there is none.
    request: AtomicU64,
    /// Source and tag of the word that ended it.
    told: AtomicU64,
}

#[inline(always)]
fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << u32::BITS | u64::from(low)
}

impl Awaited {
    /// An advance begins in which this request is looked at.
    #[inline(always)]
    pub(crate) fn begin(&self, request: &Request) {
        self.request.store(request.bits(), Ordering::Relaxed);
    }

    /// Whether it is this one.
    #[inline(always)]
    pub(super) fn is(&self, key: Key) -> bool {
        self.request.load(Ordering::Relaxed) == pair(key.index, key.generation)
    }

    /// It is over, by a word.
    #[inline(always)]
    pub(super) fn hand_over(&self, status: Status) {
        self.told.store(pair(status.source as u32, status.tag as u32), Ordering::Relaxed);
        self.request.store(0, Ordering::Relaxed);
    }

    /// The advance is over. What is told of it if that was handed over: it is null then.
    #[inline(always)]
    pub(crate) fn end(&self, request: &mut Request) -> Option<Told> {
        if self.request.load(Ordering::Relaxed) != 0 {
            self.request.store(0, Ordering::Relaxed);
            return None;
        }
        *request = Request::NULL;
        Some(Told(self.told.load(Ordering::Relaxed)))
    }
}

/// What is told of a request that a word ended: source and tag.
#[derive(Clone, Copy)]
pub(crate) struct Told(u64);

impl Told {
    #[inline(always)]
    pub(crate) fn status(self) -> Status {
        let (source, tag) = ((self.0 >> u32::BITS) as i32, self.0 as i32);
        Status { source, tag, len: WORD, cancelled: false, error: None }
    }
}
