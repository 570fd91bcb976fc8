//! The request that whoever has the context looks at: if a word ends it in the advance of that look, what is told of it is handed
//! over here, and its slot is free at once.

use super::Request;
use crate::data::WORD;
use crate::status::Status;
use core::sync::atomic::{AtomicU64, Ordering};
use rings::table::Key;

/// Of one context. Whoever has that alone writes it, in calls and in the handlers of an advance.
#[derive(Default)]
pub(crate) struct Awaited {
    /// Slot and generation; 0, which is no request's, if there is none.
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
        self.request.store(pair(request.slot.into(), request.generation), Ordering::Relaxed);
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

    /// The advance is over. Its status if that was handed over: it is null then.
    #[inline(always)]
    pub(crate) fn end(&self, request: &mut Request) -> Option<Status> {
        if self.request.load(Ordering::Relaxed) != 0 {
            self.request.store(0, Ordering::Relaxed);
            return None;
        }
        *request = Request::NULL;
        let told = self.told.load(Ordering::Relaxed);
        let (source, tag) = ((told >> u32::BITS) as i32, told as i32);
        Some(Status { source, tag, len: WORD, cancelled: false, error: None })
    }
}
