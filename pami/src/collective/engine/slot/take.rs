//! What messages do to a collective in flight.

use super::super::geometry::GeometryState;
use super::super::transfer::{Incoming, Outgoing, ReceiveStage, SendStage};
use super::super::wire::{Label, Word};
use super::CollectiveInFlight;
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::region::{RegionFault, RegionId, RemoteData};

/// What an arrival is to a slot.
pub(in super::super) enum Taken {
    Yes,
    /// Its receive is not there yet.
    Early,
    /// It makes no sense.
    Stray,
}

impl<A> CollectiveInFlight<A> {
    /// A message for it.
    pub(in super::super) fn take(
        &mut self,
        entry: &GeometryState,
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
            Word::Short | Word::Request => {}
            Word::Clear => return self.cleared(origin, label, total),
            Word::Data => return self.data(origin, label.tag, offset as usize, data),
            Word::Offer => return self.offered(origin, label, (offset, total)),
            Word::Taken => return self.taken(origin, label.tag),
            Word::Abort | Word::Report | Word::Tell | Word::Credit => return Taken::Stray,
        }
        let open = |receive: &Incoming| {
            let takes = word == Word::Request || receive.stage.is_open();
            receive.from == origin && receive.tag == label.tag && takes
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
    pub(super) fn differs(&mut self, entry: &GeometryState, origin: Endpoint, label: &Label) -> bool {
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

    /// The target of a message is ready for it.
    fn cleared(&mut self, origin: Endpoint, label: &Label, total: u32) -> Taken {
        let named = |send: &Outgoing| send.to == origin && send.tag == label.tag;
        let Some(index) = self.sends.iter().position(named) else { return Taken::Early };
        let Outgoing { rank, piece, stage, .. } = self.sends[index];
        if !matches!(stage, SendStage::Announce | SendStage::Waits) {
            // It asked although a clear was on its way.
            return Taken::Yes;
        }
        self.moved = true;
        if total as usize != piece.len {
            self.fail(OperationError::Mismatch(rank));
        } else {
            self.sends[index].stage = SendStage::Offers;
        }
        Taken::Yes
    }

    /// A message that was cleared lies at its sender's.
    fn offered(&mut self, origin: Endpoint, label: &Label, (offset, generation): (u32, u32)) -> Taken {
        let wanted = |receive: &Incoming| {
            receive.from == origin && receive.tag == label.tag && receive.stage == ReceiveStage::Cleared(0)
        };
        let Some(index) = self.receives.iter().position(wanted) else { return Taken::Stray };
        // Where it ends is told in 32 bits.
        if u32::try_from(offset as usize + self.receives[index].piece.len).is_err() {
            return Taken::Stray;
        }
        let region = RegionId { index: label.digest.into(), generation: generation.into() };
        self.moved = true;
        self.receives[index].stage = ReceiveStage::Offered(RemoteData { region, offset }, 0);
        Taken::Yes
    }

    /// The target of a message has got it.
    fn taken(&mut self, origin: Endpoint, tag: u32) -> Taken {
        let named =
            |send: &Outgoing| send.to == origin && send.tag == tag && send.stage == SendStage::Offered;
        let Some(index) = self.sends.iter().position(named) else { return Taken::Stray };
        self.moved = true;
        self.sends.swap_remove(index);
        Taken::Yes
    }

    /// The get of a message has ended.
    pub(in super::super) fn pull_ended(
        &mut self,
        (from, tag): (Endpoint, u32),
        result: Result<(), RegionFault>,
    ) {
        self.moved = true;
        let pulled = |receive: &Incoming| {
            receive.from == from && receive.tag == tag && receive.stage == ReceiveStage::Pulled
        };
        let Some(index) = self.receives.iter().position(pulled) else { return };
        match result {
            Ok(()) => self.receives[index].stage = ReceiveStage::Landed,
            Err(RegionFault::Stale) => self.receives[index].stage = ReceiveStage::Lost,
            Err(_) => self.fail(OperationError::Mismatch(self.receives[index].rank)),
        }
    }

    /// Part of a message that was cleared, or all of it.
    fn data(&mut self, origin: Endpoint, tag: u32, offset: usize, data: &[u8]) -> Taken {
        let stage = ReceiveStage::Cleared(offset as u32);
        let wanted =
            |receive: &Incoming| receive.from == origin && receive.tag == tag && receive.stage == stage;
        let Some(index) = self.receives.iter().position(wanted) else { return Taken::Stray };
        let piece = self.receives[index].piece;
        let end = offset + data.len();
        if end > piece.len || data.is_empty() && piece.len > 0 {
            return Taken::Stray;
        }
        self.areas.put(piece, offset, data);
        self.moved = true;
        if end == piece.len {
            self.receives.swap_remove(index);
        } else {
            self.receives[index].stage = ReceiveStage::Cleared(end as u32);
        }
        Taken::Yes
    }
}
