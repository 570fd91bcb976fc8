//! The nodes that were declared dead.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A bit for each node of the job.
pub(crate) struct Dead {
    bits: Box<[AtomicU64]>,
    count: AtomicU32,
}

impl Dead {
    /// All of `nodes` nodes live. Allocates.
    pub(crate) fn new(nodes: u32) -> Self {
        Self { bits: (0..nodes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), count: AtomicU32::new(0) }
    }

    #[cold]
    pub(crate) fn add(&self, node: u32) {
        if let Some(word) = self.bits.get(node as usize / 64)
            && word.fetch_or(1 << (node % 64), Ordering::Relaxed) & 1 << (node % 64) == 0
        {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    #[inline]
    pub(crate) fn has(&self, node: u32) -> bool {
        self.count() != 0
            && self
                .bits
                .get(node as usize / 64)
                .is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (node % 64) != 0)
    }

    /// The lowest of them.
    pub(crate) fn first(&self) -> Option<u32> {
        (0..).zip(&self.bits).find_map(|(place, word)| {
            let word = word.load(Ordering::Relaxed);
            (word != 0).then(|| place * 64 + word.trailing_zeros())
        })
    }

    /// What counts them.
    pub(crate) fn counter(&self) -> &AtomicU32 {
        &self.count
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
}
