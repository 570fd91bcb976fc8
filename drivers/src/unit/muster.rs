//! Who says that all nodes are up: the network itself, where it has a fabric that gathers them; on a plain one node 0, which all
//! others tell that they are there (SPEC R-7).

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The node that gathers all others where no fabric does.
pub(crate) const GATHERER: u32 = 0;

/// The nodes that are up, as they told it.
pub(crate) struct Muster {
    nodes: u32,
    up: Box<[AtomicU64]>,
    missing: AtomicU32,
}

impl Muster {
    /// Of `nodes` nodes [`GATHERER`] alone is up. Allocates.
    pub(crate) fn new(nodes: u32) -> Self {
        let up = (0..nodes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { nodes, up, missing: AtomicU32::new(nodes.saturating_sub(1)) }
    }

    /// Node `node`, another one, is up and takes the job to have `nodes` nodes. Returns whether that was the last, or `None` if
    /// it is mistaken.
    pub(crate) fn note_up(&self, node: u32, nodes: u32) -> Option<bool> {
        let word = self.up.get(node as usize / 64).filter(|_| nodes == self.nodes && node < nodes)?;
        let bit = 1 << (node % 64);
        let is_new = node != GATHERER && word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        Some(is_new && self.missing.fetch_sub(1, Ordering::Relaxed) == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r7_all_are_up_when_the_last_has_told_it_and_who_is_mistaken_is_not() {
        let muster = Muster::new(130);
        assert_eq!(
            [(1, 129), (130, 130), (u32::MAX, 130)].map(|(node, of)| muster.note_up(node, of)),
            [None; 3]
        );
        for node in (0..129).rev() {
            assert_eq!((muster.note_up(node, 130), muster.note_up(node, 130)), (Some(false), Some(false)));
        }
        assert_eq!(muster.note_up(129, 130), Some(true));
        assert_eq!(muster.note_up(129, 130), Some(false));
    }
}
