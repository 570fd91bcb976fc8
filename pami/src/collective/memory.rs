//! How much scratch memory an algorithm takes at the rank that takes most, and what goes in several runs where that is too
//! much (SPEC R-4).
//!
//! Selection goes by it, so it depends on nothing that ranks do not agree in. What a rank takes itself,
//! [`Schedule::scratch_len`](super::Schedule::scratch_len), is never more.
//!
//! A reduction whose vectors need more than there is goes in *runs*: each is the same collective on the next elements
//! of the vector, or of each block, and uses the scratch memory of the run before it.

use super::call::{Algorithm, Call, Collective};
use super::{direct, fan};

/// What decides how much memory a collective takes, besides the number of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Demand {
    pub collective: Collective,
    pub algorithm: Algorithm,
    /// Number of ranks, and of those that share a node.
    pub size: u32,
    pub per_node: u32,
    /// Most children of a rank in the tree over affinity domains.
    pub fanout: u32,
    /// Elements of a pipeline's chunk.
    pub chunk: usize,
    /// Looked at in an alltoall only, where all ranks agree in it.
    pub in_place: bool,
    /// Blocks that arrive lie elsewhere than those that leave, so that in place one run would overwrite the next one's.
    pub moves: bool,
}

impl Demand {
    /// Of a call, on nodes with so many of its ranks each.
    pub(super) fn new(call: &Call, per_node: u32) -> Self {
        Self {
            collective: call.collective,
            algorithm: call.algorithm,
            size: call.size,
            per_node,
            fanout: call.domains.map_or(0, |domains| domains.fanout()),
            chunk: call.tuning.chunk,
            in_place: call.in_place,
            moves: call.in_place && call.collective == Collective::Alltoall && call.blocks != call.sources,
        }
    }

    /// Elements that the rank with the greatest need takes, for vectors or blocks of at most `len`.
    pub(super) fn of(&self, len: usize) -> usize {
        use {Algorithm as A, Collective as C};
        let ranks = self.size as usize;
        let all = len.saturating_mul(ranks);
        let part = len.div_ceil(ranks.max(1));
        match (self.collective, self.algorithm) {
            (C::Barrier | C::Broadcast, _) => 0,
            (what, A::DirectRead) => direct::demand(what, len, ranks, self.in_place),
            // Within a node nothing is combined if a rank is alone there.
            (C::Allreduce, A::TreeNetwork) if self.per_node == 1 => 0,
            (C::Reduce, A::TreeNetwork) if self.per_node == 1 => len,
            (C::Reduce, A::Pipeline) => 2 * fan::chunk(self.chunk, len).min(len),
            (C::Allreduce, A::RecursiveDoubling | A::Rabenseifner) => len,
            (C::Allreduce, A::Ring) => 2 * part,
            (C::Reduce, A::Ring) => len.saturating_add(3 * part),
            (C::Reduce | C::Allreduce, _) => len.saturating_mul(2),
            (C::ReduceScatter, A::Ring) => len.saturating_mul(2),
            (C::ReduceScatter, A::RecursiveHalving | A::Affinity) => all.saturating_mul(2),
            (C::ReduceScatter, _) => all,
            (C::Gather | C::Scatter, A::Flat) => 0,
            (C::Gather | C::Scatter, _) => all,
            (C::Allgather, A::Bruck | A::Affinity) => all,
            (C::Allgather, _) => 0,
            (C::Alltoall, A::Bruck) => all.saturating_add(len.saturating_mul(ranks.div_ceil(2) * 2)),
            (C::Alltoall, A::Affinity) => {
                // What the ranks of a node send and get, and what goes from it to another and comes from there.
                let node = self.per_node as usize;
                2usize.saturating_mul(node).saturating_mul(all.saturating_add(len.saturating_mul(node)))
            }
            (C::Alltoall, A::SharedMemory) => 0,
            (C::Alltoall, _) if self.in_place => all,
            (C::Alltoall, _) => 0,
            // What each child's subtree has, what comes from above, and that with the rank's own.
            (C::Scan | C::Exscan, A::Affinity) => len.saturating_mul(self.fanout as usize + 2),
            (C::Scan | C::Exscan, _) => len,
        }
    }

    /// Whether it can go in runs. The tree network takes all of a vector at once, halving and trees send blocks
    /// together.
    pub(super) fn runs(&self) -> bool {
        use {Algorithm as A, Collective as C};
        match self.collective {
            // What is shown is shown once.
            _ if matches!(self.algorithm, A::SharedMemory | A::DirectRead) => false,
            C::Reduce | C::Allreduce | C::Scan | C::Exscan => self.algorithm != A::TreeNetwork,
            C::ReduceScatter => !matches!(self.algorithm, A::RecursiveHalving | A::Affinity),
            C::Alltoall => self.algorithm == A::Pairwise && !self.moves,
            _ => false,
        }
    }

    /// Most elements of a vector, or of each block, at a time if there is scratch memory for `room` elements:
    /// `usize::MAX` if all may go at once, `None` if there is too little for one.
    pub(super) fn run(&self, len: usize, room: usize) -> Option<usize> {
        if self.of(len) <= room {
            return Some(usize::MAX);
        }
        if !self.runs() || self.of(1) > room {
            return None;
        }
        // However long the vector is, so that ranks whose blocks differ agree. One fits, `beyond` do not.
        let (mut fits, mut beyond) = (1, len);
        while beyond - fits > 1 {
            let middle = fits + (beyond - fits) / 2;
            if self.of(middle) <= room { fits = middle } else { beyond = middle }
        }
        Some(fits)
    }
}

impl<'a> Call<'a> {
    /// Elements of the vector, or of the longest block that the rank sends or receives.
    pub(super) fn longest(&self) -> usize {
        if self.collective.is_of_vectors() {
            self.len()
        } else {
            self.blocks.longest().max(self.sources.longest())
        }
    }

    /// The run on the `most` elements from `from` on of a vector, whose first element is then the area's, or of each block,
    /// which stays where it is.
    pub(super) fn run(&self, from: usize, most: usize) -> Self {
        if most == usize::MAX {
            return *self;
        }
        let (blocks, sources) = if self.collective.is_of_vectors() {
            let rest = super::Blocks::equal(self.len().saturating_sub(from).min(most));
            (rest, rest)
        } else {
            (self.blocks.cut(from, most), self.sources.cut(from, most))
        };
        Self { blocks, sources, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::catalogue::{CATALOGUE, entry};
    use {Algorithm as A, Collective as C};

    fn demand(collective: Collective, algorithm: Algorithm) -> Demand {
        Demand {
            collective,
            algorithm,
            size: 8,
            per_node: 1,
            fanout: 3,
            chunk: 4,
            in_place: false,
            moves: false,
        }
    }

    #[test]
    fn r4_no_memory_is_asked_for_where_nothing_is_kept() {
        for (collective, algorithm, alone, together) in [
            // Operands meet in the network; within a node they meet in memory.
            (C::Allreduce, A::TreeNetwork, 0, 20),
            (C::Reduce, A::TreeNetwork, 10, 20),
            // Only in place are blocks in each other's way.
            (C::Alltoall, A::Pairwise, 0, 0),
        ] {
            assert!(entry(collective, algorithm).is_some());
            let demand = |per_node| Demand { per_node, ..demand(collective, algorithm) };
            assert_eq!([1, 2].map(|per_node| demand(per_node).of(10)), [alone, together], "{collective:?}");
        }
    }

    #[test]
    fn r4_a_run_is_as_long_as_memory_allows() {
        const LEN: usize = 13;
        for entry in CATALOGUE {
            let demand = Demand { in_place: true, ..demand(entry.collective, entry.algorithm) };
            for room in 0..=demand.of(LEN) {
                let fits = |len: &usize| demand.of(*len) <= room;
                let expected = match demand.runs() {
                    _ if fits(&LEN) => Some(usize::MAX),
                    true => (1..LEN).rev().find(fits),
                    false => None,
                };
                assert_eq!(demand.run(LEN, room), expected, "{demand:?} in {room}");
            }
        }
    }
}
