//! Messages that came before anybody wanted them (SPEC P-6).
//!
//! A handler of an id that was registered for it has no buffer yet, and says so. The message then waits in one of the
//! context's kept places: its header, and of an eager message the data; that of a rendezvous stays where it is. The job looks
//! through [`Active::kept`] when it wants a message, and accepts or discards it. When no place is free the message stays with
//! its origin, and its handler is asked again ([`crate::admission`]).

use crate::context::{Active, OnReceived, Receive};
use crate::device::Port;
use crate::dispatch::{Message, Received};
use crate::endpoint::Endpoint;
use crate::error::{OperationError, SendError};
use crate::packet::{Envelope, HEADER_LIMIT, Kind};
use crate::receive::{Owes, Sink};
use crate::reception::{Answer, Stage};
use crate::region::RegionId;
use heapless::Vec;
use rings::buffer::Buffer;

/// Most kept places of a context.
pub const KEPT_LIMIT: usize = 64;

/// Name of a kept message in its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptId(u64);

/// A kept message.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Its name.
    pub id: KeptId,
    /// Who sent it.
    pub origin: Endpoint,
    /// The dispatch id that it was sent to.
    pub dispatch: u8,
    /// The sender's header, whole.
    pub header: &'a [u8],
    /// Bytes of data in the whole message.
    pub total: usize,
}

/// What is known of a kept message.
struct Waiting {
    order: u64,
    origin: Endpoint,
    dispatch: u8,
    message: u32,
    total: u32,
    header: Vec<u8, HEADER_LIMIT>,
    data: Data,
}

/// Where the data of a kept message is.
enum Data {
    /// At the origin.
    There(RegionId),
    /// In the place's buffer, as far as it has come.
    Here { received: u32, owes: Owes, result: Result<(), OperationError> },
}

/// A place for a message.
pub(crate) struct KeptPlace {
    buffer: Buffer,
    waiting: Option<Waiting>,
    /// Fences of its origin that wait behind it, by their places there.
    fences: u64,
}

impl KeptPlace {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self { buffer, waiting: None, fences: 0 }
    }
}

/// Lets fences wait behind the last of one origin's kept messages that came before `order`. Returns whether there is one.
pub(crate) fn hold<'a>(kept: impl Iterator<Item = (u64, &'a mut u64)>, order: u64, fences: u64) -> bool {
    let last = kept.filter(|&(other, _)| other < order).max_by_key(|&(other, _)| other);
    last.map(|(_, waiting)| *waiting |= fences).is_some()
}

/// The kept places of one context.
pub(crate) struct KeptPlaces {
    places: &'static mut [Option<KeptPlace>],
}

impl KeptPlaces {
    pub(crate) fn new(places: &'static mut [Option<KeptPlace>]) -> Self {
        Self { places }
    }

    pub(crate) fn into_places(self) -> &'static mut [Option<KeptPlace>] {
        self.places
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting().next().is_none()
    }

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.places.iter().flatten().filter_map(|place| place.waiting.as_ref())
    }

    /// Lets fences of `origin` wait behind the last of its messages that came before `order`. Returns whether there is one.
    pub(crate) fn hold_fences(&mut self, origin: Endpoint, order: u64, fences: u64) -> bool {
        let kept = self.places.iter_mut().flatten().filter_map(|place| {
            let waiting = place.waiting.as_ref()?;
            (waiting.origin == origin).then_some((waiting.order, &mut place.fences))
        });
        hold(kept, order, fences)
    }

    /// Whether there are places, with room for `len` bytes each.
    fn have_room(&self, len: usize) -> bool {
        self.places.iter().flatten().any(|place| len <= place.buffer.len())
    }

    /// Whether a place is free that has room for `len` bytes.
    pub(crate) fn has_free(&self, len: usize) -> bool {
        self.places.iter().flatten().any(|place| place.waiting.is_none() && len <= place.buffer.len())
    }

    /// A free place whose buffer has room for `len` bytes.
    fn free(&mut self, len: usize) -> Option<(u8, &mut KeptPlace)> {
        let mut places = self.places.iter_mut().zip(0u8..);
        places.find_map(|(place, number)| {
            let place = place.as_mut()?;
            (place.waiting.is_none() && len <= place.buffer.len()).then_some((number, place))
        })
    }

    fn find(&mut self, id: KeptId) -> Option<&mut KeptPlace> {
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

impl<P: Port> Active<P> {
    /// Whether `message` can be kept once a place is free: a rendezvous, and an eager message that is no longer than a place.
    /// Any other stays with its origin until its handler does something else with it.
    pub fn can_keep(&self, message: &Message<'_>) -> bool {
        let rendezvous = message.data.is_empty();
        self.kept.have_room(if rendezvous { 0 } else { message.total })
    }

    /// The messages that are kept, in the order of their arrival.
    pub fn kept(&self) -> impl Iterator<Item = Kept<'_>> {
        let mut waiting: Vec<&Waiting, KEPT_LIMIT> = self.kept.waiting().take(KEPT_LIMIT).collect();
        waiting.sort_unstable_by_key(|waiting| waiting.order);
        waiting.into_iter().map(|waiting| Kept {
            id: KeptId(waiting.order),
            origin: waiting.origin,
            dispatch: waiting.dispatch,
            header: &waiting.header,
            total: waiting.total as usize,
        })
    }

    /// Takes a kept message: its data goes into `buffer` and then to the callback, as with [`Receive::Into`]. The callback is
    /// not called before the next advance.
    ///
    /// # Errors
    /// The buffer comes back with [`SendError::NotKept`], or [`SendError::Again`] if too many receptions are under way.
    pub fn accept(
        &mut self,
        id: KeptId,
        buffer: Buffer,
        then: OnReceived<P>,
    ) -> Result<(), (SendError, Buffer)> {
        let Some(number) = self.receptions.free_place() else { return Err((SendError::Again, buffer)) };
        let Some(place) = self.kept.find(id) else { return Err((SendError::NotKept, buffer)) };
        let Some(waiting) = place.waiting.take() else { return Err((SendError::NotKept, buffer)) };
        let fences = core::mem::take(&mut place.fences);
        match waiting.data {
            Data::There(region) => {
                let envelope = waiting.envelope(self.transport.me);
                self.begin_pull(number, &envelope, waiting.order, region, Receive::Into(buffer, then));
            }
            Data::Here { received, owes, result } => {
                let mut buffer = buffer;
                let len = buffer.len().min(received as usize);
                buffer.as_mut_slice()[..len].copy_from_slice(&place.buffer.as_slice()[..len]);
                if received < waiting.total && result.is_ok() {
                    // The rest goes straight there.
                    self.redirect(waiting.origin, Sink::Into(buffer, then));
                } else {
                    let Waiting { origin, order, message, total, .. } = waiting;
                    let total = total as usize;
                    let received = Received { origin, buffer, len, total, result, cookie: then.cookie };
                    let answer = (owes == Owes::Both && result.is_ok()).then_some(Answer::Ack(message));
                    self.receive_at(number, origin, order, answer, Stage::Deliver(received, then));
                }
            }
        }
        self.has_taken(waiting.origin, waiting.order, fences);
        Ok(())
    }

    /// Drops a kept message.
    ///
    /// # Errors
    /// [`SendError::NotKept`], or [`SendError::Again`] if too many receptions are under way to tell its sender.
    pub fn discard(&mut self, id: KeptId) -> Result<(), SendError> {
        let number = self.receptions.free_place().ok_or(SendError::Again)?;
        let place = self.kept.find(id).ok_or(SendError::NotKept)?;
        let waiting = place.waiting.take().ok_or(SendError::NotKept)?;
        let fences = core::mem::take(&mut place.fences);
        let Waiting { origin, order, message, total, .. } = waiting;
        match waiting.data {
            Data::There(_) => {
                self.receive_at(number, origin, order, Some(Answer::Pulled(message)), Stage::Answer);
            }
            Data::Here { received, result: Ok(()), .. } if received < total => {
                self.redirect(origin, Sink::Discard);
            }
            Data::Here { owes: Owes::Both, result: Ok(()), .. } => self.owe_ack(origin, message),
            Data::Here { .. } => {}
        }
        self.has_taken(origin, order, fences);
        Ok(())
    }

    /// A kept message has left its place, which others may want. The fences behind it wait for older ones, if there are.
    fn has_taken(&mut self, origin: Endpoint, order: u64, fences: u64) {
        self.acks.note_room();
        if fences != 0 && !self.kept.hold_fences(origin, order, fences) {
            // Its own callback may still have to be called.
            let now = self.transport.next_order();
            self.owe_fences(origin, fences, now);
        }
    }

    /// Lets the rest of a message that is half-way go elsewhere. At its end it is more than kept.
    fn redirect(&mut self, origin: Endpoint, sink: Sink<P>) {
        if let Some(mut partial) = self.incoming.take(origin) {
            partial.sink = sink;
            partial.owes = if partial.owes == Owes::Nothing { Owes::Nothing } else { Owes::Ack };
            // It had a place a moment ago.
            self.incoming.put(partial);
        }
    }

    /// Finds a place for an eager message.
    pub(crate) fn keep_eager(&mut self, envelope: &Envelope, header: &[u8]) -> Option<u8> {
        let order = self.transport.next_order();
        let (number, place) = self.kept.free(envelope.total as usize)?;
        let data = Data::Here { received: 0, owes: Owes::kept(envelope.kind), result: Ok(()) };
        place.waiting = Some(Waiting::new(envelope, order, header, data)?);
        Some(number)
    }

    /// Keeps a rendezvous. Returns `false` if no place is free.
    pub(crate) fn keep_rendezvous(&mut self, envelope: &Envelope, header: &[u8], region: RegionId) -> bool {
        let order = self.transport.next_order();
        let Some((_, place)) = self.kept.free(0) else { return false };
        place.waiting = Waiting::new(envelope, order, header, Data::There(region));
        true
    }
}

impl Waiting {
    /// `None` if the header is longer than any that `pami` sends; such a message is dropped before.
    fn new(envelope: &Envelope, order: u64, header: &[u8], data: Data) -> Option<Self> {
        let Envelope { origin, dispatch, message, total, .. } = *envelope;
        Some(Self { order, origin, dispatch, message, total, header: Vec::from_slice(header).ok()?, data })
    }

    /// As it arrived.
    fn envelope(&self, target: Endpoint) -> Envelope {
        let Self { origin, dispatch, message, total, .. } = *self;
        Envelope { kind: Kind::Rts, dispatch, origin, target, message, offset: 0, total }
    }
}
