//! The algorithms of each collective, in two lists: those that are always valid, and those that are valid if
//! metadata of the call hold (SPEC G-2).

use super::call::{Algorithm, Call, Collective};
use core::fmt;

/// A condition that an algorithm sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// The operator commutes: operands do not meet in the order of ranks.
    Commutative,
    /// The operator commutes, or the root is rank 0 and the ranks of every affinity domain follow each other.
    CommutativeOrOrdered,
    /// The number of ranks is a power of two.
    PowerOfTwo,
    /// All blocks have one length.
    EqualBlocks,
    /// Every rank knows the lengths of all blocks, not only of its own.
    KnownBlocks,
    /// The ranks are a rectangle of the torus.
    Rectangle,
    /// The affinity domains are known.
    Domains,
    /// The affinity domains are known, the ranks of each follow each other, and the root is rank 0.
    OrderedDomains,
    /// The geometry has a class route of the tree network.
    ClassRoute,
    /// The tree network's ALU has the operator on that type.
    TreeOperator,
    /// The network's ALU takes operands from any address, or all ranks' buffers are aligned to [`ALIGNMENT`] bytes.
    Aligned,
    /// The ranks have the scratch memory that it takes, for one element at least. Asked of all, so in no entry.
    Scratch,
}

/// The most that an adapter's ALU asks of a buffer's address, in bytes.
pub const ALIGNMENT: usize = 8;

/// The first condition that does not hold.
pub type Unmet = Need;

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commutative => "the operator must commute",
            Self::CommutativeOrOrdered => {
                "the operator must commute, or the root be rank 0 and the ranks of each domain follow each other"
            }
            Self::PowerOfTwo => "the number of ranks must be a power of two",
            Self::EqualBlocks => "all blocks must have one length",
            Self::KnownBlocks => "every rank must know the lengths of all blocks",
            Self::Rectangle => "the geometry must be a rectangle of the torus",
            Self::Domains => "the affinity domains must be known",
            Self::OrderedDomains => "the ranks of each affinity domain must follow each other, the root be rank 0",
            Self::ClassRoute => "the geometry must have a class route of the tree network",
            Self::TreeOperator => "the tree network must have the operator on that type",
            Self::Scratch => "the ranks need more scratch memory",
            Self::Aligned => return write!(f, "buffers must be aligned to {ALIGNMENT} bytes"),
        })
    }
}

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
    /// The geometry has a class route of the tree network.
    pub class_route: bool,
    /// The tree network has the operator on that type; true where there is no operator.
    pub tree_operator: bool,
    /// All ranks' buffers are aligned as the network asks.
    pub aligned: bool,
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
            class_route: true,
            // All of the network's commute.
            tree_operator: commutative,
            aligned: true,
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
            Need::ClassRoute => self.class_route,
            Need::TreeOperator => self.tree_operator,
            Need::Aligned => self.aligned,
            Need::Scratch => true,
        }
    }
}

/// An algorithm of a collective and what it needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Conditions that must all hold; none: always valid.
    pub needs: &'static [Need],
}

impl Entry {
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
pub const CATALOGUE: &[Entry] = {
    use Algorithm as A;
    use Collective as C;
    use Need as N;
    const fn entry(collective: C, algorithm: A, needs: &'static [N]) -> Entry {
        Entry { collective, algorithm, needs }
    }
    &[
        entry(C::Barrier, A::Dissemination, &[]),
        entry(C::Barrier, A::Nary, &[]),
        entry(C::Barrier, A::Affinity, &[N::Domains]),
        entry(C::Barrier, A::TreeNetwork, &[N::ClassRoute]),
        entry(C::Broadcast, A::Binomial, &[]),
        entry(C::Broadcast, A::Nary, &[]),
        entry(C::Broadcast, A::Flat, &[]),
        entry(C::Broadcast, A::ScatterAllgather, &[]),
        entry(C::Broadcast, A::Pipeline, &[]),
        entry(C::Broadcast, A::Rectangle, &[N::Rectangle]),
        entry(C::Broadcast, A::Affinity, &[N::Domains]),
        entry(C::Broadcast, A::TreeNetwork, &[N::ClassRoute, N::Aligned]),
        entry(C::Reduce, A::Binomial, &[]),
        entry(C::Reduce, A::Nary, &[]),
        entry(C::Reduce, A::Pipeline, &[]),
        entry(C::Reduce, A::RecursiveDoubling, &[]),
        entry(C::Reduce, A::Rabenseifner, &[N::Commutative]),
        entry(C::Reduce, A::Ring, &[N::Commutative]),
        entry(C::Reduce, A::Affinity, &[N::Domains, N::CommutativeOrOrdered]),
        entry(C::Reduce, A::TreeNetwork, &[N::ClassRoute, N::TreeOperator, N::Aligned]),
        entry(C::Allreduce, A::RecursiveDoubling, &[]),
        entry(C::Allreduce, A::Binomial, &[]),
        entry(C::Allreduce, A::Rabenseifner, &[]),
        entry(C::Allreduce, A::Ring, &[N::Commutative]),
        entry(C::Allreduce, A::Affinity, &[N::Domains, N::CommutativeOrOrdered]),
        entry(C::Allreduce, A::TreeNetwork, &[N::ClassRoute, N::TreeOperator, N::Aligned]),
        entry(C::ReduceScatter, A::Pairwise, &[]),
        entry(C::ReduceScatter, A::Ring, &[N::Commutative]),
        entry(C::ReduceScatter, A::RecursiveHalving, &[N::Commutative]),
        entry(C::Gather, A::Flat, &[]),
        entry(C::Gather, A::Binomial, &[N::KnownBlocks]),
        entry(C::Gather, A::Affinity, &[N::KnownBlocks, N::OrderedDomains]),
        entry(C::Scatter, A::Flat, &[]),
        entry(C::Scatter, A::Binomial, &[N::KnownBlocks]),
        entry(C::Scatter, A::Affinity, &[N::KnownBlocks, N::OrderedDomains]),
        entry(C::Allgather, A::Ring, &[]),
        entry(C::Allgather, A::Bruck, &[]),
        entry(C::Allgather, A::RecursiveDoubling, &[N::PowerOfTwo]),
        entry(C::Allgather, A::GatherBroadcast, &[]),
        entry(C::Allgather, A::Affinity, &[N::OrderedDomains]),
        entry(C::Alltoall, A::Pairwise, &[]),
        entry(C::Alltoall, A::Bruck, &[N::EqualBlocks]),
        entry(C::Scan, A::RecursiveDoubling, &[]),
        entry(C::Exscan, A::RecursiveDoubling, &[]),
    ]
};

/// The algorithms of a collective.
pub fn entries(collective: Collective) -> impl Iterator<Item = &'static Entry> {
    CATALOGUE.iter().filter(move |entry| entry.collective == collective)
}

/// One algorithm of a collective, or `None` if the collective has no such one.
pub fn entry(collective: Collective, algorithm: Algorithm) -> Option<&'static Entry> {
    entries(collective).find(|entry| entry.algorithm == algorithm)
}
