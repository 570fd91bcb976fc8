//! What algorithms need.

use core::fmt;
use rings::bulletin::PAGE_BYTES;

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
    /// The ranks of each node follow each other. Ranks without known affinity domains count as alone on their nodes.
    NodeRanges,
    /// The geometry has a class route of the tree network.
    ClassRoute,
    /// The tree network's ALU has the operator on that type.
    TreeOperator,
    /// The network's ALU takes operands from any address, and leaves results at any, or all ranks' buffers are aligned to [`ALIGNMENT`] bytes.
    Aligned,
    /// The ranks reach each other's memory, are [`MOST_SHOWING`] at most, no boundary of an affinity domain
    /// lies between those of a node, and what each shows has room on a bulletin: [`PAGE_BYTES`].
    Bulletins,
    /// The ranks reach each other's memory, are [`MOST_SHOWING`] at most, and no boundary of an affinity domain lies between those of
    /// a node.
    Reach,
    /// The ranks have the scratch memory that it takes, for one element at least. Asked of all, so in no entry.
    Scratch,
}

/// Ranks that read each other's bulletins, at most: each reads all.
pub const MOST_SHOWING: u32 = 16;

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
            Self::NodeRanges => "the ranks of each node must follow each other",
            Self::ClassRoute => "the geometry must have a class route of the tree network",
            Self::TreeOperator => "the tree network must have the operator on that type",
            Self::Bulletins => {
                return write!(
                    f,
                    "at most {MOST_SHOWING} ranks must reach each other's memory, with no boundary of affinity domains between them, \
                     and show each other {PAGE_BYTES} bytes or less"
                );
            }
            Self::Reach => {
                return write!(
                    f,
                    "at most {MOST_SHOWING} ranks must reach each other's memory, with no boundary of affinity domains between them"
                );
            }
            Self::Scratch => "the ranks need more scratch memory",
            Self::Aligned => return write!(f, "buffers must be aligned to {ALIGNMENT} bytes"),
        })
    }
}
