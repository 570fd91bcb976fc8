//! Why a call was refused, and why an operation that was taken did not end well.

use crate::device::Gone;
use crate::geometry::GeometryId;
use crate::packet::{DISPATCH_IDS, HEADER_LIMIT};
use crate::region::RegionFault;
use core::fmt;

/// Why an operation was not taken. The caller is at fault, but for `Again` and `Dead`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendError {
    /// No room now: advance, then try again.
    Again,
    /// The header is over [`HEADER_LIMIT`], or header and data of an immediate send over
    /// [`Active::immediate_limit`](crate::Active::immediate_limit), or the data over `u32::MAX` bytes.
    TooLong,
    /// The range does not lie inside the payload's buffer, or inside the memory that a get is to fill.
    Range,
    /// A message that is to be combined has no operand, or one that does not lie inside its memory; or one that is not has one.
    Operand,
    /// No function of this number, for elements of this type and with an operand as the recipe has it, is registered with the client.
    SubOperation(u8),
    /// The dispatch id is not below [`DISPATCH_IDS`].
    DispatchId,
    /// The endpoint belongs to another client.
    ForeignClient,
    /// The job has no such endpoint, or the node has no shared-memory ring left for this pair of contexts.
    Unreachable,
    /// The endpoint's node, of this rank, is dead (SPEC R-2).
    Dead(u32),
    /// The job has ended on the endpoint's node, of this rank.
    Ended(u32),
    /// What can be seen of the region's handle says that its owner would refuse.
    Region(RegionFault),
    /// The layout does not name that many bytes of the memory that it is used on.
    Layout,
    /// No message is kept under that id, or not any more.
    NoSuchMessage,
    /// The factory was registered by another client than the context's (SPEC M-6).
    ForeignFactory,
    /// The object memory holds another call's operation, which is not done (SPEC M-6).
    MemoryInUse,
    /// The context is in no geometry with this number.
    UnknownGeometry(GeometryId),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("no room for the operation now: advance the context, then try again"),
            Self::TooLong => write!(f, "the message is too long: a header has at most {HEADER_LIMIT} bytes"),
            Self::Range => f.write_str("the range does not lie inside the memory that was handed over"),
            Self::Operand => f.write_str(
                "the message has an operand and its recipe combines none, or the other way, or it does not lie inside its memory",
            ),
            Self::SubOperation(number) => {
                write!(f, "the client has no function number {number} for such elements, with an operand or alone as the recipe has it: register it first")
            }
            Self::DispatchId => write!(f, "the dispatch id is not below {DISPATCH_IDS}"),
            Self::ForeignClient => f.write_str("the target endpoint belongs to another client"),
            Self::Unreachable => f.write_str("the job has no such endpoint, or no ring is left to reach it"),
            Self::Dead(node) => write!(f, "node {node}, where the target lives, is dead"),
            Self::Ended(node) => write!(f, "the job has ended on node {node}, where the target was"),
            Self::Region(fault) => fault.fmt(f),
            Self::Layout => f.write_str("the layout does not lie inside the memory that it is used on"),
            Self::ForeignFactory => {
                f.write_str("the factory is another client's: register one with this client")
            }
            Self::MemoryInUse => f.write_str(
                "the object memory still holds an operation: wait for its callback, or pass other memory",
            ),
            Self::UnknownGeometry(id) => write!(f, "there is no geometry {} at this endpoint", id.0),
            Self::NoSuchMessage => {
                f.write_str("no such message is kept: it was accepted or discarded before")
            }
        }
    }
}

impl core::error::Error for SendError {}

impl SendError {
    /// What a send to node `node` meets, which is gone.
    pub(crate) fn gone(node: u32, gone: Gone) -> Self {
        match gone {
            Gone::Died => Self::Dead(node),
            Gone::Ended => Self::Ended(node),
        }
    }
}

/// Why an operation that had been taken was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationError {
    /// The other side's node, of this rank, is dead (SPEC R-2). What it has of the operation is not known.
    NodeDead(u32),
    /// The job has ended on the other side's node, of this rank, before it took part.
    NodeEnded(u32),
    /// The node that owns the region refused. Parts of a long operation may have been carried out before.
    Region(RegionFault),
    /// In a collective, the member with this rank called another one, or with another root, operator, algorithm or length;
    /// or it is another geometry there.
    Mismatch(u32),
    /// In a collective, the members called different ones, as the tree network has found.
    Differs,
    /// The member with this rank gave the collective up.
    Abandoned {
        /// The member.
        rank: u32,
        /// What it gave to [`abandon`](crate::Active::abandon) as its reason.
        reason: u16,
    },
    /// No path leads from here to the member with this rank.
    Unreachable(u32),
    /// The target has refused puts with signal, and could not keep whose, so many endpoints were owed answers: this may be one of
    /// them, or be done.
    Forgotten,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodeDead(node) => write!(f, "node {node} is dead"),
            Self::NodeEnded(node) => write!(f, "the job has ended on node {node}"),
            Self::Mismatch(rank) => {
                write!(f, "rank {rank} called another collective, or with other arguments: all must agree")
            }
            Self::Differs => {
                f.write_str("members called different collectives, or with other arguments: all must agree")
            }
            Self::Abandoned { rank, reason } => {
                write!(f, "rank {rank} gave the collective up, for reason {reason}")
            }
            Self::Unreachable(rank) => write!(f, "no path leads to the endpoint with rank {rank}"),
            Self::Forgotten => f.write_str("the target refused puts with signal and no longer knows whose"),
            Self::Region(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for OperationError {}

impl OperationError {
    /// What an operation with node `node` ends with, which is gone.
    pub(crate) fn gone(node: u32, gone: Gone) -> Self {
        match gone {
            Gone::Died => Self::NodeDead(node),
            Gone::Ended => Self::NodeEnded(node),
        }
    }
}

/// Why memory did not become a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterError {
    /// The node has no more than this many.
    NoneLeft {
        /// Regions that the node can have.
        limit: usize,
    },
    /// It has over `u32::MAX` bytes.
    TooLong,
    /// It is not where the nodes of one machine reach each other's: neither a task's memory nor a hart's stack (SPEC H-5).
    OutOfReach,
    /// Others are to update words of it, and it does not begin at a multiple of eight: offsets would not tell them which
    /// words are aligned.
    Unaligned,
}

impl fmt::Display for RegisterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneLeft { limit } => {
                write!(f, "the node has {limit} memory regions, all in use: deregister one")
            }
            Self::TooLong => write!(f, "a memory region has at most {} bytes", u32::MAX),
            Self::OutOfReach => f.write_str(
                "the memory is a static, which other processes do not reach: use the task's memory, or run with --fabric",
            ),
            Self::Unaligned => f.write_str(
                "the memory does not begin at a multiple of 8: have it begin there, or register it without Rights::UPDATE",
            ),
        }
    }
}

impl core::error::Error for RegisterError {}
