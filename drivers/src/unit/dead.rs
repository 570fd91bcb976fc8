//! The nodes that are gone, as the network told (SPEC R-2).

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use pami::device::Gone;

/// No node.
const NONE: u32 = u32::MAX;

/// A bit for each node of the job that died, and for each that is gone.
pub(crate) struct Dead {
    died: Box<[AtomicU64]>,
    gone: Box<[AtomicU64]>,
    /// The first of those that died.
    first: AtomicU32,
    count: AtomicU32,
}

fn has(bits: &[AtomicU64], node: u32) -> bool {
    let word = bits.get(node as usize / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (node % 64) != 0)
}

impl Dead {
    /// All of `nodes` nodes live. Allocates.
    pub(crate) fn new(nodes: u32) -> Self {
        let none = || (0..nodes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { died: none(), gone: none(), first: AtomicU32::new(NONE), count: AtomicU32::new(0) }
    }

    /// Node `node` is gone. Returns whether that is news.
    #[cold]
    pub(crate) fn add(&self, node: u32, gone: Gone) -> bool {
        let Some(word) = self.gone.get(node as usize / 64) else { return false };
        if word.fetch_or(1 << (node % 64), Ordering::Relaxed) & 1 << (node % 64) != 0 {
            return false;
        }
        if gone == Gone::Died {
            if let Some(word) = self.died.get(node as usize / 64) {
                word.fetch_or(1 << (node % 64), Ordering::Relaxed);
            }
            // Another is the first already, or this is.
            let _ = self.first.compare_exchange(NONE, node, Ordering::Relaxed, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Release);
        true
    }

    /// How node `node` went, if it is gone.
    #[inline]
    pub(crate) fn find(&self, node: u32) -> Option<Gone> {
        if self.count() == 0 || !has(&self.gone, node) {
            None
        } else if has(&self.died, node) {
            Some(Gone::Died)
        } else {
            Some(Gone::Ended)
        }
    }

    /// The first of those that died.
    pub(crate) fn first(&self) -> Option<u32> {
        Some(self.first.load(Ordering::Relaxed)).filter(|&node| node != NONE)
    }

    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }
}
