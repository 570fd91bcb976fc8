//! Rendezvous at the target: a message whose data stays with its sender until the handler has named a place (SPEC P-6).
//!
//! ```text
//! origin                         target
//!   RTS: header, length, region ->  handler: into this buffer
//!          <----------------------  GET, carried out by the origin's unit
//!   data, from where it lies ---->  placed in the buffer by the target's unit; callback
//!          <----------------------  done: the payload is the sender's again
//! ```
//!
//! Within a node, where what is in shared use goes so too, the target copies it from the one place to the other. Data that the
//! handler wants in packets or scattered lands in the context's own memory first, piece by piece ([`crate::receive_request`]).
//! What goes by packets, and why, [`crate::send`] says.

use super::{Active, Partial, Receive, Stage, Wish};
use crate::acks::Lack;
use crate::device::Port;
use crate::dispatch::Message;
use crate::packet::{Envelope, HEADER_LIMIT, dispatch_id, pulls_locally};
use crate::receive::Owes;
use crate::receive_request::Answer;
use crate::region::{RegionId, RemoteData};
use zerocopy::FromBytes;

impl<P: Port> Active<P> {
    /// An RTS arrives. Without a place for it, it is refused.
    pub(crate) fn rendezvous_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let Envelope { origin, message, offset, total, .. } = *envelope;
        let sound = header.len() <= HEADER_LIMIT && offset.checked_add(total).is_some();
        let region = RegionId::read_from_bytes(data).ok().filter(|_| sound);
        let (Some(region), Some(_)) = (region, self.port.node_of(origin.task())) else {
            self.transport.protocol_error();
            return;
        };
        let data = RemoteData { region, offset };
        if !self.acks.opens_for(origin, message) {
            return;
        }
        if !self.can_answer(origin) {
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
        let dispatch = dispatch_id(envelope.dispatch);
        let received = match self.ask(dispatch, &Message { origin, header, data: &[], total }) {
            Wish::Take(received) => {
                self.transport.note_received();
                received
            }
            Wish::Defer => {
                self.leave_receive(number);
                if self.keep_rendezvous(envelope, header, data) {
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
        // Its origin asks for one message at a time.
        if self.acks.is_crowded() {
            self.owe_admission(origin, message);
        }
        let order = self.transport.next_order();
        self.begin_pull(number, envelope, order, data, received);
    }

    /// Begins to get the data of a rendezvous to where it is wanted.
    pub(crate) fn begin_pull(
        &mut self,
        number: u8,
        envelope: &Envelope,
        order: u64,
        data: RemoteData,
        received: Receive<P>,
    ) {
        let Envelope { dispatch, origin, message, total, .. } = *envelope;
        let stage = match received {
            Receive::Done => Stage::Answer,
            Receive::Into(buffer, then) => {
                let len = total.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
                Stage::Whole { data, into: buffer.share(), len, total, then }
            }
            in_pieces => {
                let sink = Self::sink(in_pieces);
                let partial = Partial { origin, message, received: 0, total, owes: Owes::Nothing, sink };
                Stage::Pieces { data, partial, asked: 0 }
            }
        };
        self.receive_at(number, origin, order, Some(Answer::RendezvousDone(message)), stage);
        if let Some(local) = pulls_locally(dispatch) {
            self.receive_requests.pull_over(number, local);
        }
    }
}
