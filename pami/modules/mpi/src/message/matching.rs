//! Which message is for which receive.

use super::envelope::Envelope;
use super::{ANY_SOURCE, ANY_TAG, At, Operation};
use crate::request::Requests;
use pami::device::Port;

/// What a receive or a probe wants.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) communicator: u32,
    pub(crate) source: i32,
    pub(crate) tag: i32,
}

impl Wanted {
    pub(crate) fn is(&self, envelope: &Envelope) -> bool {
        self.communicator == envelope.communicator.get()
            && (self.source == ANY_SOURCE || u32::try_from(self.source) == Ok(envelope.source.get()))
            && (self.tag == ANY_TAG || self.tag == envelope.tag.get())
    }
}

fn wanted(requests: &Requests, slot: u16) -> Option<Wanted> {
    match requests.get(slot)?.operation.as_ref()? {
        Operation::Receive(receiving) => {
            let (communicator, source, tag) = (receiving.communicator, receiving.source, receiving.tag);
            Some(Wanted { communicator, source, tag })
        }
        Operation::Send(_) => None,
    }
}

impl<P: Port> At<'_, P> {
    /// Takes the first posted receive that wants a message.
    pub(super) fn take_posted(&mut self, envelope: &Envelope) -> Option<u16> {
        let wants =
            |slot, requests: &Requests| wanted(requests, slot).is_some_and(|wanted| wanted.is(envelope));
        self.messages.posted.take(self.requests, wants)
    }

    /// The first waiting message that is wanted.
    pub(super) fn find_waiting(&self, wanted: &Wanted) -> Option<u32> {
        self.messages.unexpected.find(|waiting| wanted.is(&waiting.envelope))
    }
}
