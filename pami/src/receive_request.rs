//! Receive requests that take more than one advance: data that is pulled, callbacks and answers that are owed (SPEC P-6, F-2).
//!
//! A receive request has one of the context's places until its origin has been told what it waits for. It never needs the
//! application to go on. When all places are taken messages are refused ([`crate::admission`]). Data that is not wanted in
//! one piece in a buffer is pulled in pieces into the context's own landing memory, and from there goes where that of eager
//! messages goes. Several pieces are under way at once, so that data comes while what came before it is put in its place.
//!
//! Their table is no [`SlotTable`](rings::slot_table::SlotTable): a place is kept for one before it is there, and while its
//! callback runs; its number is part of what goes over the wire, with the order of arrivals in the place of a generation.

mod landing;

use crate::acks::bit_of;
use crate::collective::engine::PULLS;
use crate::device::{Full, OPERATIONS, Path, Port, REQUESTS};
use crate::dispatch::OnReceived;
use crate::dispatch::Received;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::packet::{Envelope, Kind};
use crate::receive::Partial;
use crate::region::{RegionId, RemoteData};
use crate::transport::Queued;
use heapless::Vec;
pub(crate) use landing::{Landing, Piece};
use rings::buffer::Buffer;
use rings::shared::Shared;

/// Receive requests of one context that can be under way at once.
pub const RECEIVE_REQUESTS: usize = REQUESTS - OPERATIONS - PIECES - PULLS;
/// Number of the first piece's request, behind those of operations and receive requests.
pub(crate) const FIRST_PIECE: usize = OPERATIONS + RECEIVE_REQUESTS;
/// Most receive requests of one origin: fewer than the requests that a message unit has under way to one node, so those to an
/// origin that does not move leave the injection FIFO.
const MOST_OF_ONE: usize = 16;
/// Most pieces that are pulled at once.
pub const PIECES: usize = 4;

const _: () =
    assert!(RECEIVE_REQUESTS <= OPERATIONS && RECEIVE_REQUESTS <= u64::BITS as usize, "one bit for each");

/// What is left to be done for a receive request.
pub(crate) enum Stage<A: 'static> {
    /// `len` bytes of the origin's data go into the memory, then to the callback.
    Whole { data: RemoteData, into: Shared, len: u32, total: u32, then: OnReceived<A> },
    /// All of it goes piece by piece to the sink; so many bytes have been asked for.
    Pieces { data: RemoteData, partial: Partial<A>, asked: u32 },
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
    /// Whether its data is pulled through memory, if its origin has said so.
    pub(crate) local: Option<bool>,
    /// How the get that is under way ended, or why there are to be no more.
    pub(crate) ended: Option<Result<(), OperationError>>,
    pub(crate) stage: Stage<A>,
}

/// Receive requests that an origin may begin which has so many of its own, while so many places are free.
pub(crate) fn share(free: usize, own: usize) -> usize {
    free.min(MOST_OF_ONE).saturating_sub(own)
}

/// One place for a receive request; its size is what a context's memory is reckoned by.
pub(crate) type RequestSlot<A> = Option<ReceiveRequest<A>>;

/// The receive requests of one context.
pub(crate) struct ReceiveRequests<A: 'static> {
    places: &'static mut [RequestSlot<A>],
    /// Bit set of places in use.
    used: u64,
    /// Those that have something to queue, in that order.
    line: Vec<u8, RECEIVE_REQUESTS>,
    /// Bit set of those that something has become of.
    settling: u64,
    landings: &'static mut [Landing],
    /// Most bytes of a piece.
    piece: u32,
}

impl<A: 'static> ReceiveRequests<A> {
    /// Takes at most [`RECEIVE_REQUESTS`] places, and at most [`PIECES`] landings for pieces of so many bytes.
    pub(crate) fn new(
        places: &'static mut [RequestSlot<A>],
        landings: &'static mut [Landing],
        piece: u32,
    ) -> Self {
        Self { places, used: 0, line: Vec::new(), settling: 0, landings, piece }
    }

    pub(crate) fn into_parts(self) -> (&'static mut [RequestSlot<A>], &'static mut [Landing]) {
        (self.places, self.landings)
    }

    /// Pieces that may be asked for on a path: half of the landings that it has not, so that one where nothing moves leaves some
    /// to others.
    fn pieces_for(&self, path: Path) -> usize {
        let is_own = |landing: &&Landing| landing.piece().is_some_and(|piece| piece.path == path);
        let free = self.landings.iter().filter(|landing| landing.free().is_some()).count();
        free.saturating_sub(self.landings.iter().filter(is_own).count()).div_ceil(2)
    }

    /// The landing of the first of a receive request's pieces that are under way.
    fn first_landing(&mut self, of: u8) -> Option<&mut Landing> {
        let pieces = self.landings.iter_mut().filter(|landing| landing.piece().is_some_and(|it| it.of == of));
        pieces.min_by_key(|landing| landing.piece().map(|piece| piece.order))
    }

    /// Takes the first of a receive request's pieces that are under way out of its landing, if it has landed.
    pub(crate) fn take_piece(&mut self, of: u8) -> Option<(Piece, Buffer)> {
        self.first_landing(of)?.take()
    }

    /// No end is told of the gets of a receive request's pieces any more: they end so. Returns whether any had not ended.
    fn end_pieces(&mut self, of: u8, error: OperationError) -> bool {
        let is_lost = |piece: &Piece| piece.of == of && piece.ended.is_none();
        let lost = self.landings.iter_mut().filter(|landing| landing.piece().is_some_and(is_lost));
        lost.map(|landing| landing.end(Err(error))).count() > 0
    }

    /// Gives the memory of a piece back.
    pub(crate) fn free_landing(&mut self, memory: Buffer) {
        if let Some(landing) = self.landings.iter_mut().find(|landing| landing.is_out()) {
            landing.refill(memory);
        }
    }

    /// Whether the get of the first of a receive request's pieces that are under way has ended; `None` if there is none.
    pub(crate) fn has_first_ended(&mut self, of: u8) -> Option<bool> {
        self.first_landing(of)?.piece().map(|piece| piece.ended.is_some())
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

    /// Operations of `origin` that are told of at the end of a receive request.
    pub(crate) fn known(&self, origin: Endpoint) -> u64 {
        let own = self.iter().filter(|request| request.origin == origin);
        own.fold(0, |known, request| {
            known
                | match request.answer {
                    Some(Answer::RendezvousDone(message) | Answer::Ack(message)) => {
                        bit_of(message).unwrap_or(0)
                    }
                    Some(Answer::Fences(fences)) => fences,
                    None => 0,
                }
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

    /// Its data is pulled through memory, or over the network, whatever the context does otherwise.
    #[cold]
    pub(crate) fn pull_over(&mut self, number: u8, local: bool) {
        if let Some(request) = self.get_mut(number) {
            request.local = Some(local);
        }
    }

    /// Puts one in its place that has something to queue.
    pub(crate) fn line_up(&mut self, number: u8, request: ReceiveRequest<A>) {
        self.settling &= !(1 << number);
        self.stand_behind(number);
        self.put(number, request);
    }

    /// Puts one in its place that nothing is to be queued or done for until one of its gets ends.
    pub(crate) fn put_to_rest(&mut self, number: u8, request: ReceiveRequest<A>) {
        self.settling &= !(1 << number);
        self.put(number, request);
    }

    /// It has nothing to queue any more.
    pub(crate) fn leave_line(&mut self, number: u8) {
        self.line.retain(|&other| other != number);
    }

    /// Whether any has something to queue.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.line.is_empty()
    }

    /// One that has more to queue is behind the others in line.
    pub(crate) fn stand_behind(&mut self, number: u8) {
        // As long as there are receive requests.
        let _ = self.line.push(number);
    }

    /// Those that stand in line, while they are gone through.
    pub(crate) fn take_line(&mut self) -> Vec<u8, RECEIVE_REQUESTS> {
        core::mem::take(&mut self.line)
    }

    /// Those that are left in it, in front of those that came to stand there meanwhile.
    pub(crate) fn keep_line(&mut self, mut line: Vec<u8, RECEIVE_REQUESTS>) {
        let _ = line.extend_from_slice(&self.line);
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

    /// The get of the piece for a landing has ended, if its order is one that `is_of` knows.
    pub(crate) fn end_piece(
        &mut self,
        landing: usize,
        is_of: impl Fn(u64) -> bool,
        result: Result<(), OperationError>,
    ) {
        if let Some(landing) = self.landings.get_mut(landing)
            && let Some(&Piece { of, order, .. }) = landing.piece()
            && is_of(order)
        {
            landing.end(result);
            self.settling |= 1 << of;
        }
    }

    /// Its origin died: nothing more comes, and nobody is to be told. Returns whether nothing is left to be done.
    pub(crate) fn abandon(&mut self, number: u8, error: OperationError) -> bool {
        self.leave_line(number);
        let lost = self.end_pieces(number, error);
        let Some(request) = self.get_mut(number) else { return false };
        request.answer = None;
        match &request.stage {
            // One that has ended before is told as it ended.
            Stage::Pieces { partial, asked, .. } if *asked == partial.total && !lost => false,
            Stage::Whole { .. } | Stage::Pieces { .. } => {
                request.ended.get_or_insert(Err(error));
                self.settling |= 1 << number;
                false
            }
            Stage::Deliver(..) => false,
            _ => true,
        }
    }

    /// Queues the packet of one that is not in pieces. `envelope` is that of a get of nothing. Returns whether there was room.
    pub(crate) fn push<P: Port>(
        &mut self,
        number: u8,
        port: &mut P,
        path: Path,
        mut envelope: Envelope,
    ) -> bool {
        let Some(Some(request)) = self.places.get_mut(usize::from(number)) else { return true };
        match (&mut request.stage, path) {
            (Stage::Whole { data: RemoteData { region, offset }, into, len, .. }, path) => {
                (envelope.offset, envelope.total) = (*offset, *len);
                let got = get(port, path, &envelope, *region, into);
                if let Ok(ended @ Some(_)) = got {
                    request.ended = ended;
                    self.settling |= 1 << number;
                }
                got.is_ok()
            }
            (stage @ Stage::FenceAsks, Path::Torus(node)) => {
                let queued = port.push_get(node, &envelope, RegionId::NONE, None, true).is_ok();
                if queued {
                    *stage = Stage::FenceAsked;
                }
                queued
            }
            (Stage::Answer, path) => match request.answer {
                None => true,
                Some(Answer::Ack(message)) => {
                    let envelope = Envelope { kind: Kind::Ack, message: 0, ..envelope };
                    let set = bit_of(message).unwrap_or(0);
                    port.push_bcopy(path, &envelope, &[], &set.to_le_bytes()).is_ok()
                }
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
        }
    }

    /// Asks for pieces of a message, as many as have room to land. `envelope` is that of a get of nothing, and `name` what
    /// order and message the get for a landing has. Returns also whether the path has no room.
    pub(crate) fn push_pieces<P: Port>(
        &mut self,
        number: u8,
        port: &mut P,
        path: Path,
        envelope: Envelope,
        mut name: impl FnMut(usize) -> (u64, u32),
    ) -> (Queued, bool) {
        let mut room = self.pieces_for(path);
        let Some(Some(request)) = self.places.get_mut(usize::from(number)) else {
            return (Queued::All, false);
        };
        let Stage::Pieces { data: RemoteData { region, offset }, partial: Partial { total, .. }, asked } =
            &mut request.stage
        else {
            return (Queued::All, false);
        };
        let mut some = false;
        for (landing, index) in self.landings.iter_mut().zip(FIRST_PIECE..) {
            let Some(memory) = landing.free().filter(|_| room > 0 && *asked < *total) else { continue };
            // Of memory that was made for another client there may be less.
            let most = self.piece.min(memory.len() as u32);
            let ((order, message), len) = (name(index), (*total - *asked).min(most));
            // The RTS was seen to end within 32 bits.
            let envelope = Envelope { message, offset: *offset + *asked, total: len, ..envelope };
            let Ok(ended) = get(port, path, &envelope, *region, memory) else {
                return (Queued::stopped(some), true);
            };
            self.settling |= u64::from(ended.is_some()) << number;
            landing.expect(Piece { of: number, path, order, len, ended });
            room -= 1;
            *asked += len;
            some = true;
        }
        (if *asked == *total { Queued::All } else { Queued::stopped(some) }, false)
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

/// Gets what an envelope of a request for it says from a region of its target's: asks the unit of another node, copies within
/// this one. Says how it ended, if it has.
fn get<P: Port>(
    port: &mut P,
    path: Path,
    envelope: &Envelope,
    region: RegionId,
    into: &Shared,
) -> Result<Option<Result<(), OperationError>>, Full> {
    match path {
        Path::Torus(node) => port.push_get(node, envelope, region, Some((into, 0)), true).map(|()| None),
        Path::Local(_) => {
            let Envelope { target, offset, total, .. } = *envelope;
            let got = port.get_local(target, region, offset, (into, 0), total);
            Ok(Some(got.map_err(OperationError::Region)))
        }
    }
}
