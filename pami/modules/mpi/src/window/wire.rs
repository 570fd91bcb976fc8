//! What processes tell each other of windows.

use crate::datatype::Basic;
use crate::error::{Class, Error, Result};
use crate::op::Op;
use pami::{RegionHandle, region::RegionId};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a window's locks.
pub(crate) const LOCK_BYTES: usize = 64;
/// Where each word of a window's lock is: tickets, readers let in, holders who left.
pub(crate) const TICKETS: u32 = 0;
pub(crate) const READ: u32 = 4;
pub(crate) const WRITE: u32 = 8;

/// What a process tells of its part of a window when it is made.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Info {
    /// [`RegionHandle`]s, as bytes: of the memory, and of the locks.
    pub region: [u8; 16],
    pub home: [u8; 16],
    pub base: U64,
    pub size: U64,
    pub unit: U32,
    /// Its place among the windows there, and which window of that place it is; 0: the process has none.
    pub slot: U32,
    pub generation: U32,
}

/// Bytes of it in an exchange.
pub(crate) const EXCHANGED: usize = size_of::<Info>();

impl Info {
    pub(crate) const NONE: Self = Self {
        region: [0; 16],
        home: [0; 16],
        base: U64::ZERO,
        size: U64::ZERO,
        unit: U32::ZERO,
        slot: U32::ZERO,
        generation: U32::ZERO,
    };

    /// Of a process that has no part of the window, for a reason of this class.
    pub(crate) fn failed(class: Class) -> Self {
        Self { unit: (class as u32).into(), ..Self::NONE }
    }

    /// Whether the process has a part.
    ///
    /// # Errors
    /// [`Error::Elsewhere`].
    pub(crate) fn check(&self) -> Result<()> {
        let reason = Class::of_number(self.unit.get());
        if self.generation.get() == 0 { Err(Error::Elsewhere(reason)) } else { Ok(()) }
    }

    /// The region of the window's memory.
    pub(crate) fn region(&self) -> RegionHandle {
        zerocopy::transmute!(self.region)
    }

    /// The region of the window's lock.
    pub(crate) fn home(&self) -> RegionHandle {
        zerocopy::transmute!(self.home)
    }
}

const _: () = assert!(size_of::<RegionHandle>() == 16 && size_of::<RegionId>() == 8);

/// What a request of the accumulate family is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum AccumulateKind {
    /// Combines.
    Combine = 0,
    /// Says what was there, and combines.
    Fetch = 1,
    /// Says what was there, and replaces it if that is what is expected: the data has a value to compare with, then one
    /// to be put there.
    Compare = 2,
}

impl AccumulateKind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Self::Combine, Self::Fetch, Self::Compare].into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// In front of the data of a request: what its target is to do with a window. Places are bytes from the window's first.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct WindowRequest {
    /// Who says so.
    pub rank: U32,
    pub generation: U32,
    pub offset: U64,
    /// Bytes of a block, and from the start of one to that of the next.
    pub block: U32,
    pub stride: U32,
    /// Bytes of blocks before the first that is meant.
    pub skip: U32,
    /// Bytes that are meant.
    pub len: U32,
    /// What the origin knows its request by.
    pub fetch: U32,
    pub kind: u8,
    pub op: u8,
    pub basic: u8,
    /// The window's place at the target.
    pub slot: u8,
}

/// In front of what was there before.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Reply {
    pub fetch: U32,
    /// Whether the request was carried out.
    pub good: U32,
}

impl Reply {
    pub(crate) const NONE: Self = Self { fetch: U32::ZERO, good: U32::ZERO };
}

/// A post, or a complete.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Signal {
    pub slot: U32,
    pub generation: U32,
    /// Who says so.
    pub rank: U32,
    /// Whether it is a complete.
    pub complete: U32,
}

/// The number of an operator on the wire. Applications' own have none.
pub(crate) fn op_number(op: Op) -> Option<u8> {
    let same = |other: &Op| core::mem::discriminant(other) == core::mem::discriminant(&op);
    Op::PREDEFINED.iter().position(same).map(|at| at as u8)
}

/// The operator with a number.
pub(crate) fn op_of(number: u8) -> Option<Op> {
    Op::PREDEFINED.get(usize::from(number)).copied()
}

/// The type with a number.
pub(crate) fn basic_of(number: u8) -> Option<Basic> {
    Basic::ALL.get(usize::from(number)).copied()
}
