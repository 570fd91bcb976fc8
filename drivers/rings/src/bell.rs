//! A bell that many ring and one listens to, awake or asleep (SPEC N-8).
//!
//! Who has published something rings. A listener that is awake looks at one word to know that nothing is new anywhere;
//! one that goes to sleep leaves its hart's number there, and whoever rings next is told to wake it. Both sides exchange
//! the same word, so each sees what the other did before, and neither needs a full fence.
//!
//! A listener that looks by itself for what some of them publish, as long as it is awake, has the bell [`Watched`](Rest::Watched):
//! those need not ring then, and look at it behind a fence, to which one of the listener's belongs when it goes to sleep.

use crate::sync::{AtomicU32, Ordering, const_fn, fence};

/// Nothing is new.
const QUIET: u32 = 0;
/// Something is.
const RUNG: u32 = 1;
/// Nothing is, and the listener looks by itself for what most publish.
const WATCHED: u32 = 2;
/// Nothing is, and hart number `state - ASLEEP` sleeps, or is about to.
const ASLEEP: u32 = 3;

/// What a bell is while its listener is awake and nothing is new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// The listener hears of everything by it.
    Quiet,
    /// It looks by itself for what comes from those who ask whether the bell [is watched](Bell::is_watched).
    Watched,
}

impl Rest {
    #[inline(always)]
    const fn state(self) -> u32 {
        match self {
            Self::Quiet => QUIET,
            Self::Watched => WATCHED,
        }
    }
}

/// The bell. Has a cache line of its own: its listener polls it.
#[repr(align(64))]
pub struct Bell {
    state: AtomicU32,
}

impl Bell {
    const_fn! {
        /// A bell that nobody has rung.
        pub fn new() -> Self {
            Self { state: AtomicU32::new(QUIET) }
        }
    }

    const_fn! {
        /// A bell that somebody has rung.
        pub fn rung() -> Self {
            Self { state: AtomicU32::new(RUNG) }
        }
    }

    /// To be called after something was published: the hart to interrupt, if the listener sleeps. Of several that ring
    /// only one is told.
    #[inline]
    pub fn ring(&self) -> Option<usize> {
        let before = self.state.swap(RUNG, Ordering::AcqRel);
        before.checked_sub(ASLEEP).map(|hart| hart as usize)
    }

    /// Whether nobody rang since the last [`take`](Self::take), and nobody is about to sleep, where the bell rests so. A moment
    /// later it may be otherwise.
    #[inline]
    pub fn rests(&self, rest: Rest) -> bool {
        self.state.load(Ordering::Relaxed) == rest.state()
    }

    /// For who has published something where the listener looks while it is awake: whether it is, and need not be rung for. A
    /// full fence lies between that and this, or one that belongs to the listener's behind its [`arm`](Self::arm).
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WATCHED
    }

    /// For the listener: whether somebody rang. What was published before is seen from here on; the bell rests again.
    #[inline]
    pub fn take(&self, rest: Rest) -> bool {
        // Nobody but the listener takes down what was rung.
        self.state.load(Ordering::Relaxed) == RUNG && self.state.swap(rest.state(), Ordering::Acquire) == RUNG
    }

    /// For the listener: hart `hart` is about to sleep, and is to be woken by whoever rings. It must look everywhere
    /// once more before it does: it hears no more of who rang before.
    #[inline]
    pub fn arm(&self, hart: usize) {
        // Acquire: as in `take`.
        self.state.swap(hart as u32 + ASLEEP, Ordering::AcqRel);
        // For those that look whether anybody cares before they ring.
        fence(Ordering::SeqCst);
    }

    /// For the listener: takes back [`arm`](Self::arm), or says how it listens from now on. Returns whether somebody rang meanwhile.
    #[inline]
    pub fn disarm(&self, rest: Rest) -> bool {
        self.state.swap(rest.state(), Ordering::Acquire) == RUNG
    }
}

impl Default for Bell {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
