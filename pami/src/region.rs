//! Memory regions: what puts, gets and updates of other tasks may reach (SPEC P-7, P-8).
//!
//! A region is made of a [`Buffer`](crate::Buffer) that its owner gives away for as long, or of any memory in shared use,
//! which may be [somebody else's](crate::Buffer::over) (SPEC Q-3). Others name it by a [`RegionHandle`] of sixteen bytes,
//! which is data: it can be sent. The message unit of the node that owns the memory checks every access against what it
//! knows itself of the region; a handle only says what to ask for.

use bitflags::bitflags;
use core::fmt;
use rings::shared::{Misplaced, Shared, Update, Width};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

bitflags! {
    /// What others may do to a region.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Rights: u8 {
        /// Get from it.
        const READ = 1;
        /// Put into it.
        const WRITE = 2;
        /// Update words of it.
        const UPDATE = 4;
    }
}

/// Name of a region within its node, as it travels: a place in the node's table, and which of the regions that were
/// ever there it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RegionId {
    /// Place in the node's table.
    pub index: U32,
    /// Counts the registrations at that place; never 0 for a region.
    pub generation: U32,
}

impl RegionId {
    /// No region: what a get of nothing names.
    pub const NONE: Self = Self { index: U32::ZERO, generation: U32::ZERO };
}

/// Where the data of a message begins in memory of its origin's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemoteData {
    /// The region that it lies in.
    pub(crate) region: RegionId,
    /// Its first byte there.
    pub(crate) offset: u32,
}

/// What a task gives to its peers so that they can reach a region of its. Sixteen bytes of plain data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct RegionHandle {
    pub(crate) task: U32,
    pub(crate) id: RegionId,
    pub(crate) len: U32,
}

impl RegionHandle {
    /// The task that the memory belongs to.
    pub fn task(&self) -> u32 {
        self.task.get()
    }

    /// Bytes of the region, as its owner said.
    pub fn len(&self) -> u32 {
        self.len.get()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The region's name in its node.
    pub fn id(&self) -> RegionId {
        self.id
    }

    /// Whether [`check`](Self::check) finds nothing wrong, in few instructions.
    #[inline(always)]
    pub(crate) fn reaches(&self, task: u32, offset: u32, reach: usize) -> bool {
        self.task() == task && u64::from(offset) + reach as u64 <= u64::from(self.len())
    }

    /// Whether `task`'s region can have `reach` bytes from `offset` on, as far as the handle tells.
    pub(crate) fn check(&self, task: u32, offset: u32, reach: u32) -> Result<(), RegionFault> {
        if self.task() != task {
            return Err(RegionFault::Foreign);
        }
        let end = offset.checked_add(reach).filter(|&end| end <= self.len());
        end.map(drop).ok_or(RegionFault::Bounds)
    }
}

/// Why the node that owns a region refused an access. The origin is at fault. Travels as a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RegionFault {
    /// No such region, or it was deregistered.
    Stale = 1,
    /// The region belongs to another client or task than the target that was named.
    Foreign = 2,
    /// Its owner does not allow that.
    Rights = 3,
    /// The range reaches beyond its end.
    Bounds = 4,
    /// The word is not aligned, or not whole in the region.
    Unaligned = 5,
}

impl RegionFault {
    pub(crate) const ALL: [Self; 5] =
        [Self::Stale, Self::Foreign, Self::Rights, Self::Bounds, Self::Unaligned];

    /// The fault that a byte stands for.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&fault| fault as u8 == byte)
    }
}

impl From<Misplaced> for RegionFault {
    fn from(misplaced: Misplaced) -> Self {
        match misplaced {
            Misplaced::Bounds => Self::Bounds,
            Misplaced::Unaligned => Self::Unaligned,
        }
    }
}

impl fmt::Display for RegionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stale => "the region does not exist, or not any more: ask its owner for its present handle",
            Self::Foreign => "the region belongs to another task or client than the target that was named",
            Self::Rights => "the region's owner did not give the right to do that",
            Self::Bounds => "the range reaches beyond the end of the region",
            Self::Unaligned => "the word is not aligned to its size, or not whole in the region",
        })
    }
}

impl core::error::Error for RegionFault {}

/// Memory to be registered.
#[derive(Clone)]
pub enum Memory {
    /// For any access that its rights allow.
    Shared(Shared),
    /// Lent: only to be read, and never changing.
    Lent(rings::buffer::Source),
}

/// A read-modify-write operation, on one word of a region (SPEC P-7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RmwOp {
    /// Size of the word.
    pub width: Width,
    /// What becomes of it.
    pub update: Update,
}

/// [`RmwOp`] on the wire. The operator travels in the packet's dispatch field.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Operands {
    first: U64,
    second: U64,
}

/// Set in an operator's byte when the word has 64 bits.
const EIGHT: u8 = 0x80;

impl RmwOp {
    /// Bytes of the word.
    #[inline(always)]
    pub(crate) fn size(&self) -> u32 {
        if self.width == Width::Eight { 8 } else { 4 }
    }

    /// The operator's byte and the operands.
    pub fn encode(&self) -> (u8, Operands) {
        let (operator, [first, second]) = self.words();
        (operator, Operands { first: first.into(), second: second.into() })
    }

    /// The same, as numbers.
    #[inline(always)]
    pub(crate) fn words(&self) -> (u8, [u64; 2]) {
        let (code, first, second) = match self.update {
            Update::Add(operand) => (0, operand, 0),
            Update::And(operand) => (1, operand, 0),
            Update::Or(operand) => (2, operand, 0),
            Update::Xor(operand) => (3, operand, 0),
            Update::Swap(operand) => (4, operand, 0),
            Update::CompareSwap { expected, new } => (5, new, expected),
        };
        let width = if self.width == Width::Eight { EIGHT } else { 0 };
        (code | width, [first, second])
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for anything else.
    pub fn decode(operator: u8, operands: &[u8]) -> Option<Self> {
        let Operands { first, second } = Operands::read_from_bytes(operands).ok()?;
        let (first, second) = (first.get(), second.get());
        let update = match operator & !EIGHT {
            0 => Update::Add(first),
            1 => Update::And(first),
            2 => Update::Or(first),
            3 => Update::Xor(first),
            4 => Update::Swap(first),
            5 => Update::CompareSwap { expected: second, new: first },
            _ => return None,
        };
        Some(Self { width: if operator & EIGHT == 0 { Width::Four } else { Width::Eight }, update })
    }
}
