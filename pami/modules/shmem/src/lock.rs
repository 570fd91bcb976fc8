//! Locks: symmetric words that one PE at a time holds, and the others get in the order in which they asked.
//!
//! A queue in the manner of Mellor-Crummey and Scott. The lower half of the word of one PE, the lock's home, says who asked
//! last; the upper half of each PE's own says that it waits, and who comes after it. So a PE that waits looks at memory of its
//! own alone.

use crate::error::{Error, Result};
use crate::library::Shmem;
use crate::symmetric::Sym;
use crate::wait::Compare;
use pami::{Node, Update, Width};

/// In a PE's own half: it waits. The other bits are the number of who comes after it, from 1 on; 0: nobody.
const WAITS: u32 = 1 << 31;
/// The same, of a PE that holds the lock.
const HOLDS: u32 = 1 << 30;
const NEXT: u32 = HOLDS - 1;

/// The halves of a lock: who asked last, and what a PE has of its own.
fn halves(lock: Sym<u64>) -> Result<(Sym<u32>, Sym<u32>)> {
    lock.first(1)?;
    Ok((Sym::new(lock.offset(), 1), Sym::new(lock.offset() + 4, 1)))
}

impl<N: Node> Shmem<N> {
    fn home(&self, lock: Sym<u64>) -> u32 {
        lock.offset() / 8 % self.n_pes()
    }

    /// Changes this PE's own half. Returns what it was.
    fn own(&self, half: Sym<u32>, update: Update) -> Result<u32> {
        let word = self.memory()?.update(half.offset() as usize, Width::Four, update);
        word.map(|word| word as u32).map_err(|_| Error::Finalized)
    }

    /// Waits for a lock: a symmetric word that was 0 at all PEs at first, and that nothing else changes. A PE asks for it with
    /// one thread at a time.
    pub fn set_lock(&self, lock: Sym<u64>) -> Result {
        let ((last, own), me) = (halves(lock)?, self.my_pe() + 1);
        self.own(own, Update::Swap(WAITS.into()))?;
        let before: u32 = self.atomic_swap(last, me, self.home(lock))?;
        if before > 0 {
            self.atomic_or(own, me, before - 1)?;
            self.watch(|| Ok((self.own(own, Update::Or(0))? & WAITS == 0).then_some(())))?;
        }
        self.own(own, Update::Or(HOLDS.into()))?;
        self.own(own, Update::And((!WAITS).into())).map(drop)
    }

    /// Takes a lock if nobody has it. Returns whether it did.
    pub fn test_lock(&self, lock: Sym<u64>) -> Result<bool> {
        let ((last, own), me) = (halves(lock)?, self.my_pe() + 1);
        if self.own(own, Update::Or(0))? != 0 {
            return Ok(false);
        }
        self.own(own, Update::Swap(HOLDS.into()))?;
        let taken = self.atomic_compare_swap(last, 0, me, self.home(lock))? == 0;
        if !taken {
            self.own(own, Update::Swap(0))?;
        }
        Ok(taken)
    }

    /// Gives a lock to the next who waits for it. All that was begun on this context has been carried out before.
    /// [`Error::NotHeld`] if this PE has it not.
    pub fn clear_lock(&self, lock: Sym<u64>) -> Result {
        let ((last, own), me) = (halves(lock)?, self.my_pe() + 1);
        if self.own(own, Update::Or(0))? & HOLDS == 0 {
            return Err(Error::NotHeld);
        }
        self.quiet()?;
        // Nobody is behind it: then the lock is free, unless somebody has come meanwhile.
        if self.own(own, Update::Or(0))? & NEXT == 0
            && self.atomic_compare_swap(last, me, 0, self.home(lock))? == me
        {
            return self.own(own, Update::Swap(0)).map(drop);
        }
        self.wait_until(own, Compare::Ne, HOLDS)?;
        let next = self.own(own, Update::Swap(0))? & NEXT;
        self.atomic_and(own, !WAITS, next - 1)
    }
}
