//! Vectors on their way through the tree network; see `network`.

use core::ops::Range;

use super::areas::{Areas, Piece};
use super::route::{Channel, LEAVE};
use crate::combine::{AluOperation, ClassRoute, Status, TreeArrival};
use crate::device::CollectiveNetwork;
use crate::error::OperationError;
use crate::operator::{Element, Operator};

/// What a leader does with a vector.
#[derive(Clone, Debug)]
pub(super) enum LeaderDuty {
    /// Its own bytes of it; zeros in the place of all others.
    Combine {
        operation: AluOperation,
        own: Range<usize>,
    },
    Source,
    Sink,
}

/// What brings together vectors that are zero but where they are one's own.
pub(super) const TOGETHER: AluOperation = match AluOperation::new(Operator::BitOr, Element::U32) {
    Some(operation) => operation,
    None => AluOperation::NOTHING,
};

/// A vector on its way through the network.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    piece: Piece,
    duty: LeaderDuty,
    /// Packets that went and came.
    sent: usize,
    taken: usize,
}

/// A collective in the order of those that go through a class route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) ticket: u32,
    /// Of the call, the same at all that mean the same.
    pub(super) digest: u32,
}

impl Turn {
    /// The number of a packet.
    fn packet(self, index: usize) -> u32 {
        let number = (self.digest ^ self.ticket.rotate_left(24)).wrapping_add(index as u32);
        if number == LEAVE { 0 } else { number }
    }
}

impl Passage {
    pub(super) fn new(piece: Piece, duty: LeaderDuty) -> Self {
        Self { piece, duty, sent: 0, taken: 0 }
    }

    /// Packets that it takes. A barrier is one with nothing in it.
    fn packets(&self, payload: usize) -> usize {
        self.piece.len.div_ceil(payload).max(1)
    }

    /// Whether all of it has come.
    pub(super) fn is_over(&self, network: impl CollectiveNetwork) -> bool {
        self.taken == self.packets(network.payload())
    }

    /// Goes on as far as it can. Returns whether anything moved.
    ///
    /// # Errors
    /// Why nothing goes by the channel any more.
    pub(super) fn advance(
        &mut self,
        areas: &Areas,
        turn: Turn,
        channel: &mut Channel,
        network: impl CollectiveNetwork,
    ) -> Result<bool, OperationError> {
        let route = channel.route()?;
        let before = (self.sent, self.taken);
        let packets = self.packets(network.payload());
        self.inject(areas, packets, (channel, route, turn), network);
        while channel.takes(turn.ticket) && self.taken < packets {
            let mut verdict = Ok(());
            let came = network.receive(route, |arrival| {
                verdict = self.accept(areas, turn, network.payload(), arrival);
            });
            if !came {
                break;
            }
            if let Err(error) = verdict {
                channel.spoil(error);
                return Err(error);
            }
            self.taken += 1;
        }
        if self.taken == packets {
            channel.all_taken(turn.ticket);
        }
        Ok(before != (self.sent, self.taken))
    }

    /// Sends what can go.
    fn inject(
        &mut self,
        areas: &Areas,
        packets: usize,
        (channel, route, turn): (&mut Channel, ClassRoute, Turn),
        network: impl CollectiveNetwork,
    ) {
        if !channel.injects(turn.ticket, matches!(self.duty, LeaderDuty::Source)) {
            return;
        }
        while self.sent < packets {
            let (start, len) = self.range(self.sent, network.payload());
            let sequence = turn.packet(self.sent);
            let sent = match &self.duty {
                LeaderDuty::Combine { operation, own } => {
                    let fill = |into: &mut [u8]| {
                        let from = own.start.saturating_sub(start).min(len);
                        let to = own.end.saturating_sub(start).clamp(from, len);
                        into[..from].fill(0);
                        areas.read(self.piece, start + from, &mut into[from..to]);
                        into[to..].fill(0);
                    };
                    let len = len.next_multiple_of(operation.element_len());
                    network.contribute(route, *operation, sequence, len, fill)
                }
                LeaderDuty::Source => {
                    network.broadcast(route, sequence, len, |into| areas.read(self.piece, start, into))
                }
                LeaderDuty::Sink => Ok(()),
            };
            // No room, or the news of the route has not come: later.
            if sent.is_err() {
                return;
            }
            self.sent += 1;
        }
        channel.all_injected(turn.ticket);
    }

    /// Puts what has arrived in its place, if it is what was to come.
    fn accept(
        &self,
        areas: &Areas,
        turn: Turn,
        payload: usize,
        arrival: &TreeArrival<'_>,
    ) -> Result<(), OperationError> {
        match arrival.status {
            Status::Good => {}
            Status::Dead => return Err(OperationError::NodeDead(arrival.blame)),
            _ => return Err(OperationError::Differs),
        }
        let (start, len) = self.range(self.taken, payload);
        let (right_kind, right_len) = match &self.duty {
            LeaderDuty::Combine { operation, .. } => (
                arrival.broadcast.is_none() && arrival.operation == *operation,
                len.next_multiple_of(operation.element_len()),
            ),
            LeaderDuty::Source | LeaderDuty::Sink => (arrival.broadcast.is_some(), len),
        };
        let right_packet = arrival.sequence == turn.packet(self.taken);
        if !right_kind || !right_packet || arrival.payload.len() != right_len {
            return Err(OperationError::Differs);
        }
        if !matches!(self.duty, LeaderDuty::Source) {
            areas.write(self.piece, start, &arrival.payload[..len]);
        }
        Ok(())
    }

    /// First byte and number of bytes of a packet.
    fn range(&self, index: usize, payload: usize) -> (usize, usize) {
        let start = index * payload;
        (start, payload.min(self.piece.len - start.min(self.piece.len)))
    }
}
