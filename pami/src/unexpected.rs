//! Messages that came before anybody wanted them (SPEC P-6).
//!
//! A handler of an id that was registered for it has no buffer yet, and says so. The message then waits in one of the
//! context's places of the unexpected queue: its header, and of an eager message the data; that of a rendezvous stays where
//! it is. The job looks through [`Active::unexpected`](crate::Active::unexpected) when it wants a message, and accepts or
//! discards it. When no place is free the message stays with its origin, and its handler is asked again
//! ([`crate::admission`]).

use crate::acks::bit_of;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::packet::{Envelope, HEADER_LIMIT, Kind};
use crate::receive::Owes;
use crate::region::RemoteData;
use heapless::Vec;
use rings::buffer::Buffer;

/// Most places of the unexpected queue of a context.
pub const UNEXPECTED_LIMIT: usize = 64;

/// Name of an unexpected message in its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnexpectedId(pub(crate) u64);

/// An unexpected message.
#[derive(Clone, Copy, Debug)]
pub struct Unexpected<'a> {
    /// Its name.
    pub id: UnexpectedId,
    /// Who sent it.
    pub origin: Endpoint,
    /// The dispatch id that it was sent to.
    pub dispatch: u8,
    /// The sender's header, whole.
    pub header: &'a [u8],
    /// Bytes of data in the whole message.
    pub total: usize,
}

/// What is known of an unexpected message.
pub(crate) struct Waiting {
    pub(crate) order: u64,
    pub(crate) origin: Endpoint,
    pub(crate) dispatch: u8,
    pub(crate) message: u32,
    pub(crate) total: u32,
    pub(crate) header: Vec<u8, HEADER_LIMIT>,
    pub(crate) data: Data,
}

/// Where the data of an unexpected message is.
pub(crate) enum Data {
    /// At the origin.
    There(RemoteData),
    /// In the place's buffer, as far as it has come.
    Here { received: u32, owes: Owes, result: Result<(), OperationError> },
}

/// A place for a message.
pub(crate) struct UnexpectedSlot {
    pub(crate) buffer: Buffer,
    pub(crate) waiting: Option<Waiting>,
    /// Fences of its origin that wait behind it, by their places there.
    pub(crate) fences: u64,
}

impl UnexpectedSlot {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self { buffer, waiting: None, fences: 0 }
    }
}

/// Lets fences wait behind the last of one origin's unexpected messages that came before `order`. Returns whether there is one.
pub(crate) fn hold<'a>(
    unexpected: impl Iterator<Item = (u64, &'a mut u64)>,
    order: u64,
    fences: u64,
) -> bool {
    let last = unexpected.filter(|&(other, _)| other < order).max_by_key(|&(other, _)| other);
    last.map(|(_, waiting)| *waiting |= fences).is_some()
}

/// The places of the unexpected queue of one context.
pub(crate) struct UnexpectedQueue {
    places: &'static mut [Option<UnexpectedSlot>],
}

impl UnexpectedQueue {
    pub(crate) fn new(places: &'static mut [Option<UnexpectedSlot>]) -> Self {
        Self { places }
    }

    pub(crate) fn into_places(self) -> &'static mut [Option<UnexpectedSlot>] {
        self.places
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting().next().is_none()
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.places.iter().flatten().filter_map(|place| place.waiting.as_ref())
    }

    /// Lets fences of `origin` wait behind the last of its messages that came before `order`. Returns whether there is one.
    pub(crate) fn hold_fences(&mut self, origin: Endpoint, order: u64, fences: u64) -> bool {
        let unexpected = self.places.iter_mut().flatten().filter_map(|place| {
            let waiting = place.waiting.as_ref()?;
            (waiting.origin == origin).then_some((waiting.order, &mut place.fences))
        });
        hold(unexpected, order, fences)
    }

    /// Operations of `origin` that are told of when its messages are wanted.
    pub(crate) fn known(&self, origin: Endpoint) -> u64 {
        let places = self.places.iter().flatten();
        let own = places.filter_map(|place| Some((place.waiting.as_ref()?, place.fences)));
        own.filter(|(waiting, _)| waiting.origin == origin).fold(0, |known, (waiting, fences)| {
            let told = matches!(waiting.data, Data::There(_) | Data::Here { owes: Owes::Both, .. });
            known | fences | if told { bit_of(waiting.message).unwrap_or(0) } else { 0 }
        })
    }

    /// Whether there are places, with room for `len` bytes each.
    pub(crate) fn have_room(&self, len: usize) -> bool {
        self.places.iter().flatten().any(|place| len <= place.buffer.len())
    }

    /// Whether a place is free that has room for `len` bytes.
    pub(crate) fn has_free(&self, len: usize) -> bool {
        self.places.iter().flatten().any(|place| place.waiting.is_none() && len <= place.buffer.len())
    }

    /// A free place whose buffer has room for `len` bytes.
    pub(crate) fn free(&mut self, len: usize) -> Option<(u8, &mut UnexpectedSlot)> {
        let mut places = self.places.iter_mut().zip(0u8..);
        places.find_map(|(place, number)| {
            let place = place.as_mut()?;
            (place.waiting.is_none() && len <= place.buffer.len()).then_some((number, place))
        })
    }

    pub(crate) fn find(&mut self, id: UnexpectedId) -> Option<&mut UnexpectedSlot> {
        self.places
            .iter_mut()
            .flatten()
            .find(|place| place.waiting.as_ref().is_some_and(|waiting| waiting.order == id.0))
    }

    /// Data of an eager message, from `offset` on.
    pub(crate) fn store(&mut self, place: u8, offset: usize, data: &[u8]) {
        let Some(Some(place)) = self.places.get_mut(usize::from(place)) else { return };
        if let Some(room) = place.buffer.as_mut_slice().get_mut(offset..offset + data.len()) {
            room.copy_from_slice(data);
        }
        if let Some(Waiting { data: Data::Here { received, .. }, .. }) = &mut place.waiting {
            *received = (offset + data.len()) as u32;
        }
    }

    /// No more data of an eager message comes.
    pub(crate) fn stored(&mut self, place: u8, len: u32, outcome: Result<(), OperationError>) {
        let Some(Some(place)) = self.places.get_mut(usize::from(place)) else { return };
        if let Some(Waiting { data: Data::Here { received, result, .. }, total, .. }) = &mut place.waiting {
            (*received, *result) = (len, outcome);
            // A sender that stopped in the middle sends no more of it.
            if outcome.is_ok() && len < *total {
                *total = len;
            }
        }
    }
}

impl Waiting {
    /// `None` if the header is longer than any that `pami` sends; such a message is dropped before.
    pub(crate) fn new(envelope: &Envelope, order: u64, header: &[u8], data: Data) -> Option<Self> {
        let Envelope { origin, dispatch, message, total, .. } = *envelope;
        Some(Self { order, origin, dispatch, message, total, header: Vec::from_slice(header).ok()?, data })
    }

    /// As it arrived.
    pub(crate) fn envelope(&self, target: Endpoint) -> Envelope {
        let Self { origin, dispatch, message, total, .. } = *self;
        Envelope { kind: Kind::Rts, dispatch, origin, target, message, offset: 0, total }
    }
}
