//! What of a context is still to be done, such as what waits for room below: every advance looks whether anything does.

use core::sync::atomic::{AtomicU32, Ordering};

/// What can wait.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Lag {
    /// Messages, or what peers are to be told.
    Messages = 1,
    Collectives = 2,
    /// Answers of windows.
    Answers = 4,
    /// Nodes are gone: what waits for them ends.
    Deaths = 8,
}

/// Which of them there are.
#[derive(Default)]
pub(crate) struct Lags(AtomicU32);

impl Lags {
    /// There is one more.
    pub(crate) fn set(&self, lag: Lag) {
        self.0.fetch_or(lag as u32, Ordering::Relaxed);
    }

    /// Forgets one. Returns whether there was it.
    pub(crate) fn take(&self, lag: Lag) -> bool {
        self.any() && self.0.fetch_and(!(lag as u32), Ordering::Relaxed) & lag as u32 != 0
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}
