//! What lies in an injection FIFO: one descriptor of 64 bytes per packet (SPEC D-4).

use super::parked::Line;
use super::slots::Slot;
use pami::packet::Header;
use pami::region::RegionId;
use rings::buffer::Source;
use rings::shared::Shared;

/// Bytes of payload that fit into a descriptor.
pub const INLINE_BYTES: usize = 24;

/// A packet to be sent.
#[repr(C, align(64))]
pub(crate) struct Descriptor {
    pub(crate) header: Header,
    pub(crate) body: Body,
}

const _: () = assert!(size_of::<Descriptor>() == 64);

impl Descriptor {
    /// What it waits with.
    #[inline]
    pub(crate) fn line(&self) -> Line {
        Line::of(self.header.kind(), self.header.target(), self.body.node())
    }
}

/// Where a packet goes and where its payload is.
pub(crate) enum Body {
    /// In the descriptor.
    Inline { node: u32, len: u8, bytes: [u8; INLINE_BYTES] },
    /// In a copy slot of the port.
    Copied { node: u32, slot: Slot },
    /// In the sender's memory, behind a header that may lie in a copy slot.
    Lent { node: u32, header: Option<Slot>, data: Source },
    /// Nowhere: a request for bytes of a region, and where they are wanted.
    Get { node: u32, region: RegionId, into: Option<Shared>, at: u32, last: bool },
}

impl Body {
    /// The node that the packet is for.
    #[inline]
    pub(crate) fn node(&self) -> u32 {
        match *self {
            Self::Inline { node, .. }
            | Self::Copied { node, .. }
            | Self::Lent { node, .. }
            | Self::Get { node, .. } => node,
        }
    }

    /// A payload that fits; of a longer one, its front.
    #[inline]
    pub(crate) fn inline(node: u32, payload: &[u8]) -> Self {
        let len = payload.len().min(INLINE_BYTES);
        let mut bytes = [0; INLINE_BYTES];
        bytes[..len].copy_from_slice(&payload[..len]);
        Self::Inline { node, len: len as u8, bytes }
    }
}
