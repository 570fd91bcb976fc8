//! Scratch memory of a context: of data in ranges, of algorithms in places of one size.

use crate::error::{Error, Result};
use base::{fill, shared};
use core::ops::Range;
use pami::Shared;
use pami::client::Node;
use rings::first_fit::first_fit;
use rings::slot_table::{Slot, SlotTable};

/// Ranges begin at multiples of it, as the adapters' ALU and caches like it.
const ALIGN: usize = 64;

/// The memory for data.
#[derive(Default)]
pub(crate) struct Arena(Option<Shared>);

impl Arena {
    pub fn new(memory: Shared) -> Self {
        Self(Some(memory))
    }

    pub fn memory(&self) -> Option<&Shared> {
        self.0.as_ref()
    }

    /// Where `len` bytes are free; `None` while those in use leave no room.
    ///
    /// # Errors
    /// [`Error::NoMem`] if there are not so many at all.
    pub fn find(
        &self,
        len: usize,
        used: impl Iterator<Item = Range<usize>> + Clone,
    ) -> Result<Option<usize>> {
        let limit = self.0.as_ref().map_or(0, Shared::len);
        if len > limit {
            return Err(Error::NoMem { what: "bytes of scratch memory for a collective", limit });
        }
        Ok(first_fit(len, limit, ALIGN, used))
    }
}

/// The sum of two lengths, and where the second begins if that is aligned.
pub(crate) fn together([first, second]: [usize; 2]) -> Option<(usize, usize)> {
    if second == 0 {
        // A short memory is used whole.
        return Some((first, first));
    }
    let start = first.checked_next_multiple_of(ALIGN)?;
    Some((start.checked_add(second)?, start))
}

/// Memory of algorithms, in places of one length.
#[derive(Default)]
pub(crate) struct Places {
    memory: Option<Shared>,
    len: usize,
    used: SlotTable<()>,
}

impl Places {
    /// So many of so many bytes each, rounded up.
    pub fn new<N: Node>(node: &N, number: usize, len: usize) -> Result<Self> {
        let len = len.max(1).next_multiple_of(ALIGN);
        let bytes = number.checked_mul(len).ok_or(Error::Count(len))?;
        Ok(Self {
            memory: Some(shared(node, "scratch memory of collectives", bytes)?),
            len,
            used: SlotTable::new(fill(node, "scratch memory of collectives", number, Slot::new)?),
        })
    }

    /// Bytes of each.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Takes a free one.
    pub fn take(&mut self) -> Option<u32> {
        self.used.insert(()).ok().map(|key| key.index)
    }

    /// Where one lies.
    pub fn place(&self, place: u32) -> Option<(Shared, usize)> {
        Some((self.memory.clone()?, place as usize * self.len))
    }

    /// Gives one back.
    pub fn release(&mut self, place: Option<u32>) {
        if let Some(place) = place {
            self.used.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn p11_ranges_do_not_meet_and_gaps_are_used() {
        let memory = pami::Buffer::new(vec![0u8; 1024].leak()).unwrap().share();
        let limit = memory.len();
        let arena = Arena::new(memory);
        let find = |len, used: &[[usize; 2]]| arena.find(len, used.iter().map(|&[start, end]| start..end));
        assert_eq!(find(limit, &[]), Ok(Some(0)));
        assert!(matches!(find(limit + 1, &[]), Err(Error::NoMem { limit: of, .. }) if of == limit));
        assert_eq!(find(100, &[[0, 70]]), Ok(Some(128)));
        assert_eq!(find(64, &[[0, 64], [128, 192]]), Ok(Some(64)));
        assert_eq!(find(65, &[[0, 64], [128, 192]]), Ok(Some(192)));
        assert_eq!(find(limit - 64, &[[0, 64], [128, 192]]), Ok(None));
        assert_eq!(find(0, &[[0, limit]]), Ok(Some(0)));
        assert_eq!(together([1, 65]), Some((129, 64)));
        assert_eq!(together([65, 0]), Some((65, 65)));
        assert_eq!(together([usize::MAX, 1]), None);
    }
}
