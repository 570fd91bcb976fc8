//! Class routes: sub-trees of the collective network, and what each of their nodes does.
//!
//! Every router has room for [`CLASS_ROUTES`]. The first [`WORLDS`] are there from the start: all nodes contribute, all receive.
//! Others are set up by a node that sends the network a list of [`RouteMembers`]; every member is told of the route before
//! anything else arrives on it. If no route is free at one of the routers between them, the requester is told.

use crate::endpoint::CLIENTS;
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Class routes of a router, those of all nodes included.
pub const CLASS_ROUTES: usize = 16;

/// Class routes of all nodes: one for each place of clients, whose collectives are in an order of their own.
pub const WORLDS: usize = CLIENTS;

/// Packets of one class route that a node may have in the network's hands, and the network in the node's.
///
/// Each side says how many it took so far, along with what it sends or in a packet of its own. So one class route
/// never holds up another: whatever is on its way has a place to go to.
pub const WINDOW: u16 = 8;

/// Most lists of members in a request for a class route.
pub const MOST_MEMBERS: usize = 64;

/// A class route as packets name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ClassRoute {
    /// Less than [`CLASS_ROUTES`].
    pub id: u8,
    /// Distinguishes it from earlier ones with the same id.
    pub generation: u8,
}

impl ClassRoute {
    /// The first of those of all nodes: all contribute, all receive. They are always there.
    pub const WORLD: Self = Self { id: 0, generation: 0 };

    /// The class routes of all nodes.
    pub fn worlds() -> impl Iterator<Item = Self> {
        (0..WORLDS as u8).map(|id| Self { id, ..Self::WORLD })
    }

    /// Whether it is one of them, which nobody asks for, and nobody gives up.
    pub fn is_world(self) -> bool {
        usize::from(self.id) < WORLDS
    }
}

/// What a node does on a class route.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Role {
    /// Results wait for what it contributes.
    pub contributes: bool,
    /// It gets results and broadcasts.
    pub receives: bool,
}

impl Role {
    /// Contributes and receives.
    pub const BOTH: Self = Self { contributes: true, receives: true };
    /// Contributes only.
    pub const CONTRIBUTES: Self = Self { contributes: true, receives: false };
    /// Receives only.
    pub const RECEIVES: Self = Self { contributes: false, receives: true };

    /// Whether it does anything. Any member may broadcast.
    pub fn is_member(self) -> bool {
        self.contributes || self.receives
    }

    /// What either of the two does.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self { contributes: self.contributes || other.contributes, receives: self.receives || other.receives }
    }

    /// Bit 0: contributes; bit 1: receives.
    pub fn to_byte(self) -> u8 {
        u8::from(self.contributes) | u8::from(self.receives) << 1
    }

    /// The reverse of [`to_byte`](Self::to_byte); `None` if other bits are set.
    pub fn from_byte(byte: u8) -> Option<Self> {
        (byte < 4).then_some(Self { contributes: byte & 1 != 0, receives: byte & 2 != 0 })
    }
}

/// Ranks `first`, `first + stride`, ... up to `last`, all with the same role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteMembers {
    /// The lowest rank.
    pub first: u32,
    /// No rank is higher.
    pub last: u32,
    /// From one rank to the next; at least 1.
    pub stride: u32,
    /// What they do.
    pub role: Role,
}

/// [`RouteMembers`] as they lie on the wire.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub struct WireMembers {
    first: U32,
    last: U32,
    stride: U32,
    role: u8,
    reserved: [u8; 3],
}

impl RouteMembers {
    /// Bytes on the wire.
    pub const BYTES: usize = 16;

    /// All ranks from `first` to `last`, in a role.
    pub const fn range(first: u32, last: u32, role: Role) -> Self {
        Self { first, last, stride: 1, role }
    }

    /// The wire form.
    pub fn to_wire(self) -> WireMembers {
        WireMembers {
            first: self.first.into(),
            last: self.last.into(),
            stride: self.stride.into(),
            role: self.role.to_byte(),
            reserved: [0; 3],
        }
    }

    /// The lists in `payload`, or `None` if it holds anything else. Ranks may lie outside the tree.
    pub fn read(payload: &[u8]) -> Option<impl Iterator<Item = Self> + '_> {
        let wire = <[WireMembers]>::ref_from_bytes(payload).ok()?;
        let valid = |it: &WireMembers| {
            it.first.get() <= it.last.get() && it.stride.get() > 0 && Role::from_byte(it.role).is_some()
        };
        wire.iter().all(valid).then(|| {
            wire.iter().map(|it| Self {
                first: it.first.get(),
                last: it.last.get(),
                stride: it.stride.get(),
                role: Role::from_byte(it.role).unwrap_or_default(),
            })
        })
    }

    /// The ranks.
    pub fn ranks(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first..=self.last).step_by(self.stride as usize)
    }
}

const _: () = assert!(size_of::<WireMembers>() == RouteMembers::BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn d9_any_bytes_are_members_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            for members in RouteMembers::read(&bytes).into_iter().flatten() {
                prop_assert!(members.first <= members.last && members.stride > 0);
            }
        }

        #[test]
        fn d3_members_read_back_what_was_written(
            all in proptest::collection::vec((0u32..1000, 0u32..1000, 1u32..10, 0u8..4), 0..20)
        ) {
            let members: Vec<_> = all.iter().map(|&(first, more, stride, role)| RouteMembers {
                first, last: first + more, stride, role: Role::from_byte(role).unwrap()
            }).collect();
            let bytes: Vec<u8> = members.iter().flat_map(|it| it.to_wire().as_bytes().to_vec()).collect();
            prop_assert_eq!(RouteMembers::read(&bytes).unwrap().collect::<Vec<_>>(), members);
        }
    }

    #[test]
    fn d3_members_are_ranks_at_a_stride() {
        let members = RouteMembers { first: 3, last: 10, stride: 3, role: Role::BOTH };
        assert!(members.ranks().eq([3, 6, 9]));
        assert!(RouteMembers::range(5, 5, Role::BOTH).ranks().eq([5]));
    }
}
