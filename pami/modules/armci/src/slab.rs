//! A task's slab: which parts of it are allocated.
//!
//! What is allocated is listed by rising offset, so free memory is what lies between: it needs no list of its own, and
//! neighbours that are freed are one gap at once.

/// Allocations are multiples of this many bytes, and start at such: a cache line.
pub(crate) const ALIGNMENT: u32 = 64;

/// Allocated bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Block {
    offset: u32,
    len: u32,
}

/// First fit over a slab.
pub(crate) struct Slab {
    len: u32,
    blocks: &'static mut [Block],
    used: usize,
}

impl Slab {
    /// A free slab of `len` bytes; `blocks` is as many places as there can be allocations.
    pub(crate) fn new(len: u32, blocks: &'static mut [Block]) -> Self {
        Self { len, blocks, used: 0 }
    }

    /// The offset of `bytes` bytes that are the caller's from now on. Of no bytes there is one block, too: all addresses
    /// differ.
    pub(crate) fn allocate(&mut self, bytes: u32) -> Option<u32> {
        if self.used == self.blocks.len() {
            return None;
        }
        let len = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        let (mut offset, mut at) = (0, self.used);
        for (index, block) in self.blocks[..self.used].iter().enumerate() {
            if block.offset - offset >= len {
                at = index;
                break;
            }
            offset = block.offset + block.len;
        }
        if self.len.checked_sub(offset)? < len {
            return None;
        }
        self.blocks[at..=self.used].rotate_right(1);
        self.blocks[at] = Block { offset, len };
        self.used += 1;
        Some(offset)
    }

    /// Gives back what starts at `offset`. Returns whether anything did.
    pub(crate) fn free(&mut self, offset: u32) -> bool {
        let Ok(at) = self.blocks[..self.used].binary_search_by_key(&offset, |block| block.offset) else {
            return false;
        };
        self.blocks[at..self.used].rotate_left(1);
        self.used -= 1;
        true
    }

    /// Whether an allocation starts at `offset`.
    pub(crate) fn has(&self, offset: u32) -> bool {
        self.blocks[..self.used].binary_search_by_key(&offset, |block| block.offset).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn slab(len: u32, places: usize) -> Slab {
        Slab::new(len, vec![Block::default(); places].leak())
    }

    #[test]
    fn what_is_freed_is_one_gap_with_its_neighbours() {
        let mut slab = slab(256, 8);
        let all: Vec<u32> = (0..4).map(|_| slab.allocate(64).unwrap()).collect();
        assert_eq!(all, [0, 64, 128, 192]);
        assert_eq!(slab.allocate(0), None, "full");
        assert!(slab.free(64) && slab.free(128) && !slab.free(64));
        assert_eq!(slab.allocate(129), None);
        assert_eq!(slab.allocate(128), Some(64));
        assert!(slab.has(64) && !slab.has(128));
    }

    #[test]
    fn no_more_is_allocated_than_can_be_noted() {
        let mut slab = slab(1 << 20, 2);
        assert_eq!((slab.allocate(1), slab.allocate(1), slab.allocate(1)), (Some(0), Some(64), None));
        assert_eq!(slab.allocate(u32::MAX), None);
    }

    proptest! {
        #[test]
        fn allocations_never_meet_and_the_first_gap_is_taken(
            steps in prop::collection::vec((any::<bool>(), 0u32..700), 1..200)
        ) {
            const LEN: u32 = 4096;
            let mut slab = slab(LEN, 24);
            let mut model: Vec<(u32, u32)> = Vec::new();
            for (frees, number) in steps {
                if frees && !model.is_empty() {
                    let (offset, _) = model.swap_remove(number as usize % model.len());
                    prop_assert!(slab.free(offset));
                    continue;
                }
                let len = number.max(1).next_multiple_of(ALIGNMENT);
                let fits = |offset: u32| {
                    let meets = |&(start, size): &(u32, u32)| offset < start + size && start < offset + len;
                    offset + len <= LEN && !model.iter().any(meets)
                };
                let first = (0..LEN).step_by(ALIGNMENT as usize).find(|&offset| fits(offset));
                let first = first.filter(|_| model.len() < 24);
                prop_assert_eq!(slab.allocate(number), first);
                model.extend(first.map(|offset| (offset, len)));
            }
        }
    }
}
