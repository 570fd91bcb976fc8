//! Departure: immediate, eager and rendezvous sends (SPEC P-6, P-9, P-11).
//!
//! | how | when | what goes |
//! |---|---|---|
//! | immediate | the caller says so; at most one packet | copied into one packet, or refused |
//! | eager | below the switch-over size; through shared memory; non-contiguous data | packets with the data |
//! | rendezvous | from the switch-over size on, over the torus | where the data lies; the target's unit gets it from there |
//!
//! The switch-over size is [`ClientBuilder::rendezvous_from`](crate::ClientBuilder::rendezvous_from).
//!
//! A rendezvous, and a message to an id of [`ClientBuilder::dispatch_deferring`](crate::ClientBuilder::dispatch_deferring), may be
//! refused by a target that has no place for it: the origin keeps it, and sends it again when it is told to
//! ([`crate::admission`]). Until one is known to be in, what goes to the same endpoint behind it is kept as well.

pub use crate::device::OPERATIONS;
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
pub use crate::error::SendError;
use crate::layout::Layout;
use crate::packet::{DEFERRING, HEADER_LIMIT};
use crate::payload::{Payload, PayloadIter};
use crate::region::RegionId;
use heapless::Vec;

/// A message of any length.
pub struct Send<'a, A: 'static> {
    /// Who is to have it.
    pub target: Endpoint,
    /// Id of the handler at the target.
    pub dispatch: u8,
    /// Copied before the call returns; at most [`HEADER_LIMIT`] bytes.
    pub header: &'a [u8],
    /// At most `u32::MAX` bytes.
    pub payload: Payload,
    /// Which bytes of the payload the message is made of.
    pub layout: Layout,
    /// Called when the payload is the caller's again. Without it a payload's buffer is not given back.
    pub local_done: Option<Done<A>>,
    /// Called when the target's handler has had the whole message.
    pub remote_done: Option<Done<A>>,
}

/// Bytes that a send under way takes of its operation's place: its header, where its data is and how much of it went. None
/// of it is there for fences (SPEC F-4).
pub const STATE_BYTES: usize = size_of::<SendState>();

/// A send under way.
pub(crate) struct SendState {
    pub(crate) dispatch: u8,
    pub(crate) header: Vec<u8, HEADER_LIMIT>,
    /// If data lies behind the header in the same place: bytes of the header.
    pub(crate) split: Option<u8>,
    /// `None` once all is queued and nothing has to go again.
    pub(crate) data: Option<PayloadIter>,
    /// Where the target gets the data from.
    pub(crate) region: Option<RegionId>,
}

impl SendState {
    /// Lets go of the data. Returns whether the payload is to come back now.
    pub(crate) fn all_queued(&mut self) -> bool {
        // The operation itself counts as a reader while it holds the source.
        self.data = None;
        self.region.is_none()
    }

    /// Whether its target may have no place for it.
    #[inline]
    pub(crate) fn may_be_refused(&self) -> bool {
        self.region.is_some() || self.dispatch >= DEFERRING
    }

    /// Whether it takes more than one packet of so many bytes: eager data does, but what a context of the node reads in place.
    pub(crate) fn is_in_parts(&self, far: bool, mtu: usize) -> bool {
        let parts = |data: &PayloadIter| {
            let copied = far || data.whole().is_none();
            copied && self.header.len() + data.total() as usize > mtu
        };
        self.region.is_none() && self.data.as_ref().is_some_and(parts)
    }

    /// It does not have to go again. Returns whether the payload is to come back now.
    pub(crate) fn let_in(&mut self) -> bool {
        self.region.is_none() && self.all_queued()
    }

    /// It has to go again. Returns `true`.
    pub(crate) fn rewind(&mut self) -> bool {
        if let Some(data) = &mut self.data {
            data.rewind();
        }
        true
    }

    /// As [`all_queued`](Self::all_queued), for good; the region that the data lies in is to be deregistered.
    pub(crate) fn give_up(&mut self) -> Option<RegionId> {
        self.data = None;
        self.region.take()
    }
}
