//! Rendezvous at the target: a message whose data stays with its sender until the handler has named a place (SPEC P-6).
//!
//! ```text
//! origin                         target
//!   RTS: header, length, region ->  handler: into this buffer
//!          <----------------------  GET, carried out by the origin's unit
//!   data, from where it lies ---->  placed in the buffer by the target's unit; callback
//!          <----------------------  done: the payload is the sender's again
//! ```

use super::{Active, Partial, Receive, Stage, Wish};
use crate::acks::Lack;
use crate::device::Port;
use crate::dispatch::Message;
use crate::packet::{Envelope, HEADER_LIMIT};
use crate::receive::Owes;
use crate::receive_request::Answer;
use crate::region::RegionId;
use zerocopy::FromBytes;

impl<P: Port> Active<P> {
    /// An RTS arrives. Without a place for it, it is refused.
    pub(crate) fn rendezvous_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let Envelope { origin, message, total, .. } = *envelope;
        let region = RegionId::read_from_bytes(data).ok().filter(|_| header.len() <= HEADER_LIMIT);
        let (Some(region), Some(_)) = (region, self.port.node_of(origin.task())) else {
            self.transport.protocol_error();
            return;
        };
        if !self.acks.opens_for(origin, message) {
            return;
        }
        // Before the handler, which may take places itself.
        let Some(number) =
            self.receive_requests.free_place().filter(|_| self.receive_requests.has_room_for(origin))
        else {
            return self.refuse(envelope, Lack::ReceiveRequest);
        };
        self.receive_requests.reserve(number);
        let total = total as usize;
        let received = match self.ask(envelope.dispatch, &Message { origin, header, data: &[], total }) {
            Wish::Take(received) => {
                self.transport.note_received();
                received
            }
            Wish::Defer => {
                self.receive_requests.free(number);
                if self.keep_rendezvous(envelope, header, region) {
                    self.transport.note_received();
                    self.acks.let_in(origin);
                    self.owe_admission(origin, message);
                } else {
                    self.refuse(envelope, Lack::Unexpected(0));
                }
                return;
            }
            Wish::Nobody => {
                self.transport.note_unknown_dispatch();
                Receive::Done
            }
        };
        self.acks.let_in(origin);
        let order = self.transport.next_order();
        self.begin_pull(number, envelope, order, region, received);
    }

    /// Begins to get the data of a rendezvous to where it is wanted.
    pub(crate) fn begin_pull(
        &mut self,
        number: u8,
        envelope: &Envelope,
        order: u64,
        region: RegionId,
        received: Receive<P>,
    ) {
        let Envelope { origin, message, total, .. } = *envelope;
        let stage = match received {
            Receive::Done => Stage::Answer,
            Receive::Into(buffer, then) => {
                let len = total.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
                Stage::Whole { region, into: buffer.share(), len, total, then }
            }
            in_pieces => {
                let sink = Self::sink(in_pieces);
                let partial = Partial { origin, message, received: 0, total, owes: Owes::Nothing, sink };
                Stage::Pieces { region, partial, landing: None }
            }
        };
        self.receive_at(number, origin, order, Some(Answer::RendezvousDone(message)), stage);
    }
}
