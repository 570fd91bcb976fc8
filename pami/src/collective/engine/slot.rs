//! A collective in flight at one member.

use super::announce::Notice;
use super::geometry::Entry;
use super::network::Creation;
use super::parts::Peers;
use super::passage::Passage;
use super::transfer::{Incoming, Outgoing, ReceiveStage, SendStage};
use super::wire::{Key, Label, Word};
use crate::collective::{Area, Call, Order, Reducer, Schedule, Span, Step};
use crate::context::Done;
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use heapless::Vec;
use rings::shared::Shared;
use zerocopy::IntoBytes;

/// Messages each way that a round has under way at once; further ones are started when some are done.
const TRANSFERS: usize = 16;
/// Bytes that are reduced at a time, on the stack; an element is at most as long.
pub(super) const REDUCED_AT_ONCE: usize = 1024;
/// Bytes that one call of an advance reduces or copies: an advance stays short.
const BYTES_PER_ADVANCE: usize = 64 << 10;

/// Bytes of an area: from the start of its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) area: Area,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Where a collective is.
#[expect(clippy::large_enum_variant, reason = "slots are a fixed pool, and most of those in use run")]
pub(super) enum Phase {
    /// It has to wait for others.
    Waits,
    /// For a class route.
    Asks,
    Runs(Schedule<'static>),
    /// It failed, and the members from this rank on are to be told.
    Tells(u32),
    Over,
}

/// A collective in flight, or a part of one.
pub(crate) struct Slot<P: Port> {
    /// Place of its geometry in the table.
    pub(super) geometry: u16,
    pub(super) key: Key,
    pub(super) digest: u32,
    pub(super) notice: Option<Notice>,
    pub(super) call: Call<'static>,
    /// Elements of the vector, or of each block, that go at a time, and how many have gone.
    pub(super) run: usize,
    pub(super) from: usize,
    pub(super) peers: Peers,
    /// It begins when the parts of earlier turns are done here.
    pub(super) turn: u8,
    /// What it receives is there already.
    pub(super) discards: bool,
    /// It is the barrier that creates the geometry.
    pub(super) creates: bool,
    pub(super) phase: Phase,
    pub(super) areas: [Option<(Shared, usize)>; 3],
    pub(super) element_len: usize,
    pub(super) reducer: Option<Reducer>,
    /// Its place among those that go through the tree network, if this member has to do with it.
    pub(super) ticket: Option<u32>,
    pub(super) passage: Option<Passage>,
    /// Set if it is the creation of its geometry.
    pub(super) creation: Option<Creation>,
    /// The network was asked for a class route and has not answered.
    pub(super) asked: bool,
    /// The step in hand, and how many bytes of it are done.
    pub(super) step: Option<Step>,
    pub(super) position: usize,
    /// The round ends when nothing is under way.
    pub(super) waiting: bool,
    pub(super) sends: Vec<Outgoing, TRANSFERS>,
    pub(super) receives: Vec<Incoming, TRANSFERS>,
    /// Something of it found no room, and is tried again.
    pub(super) refused: bool,
    /// Whether anything became of it since it was last looked at.
    pub(super) moved: bool,
    pub(super) result: Result<(), OperationError>,
    pub(super) done: Done<P>,
}

/// What an arrival is to a slot.
pub(super) enum Taken {
    Yes,
    /// Its receive is not there yet.
    Early,
    /// It makes no sense.
    Stray,
}

impl<P: Port> Slot<P> {
    pub(super) fn label(&self, tag: u32) -> Label {
        Label { key: self.key, tag, digest: self.digest, notice: self.notice }
    }

    pub(super) fn piece(&self, span: Span) -> Piece {
        let base = self.areas[span.area as usize].as_ref().map_or(0, |(_, base)| *base);
        let start = base + span.offset * self.element_len;
        Piece { area: span.area, start, len: span.len * self.element_len }
    }

    /// Reads bytes of a piece. What areas there must be, and of what length, was checked before.
    pub(super) fn read(&self, piece: Piece, offset: usize, into: &mut [u8]) {
        if let Some((memory, _)) = &self.areas[piece.area as usize] {
            let _ = memory.read(piece.start + offset, into);
        }
    }

    /// Writes what was received.
    fn put(&self, piece: Piece, offset: usize, bytes: &[u8]) {
        if !(self.discards && piece.area == Area::Output) {
            self.write(piece, offset, bytes);
        }
    }

    pub(super) fn write(&self, piece: Piece, offset: usize, bytes: &[u8]) {
        if let Some((memory, _)) = &self.areas[piece.area as usize] {
            let _ = memory.write(piece.start + offset, bytes);
        }
    }

    /// Ends it, and tells the others.
    pub(super) fn fail(&mut self, error: OperationError) {
        if !matches!(self.phase, Phase::Tells(_) | Phase::Over) {
            self.end(error);
            self.phase = Phase::Tells(0);
        }
    }

    /// Ends it.
    pub(super) fn end(&mut self, error: OperationError) {
        if matches!(self.phase, Phase::Over) {
            return;
        }
        if self.result.is_ok() {
            self.result = Err(error);
        }
        self.phase = Phase::Over;
        self.step = None;
        self.waiting = false;
        self.sends.clear();
        self.receives.clear();
        self.passage = None;
        self.moved = true;
    }

    /// A message for it.
    pub(super) fn take(
        &mut self,
        entry: &Entry,
        (origin, word, label): (Endpoint, Word, &Label),
        (offset, total): (u32, u32),
        data: &[u8],
    ) -> Taken {
        if matches!(self.phase, Phase::Tells(_) | Phase::Over) {
            return Taken::Yes;
        }
        if matches!(word, Word::Short | Word::Request | Word::Clear) && self.differs(entry, origin, label) {
            return Taken::Yes;
        }
        match word {
            Word::Short | Word::Answer | Word::Request => {}
            Word::Clear => return self.cleared(origin, label, total),
            Word::Data => return self.data(origin, label.tag, offset as usize, data),
            Word::Abort | Word::Credit => return Taken::Stray,
        }
        let open = |receive: &Incoming| {
            let begun = matches!(receive.stage, ReceiveStage::Cleared(1..));
            receive.from == origin && receive.tag == label.tag && !(begun && word != Word::Request)
        };
        let Some(index) = self.receives.iter().position(open) else { return Taken::Early };
        let receive = self.receives[index];
        if entry.members.endpoint(receive.rank) != Some(origin) {
            return Taken::Stray;
        }
        self.moved = true;
        if total as usize != receive.piece.len {
            self.fail(OperationError::Mismatch(receive.rank));
        } else if word != Word::Request {
            self.put(receive.piece, 0, data);
            self.receives.swap_remove(index);
        } else if receive.stage == ReceiveStage::Open {
            self.receives[index].stage = ReceiveStage::ToClear;
        } else {
            // It may have been cleared, and the clear forgotten.
            self.receives[index].again = receive.stage == ReceiveStage::Cleared(0);
        }
        Taken::Yes
    }

    /// Ends it if the message is of one who called something else, or named other members: that one may never send what is
    /// waited for here, nor wait for what is sent.
    pub(super) fn differs(&mut self, entry: &Entry, origin: Endpoint, label: &Label) -> bool {
        if label.digest == self.digest {
            return false;
        }
        // Whom only the other one takes for a member of a new geometry has no rank.
        let rank = entry.members.rank(origin).or(self.creates.then_some(entry.rank));
        if let Some(rank) = rank {
            self.moved = true;
            self.fail(OperationError::Mismatch(rank));
        }
        rank.is_some()
    }

    /// The target of a long message is ready for it.
    fn cleared(&mut self, origin: Endpoint, label: &Label, total: u32) -> Taken {
        let named = |send: &Outgoing| send.to == origin && send.tag == label.tag;
        let Some(index) = self.sends.iter().position(named) else { return Taken::Early };
        let Outgoing { rank, piece, stage, short, .. } = self.sends[index];
        if matches!(stage, SendStage::Clear(_) | SendStage::Answer) {
            // It asked although a clear was on its way.
            return Taken::Yes;
        }
        self.moved = true;
        if total as usize != piece.len {
            self.fail(OperationError::Mismatch(rank));
        } else {
            self.sends[index].stage = if short { SendStage::Answer } else { SendStage::Clear(0) };
        }
        Taken::Yes
    }

    /// Whether it only waits for messages, or for other collectives.
    pub(super) fn is_stalled(&self) -> bool {
        let waits = matches!(self.phase, Phase::Waits | Phase::Runs(_));
        waits && self.passage.is_none() && !self.refused
    }

    /// Part of a long message.
    fn data(&mut self, origin: Endpoint, tag: u32, offset: usize, data: &[u8]) -> Taken {
        let stage = ReceiveStage::Cleared(offset);
        let wanted =
            |receive: &Incoming| receive.from == origin && receive.tag == tag && receive.stage == stage;
        let Some(index) = self.receives.iter().position(wanted) else { return Taken::Stray };
        let piece = self.receives[index].piece;
        let end = offset + data.len();
        if end > piece.len || data.is_empty() {
            return Taken::Stray;
        }
        self.put(piece, offset, data);
        self.moved = true;
        if end == piece.len {
            self.receives.swap_remove(index);
        } else {
            self.receives[index].stage = ReceiveStage::Cleared(end);
        }
        Taken::Yes
    }

    /// Goes on with a reduction, from `position`. Returns whether it is done.
    pub(super) fn reduce(&mut self, into: Span, from: Span, order: Order) -> bool {
        let (into, from) = (self.piece(into), self.piece(from));
        let Some(reducer) = self.reducer else { return true };
        // Aligned for every type.
        let (mut left, mut right) = ([0u128; REDUCED_AT_ONCE / 16], [0u128; REDUCED_AT_ONCE / 16]);
        let most = REDUCED_AT_ONCE - REDUCED_AT_ONCE % self.element_len;
        let end = into.len.min(self.position + BYTES_PER_ADVANCE);
        while self.position < end {
            let len = most.min(into.len - self.position);
            let (left, right) = (&mut left.as_mut_bytes()[..len], &mut right.as_mut_bytes()[..len]);
            self.read(into, self.position, left);
            self.read(from, self.position, right);
            // Whole elements, aligned: nothing is left to go wrong.
            let _ = reducer.reduce(left, right, order);
            self.write(into, self.position, left);
            self.position += len;
        }
        self.ends(into.len)
    }

    /// Goes on with a copy, from `position`. Returns whether it is done.
    pub(super) fn copy(&mut self, into: Span, from: Span) -> bool {
        let (into, from) = (self.piece(into), self.piece(from));
        let len = (into.len - self.position).min(BYTES_PER_ADVANCE);
        let [to, source] = [into.area, from.area].map(|area| self.areas[area as usize].as_ref());
        if let (Some((to, _)), Some((source, _))) = (to, source) {
            let _ = source.copy(from.start + self.position, to, into.start + self.position, len);
        }
        self.position += len;
        self.ends(into.len)
    }

    fn ends(&mut self, len: usize) -> bool {
        let ends = self.position >= len;
        if ends {
            self.position = 0;
        }
        ends
    }
}
