//! Receptions that take more than one advance: data that is pulled, callbacks and answers that are owed (SPEC P-6, F-2).
//!
//! A reception has one of the context's places until its origin has been told what it waits for. It never needs the
//! application to go on. When all places are taken messages are refused ([`crate::admission`]). Data that is not wanted in one
//! piece in a buffer is pulled in pieces into the context's own landing memory, one reception at a time, and from there goes
//! where that of eager messages goes.

use crate::context::{Active, OnReceived};
use crate::device::{Completed, Path, Port, REQUESTS};
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Blocked, OPERATIONS, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::receive::Partial;
use crate::region::RegionId;
use heapless::Vec;
use rings::shared::Shared;

/// Receptions of one context that can be under way at once.
pub const RECEPTIONS: usize = REQUESTS - OPERATIONS;
/// Most receptions of one origin: fewer than the requests that a message unit has under way to one node, so those to an
/// origin that does not move leave the injection FIFO.
const MOST_OF_ONE: usize = 16;
/// Bytes that are pulled at once of data that is wanted in pieces.
pub(crate) const LANDING_BYTES: usize = 32 << 10;

const _: () = assert!(RECEPTIONS <= OPERATIONS && RECEPTIONS <= u64::BITS as usize, "one bit for each");

/// What is left to be done for a reception.
pub(crate) enum Stage<P: Port> {
    /// `len` bytes of the origin's region go into the memory, then to the callback.
    Whole { region: RegionId, into: Shared, len: u32, total: u32, then: OnReceived<P> },
    /// All of it goes piece by piece to the sink. The landing memory is this reception's while a piece is under way.
    Pieces { region: RegionId, partial: Partial<P>, landing: Option<(Shared, u32)> },
    /// The callback has to be called.
    Deliver(Received, OnReceived<P>),
    /// The get of nothing has to be queued.
    FenceAsks,
    /// The get of nothing has not ended.
    FenceAsked,
    /// The origin has to be told.
    Answer,
}

/// What an origin is told at the end of a reception.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    /// The data of the rendezvous with this number is its sender's again.
    Pulled(u32),
    /// It has the eager message with this number.
    Ack(u32),
    /// All that came before these fences is done.
    Fences(u64),
}

/// A reception's state.
pub(crate) struct Reception<P: Port> {
    pub(crate) origin: Endpoint,
    /// Place in the order of arrivals.
    pub(crate) order: u64,
    /// What the origin is told at the end.
    answer: Option<Answer>,
    /// How the get that is under way ended.
    pub(crate) ended: Option<Result<(), OperationError>>,
    pub(crate) stage: Stage<P>,
}

/// Receptions that an origin may begin which has so many of its own, while so many places are free.
pub(crate) fn share(free: usize, own: usize) -> usize {
    free.min(MOST_OF_ONE).saturating_sub(own)
}

/// One place for a reception; its size is what a context's memory is reckoned by.
pub(crate) type Place<P> = Option<Reception<P>>;

/// The receptions of one context.
pub(crate) struct Receptions<P: Port> {
    places: &'static mut [Place<P>],
    /// Bit set of places in use.
    used: u64,
    /// Those that have something to queue, in that order.
    pub(crate) line: Vec<u8, RECEPTIONS>,
    /// Bit set of those that something has become of.
    settling: u64,
    /// Memory for pieces, while no reception has it.
    landing: Option<Shared>,
}

impl<P: Port> Receptions<P> {
    /// Takes at most [`RECEPTIONS`] places, and [`LANDING_BYTES`] of memory.
    pub(crate) fn new(places: &'static mut [Place<P>], landing: Option<Shared>) -> Self {
        Self { places, used: 0, line: Vec::new(), settling: 0, landing }
    }

    pub(crate) fn into_parts(self) -> (&'static mut [Place<P>], Option<Shared>) {
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

    fn own(&self, origin: Endpoint) -> usize {
        self.iter().filter(|reception| reception.origin == origin).count()
    }

    /// Receptions that `origin` may begin.
    fn room_for(&self, origin: Endpoint) -> usize {
        share(self.places.len() - self.used.count_ones() as usize, self.own(origin))
    }

    /// Whether the callback of a message of `origin` is still to be called that came before the arrival with this number.
    pub(crate) fn delivers_older(&self, origin: Endpoint, order: u64) -> bool {
        self.iter().any(|reception| {
            reception.origin == origin
                && reception.order < order
                && matches!(reception.stage, Stage::Deliver(..))
        })
    }

    /// Keeps a free place from being taken.
    pub(crate) fn reserve(&mut self, number: u8) {
        self.used |= 1 << number;
    }

    pub(crate) fn get(&mut self, number: u8) -> Option<&mut Reception<P>> {
        self.places.get_mut(usize::from(number))?.as_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Reception<P>> {
        self.places.iter().flatten()
    }

    fn take(&mut self, number: u8) -> Option<Reception<P>> {
        self.places.get_mut(usize::from(number))?.take()
    }

    fn put(&mut self, number: u8, reception: Reception<P>) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            *place = Some(reception);
        }
    }

    pub(crate) fn free(&mut self, number: u8) {
        let keep = !(1 << number);
        self.used &= keep;
        self.settling &= keep;
        self.take(number);
    }
}

impl<P: Port> Active<P> {
    /// Begins a reception at a place that is free or reserved for it.
    pub(crate) fn receive_at(
        &mut self,
        number: u8,
        origin: Endpoint,
        order: u64,
        answer: Option<Answer>,
        stage: Stage<P>,
    ) {
        let mut ended = None;
        match &stage {
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                // One that died before is not told of again.
                ended = self.gone_home(origin).map(Err);
                if let Stage::Whole { len: 0, .. } = stage {
                    ended = ended.or(Some(Ok(())));
                }
            }
            Stage::Deliver(..) => ended = Some(Ok(())),
            _ => {}
        }
        if ended.is_some() {
            self.receptions.settling |= 1 << number;
        } else {
            // As long as there are receptions.
            let _ = self.receptions.line.push(number);
        }
        self.receptions.reserve(number);
        self.receptions.put(number, Reception { origin, order, answer, ended, stage });
        self.stir();
    }

    /// Once round the line, as with operations. Returns how many left it.
    pub(crate) fn queue_receptions(&mut self, blocked: &mut Blocked) -> usize {
        if self.receptions.line.is_empty() {
            return 0;
        }
        let mut line = core::mem::take(&mut self.receptions.line);
        let before = line.len();
        line.retain(|&number| !self.queue_reception(number, blocked));
        self.receptions.line = line;
        before - self.receptions.line.len()
    }

    /// Queues what a reception has to send. Returns whether it is.
    fn queue_reception(&mut self, number: u8, blocked: &mut Blocked) -> bool {
        let Some(reception) = self.receptions.get(number) else { return true };
        let origin = reception.origin;
        let path = match reception.stage {
            Stage::Answer => self.transport.locate(origin).ok(),
            _ => self.transport.port.node_of(origin.task()).map(Path::Torus),
        };
        let Some(path) = path else {
            // It died, or never was.
            self.free_reception(number);
            return true;
        };
        if blocked.contains(&path) {
            return false;
        }
        let queued = self.push_for_reception(number, path);
        if queued == Some(false) {
            let _ = blocked.push(path);
        }
        queued == Some(true)
    }

    /// Whether the packet was queued; `None` if not for want of landing memory.
    fn push_for_reception(&mut self, number: u8, path: Path) -> Option<bool> {
        let me = self.transport.me;
        let reception = self.receptions.places.get_mut(usize::from(number))?.as_mut()?;
        let mut envelope = Envelope {
            kind: Kind::Get,
            dispatch: 0,
            origin: me,
            target: reception.origin,
            message: message_number(reception.order, OPERATIONS + usize::from(number)),
            offset: 0,
            total: 0,
        };
        let port = &mut self.transport.port;
        match (&mut reception.stage, path) {
            (Stage::Whole { region, into, len, .. }, Path::Torus(node)) => {
                envelope.total = *len;
                Some(port.push_get(node, &envelope, *region, Some((into, 0)), true).is_ok())
            }
            (Stage::Pieces { region, partial, landing }, Path::Torus(node)) => {
                let memory = self.receptions.landing.take()?;
                envelope.offset = partial.received;
                envelope.total = (partial.total - partial.received).min(LANDING_BYTES as u32);
                let queued = port.push_get(node, &envelope, *region, Some((&memory, 0)), true).is_ok();
                if queued {
                    *landing = Some((memory, envelope.total));
                } else {
                    self.receptions.landing = Some(memory);
                }
                Some(queued)
            }
            (stage @ Stage::FenceAsks, Path::Torus(node)) => {
                let queued = port.push_get(node, &envelope, RegionId::NONE, None, true).is_ok();
                if queued {
                    *stage = Stage::FenceAsked;
                }
                Some(queued)
            }
            (Stage::Answer, path) => {
                let queued = match reception.answer {
                    None | Some(Answer::Ack(_)) => true,
                    Some(Answer::Pulled(message)) => {
                        let envelope = Envelope { kind: Kind::Pulled, message, ..envelope };
                        port.push_copy(path, &envelope, &[], &[]).is_ok()
                    }
                    Some(Answer::Fences(set)) => {
                        let envelope = Envelope { kind: Kind::FenceAck, message: 0, ..envelope };
                        port.push_copy(path, &envelope, &[], &set.to_le_bytes()).is_ok()
                    }
                };
                if queued {
                    self.free_reception(number);
                }
                Some(queued)
            }
            _ => Some(true),
        }
    }

    /// A get of a reception has ended.
    pub(crate) fn pull_ended(&mut self, completed: Completed) {
        let index = completed.message as usize % REQUESTS;
        let number = (index - OPERATIONS) as u8;
        let Some(reception) = self.receptions.get(number) else { return };
        if message_number(reception.order, index) == completed.message {
            reception.ended = Some(completed.result.map(drop).map_err(OperationError::Region));
            self.receptions.settling |= 1 << number;
        }
    }

    /// The origin of a reception died: nothing more comes, and nobody is to be told.
    pub(crate) fn abandon_reception(&mut self, number: u8, error: OperationError) {
        let Some(reception) = self.receptions.get(number) else { return };
        reception.answer = None;
        match reception.stage {
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                // One that has ended before is told as it ended.
                reception.ended.get_or_insert(Err(error));
                self.receptions.settling |= 1 << number;
            }
            Stage::Deliver(..) => {}
            _ => self.free_reception(number),
        }
        self.receptions.line.retain(|&other| other != number);
    }

    /// Goes on with the receptions that something has become of. Returns how many moved.
    pub(crate) fn settle_receptions(&mut self) -> usize {
        bits(self.receptions.settling).filter(|&number| self.settle_reception(number)).count()
    }

    fn settle_reception(&mut self, number: u8) -> bool {
        // While its callback runs the place is reserved, and empty.
        let Some(mut reception) = self.receptions.take(number) else { return false };
        let (origin, ended) = (reception.origin, reception.ended.take());
        let Some(result) = ended else {
            self.receptions.put(number, reception);
            return false;
        };
        match reception.stage {
            Stage::Whole { region, into, len, total, then } => match into.reclaim() {
                Ok(buffer) => {
                    let len = if result.is_ok() { len as usize } else { 0 };
                    let total = total as usize;
                    (then.call)(self, Received { origin, buffer, len, total, result, cookie: then.cookie });
                }
                Err(into) => {
                    let stage = Stage::Whole { region, into, len, total, then };
                    self.receptions.put(number, Reception { ended, stage, ..reception });
                    return false;
                }
            },
            Stage::Pieces { region, mut partial, landing } => {
                if let Some((memory, len)) = landing {
                    match memory.reclaim() {
                        Ok(buffer) => {
                            if result.is_ok() {
                                let data = buffer.as_slice().get(..len as usize).unwrap_or_default();
                                self.absorb(&mut partial, data);
                            }
                            self.receptions.landing = Some(buffer.share());
                        }
                        Err(memory) => {
                            let stage = Stage::Pieces { region, partial, landing: Some((memory, len)) };
                            self.receptions.put(number, Reception { ended, stage, ..reception });
                            return false;
                        }
                    }
                }
                if result.is_ok() && partial.received < partial.total {
                    self.receptions.settling &= !(1 << number);
                    let _ = self.receptions.line.push(number);
                    let stage = Stage::Pieces { region, partial, landing: None };
                    self.receptions.put(number, Reception { stage, ..reception });
                    return true;
                }
                self.deliver(partial, result);
            }
            Stage::Deliver(received, then) => (then.call)(self, received),
            // A fence.
            _ => {}
        }
        reception.stage = Stage::Answer;
        self.receptions.settling &= !(1 << number);
        if let Some(Answer::Ack(message)) =
            reception.answer.take_if(|answer| matches!(answer, Answer::Ack(_)))
        {
            self.owe_ack(origin, message);
        }
        if reception.answer.is_some() {
            let _ = self.receptions.line.push(number);
            self.receptions.put(number, reception);
        } else {
            self.free_reception(number);
        }
        true
    }

    /// Ends a reception: others may have been refused for want of its place.
    fn free_reception(&mut self, number: u8) {
        self.receptions.free(number);
        self.acks.note_room();
    }
}
