//! The algorithms of each collective, in two lists: those that are always valid, and those that are valid if
//! metadata of the call hold (SPEC G-2).

use super::call::{Algorithm, Call, CallError, Collective};
use super::need::{Need, Unmet};
use super::step::TAG_LIMIT;

/// What is known of a call before it starts, the same at all ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    /// Number of ranks.
    pub size: u32,
    /// The operator commutes; true where there is none.
    pub commutative: bool,
    /// All blocks have one length.
    pub equal_blocks: bool,
    /// Every rank knows all blocks.
    pub known_blocks: bool,
    /// The ranks are a rectangle of the torus.
    pub rectangle: bool,
    /// The affinity domains are known.
    pub domains: bool,
    /// The root is rank 0 and the ranks of every domain follow each other.
    pub ordered_domains: bool,
    /// The ranks of every node follow each other.
    pub node_ranges: bool,
    /// The geometry has a class route of the tree network.
    pub class_route: bool,
    /// The tree network has the operator on that type; true where there is no operator.
    pub tree_operator: bool,
    /// All ranks' buffers are aligned as the network asks.
    pub aligned: bool,
    /// The ranks show each other what they have, and there is room for that.
    pub bulletins: bool,
    /// The ranks reach each other's memory.
    pub reach: bool,
}

impl Metadata {
    /// What a call says of itself. Of networks and addresses it says nothing: those count as fit.
    pub fn of(call: &Call) -> Self {
        let commutative = call.commutative || !call.collective.reduces();
        Self {
            size: call.size,
            commutative,
            equal_blocks: call.blocks.are_equal() && call.sources.are_equal(),
            known_blocks: true,
            rectangle: call.grid.is_some(),
            domains: call.domains.is_some(),
            ordered_domains: call.root == 0 && call.domains.is_some_and(|domains| domains.are_ranges()),
            node_ranges: call.domains.is_none_or(|domains| domains.are_ranges()),
            class_route: true,
            // All of the network's commute.
            tree_operator: commutative,
            aligned: true,
            bulletins: true,
            reach: true,
        }
    }

    fn meet(&self, need: Need) -> bool {
        match need {
            Need::Commutative => self.commutative,
            Need::CommutativeOrOrdered => self.commutative || self.ordered_domains,
            Need::PowerOfTwo => self.size.is_power_of_two(),
            Need::EqualBlocks => self.equal_blocks,
            Need::KnownBlocks => self.equal_blocks || self.known_blocks,
            Need::Rectangle => self.rectangle,
            Need::Domains => self.domains,
            Need::OrderedDomains => self.ordered_domains,
            Need::NodeRanges => self.node_ranges,
            Need::ClassRoute => self.class_route,
            Need::TreeOperator => self.tree_operator,
            Need::Aligned => self.aligned,
            Need::Bulletins => self.bulletins,
            Need::Reach => self.reach,
            Need::Scratch => true,
        }
    }
}

impl Call<'_> {
    /// Whether the call has a schedule.
    ///
    /// # Errors
    /// The first mistake.
    pub fn check(&self) -> Result<(), CallError> {
        if self.size == 0 || self.size as usize > TAG_LIMIT {
            return Err(CallError::Size(self.size));
        }
        if self.rank >= self.size {
            return Err(CallError::Rank(self.rank));
        }
        if self.root >= self.size {
            return Err(CallError::Root(self.root));
        }
        let ranks = if self.collective.is_of_vectors() { 1 } else { self.size };
        if !self.blocks.suffice(ranks) || !self.sources.suffice(ranks) {
            return Err(CallError::Blocks);
        }
        if self.tuning.radix < 2 || self.tuning.chunk == 0 {
            return Err(CallError::Tuning);
        }
        let shapes = [self.grid.map(|grid| grid.size()), self.domains.map(|domains| domains.size())];
        if shapes.into_iter().flatten().any(|size| size != self.size) {
            return Err(CallError::Shape);
        }
        let entry = entry(self.collective, self.algorithm)
            .ok_or(CallError::Algorithm(self.collective, self.algorithm))?;
        entry.check(&Metadata::of(self)).map_err(CallError::Unmet)
    }
}

/// An algorithm of a collective and what it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AlgorithmEntry {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Conditions that must all hold; none: always valid.
    pub needs: &'static [Need],
}

impl AlgorithmEntry {
    /// Whether it is in the first list: valid whatever the metadata.
    pub fn is_always_valid(&self) -> bool {
        self.needs.is_empty()
    }

    /// Whether it is valid for a call with these metadata.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub fn check(&self, metadata: &Metadata) -> Result<(), Unmet> {
        self.needs.iter().find(|&&need| !metadata.meet(need)).map_or(Ok(()), |&need| Err(need))
    }
}

/// Every algorithm of every collective; of equal cost, the first is chosen.
pub const CATALOGUE: &[AlgorithmEntry] = {
    use Algorithm as A;
    use Collective as C;
    use Need as N;
    const fn entry(collective: C, algorithm: A, needs: &'static [N]) -> AlgorithmEntry {
        AlgorithmEntry { collective, algorithm, needs }
    }
    &[
        entry(C::Barrier, A::Dissemination, &[]),
        entry(C::Barrier, A::Nary, &[]),
        entry(C::Barrier, A::Affinity, &[N::Domains]),
        entry(C::Barrier, A::TreeNetwork, &[N::ClassRoute]),
        entry(C::Barrier, A::SharedMemory, &[N::Bulletins]),
        entry(C::Broadcast, A::Binomial, &[]),
        entry(C::Broadcast, A::Nary, &[]),
        entry(C::Broadcast, A::Flat, &[]),
        entry(C::Broadcast, A::ScatterAllgather, &[]),
        entry(C::Broadcast, A::Pipeline, &[]),
        entry(C::Broadcast, A::Rectangle, &[N::Rectangle]),
        entry(C::Broadcast, A::Affinity, &[N::Domains]),
        entry(C::Broadcast, A::TreeNetwork, &[N::ClassRoute, N::Aligned]),
        entry(C::Broadcast, A::SharedMemory, &[N::Bulletins]),
        entry(C::Broadcast, A::DirectRead, &[N::Reach]),
        entry(C::Reduce, A::Binomial, &[]),
        entry(C::Reduce, A::Nary, &[]),
        entry(C::Reduce, A::Pipeline, &[]),
        entry(C::Reduce, A::RecursiveDoubling, &[]),
        entry(C::Reduce, A::Rabenseifner, &[N::Commutative]),
        entry(C::Reduce, A::Ring, &[N::Commutative]),
        entry(C::Reduce, A::Affinity, &[N::Domains, N::CommutativeOrOrdered]),
        entry(C::Reduce, A::TreeNetwork, &[N::ClassRoute, N::TreeOperator, N::Aligned]),
        entry(C::Reduce, A::SharedMemory, &[N::Bulletins]),
        entry(C::Reduce, A::DirectRead, &[N::Reach]),
        entry(C::Allreduce, A::RecursiveDoubling, &[]),
        entry(C::Allreduce, A::Binomial, &[]),
        entry(C::Allreduce, A::Rabenseifner, &[]),
        entry(C::Allreduce, A::Ring, &[N::Commutative]),
        entry(C::Allreduce, A::Affinity, &[N::Domains, N::CommutativeOrOrdered]),
        entry(C::Allreduce, A::TreeNetwork, &[N::ClassRoute, N::TreeOperator, N::Aligned]),
        entry(C::Allreduce, A::SharedMemory, &[N::Bulletins]),
        entry(C::Allreduce, A::DirectRead, &[N::Reach]),
        entry(C::ReduceScatter, A::Pairwise, &[]),
        entry(C::ReduceScatter, A::Ring, &[N::Commutative]),
        entry(C::ReduceScatter, A::RecursiveHalving, &[N::Commutative]),
        entry(C::ReduceScatter, A::Affinity, &[N::Domains, N::CommutativeOrOrdered]),
        entry(C::ReduceScatter, A::DirectRead, &[N::Reach]),
        entry(C::Gather, A::Flat, &[]),
        entry(C::Gather, A::Binomial, &[N::KnownBlocks]),
        entry(C::Gather, A::Affinity, &[N::KnownBlocks, N::Domains]),
        entry(C::Scatter, A::Flat, &[]),
        entry(C::Scatter, A::Binomial, &[N::KnownBlocks]),
        entry(C::Scatter, A::Affinity, &[N::KnownBlocks, N::Domains]),
        entry(C::Allgather, A::Ring, &[]),
        entry(C::Allgather, A::Bruck, &[]),
        entry(C::Allgather, A::RecursiveDoubling, &[N::PowerOfTwo]),
        entry(C::Allgather, A::GatherBroadcast, &[]),
        entry(C::Allgather, A::Affinity, &[N::Domains]),
        entry(C::Allgather, A::TreeNetwork, &[N::ClassRoute, N::NodeRanges, N::Aligned]),
        entry(C::Allgather, A::SharedMemory, &[N::Bulletins, N::EqualBlocks]),
        entry(C::Allgather, A::DirectRead, &[N::Reach]),
        entry(C::Alltoall, A::Pairwise, &[]),
        entry(C::Alltoall, A::Bruck, &[N::EqualBlocks]),
        entry(C::Alltoall, A::Affinity, &[N::Domains, N::EqualBlocks]),
        entry(C::Alltoall, A::SharedMemory, &[N::Bulletins, N::EqualBlocks]),
        entry(C::Alltoall, A::DirectRead, &[N::Reach, N::EqualBlocks]),
        entry(C::Scan, A::RecursiveDoubling, &[]),
        entry(C::Scan, A::Affinity, &[N::OrderedDomains]),
        entry(C::Exscan, A::RecursiveDoubling, &[]),
        entry(C::Exscan, A::Affinity, &[N::OrderedDomains]),
    ]
};

/// The algorithms of a collective.
pub fn entries(collective: Collective) -> impl Iterator<Item = &'static AlgorithmEntry> {
    CATALOGUE.iter().filter(move |entry| entry.collective == collective)
}

/// One algorithm of a collective, or `None` if the collective has no such one.
pub fn entry(collective: Collective, algorithm: Algorithm) -> Option<&'static AlgorithmEntry> {
    entries(collective).find(|entry| entry.algorithm == algorithm)
}
