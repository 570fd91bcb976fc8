//! What lies in an injection FIFO: one descriptor of 64 bytes per packet (SPEC D-4).

use super::slots::CopySlot;
use pami::endpoint::Endpoint;
use pami::packet::{Header, Kind};
use pami::region::RegionId;
use rings::buffer::Source;
use rings::shared::Shared;

/// Descriptors of an injection FIFO.
pub const INJECTION_ENTRIES: usize = 64;
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
    pub(crate) fn flow(&self) -> Flow {
        Flow::of(self.header.kind(), self.header.target(), self.body.node())
    }
}

/// Where a packet goes and where its payload is.
pub(crate) enum Body {
    /// In the descriptor.
    Inline { node: u32, len: u8, bytes: [u8; INLINE_BYTES] },
    /// In a copy slot of the port.
    Copied { node: u32, slot: CopySlot },
    /// In the sender's memory, behind a header that may lie in a copy slot.
    Lent { node: u32, header: Option<CopySlot>, data: Source },
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

/// In a flow's name: of one-sided operations. No endpoint's bits have it.
const ONE_SIDED: u64 = 1 << 63;

/// What waits together: messages for one context, or one-sided operations for one node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flow {
    name: u64,
    /// The flow that it waits for as well: the one-sided operations for the same node.
    ahead: u64,
}

impl Flow {
    /// Of a packet of this kind to a context of node `node`.
    #[inline]
    pub(crate) fn of(kind: Option<Kind>, target: Endpoint, node: u32) -> Self {
        let ahead = ONE_SIDED | u64::from(node);
        let one_sided = kind.is_some_and(Kind::is_one_sided);
        Self { name: if one_sided { ahead } else { target.to_bits() }, ahead }
    }

    #[inline]
    pub(crate) fn name(self) -> u64 {
        self.name
    }

    /// The node that it goes to.
    pub(crate) fn node(self) -> u32 {
        self.ahead as u32
    }

    /// The name of the other flow that it waits for, if there is one.
    #[inline]
    pub(crate) fn ahead(self) -> Option<u64> {
        (self.name != self.ahead).then_some(self.ahead)
    }

    /// Whether it waits for what is in the flow of this name.
    #[inline]
    pub(crate) fn is_behind(self, name: u64) -> bool {
        name == self.name || name == self.ahead
    }
}
