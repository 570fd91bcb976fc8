//! What several harts that wait for the same thing say before they sleep (SPEC N-8); for one there is a
//! [`Bell`](crate::bell::Bell).
//!
//! A sleeper arms the set and then looks for work once more; the waker publishes work and then looks at the
//! set. A full fence lies between the two steps on both sides, so at least one sees what the other did.

use crate::sync::{AtomicU64, Ordering, const_fn, fence};

/// Says which harts sleep.
pub struct SleepSet {
    /// A bit for each hart below 64.
    sleepers: AtomicU64,
}

impl SleepSet {
    const_fn! {
        /// A set of nobody asleep.
        pub fn new() -> Self {
            Self { sleepers: AtomicU64::new(0) }
        }
    }

    /// Announces that `hart`, below 64, is about to sleep. It must look for work between this and its sleep, and arm again
    /// before each sleep: a wake-up takes the announcement down.
    pub fn arm(&self, hart: usize) {
        self.sleepers.fetch_or(1 << (hart % 64), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement of `hart` back.
    pub fn disarm(&self, hart: usize) {
        self.sleepers.fetch_and(!(1 << (hart % 64)), Ordering::Relaxed);
    }

    /// To be called after work was published: the harts to interrupt, each told to one waker only. Costs a fence and a load
    /// when nobody sleeps.
    pub fn wake(&self) -> impl Iterator<Item = usize> + use<> {
        fence(Ordering::SeqCst);
        let asleep = self.sleepers.load(Ordering::Relaxed) != 0;
        let mut left = if asleep { self.sleepers.swap(0, Ordering::AcqRel) } else { 0 };
        core::iter::from_fn(move || {
            let hart = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(hart)
        })
    }
}

impl Default for SleepSet {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
