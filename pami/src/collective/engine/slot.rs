//! A collective in flight at one member.

use super::areas::Areas;
use super::geometry::Entry;
use super::parts::Peers;
use super::passage::Passage;
use super::transfer::{Incoming, Outgoing, ReceiveStage, SendStage};
use super::wire::{Key, Label, Notice, Word};
use crate::collective::{Call, Reducer, Schedule, Step};
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use heapless::Vec;

/// Messages each way that a round has under way at once; further ones are started when some are done.
const TRANSFERS: usize = 16;

/// Where a collective is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    /// It has to wait for others.
    Waits,
    /// For a class route.
    Asks,
    Runs,
    /// It failed, and the herald is to know; whether it was told so.
    Reports(bool),
    /// It failed, and the members from this rank on are to be told.
    Tells(u32),
    Over,
}

/// Where the creation of a geometry is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Creation {
    /// Its members meet.
    Meets,
    /// They are told of the class route.
    Learns,
}

/// A collective in flight, or a part of one.
pub(crate) struct Slot<A: 'static> {
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
    /// It is the barrier that creates the geometry.
    pub(super) creates: bool,
    pub(super) phase: Phase,
    /// What is left to do, if it runs.
    pub(super) schedule: Schedule<'static>,
    pub(super) areas: Areas,
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
    pub(super) done: Done<A>,
}

/// What an arrival is to a slot.
pub(super) enum Taken {
    Yes,
    /// Its receive is not there yet.
    Early,
    /// It makes no sense.
    Stray,
}

impl<A> Slot<A> {
    pub(super) fn label(&self, tag: u32) -> Label {
        Label { key: self.key, tag, digest: self.digest, notice: self.notice }
    }

    /// Goes by the schedule of a call, which was checked when it was made.
    pub(super) fn follow(&mut self, call: &Call<'static>) {
        self.schedule.restart(call);
        self.phase = Phase::Runs;
    }

    /// Whether only others are still to hear how it ended.
    fn has_failed(&self) -> bool {
        matches!(self.phase, Phase::Reports(_) | Phase::Tells(_) | Phase::Over)
    }

    /// Whether others are to be told of its failure, from here or by the herald.
    #[inline]
    pub(super) fn tells(&self) -> bool {
        matches!(self.phase, Phase::Reports(_) | Phase::Tells(_))
    }

    /// Ends it, and has the others told.
    pub(super) fn fail(&mut self, error: OperationError) {
        if !self.has_failed() {
            self.end(error);
            self.phase = Phase::Reports(false);
        }
    }

    /// Ends it, and tells the others from here.
    pub(super) fn tell_all(&mut self, error: OperationError) {
        if !matches!(self.phase, Phase::Tells(_) | Phase::Over) {
            self.end(error);
            self.phase = Phase::Tells(0);
        }
    }

    /// Nobody else tells the others of a failure that was reported.
    pub(super) fn tell_after_all(&mut self) {
        if self.phase == Phase::Reports(true) {
            self.phase = Phase::Tells(0);
        }
    }

    /// What others are told of how it ended.
    pub(super) fn abort(&self, error: OperationError) -> Label {
        Label::abort(self.key, error).of_members(self.creates.then_some(self.digest))
    }

    /// Whether one who tells of its end names the same members, whom it tells all.
    pub(super) fn agrees(&self, label: &Label) -> bool {
        !self.creates || label.members() == Label::NONE.of_members(Some(self.digest)).members()
    }

    /// Ends it. One that tells all goes on with that, whoever else does.
    pub(super) fn end(&mut self, error: OperationError) {
        if matches!(self.phase, Phase::Tells(_) | Phase::Over) {
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
        if self.has_failed() {
            return Taken::Yes;
        }
        if matches!(word, Word::Short | Word::Request | Word::Clear) && self.differs(entry, origin, label) {
            return Taken::Yes;
        }
        match word {
            Word::Short | Word::Answer | Word::Request => {}
            Word::Clear => return self.cleared(origin, label, total),
            Word::Data => return self.data(origin, label.tag, offset as usize, data),
            Word::Abort | Word::Report | Word::Tell | Word::Credit => return Taken::Stray,
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
            self.areas.put(receive.piece, 0, data);
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
        let waits = matches!(self.phase, Phase::Waits | Phase::Runs | Phase::Reports(true));
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
        self.areas.put(piece, offset, data);
        self.moved = true;
        if end == piece.len {
            self.receives.swap_remove(index);
        } else {
            self.receives[index].stage = ReceiveStage::Cleared(end);
        }
        Taken::Yes
    }
}
