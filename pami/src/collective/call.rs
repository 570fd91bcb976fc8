//! What a collective is asked to do: the arguments that a schedule is a function of.

use super::blocks::Blocks;
use super::need::Unmet;
use super::step::{Area, Span, TAG_LIMIT};
use crate::affinity::Domains;
use crate::geometry::Grid;
use core::fmt;

/// A collective operation. The v forms are the same with blocks of different lengths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collective {
    /// Nobody leaves before all have come.
    Barrier,
    /// The root's vector, to all.
    Broadcast,
    /// All vectors, combined, at the root.
    Reduce,
    /// All vectors, combined, at all.
    Allreduce,
    /// All vectors, combined; each rank has its block of the result.
    ReduceScatter,
    /// Every rank's block, at the root.
    Gather,
    /// A block of the root's to every rank.
    Scatter,
    /// Every rank's block, at all.
    Allgather,
    /// A block of every rank to every rank.
    Alltoall,
    /// The vectors of the ranks up to this one, combined.
    Scan,
    /// The vectors of the ranks below this one, combined; the first rank's output is left as it is.
    Exscan,
}

impl Collective {
    /// Whether one rank is different from the others.
    pub fn is_rooted(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Gather | Self::Scatter)
    }

    /// Whether an operator takes part.
    pub fn reduces(self) -> bool {
        matches!(self, Self::Reduce | Self::Allreduce | Self::ReduceScatter | Self::Scan | Self::Exscan)
    }

    /// Whether every rank has a vector of the same length, which [`Call::blocks`] gives as the first block.
    pub fn is_of_vectors(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce | Self::Allreduce | Self::Scan | Self::Exscan)
    }
}

/// How a collective is carried out; not every collective has every algorithm (see [`catalogue`](super::catalogue)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// Rounds of signals to ranks that are powers of the radix apart.
    Dissemination,
    /// A binomial tree.
    Binomial,
    /// A tree of the tuning's radix.
    Nary,
    /// The root and every other rank directly.
    Flat,
    /// A chain of ranks, in chunks.
    Pipeline,
    /// Along the links of a box of the torus, in chunks.
    Rectangle,
    /// Scatter by a binomial tree, then allgather round the ring (van de Geijn).
    ScatterAllgather,
    /// Exchange between ranks that are powers of two apart.
    RecursiveDoubling,
    /// Reduce-scatter by halving, then allgather or gather (Rabenseifner).
    Rabenseifner,
    /// Reduce-scatter by halving.
    RecursiveHalving,
    /// Round the ring, block by block.
    Ring,
    /// Blocks in packs, to ranks that are powers of two apart (Bruck).
    Bruck,
    /// Every pair of ranks exchanges directly, one pair a round.
    Pairwise,
    /// Gather, then broadcast, by binomial trees.
    GatherBroadcast,
    /// A tree within affinity domains first.
    Affinity,
    /// The tree network combines.
    TreeNetwork,
    /// Each rank shows what it has to all that reach its memory, which read it.
    SharedMemory,
    /// Each rank shows where its vectors lie to all that reach its memory, which read and combine them there.
    DirectRead,
}

/// Numbers that an algorithm may be tuned by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Children of each rank in [`Algorithm::Nary`], signals of a round in [`Algorithm::Dissemination`] plus one.
    pub radix: u32,
    /// Elements that pipelines send at a time.
    pub chunk: usize,
}

/// A collective as one rank sees it. All ranks must agree in everything but `rank` and, save for an alltoall, `in_place`.
///
/// | collective | input | output | in place |
/// |---|---|---|---|
/// | broadcast | root: vector | vector | root: data is in the output |
/// | reduce | vector | root: vector | root: operand is in the output |
/// | allreduce, scan, exscan | vector | vector | operand is in the output |
/// | reduce-scatter | a block for each rank | own block | operand is in the output, result at its front |
/// | gather | own block | root: a block of each rank | root: own block is in its place in the output |
/// | scatter | root: a block for each rank | own block | root: own block stays in the input |
/// | allgather | own block | a block of each rank | own block is in its place in the output |
/// | alltoall | a block for each rank | a block of each rank | operand is in the output |
///
/// With "in place", the input of that rank is absent (but for a scatter's root, whose output is).
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// What is to be done.
    pub collective: Collective,
    /// How.
    pub algorithm: Algorithm,
    /// Number of ranks.
    pub size: u32,
    /// This rank.
    pub rank: u32,
    /// The root; 0 where there is none.
    pub root: u32,
    /// The blocks, one for each rank. Collectives of vectors look only at the first block, a barrier at none,
    /// alltoall takes these as the blocks that this rank sends.
    pub blocks: Blocks<'a>,
    /// Alltoall: the blocks that this rank receives. As `blocks` elsewhere.
    pub sources: Blocks<'a>,
    /// See the table.
    pub in_place: bool,
    /// The operator's operands may change places.
    pub commutative: bool,
    /// Tuning.
    pub tuning: Tuning,
    /// The ranks as a box of the torus, if they are one.
    pub grid: Option<Grid>,
    /// The ranks' affinity domains, if they are known.
    pub domains: Option<Domains<'a>>,
}

/// Why a call has no schedule. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallError {
    /// No ranks, or more than schedules can number.
    Size(u32),
    /// The rank is not below the size.
    Rank(u32),
    /// The root is not below the size.
    Root(u32),
    /// There are fewer blocks than ranks.
    Blocks,
    /// The collective has no such algorithm.
    Algorithm(Collective, Algorithm),
    /// The algorithm does not work here; see [`Need`](super::Need).
    Unmet(Unmet),
    /// The radix is below 2, or the chunk is empty.
    Tuning,
    /// The grid or the domains are of another number of ranks.
    Shape,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(size) => write!(f, "a collective has 1 to {TAG_LIMIT} ranks, not {size}"),
            Self::Rank(rank) => write!(f, "rank {rank} is not in the geometry"),
            Self::Root(root) => write!(f, "root {root} is not in the geometry: take one of its ranks"),
            Self::Blocks => f.write_str("a block is missing: give one for each rank"),
            Self::Algorithm(collective, algorithm) => {
                write!(f, "{collective:?} has no algorithm {algorithm:?}: ask for the list")
            }
            Self::Unmet(unmet) => write!(f, "the algorithm does not work here: {unmet}"),
            Self::Tuning => f.write_str("the radix must be 2 or more and the chunk 1 or more"),
            Self::Shape => f.write_str("the rectangle or the affinity domains are not of this geometry"),
        }
    }
}

impl core::error::Error for CallError {}

impl<'a> Call<'a> {
    /// A barrier of `size` ranks of which this is `rank`, one partner a round.
    pub(super) const fn barrier(algorithm: Algorithm, size: u32, rank: u32) -> Self {
        Self {
            collective: Collective::Barrier,
            algorithm,
            size,
            rank,
            root: 0,
            blocks: Blocks::equal(0),
            sources: Blocks::equal(0),
            in_place: false,
            commutative: true,
            tuning: Tuning { radix: 2, chunk: 1 },
            grid: None,
            domains: None,
        }
    }

    /// Whether this rank is the root.
    pub(super) fn is_root(&self) -> bool {
        self.rank == self.root
    }

    /// Length of the vector, for collectives of vectors.
    pub(super) fn len(&self) -> usize {
        self.blocks.len(0)
    }

    /// Length of all blocks together.
    pub(super) fn total(&self) -> usize {
        self.blocks.start(self.size)
    }

    /// The vector in an area.
    pub(super) fn vector(&self, area: Area) -> Span {
        Span::new(area, 0, self.len())
    }

    /// A rank's block, where all blocks of the area lie one behind the other.
    pub(super) fn block(&self, area: Area, rank: u32) -> Span {
        self.blocks.span(area, rank)
    }

    /// This rank's block in an output that holds nothing else, and so in an input.
    pub(super) fn own_result(&self) -> Span {
        let place = self.block(Area::Output, self.rank);
        Span { offset: place.offset - self.blocks.start(self.rank), ..place }
    }

    /// Where the operand is: the input, or the output of a rank that works in place.
    pub(super) fn operand(&self) -> Area {
        let in_place = self.in_place && (!self.collective.is_rooted() || self.is_root());
        if in_place { Area::Output } else { Area::Input }
    }

    /// The own block of a gather or allgather before the start.
    pub(super) fn own_operand(&self) -> Span {
        match self.operand() {
            Area::Output => self.block(Area::Output, self.rank),
            area => Span { area, ..self.own_result() },
        }
    }

    /// The rank `distance` ranks on, round the end. `distance` is at most the size.
    pub(super) fn ahead(&self, distance: u32) -> u32 {
        let to_end = self.size - self.rank;
        if distance < to_end { self.rank + distance } else { distance - to_end }
    }

    /// The rank `distance` ranks back, round the end. `distance` is at most the size.
    pub(super) fn behind(&self, distance: u32) -> u32 {
        if distance <= self.rank { self.rank - distance } else { self.size - distance + self.rank }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::Need;

    #[test]
    fn g2_a_call_without_a_schedule_is_refused_for_what_is_wrong_with_it() {
        use {Algorithm as A, Collective as C};
        let few = Blocks::listed(&[0, 1, 2]).unwrap();
        let good = Call {
            collective: C::Alltoall,
            algorithm: A::Pairwise,
            size: 3,
            rank: 2,
            root: 0,
            blocks: Blocks::equal(1),
            sources: Blocks::equal(1),
            in_place: false,
            commutative: true,
            tuning: Tuning { radix: 2, chunk: 1 },
            grid: None,
            domains: None,
        };
        let most = TAG_LIMIT as u32;
        let unlike = Blocks::listed(&[0, 1, 2, 4]).unwrap();
        let algorithm = |collective, algorithm| Call { collective, algorithm, ..good };
        let vectors = Call { blocks: few, sources: few, ..algorithm(C::Broadcast, A::Flat) };
        for (call, expected) in [
            (good, Ok(())),
            (Call { size: most, rank: most - 1, root: most - 1, ..good }, Ok(())),
            (Call { size: most + 1, ..good }, Err(CallError::Size(most + 1))),
            (Call { size: 0, ..good }, Err(CallError::Size(0))),
            (Call { rank: 3, ..good }, Err(CallError::Rank(3))),
            (Call { root: 3, ..good }, Err(CallError::Root(3))),
            (Call { blocks: few, ..good }, Err(CallError::Blocks)),
            (Call { sources: few, ..good }, Err(CallError::Blocks)),
            // A vector is the first block.
            (vectors, Ok(())),
            (Call { tuning: Tuning { radix: 1, chunk: 1 }, ..good }, Err(CallError::Tuning)),
            (Call { tuning: Tuning { radix: 2, chunk: 0 }, ..good }, Err(CallError::Tuning)),
            (Call { grid: Grid::new(2, [1; 5], [false; 5]), ..good }, Err(CallError::Shape)),
            (Call { grid: Grid::new(3, [1; 5], [false; 5]), ..good }, Ok(())),
            (algorithm(C::Scan, A::Ring), Err(CallError::Algorithm(C::Scan, A::Ring))),
            (algorithm(C::Alltoall, A::Bruck), Ok(())),
            (
                Call { sources: unlike, ..algorithm(C::Alltoall, A::Bruck) },
                Err(CallError::Unmet(Need::EqualBlocks)),
            ),
        ] {
            assert_eq!(call.check(), expected, "{call:?}");
        }
    }
}
