//! Departure: immediate, eager and rendezvous sends (SPEC P-6, P-9, P-11).
//!
//! | how | when | what goes |
//! |---|---|---|
//! | immediate | the caller says so; at most one packet | copied into one packet, or refused |
//! | eager | below the switch-over size; non-contiguous data; no region left | packets with the data |
//! | lent | within a node, what [nobody writes meanwhile](crate::Payload) | where the data lies; the target reads it there |
//! | rendezvous | from the switch-over size on, all else | a region that the data lies in; the target gets it from there |
//!
//! The switch-over size is [`ClientBuilder::rendezvous_from`](crate::ClientBuilder::rendezvous_from). What a target may want later
//! and could not keep goes by rendezvous, however short, and within a node too ([`crate::unexpected`]). A region is one piece of
//! memory, so data that lies in several goes by packets, which gather it.
//!
//! A rendezvous, and a message to an id of [`ClientBuilder::dispatch_deferring`](crate::ClientBuilder::dispatch_deferring), may be
//! refused by a target that has no place for it: the origin keeps it, and sends it again when it is told to
//! ([`crate::admission`]). Until one is known to be in, what goes to the same endpoint behind it is kept as well.

pub use crate::device::OPERATIONS;
use crate::device::{Path, Port};
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
pub use crate::error::SendError;
use crate::layout::Layout;
use crate::packet::{DEFERRING, Envelope, HEADER_LIMIT, Kind};
use crate::payload::{Payload, PayloadIter};
use crate::region::RegionId;
use crate::transport::Queued;
use heapless::Vec;
use zerocopy::IntoBytes;

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

/// A send under way: its header, where its data is and how much of it went. None of it is there for fences (SPEC F-4).
pub(crate) struct SendState {
    dispatch: u8,
    header: Vec<u8, HEADER_LIMIT>,
    /// If data lies behind the header in the same place: bytes of the header.
    split: Option<u8>,
    /// `None` once all is queued and nothing has to go again.
    data: Option<PayloadIter>,
    /// Where the target gets the data from.
    region: Option<RegionId>,
}

impl SendState {
    /// A message whose data goes in packets, or lies in a region that the target gets it from.
    #[inline]
    pub(crate) fn new(
        dispatch: u8,
        header: Vec<u8, HEADER_LIMIT>,
        data: PayloadIter,
        region: Option<RegionId>,
    ) -> Self {
        Self { dispatch, header, split: None, data: Some(data), region }
    }

    /// A message with a copy of its data behind the header. `None`: together they are more than [`HEADER_LIMIT`] bytes.
    #[inline]
    pub(crate) fn copied(dispatch: u8, header: &[u8], data: &[u8]) -> Option<Self> {
        let split = Some(header.len() as u8);
        let mut bytes = Vec::from_slice(header).ok()?;
        bytes.extend_from_slice(data).ok()?;
        Some(Self { dispatch, header: bytes, split, data: None, region: None })
    }

    /// Queues packets until the path is full. `first` is the envelope of the first eager one, but for what the message has of
    /// its own.
    #[inline]
    pub(crate) fn push<P: Port>(&mut self, port: &mut P, path: Path, first: Envelope) -> Queued {
        let mut envelope = Envelope { dispatch: self.dispatch, ..first };
        if let Some(split) = self.split {
            let (header, data) = self.header.split_at(split.into());
            envelope.total = data.len() as u32;
            return Queued::whole(port.push_bcopy(path, &envelope, header, data).is_ok());
        }
        let Some(data) = &mut self.data else { return Queued::All };
        envelope.total = data.total();
        if let Some(region) = &self.region {
            (envelope.kind, envelope.offset) = (Kind::Rts, data.start());
            return Queued::whole(port.push_bcopy(path, &envelope, &self.header, region.as_bytes()).is_ok());
        }
        let by_packets = !data.whole().is_some_and(|whole| port.lends(path, whole));
        let mut some = false;
        loop {
            // Only the first packet has a header, and it is the only one of a message without data.
            let started = data.taken() > 0;
            let header: &[u8] = if started { &[] } else { &self.header };
            envelope.kind = if started { Kind::EagerNext } else { first.kind };
            envelope.offset = data.taken();
            let left = data.left() as usize;
            let len = if by_packets { left.min(port.mtu() - header.len()) } else { left };
            if data.push(port, path, &envelope, header, len).is_err() {
                return Queued::stopped(some);
            }
            some = true;
            if data.left() == 0 {
                return Queued::All;
            }
        }
    }

    /// Whether the target gets the data from where it lies, and has not yet.
    pub(crate) fn is_rendezvous(&self) -> bool {
        self.region.is_some()
    }

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
    pub(crate) fn is_in_parts(&self, port: &impl Port, path: Path) -> bool {
        let parts = |data: &PayloadIter| {
            let copied = !data.whole().is_some_and(|whole| port.lends(path, whole));
            copied && self.header.len() + data.total() as usize > port.mtu()
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
