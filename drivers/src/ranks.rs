//! The nodes that this one has to do with, numbered in the order in which they came into it: tables about them have
//! one entry for each in use instead of one for each in the job.
//!
//! Each packet asks for its node: by [`rings::open_addressing`], which does the same, that a message came over the torus took 17
//! instructions more on aarch64, as counted.

/// A set of nodes in use, by index.
pub(crate) use crate::bits::BitSet as NodeSet;
/// Most nodes in use that a [`NodeSet`] can hold.
pub(crate) use crate::bits::LIMIT as MOST_NODES;

use alloc::boxed::Box;
use alloc::vec::Vec;

const FREE: u16 = u16::MAX;
/// No node's rank: that of an index that is out of use.
const NOBODY: u32 = u32::MAX;

/// Nodes in use, found by rank.
pub(crate) struct Ranks {
    /// By index; [`NOBODY`] for those that are free again.
    ranks: Vec<u32>,
    free: Vec<u16>,
    most: usize,
    /// Indices by rank, at the rank modulo the length or at the next free place behind it; at least half are free.
    places: Box<[u16]>,
}

impl Ranks {
    /// None of at most `most`. Allocates for all of them.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.min(MOST_NODES);
        Self {
            ranks: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            most,
            places: (0..(2 * most).next_power_of_two()).map(|_| FREE).collect(),
        }
    }

    /// The place of `rank` in the table: its own, or the free one where it would be.
    #[inline]
    fn place(&self, rank: u32) -> usize {
        let mask = self.places.len() - 1;
        let mut place = rank as usize & mask;
        loop {
            match self.ranks.get(usize::from(self.places[place])) {
                Some(&other) if other != rank => place = (place + 1) & mask,
                _ => return place,
            }
        }
    }

    /// Index of the node with rank `rank`, if it is in use.
    #[inline]
    pub(crate) fn find(&self, rank: u32) -> Option<u16> {
        let index = self.places[self.place(rank)];
        (index != FREE).then_some(index)
    }

    /// The same, and takes it into use if there is room for one more.
    #[inline]
    pub(crate) fn find_or_add(&mut self, rank: u32) -> Option<u16> {
        let index = self.places[self.place(rank)];
        if index != FREE { Some(index) } else { self.add(rank) }
    }

    #[cold]
    fn add(&mut self, rank: u32) -> Option<u16> {
        if self.is_full() || rank == NOBODY {
            return None;
        }
        let index = self.free.pop().unwrap_or(self.ranks.len() as u16);
        match self.ranks.get_mut(usize::from(index)) {
            Some(free) => *free = rank,
            None => self.ranks.push(rank),
        }
        let place = self.place(rank);
        self.places[place] = index;
        Some(index)
    }

    /// The node with index `index` is out of use, and its index free.
    #[cold]
    pub(crate) fn remove(&mut self, index: u16) {
        let Some(old) = self.ranks.get_mut(usize::from(index)).filter(|old| **old != NOBODY) else { return };
        *old = NOBODY;
        self.free.push(index);
        // Whoever lies behind the old rank's place may have been meant for it.
        self.places.fill(FREE);
        for index in 0..self.indices() {
            let rank = self.ranks[usize::from(index)];
            if rank != NOBODY {
                let place = self.place(rank);
                self.places[place] = index;
            }
        }
    }

    /// Rank of the node with index `index`.
    #[inline]
    pub(crate) fn rank(&self, index: u16) -> Option<u32> {
        self.ranks.get(usize::from(index)).copied().filter(|&rank| rank != NOBODY)
    }

    /// All indices in use are below this.
    pub(crate) fn indices(&self) -> u16 {
        self.ranks.len() as u16
    }

    /// Number of nodes in use.
    pub(crate) fn len(&self) -> u16 {
        (self.ranks.len() - self.free.len()) as u16
    }

    /// Whether no further node can come into use.
    pub(crate) fn is_full(&self) -> bool {
        usize::from(self.len()) == self.most
    }

    /// Number of nodes that can be.
    pub(crate) fn most(&self) -> usize {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Every step looks at all ranks.
    const STEPS: usize = if cfg!(miri) { 10 } else { 400 };

    proptest! {
        #[test]
        fn d8_each_rank_has_a_place_of_its_own_until_there_is_none(
            steps in proptest::collection::vec((prop_oneof![0u32..300, 0..u32::MAX], any::<bool>()), 0..STEPS),
            most in 1usize..300
        ) {
            let mut table = Ranks::new(most);
            let capacity = (table.ranks.capacity(), table.free.capacity());
            let mut known: BTreeMap<u32, u16> = BTreeMap::new();
            for (rank, leaves) in steps {
                let expected = known.get(&rank).copied();
                prop_assert_eq!(table.find(rank), expected);
                let added = table.find_or_add(rank);
                let room = known.len() < most.min(MOST_NODES);
                prop_assert_eq!(added.is_some(), expected.is_some() || room);
                if let Some(index) = added {
                    prop_assert!(expected.is_none_or(|before| before == index));
                    prop_assert!(known.iter().all(|(&other, &taken)| other == rank || taken != index));
                    known.insert(rank, index);
                }
                if leaves && let Some(index) = known.remove(&rank) {
                    table.remove(index);
                    table.remove(index);
                    prop_assert_eq!((table.find(rank), table.rank(index)), (None, None));
                }
                prop_assert!(known.iter().all(|(&rank, &index)| table.find(rank) == Some(index)));
                prop_assert!(known.iter().all(|(&rank, &index)| table.rank(index) == Some(rank)));
                prop_assert_eq!(usize::from(table.len()), known.len());
                prop_assert_eq!(table.find(u32::MAX), None);
            }
            prop_assert_eq!((table.ranks.capacity(), table.free.capacity()), capacity);
        }
    }
}
