//! Vectors on their way through the tree network; see `network`.

use super::network::{Channel, LEAVE, Way};
use super::slot::{Piece, Slot};
use crate::combine::{Arrival, Operation, Status};
use crate::device::{CollectiveNetwork, Port};
use crate::error::OperationError;

/// What a leader does with a vector.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Combine(Operation),
    Source,
    Sink,
}

/// A vector on its way through the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    piece: Piece,
    part: Part,
    /// Packets that went and came.
    sent: usize,
    taken: usize,
}

impl Passage {
    pub(super) fn new(piece: Piece, part: Part) -> Self {
        Self { piece, part, sent: 0, taken: 0 }
    }
}

impl<P: Port> Slot<P> {
    /// Goes on with a vector that is on its way. Returns whether anything moved.
    pub(super) fn pass(&mut self, way: &mut Way, network: Option<P::Network>) -> bool {
        let (Some(mut passage), Some(ticket), Some(network)) = (self.passage, self.ticket, network) else {
            return false;
        };
        let Way::On(Some(channel)) = way else { return false };
        if let Some(error) = channel.broken {
            self.fail(error);
            return true;
        }
        let before = (passage.sent, passage.taken);
        // A barrier is one packet with nothing in it.
        let packets = passage.piece.len.div_ceil(network.payload()).max(1);
        self.inject(&mut passage, packets, (channel, ticket), network);
        while channel.taken == ticket && passage.taken < packets {
            let mut verdict = Ok(());
            let came = network.receive(channel.route, |arrival| {
                verdict = self.accept(&passage, ticket, network.payload(), arrival);
            });
            if !came {
                break;
            }
            if let Err(error) = verdict {
                channel.broken = Some(error);
                self.fail(error);
                return true;
            }
            passage.taken += 1;
        }
        if passage.taken == packets {
            channel.taken = ticket.wrapping_add(1);
        }
        self.passage = (passage.taken < packets).then_some(passage);
        let moved = before != (passage.sent, passage.taken);
        self.moved |= moved;
        moved
    }

    /// Sends what can go of a vector.
    fn inject(
        &self,
        passage: &mut Passage,
        packets: usize,
        (channel, ticket): (&mut Channel, u32),
        network: P::Network,
    ) {
        let goes_alone = matches!(passage.part, Part::Source);
        if channel.injected != ticket || goes_alone && channel.taken != ticket {
            return;
        }
        while passage.sent < packets {
            let (start, len) = passage.range(passage.sent, network.payload());
            let sequence = self.packet(ticket, passage.sent);
            let fill = |into: &mut [u8]| self.read(passage.piece, start, into);
            let sent = match passage.part {
                Part::Combine(operation) => network.contribute(channel.route, operation, sequence, len, fill),
                Part::Source => network.broadcast(channel.route, sequence, len, fill),
                Part::Sink => Ok(()),
            };
            // No room, or the news of the route has not come: later.
            if sent.is_err() {
                return;
            }
            passage.sent += 1;
        }
        channel.injected = ticket.wrapping_add(1);
    }

    /// The number of a packet: of the call, the same at all that mean the same.
    fn packet(&self, ticket: u32, index: usize) -> u32 {
        let mixed = self.digest ^ self.key.sequence.rotate_left(16) ^ ticket.rotate_left(24);
        let number = mixed.wrapping_add(index as u32);
        if number == LEAVE { 0 } else { number }
    }

    /// Puts what has arrived in its place, if it is what was to come.
    fn accept(
        &self,
        passage: &Passage,
        ticket: u32,
        payload: usize,
        arrival: &Arrival<'_>,
    ) -> Result<(), OperationError> {
        match arrival.status {
            Status::Good => {}
            Status::Dead => return Err(OperationError::NodeDead(arrival.blame)),
            _ => return Err(OperationError::Differs),
        }
        let (start, len) = passage.range(passage.taken, payload);
        let right_kind = match passage.part {
            Part::Combine(operation) => arrival.broadcast.is_none() && arrival.operation == operation,
            Part::Source | Part::Sink => arrival.broadcast.is_some(),
        };
        let right_packet = arrival.sequence == self.packet(ticket, passage.taken);
        if !right_kind || !right_packet || arrival.payload.len() != len {
            return Err(OperationError::Differs);
        }
        if !matches!(passage.part, Part::Source) {
            self.write(passage.piece, start, arrival.payload);
        }
        Ok(())
    }
}

impl Passage {
    /// First byte and number of bytes of a packet.
    fn range(&self, index: usize, payload: usize) -> (usize, usize) {
        let start = index * payload;
        (start, payload.min(self.piece.len - start.min(self.piece.len)))
    }
}
