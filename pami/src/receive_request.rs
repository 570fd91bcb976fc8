//! Receive requests that take more than one advance: data that is pulled, callbacks and answers that are owed (SPEC P-6, F-2).
//!
//! A receive request has one of the context's places until its origin has been told what it waits for. It never needs the
//! application to go on. When all places are taken messages are refused ([`crate::admission`]). Data that is not wanted in
//! one piece in a buffer is pulled in pieces into the context's own landing memory, one receive request at a time, and from
//! there goes where that of eager messages goes.

use crate::device::{OPERATIONS, Path, Port, REQUESTS};
use crate::dispatch::OnReceived;
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::packet::{Envelope, Kind};
use crate::receive::Partial;
use crate::region::RegionId;
use heapless::Vec;
use rings::shared::Shared;

/// Receive requests of one context that can be under way at once.
pub const RECEIVE_REQUESTS: usize = REQUESTS - OPERATIONS;
/// Most receive requests of one origin: fewer than the requests that a message unit has under way to one node, so those to an
/// origin that does not move leave the injection FIFO.
const MOST_OF_ONE: usize = 16;
/// Bytes that are pulled at once of data that is wanted in pieces.
pub(crate) const LANDING_BYTES: usize = 32 << 10;

const _: () =
    assert!(RECEIVE_REQUESTS <= OPERATIONS && RECEIVE_REQUESTS <= u64::BITS as usize, "one bit for each");

/// What is left to be done for a receive request.
pub(crate) enum Stage<A: 'static> {
    /// `len` bytes of the origin's region go into the memory, then to the callback.
    Whole { region: RegionId, into: Shared, len: u32, total: u32, then: OnReceived<A> },
    /// All of it goes piece by piece to the sink. The landing memory is this receive request's while a piece is under way.
    Pieces { region: RegionId, partial: Partial<A>, landing: Option<(Shared, u32)> },
    /// The callback has to be called.
    Deliver(Received, OnReceived<A>),
    /// The get of nothing has to be queued.
    FenceAsks,
    /// The get of nothing has not ended.
    FenceAsked,
    /// The origin has to be told.
    Answer,
}

/// What an origin is told at the end of a receive request.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// The data of the rendezvous with this number is its sender's again.
    RendezvousDone(u32),
    /// It has the eager message with this number.
    Ack(u32),
    /// All that came before these fences is done.
    Fences(u64),
}

/// A receive request's state.
pub(crate) struct ReceiveRequest<A: 'static> {
    pub(crate) origin: Endpoint,
    /// Place in the order of arrivals.
    pub(crate) order: u64,
    /// What the origin is told at the end.
    pub(crate) answer: Option<Answer>,
    /// How the get that is under way ended.
    pub(crate) ended: Option<Result<(), OperationError>>,
    pub(crate) stage: Stage<A>,
}

/// Receive requests that an origin may begin which has so many of its own, while so many places are free.
pub(crate) fn share(free: usize, own: usize) -> usize {
    free.min(MOST_OF_ONE).saturating_sub(own)
}

/// One place for a receive request; its size is what a context's memory is reckoned by.
pub(crate) type Place<A> = Option<ReceiveRequest<A>>;

/// The receive requests of one context.
pub(crate) struct ReceiveRequests<A: 'static> {
    places: &'static mut [Place<A>],
    /// Bit set of places in use.
    used: u64,
    /// Those that have something to queue, in that order.
    line: Vec<u8, RECEIVE_REQUESTS>,
    /// Bit set of those that something has become of.
    settling: u64,
    /// Memory for pieces, while no receive request has it.
    landing: Option<Shared>,
}

impl<A: 'static> ReceiveRequests<A> {
    /// Takes at most [`RECEIVE_REQUESTS`] places, and [`LANDING_BYTES`] of memory.
    pub(crate) fn new(places: &'static mut [Place<A>], landing: Option<Shared>) -> Self {
        Self { places, used: 0, line: Vec::new(), settling: 0, landing }
    }

    pub(crate) fn into_parts(self) -> (&'static mut [Place<A>], Option<Shared>) {
        (self.places, self.landing)
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn free_place(&self) -> Option<u8> {
        let number = (!self.used).trailing_zeros() as usize;
        (number < self.places.len()).then_some(number as u8)
    }

    /// Whether there is a place for a message of `origin`, which may have half of those that others leave.
    pub(crate) fn has_room_for(&self, origin: Endpoint) -> bool {
        self.room_for(origin) > 0
    }

    /// Whether so much room has come back that what was refused is worth sending again: not one place at a time.
    pub(crate) fn has_much_room_for(&self, origin: Endpoint) -> bool {
        self.room_for(origin) > self.own(origin)
    }

    pub(crate) fn own(&self, origin: Endpoint) -> usize {
        self.iter().filter(|request| request.origin == origin).count()
    }

    /// Receive requests that `origin` may begin.
    pub(crate) fn room_for(&self, origin: Endpoint) -> usize {
        share(self.places.len() - self.used.count_ones() as usize, self.own(origin))
    }

    /// Whether the callback of a message of `origin` is still to be called that came before the arrival with this number.
    pub(crate) fn delivers_older(&self, origin: Endpoint, order: u64) -> bool {
        self.iter().any(|request| {
            request.origin == origin && request.order < order && matches!(request.stage, Stage::Deliver(..))
        })
    }

    /// Keeps a free place from being taken.
    pub(crate) fn reserve(&mut self, number: u8) {
        self.used |= 1 << number;
    }

    /// Begins one at a place that is free or reserved for it: it stands in line, or settles if it has ended.
    pub(crate) fn begin(&mut self, number: u8, request: ReceiveRequest<A>) {
        self.reserve(number);
        if request.ended.is_some() {
            self.settling |= 1 << number;
            self.put(number, request);
        } else {
            self.line_up(number, request);
        }
    }

    /// Puts one in its place that has something to queue.
    pub(crate) fn line_up(&mut self, number: u8, request: ReceiveRequest<A>) {
        self.settling &= !(1 << number);
        // As long as there are receive requests.
        let _ = self.line.push(number);
        self.put(number, request);
    }

    /// Whether any has something to queue.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.line.is_empty()
    }

    /// Those that stand in line, while they are gone through.
    pub(crate) fn take_line(&mut self) -> Vec<u8, RECEIVE_REQUESTS> {
        core::mem::take(&mut self.line)
    }

    /// Those that are left in it.
    pub(crate) fn keep_line(&mut self, line: Vec<u8, RECEIVE_REQUESTS>) {
        self.line = line;
    }

    /// Bit set of those that something has become of.
    pub(crate) fn settling(&self) -> u64 {
        self.settling
    }

    /// The get that is under way has ended.
    pub(crate) fn end(&mut self, number: u8, result: Result<(), OperationError>) {
        if let Some(request) = self.get_mut(number) {
            request.ended = Some(result);
            self.settling |= 1 << number;
        }
    }

    /// Its origin died: nothing more comes, and nobody is to be told. Returns whether nothing is left to be done.
    pub(crate) fn abandon(&mut self, number: u8, error: OperationError) -> bool {
        self.line.retain(|&other| other != number);
        let Some(request) = self.get_mut(number) else { return false };
        request.answer = None;
        match request.stage {
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                // One that has ended before is told as it ended.
                request.ended.get_or_insert(Err(error));
                self.settling |= 1 << number;
                false
            }
            Stage::Deliver(..) => false,
            _ => true,
        }
    }

    /// Queues what it has to send. `envelope` is that of a get of nothing. Returns whether the packet was queued; `None` if not
    /// for want of landing memory.
    pub(crate) fn push<P: Port>(
        &mut self,
        number: u8,
        port: &mut P,
        path: Path,
        mut envelope: Envelope,
    ) -> Option<bool> {
        let request = self.places.get_mut(usize::from(number))?.as_mut()?;
        let queued = match (&mut request.stage, path) {
            (Stage::Whole { region, into, len, .. }, Path::Torus(node)) => {
                envelope.total = *len;
                port.push_get(node, &envelope, *region, Some((into, 0)), true).is_ok()
            }
            (Stage::Pieces { region, partial, landing }, Path::Torus(node)) => {
                envelope.offset = partial.received;
                envelope.total = (partial.total - partial.received).min(LANDING_BYTES as u32);
                let into = Some((self.landing.as_ref()?, 0));
                let queued = port.push_get(node, &envelope, *region, into, true).is_ok();
                if queued {
                    *landing = self.landing.take().map(|memory| (memory, envelope.total));
                }
                queued
            }
            (stage @ Stage::FenceAsks, Path::Torus(node)) => {
                let queued = port.push_get(node, &envelope, RegionId::NONE, None, true).is_ok();
                if queued {
                    *stage = Stage::FenceAsked;
                }
                queued
            }
            (Stage::Answer, path) => match request.answer {
                None | Some(Answer::Ack(_)) => true,
                Some(Answer::RendezvousDone(message)) => {
                    let envelope = Envelope { kind: Kind::RendezvousDone, message, ..envelope };
                    port.push_bcopy(path, &envelope, &[], &[]).is_ok()
                }
                Some(Answer::Fences(set)) => {
                    let envelope = Envelope { kind: Kind::FenceAck, message: 0, ..envelope };
                    port.push_bcopy(path, &envelope, &[], &set.to_le_bytes()).is_ok()
                }
            },
            _ => true,
        };
        Some(queued)
    }

    /// No receive request has the memory for pieces any more.
    pub(crate) fn return_landing(&mut self, memory: Shared) {
        self.landing = Some(memory);
    }

    pub(crate) fn get(&self, number: u8) -> Option<&ReceiveRequest<A>> {
        self.places.get(usize::from(number))?.as_ref()
    }

    fn get_mut(&mut self, number: u8) -> Option<&mut ReceiveRequest<A>> {
        self.places.get_mut(usize::from(number))?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &ReceiveRequest<A>> {
        self.places.iter().flatten()
    }

    pub(crate) fn take(&mut self, number: u8) -> Option<ReceiveRequest<A>> {
        self.places.get_mut(usize::from(number))?.take()
    }

    pub(crate) fn put(&mut self, number: u8, request: ReceiveRequest<A>) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            *place = Some(request);
        }
    }

    pub(crate) fn free(&mut self, number: u8) {
        let keep = !(1 << number);
        self.used &= keep;
        self.settling &= keep;
        self.take(number);
    }
}
