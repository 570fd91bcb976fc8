//! The flag between a hart that goes to sleep and those that bring it work (SPEC N-8).
//!
//! The sleeper arms the flag and then looks for work once more; the waker publishes work and then looks at the
//! flag. A full fence lies between the two steps on both sides, so at least one sees what the other did.

use crate::sync::{AtomicU32, Ordering, const_fn, fence};

/// Says which hart sleeps, if one does.
pub struct SleepFlag {
    /// 0: nobody sleeps; else the hart's number + 1.
    sleeper: AtomicU32,
}

impl SleepFlag {
    const_fn! {
        /// A flag of nobody asleep.
        pub fn new() -> Self {
            Self { sleeper: AtomicU32::new(0) }
        }
    }

    /// Announces that `hart` is about to sleep. It must look for work between this and its sleep, and arm again
    /// before each sleep: a wake-up takes the flag down.
    #[inline]
    pub fn arm(&self, hart: usize) {
        // A store would do: a wake-up that took the flag down earlier cannot come after it. Loom knows that only of
        // an exchange.
        self.sleeper.swap(hart as u32 + 1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement back.
    #[inline]
    pub fn disarm(&self) {
        self.sleeper.store(0, Ordering::Relaxed);
    }

    /// To be called after work was published: the hart to interrupt, if one was armed. Of several wakers only
    /// one is told. Costs a fence and a load when nobody sleeps.
    #[inline]
    pub fn wake(&self) -> Option<usize> {
        fence(Ordering::SeqCst);
        if self.sleeper.load(Ordering::Relaxed) == 0 {
            return None;
        }
        // A plain store of 0 could take down a later announcement without interrupting anybody.
        let sleeper = self.sleeper.swap(0, Ordering::AcqRel);
        sleeper.checked_sub(1).map(|hart| hart as usize)
    }
}

/// Says which harts sleep, where several may wait for the same thing. Used as [`SleepFlag`] is.
pub struct SleepSet {
    /// A bit for each hart below 32.
    sleepers: AtomicU32,
}

impl SleepSet {
    const_fn! {
        /// A set of nobody asleep.
        pub fn new() -> Self {
            Self { sleepers: AtomicU32::new(0) }
        }
    }

    /// Announces that `hart`, below 32, is about to sleep; see [`SleepFlag::arm`].
    pub fn arm(&self, hart: usize) {
        self.sleepers.fetch_or(1 << (hart % 32), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Takes the announcement of `hart` back.
    pub fn disarm(&self, hart: usize) {
        self.sleepers.fetch_and(!(1 << (hart % 32)), Ordering::Relaxed);
    }

    /// To be called after work was published: the harts to interrupt, each told to one waker only.
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

impl Default for SleepFlag {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
