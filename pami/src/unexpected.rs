//! Messages that came before anybody wanted them (SPEC P-6).
//!
//! A handler of an id that was registered for it has no buffer yet, and says so. The message then waits in one of the
//! context's places of the unexpected queue: its header, and of an eager message the data, which lies in memory that all of them
//! share; that of a rendezvous stays where it is, so what is longer than that memory goes by one. The job looks through [`Active::unexpected`](crate::Active::unexpected) when it wants a message, and accepts or
//! discards it. When there is no place, or no room, the message stays with its origin, and its handler is asked again
//! ([`crate::admission`]).

use crate::acks::bit_of;
use crate::dispatch::OnReceived;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::object::{Loan, WaitingLine, caller_memory};
use crate::packet::{Envelope, HEADER_LIMIT, Kind};
use crate::receive::Owes;
use crate::region::RemoteData;
use heapless::Vec;
use rings::buffer::Buffer;
use rings::first_fit::first_fit;

/// Most places of the unexpected queue of a context.
pub const UNEXPECTED_LIMIT: usize = 64;
/// What the data of one begins at a multiple of.
const ALIGNMENT: usize = 8;

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
    /// As the packet had it.
    pub(crate) dispatch: u8,
    pub(crate) message: u32,
    pub(crate) total: u32,
    pub(crate) header: Vec<u8, HEADER_LIMIT>,
    pub(crate) data: Data,
    /// Somebody has accepted it and waits for a receive request.
    pub(crate) claimed: bool,
}

/// What is to become of a message once there is a receive request for it.
pub(crate) struct Acceptance<A: 'static> {
    pub(crate) id: UnexpectedId,
    pub(crate) buffer: Buffer,
    pub(crate) then: OnReceived<A>,
}

caller_memory! {
    /// Memory for the object of one reception, the caller's: an instruction to accept a message that is passed it never fails
    /// with [`SendError::Again`](crate::SendError::Again). What is in it is nobody else's matter. 80 bytes, of alignment 8, on
    /// machines of 64 bits.
    ///
    /// The object lies in it until the context has a place for a receive request. It is free again then, before the callback at
    /// the latest.
    AcceptMemory, Acceptance<A>
}

/// Where the data of an unexpected message is.
pub(crate) enum Data {
    /// At the origin.
    There(RemoteData),
    /// In the queue's memory from `start` on, as far as it has come.
    Here { start: u32, received: u32, owes: Owes, result: Result<(), OperationError> },
}

/// A place for a message.
#[derive(Default)]
pub(crate) struct UnexpectedSlot {
    waiting: Option<Waiting>,
    /// Fences of its origin that wait behind it, by their places there.
    fences: u64,
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

/// The unexpected queue of one context: places, and memory for what lies here.
pub(crate) struct UnexpectedQueue<A: 'static> {
    places: &'static mut [UnexpectedSlot],
    data: &'static mut [u8],
    /// Those that are accepted and wait for a receive request. While there are any, none is free.
    accepted: WaitingLine<Acceptance<A>>,
}

impl<A: 'static> UnexpectedQueue<A> {
    /// Takes at most [`UNEXPECTED_LIMIT`] places, and less than 4 GiB.
    pub(crate) fn new(places: &'static mut [UnexpectedSlot], data: &'static mut [u8]) -> Self {
        Self { places, data, accepted: WaitingLine::EMPTY }
    }

    pub(crate) fn into_parts(self) -> (&'static mut [UnexpectedSlot], &'static mut [u8]) {
        (self.places, self.data)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting().next().is_none()
    }

    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Waiting> + Clone {
        self.places.iter().filter_map(|place| place.waiting.as_ref())
    }

    /// Lets fences of `origin` wait behind the last of its messages that came before `order`. Returns whether there is one.
    pub(crate) fn hold_fences(&mut self, origin: Endpoint, order: u64, fences: u64) -> bool {
        let unexpected = self.places.iter_mut().filter_map(|place| {
            let waiting = place.waiting.as_ref()?;
            (waiting.origin == origin).then_some((waiting.order, &mut place.fences))
        });
        hold(unexpected, order, fences)
    }

    /// Operations of `origin` that are told of when its messages are wanted.
    pub(crate) fn known(&self, origin: Endpoint) -> u64 {
        let own = self.places.iter().filter_map(|place| Some((place.waiting.as_ref()?, place.fences)));
        own.filter(|(waiting, _)| waiting.origin == origin).fold(0, |known, (waiting, fences)| {
            let told = matches!(waiting.data, Data::There(_) | Data::Here { owes: Owes::Both, .. });
            known | fences | if told { bit_of(waiting.message).unwrap_or(0) } else { 0 }
        })
    }

    /// Whether `len` bytes have room while nothing is kept.
    pub(crate) fn have_room(&self, len: usize) -> bool {
        !self.places.is_empty() && len <= self.data.len()
    }

    /// Whether data of `len` bytes is kept only where it is, with its sender.
    pub(crate) fn leaves(&self, len: usize) -> bool {
        len > self.data.len() && !self.places.is_empty()
    }

    /// Whether a place is free now, and room for `len` bytes.
    pub(crate) fn has_free(&self, len: usize) -> bool {
        self.places.iter().any(|place| place.waiting.is_none()) && self.room(len).is_some()
    }

    /// Where `len` bytes have room.
    fn room(&self, len: usize) -> Option<usize> {
        let used = self.waiting().filter_map(|waiting| match waiting.data {
            Data::Here { start, .. } => Some(start as usize..start as usize + waiting.total as usize),
            Data::There(_) => None,
        });
        first_fit(len, self.data.len(), ALIGNMENT, used)
    }

    /// Keeps an eager message, whose data is to come. Returns its place; `None` if there is no room.
    pub(crate) fn keep_eager(&mut self, envelope: &Envelope, order: u64, header: &[u8]) -> Option<u8> {
        let start = self.room(envelope.total as usize)? as u32;
        let data = Data::Here { start, received: 0, owes: Owes::unexpected(envelope.kind), result: Ok(()) };
        self.keep(Waiting::new(envelope, order, header, data)?)
    }

    /// Keeps a message. Returns its place; `None` if none is free.
    pub(crate) fn keep(&mut self, waiting: Waiting) -> Option<u8> {
        let number = self.places.iter().position(|place| place.waiting.is_none())?;
        self.places[number].waiting = Some(waiting);
        Some(number as u8)
    }

    fn find(&mut self, id: UnexpectedId) -> Option<&mut UnexpectedSlot> {
        let is_it = |place: &&mut UnexpectedSlot| place.waiting.as_ref().is_some_and(|it| it.order == id.0);
        self.places.iter_mut().find(is_it)
    }

    /// Has a message that nobody has accepted wait for a receive request, in the caller's memory. Returns the acceptance if there is
    /// no such message.
    pub(crate) fn claim(
        &mut self,
        memory: &'static AcceptMemory<A>,
        mut loan: Loan<Acceptance<A>>,
        acceptance: Acceptance<A>,
    ) -> Result<(), Acceptance<A>> {
        let waiting = self.find(acceptance.id).and_then(|place| place.waiting.as_mut());
        let Some(waiting) = waiting.filter(|waiting| !waiting.claimed) else { return Err(acceptance) };
        waiting.claimed = true;
        *loan = Some(acceptance);
        drop(loan);
        self.accepted.push(&memory.0);
        Ok(())
    }

    /// Whether any is accepted and waits for a receive request.
    #[inline]
    pub(crate) fn has_accepted(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// The one that has waited longest; it is to be accepted now.
    pub(crate) fn next_accepted(&mut self) -> Option<Acceptance<A>> {
        let acceptance = self.accepted.pop()?.resume().take()?;
        let waiting = self.find(acceptance.id).and_then(|place| place.waiting.as_mut());
        if let Some(waiting) = waiting {
            waiting.claimed = false;
        }
        Some(acceptance)
    }

    /// Takes a message out that nobody has accepted, and the fences that wait behind it. What lies here of its data stays until another is kept.
    pub(crate) fn take(&mut self, id: UnexpectedId) -> Option<(Waiting, u64)> {
        let place = self.find(id)?;
        Some((place.waiting.take_if(|waiting| !waiting.claimed)?, core::mem::take(&mut place.fences)))
    }

    /// The first `len` bytes of data that lies here from `start` on.
    pub(crate) fn data(&self, start: u32, len: usize) -> &[u8] {
        self.data.get(start as usize..start as usize + len).unwrap_or_default()
    }

    /// Data of an eager message, from `offset` on.
    pub(crate) fn store(&mut self, place: u8, offset: usize, data: &[u8]) {
        let place = self.places.get_mut(usize::from(place)).and_then(|place| place.waiting.as_mut());
        let Some(Waiting { data: Data::Here { start, received, .. }, total, .. }) = place else { return };
        // No more than there was room for.
        let (at, end) = (*start as usize + offset, offset + data.len());
        if end <= *total as usize
            && let Some(room) = self.data.get_mut(at..at + data.len())
        {
            room.copy_from_slice(data);
            *received = end as u32;
        }
    }

    /// No more data of an eager message comes.
    pub(crate) fn stored(&mut self, place: u8, len: u32, outcome: Result<(), OperationError>) {
        let place = self.places.get_mut(usize::from(place)).and_then(|place| place.waiting.as_mut());
        if let Some(Waiting { data: Data::Here { received, result, .. }, total, .. }) = place {
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
        Some(Self {
            order,
            origin,
            dispatch,
            message,
            total,
            header: Vec::from_slice(header).ok()?,
            data,
            claimed: false,
        })
    }

    /// As it arrived.
    pub(crate) fn envelope(&self, target: Endpoint) -> Envelope {
        let Self { origin, dispatch, message, total, .. } = *self;
        Envelope { kind: Kind::Rts, dispatch, origin, target, message, offset: 0, total }
    }
}
