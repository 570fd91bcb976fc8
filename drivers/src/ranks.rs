//! The nodes that this one has to do with, numbered in the order in which they came into it: tables about them have
//! one entry for each in use instead of one for each in the job.

use crate::unit::bits::MOST_PORTS;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most nodes in use that a [`NodeSet`] can hold.
pub(crate) const MOST_NODES: usize = MOST_PORTS;
/// A set of nodes in use, by index.
pub(crate) use crate::unit::bits::PortSet as NodeSet;

const FREE: u16 = u16::MAX;

/// Nodes in use, found by rank.
pub(crate) struct Ranks {
    ranks: Vec<u32>,
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
    pub(crate) fn find_or_add(&mut self, rank: u32) -> Option<u16> {
        let place = self.place(rank);
        if self.places[place] == FREE {
            if self.ranks.len() == self.most {
                return None;
            }
            self.places[place] = self.ranks.len() as u16;
            self.ranks.push(rank);
        }
        Some(self.places[place])
    }

    /// The node with index `index` is out of use, and that with rank `rank`, which is not in, comes in its place.
    #[cold]
    pub(crate) fn replace(&mut self, index: u16, rank: u32) {
        let Some(old) = self.ranks.get_mut(usize::from(index)) else { return };
        *old = rank;
        // Whoever lies behind the old rank's place may have been meant for it.
        self.places.fill(FREE);
        for index in 0..self.len() {
            let place = self.place(self.ranks[usize::from(index)]);
            self.places[place] = index;
        }
    }

    /// Rank of the node with index `index`.
    #[inline]
    pub(crate) fn rank(&self, index: u16) -> Option<u32> {
        self.ranks.get(usize::from(index)).copied()
    }

    /// Number of nodes in use.
    pub(crate) fn len(&self) -> u16 {
        self.ranks.len() as u16
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

    proptest! {
        #[test]
        fn d8_each_rank_has_a_place_of_its_own_until_there_is_none(
            ranks in proptest::collection::vec(prop_oneof![0u32..300, any::<u32>()], 0..400), most in 1usize..300
        ) {
            let mut table = Ranks::new(most);
            let mut next = 0;
            let capacity = table.ranks.capacity();
            let mut known: Vec<u32> = Vec::new();
            for rank in ranks {
                let expected = known.iter().position(|&one| one == rank);
                prop_assert_eq!(table.find(rank).map(usize::from), expected);
                let added = table.find_or_add(rank).map(usize::from);
                if expected.is_none() && known.len() < most.min(MOST_NODES) {
                    known.push(rank);
                    prop_assert_eq!(added, Some(known.len() - 1));
                } else {
                    prop_assert_eq!(added, expected);
                    if expected.is_none() {
                        next = (next + 1) % known.len();
                        table.replace(next as u16, rank);
                        known[next] = rank;
                    }
                }
                prop_assert!(known.iter().enumerate().all(|(index, &rank)| table.find(rank) == Some(index as u16)));
            }
            prop_assert!(known.iter().enumerate().all(|(index, &rank)| table.rank(index as u16) == Some(rank)));
            prop_assert_eq!((table.ranks.capacity(), usize::from(table.len())), (capacity, known.len()));
        }
    }
}
