//! Which message is for which receive.

use super::{At, Messages};
use crate::envelope::{ANY_SOURCE, ANY_TAG, Envelope};
use crate::request::{PointToPoint, Requests};
use crate::status::Status;
use pami::Endpoint;
use pami::device::Port;

/// What a receive or a probe wants.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) communicator: u32,
    pub(crate) source: i32,
    pub(crate) tag: i32,
}

impl Wanted {
    #[inline]
    pub(crate) fn is(&self, envelope: &Envelope) -> bool {
        self.communicator == envelope.communicator.get()
            // There is no other negative one.
            && (self.source == ANY_SOURCE || self.source as u32 == envelope.source.get())
            && (self.tag == ANY_TAG || self.tag == envelope.tag.get())
    }
}

#[inline]
fn wanted(requests: &Requests, slot: u16) -> Option<Wanted> {
    match requests.get(slot)?.operation.as_ref()? {
        PointToPoint::Receive(receiving) => {
            let (communicator, source, tag) = (receiving.communicator, receiving.source, receiving.tag);
            Some(Wanted { communicator, source, tag })
        }
        PointToPoint::Send(_) => None,
    }
}

impl Messages {
    /// Takes the first posted receive that wants a message.
    #[inline]
    pub(super) fn take_posted(&mut self, requests: &mut Requests, envelope: &Envelope) -> Option<u16> {
        let wants = |slot, requests: &Requests| {
            wanted(requests, slot as u16).is_some_and(|wanted| wanted.is(envelope))
        };
        self.posted.take(requests, wants).map(|slot| slot as u16)
    }

    /// The first waiting message that is wanted.
    #[inline]
    pub(super) fn find_waiting(&self, wanted: &Wanted) -> Option<u32> {
        self.unexpected.find(|waiting| wanted.is(&waiting.envelope))
    }
}

impl<P: Port> At<'_, P> {
    /// What a probe finds: the place and generation of the first waiting message that is wanted, and its status. If it `takes`
    /// the message, no other receive or probe finds that.
    pub(crate) fn probe(&mut self, wanted: &Wanted, takes: bool) -> Option<(u32, u32, Status)> {
        let place = self.messages.find_waiting(wanted)?;
        let unexpected = &mut self.messages.unexpected;
        let generation = unexpected.generation(place);
        if takes {
            unexpected.unlink(place);
        }
        let status = unexpected.get(place).map_or(Status::EMPTY, |waiting| waiting.envelope.status());
        Some((place, generation, status))
    }

    /// A message that a probe took, unless a receive has it: its origin and envelope.
    pub(crate) fn probed(&mut self, place: u32, generation: u32) -> Option<(Endpoint, Envelope)> {
        let there = self.messages.unexpected.generation(place) == generation;
        let waiting = self.messages.unexpected.get(place);
        let waiting = waiting.filter(|waiting| there && waiting.claimed.is_none());
        waiting.map(|waiting| (waiting.origin, waiting.envelope))
    }
}
