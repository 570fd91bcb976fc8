//! Messages that came before anybody wanted them (SPEC P-6).
//!
//! A handler that has no buffer yet says [`Receive::Later`]. The message then waits in one of the context's kept places: its
//! header, and of an eager message the data; that of a rendezvous stays where it is. The job looks through
//! [`Active::kept`] when it wants a message, and accepts or discards it.

use crate::context::Active;
use crate::device::Port;
use crate::dispatch::{Message, OnReceived, Receive, Received};
use crate::endpoint::Endpoint;
use crate::error::{OperationError, SendError};
use crate::packet::{Envelope, Kind};
use crate::receive::Sink;
use crate::reception::Stage;
use crate::region::RegionId;
use crate::send::HEADER_LIMIT;
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
    Here { received: u32, acked: bool, result: Result<(), OperationError> },
}

/// A place for a message.
pub(crate) struct KeptPlace {
    buffer: Buffer,
    waiting: Option<Waiting>,
}

impl KeptPlace {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self { buffer, waiting: None }
    }
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

    /// Whether a message of `origin` is kept that came before the arrival with this number.
    pub(crate) fn has_older(&self, origin: Endpoint, order: u64) -> bool {
        self.waiting().any(|waiting| waiting.origin == origin && waiting.order < order)
    }

    /// Whether there are places, with room for `len` bytes each.
    fn have_room(&self, len: usize) -> bool {
        self.places.iter().flatten().any(|place| len <= place.buffer.len())
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
    /// Whether [`Receive::Later`] can do for `message` once a place is free: for a rendezvous, and for an eager message that
    /// is no longer than a place. Any other waits until its handler does something else with it, whoever sent it.
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
        match waiting.data {
            Data::There(region) => {
                let envelope = waiting.envelope(self.me);
                self.begin_pull(number, &envelope, waiting.order, region, Receive::Into(buffer, then));
            }
            Data::Here { received, acked, result } => {
                let mut buffer = buffer;
                let len = buffer.len().min(received as usize);
                buffer.as_mut_slice()[..len].copy_from_slice(&place.buffer.as_slice()[..len]);
                if received < waiting.total && result.is_ok() {
                    // The rest goes straight there.
                    self.redirect(waiting.origin, Sink::Into(buffer, then), acked);
                    return Ok(());
                }
                let (origin, total) = (waiting.origin, waiting.total as usize);
                let received = Received { origin, buffer, len, total, result, cookie: then.cookie };
                let answer = (acked && result.is_ok()).then_some(Kind::Ack);
                self.begin_answer(number, &waiting, answer, Stage::Deliver(received, then));
            }
        }
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
        match waiting.data {
            Data::There(_) => self.begin_answer(number, &waiting, Some(Kind::Pulled), Stage::Answer),
            Data::Here { received, acked, result: Ok(()) } if received < waiting.total => {
                self.redirect(waiting.origin, Sink::Discard, acked);
            }
            Data::Here { acked: true, result: Ok(()), .. } => {
                self.begin_answer(number, &waiting, Some(Kind::Ack), Stage::Answer);
            }
            Data::Here { .. } => {}
        }
        Ok(())
    }

    /// Lets the rest of a message that is half-way go elsewhere.
    fn redirect(&mut self, origin: Endpoint, sink: Sink<P>, acked: bool) {
        if let Some(mut partial) = self.incoming.take(origin) {
            (partial.sink, partial.acked) = (sink, acked);
            // It had a place a moment ago.
            self.incoming.put(partial);
        }
    }

    /// Begins a reception of which only the callback and the answer are left.
    fn begin_answer(&mut self, number: u8, waiting: &Waiting, answer: Option<Kind>, stage: Stage<P>) {
        self.receive_at(number, &waiting.envelope(self.me), waiting.order, answer, stage);
    }

    /// Finds a place for an eager message.
    pub(crate) fn keep_eager(&mut self, envelope: &Envelope, header: &[u8]) -> Option<u8> {
        let order = self.next_order();
        let (number, place) = self.kept.free(envelope.total as usize)?;
        let data = Data::Here { received: 0, acked: envelope.kind == Kind::FirstAcked, result: Ok(()) };
        place.waiting = Some(Waiting::new(envelope, order, header, data)?);
        Some(number)
    }

    /// Keeps a rendezvous. Returns `false` if no place is free.
    pub(crate) fn keep_rendezvous(&mut self, envelope: &Envelope, header: &[u8], region: RegionId) -> bool {
        let order = self.next_order();
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
