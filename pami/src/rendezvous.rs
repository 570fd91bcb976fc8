//! Rendezvous at the target: a message whose data stays with its sender until the handler has named a place (SPEC P-6).
//!
//! ```text
//! origin                         target
//!   RTS: header, length, region ->  handler: into this buffer
//!          <----------------------  GET, carried out by the origin's unit
//!   data, from where it lies ---->  placed in the buffer by the target's unit; callback
//!          <----------------------  done: the payload is the sender's again
//! ```

use crate::context::Active;
use crate::device::Port;
use crate::dispatch::{Message, Receive};
use crate::packet::{Envelope, Kind};
use crate::receive::Partial;
use crate::reception::Stage;
use crate::region::RegionId;
use crate::send::HEADER_LIMIT;
use zerocopy::FromBytes;

impl<P: Port> Active<P> {
    /// An RTS arrives. Returns `false` if it has to wait for a place.
    pub(crate) fn rendezvous_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) -> bool {
        let Envelope { origin, dispatch, total, .. } = *envelope;
        let region = RegionId::read_from_bytes(data).ok().filter(|_| header.len() <= HEADER_LIMIT);
        let (Some(region), Some(_)) = (region, self.port.node_of(origin.task())) else {
            self.counters.strays += 1;
            return true;
        };
        // Before the handler, which is asked once; and it may take places itself.
        let Some(number) = self.receptions.free_place() else { return false };
        self.receptions.reserve(number);
        let handler = self.handler(dispatch);
        let received = handler.map_or(Receive::Done, |handler| {
            handler(self, &Message { origin, header, data: &[], total: total as usize })
        });
        if let Receive::Later = received {
            self.receptions.free(number);
            let kept = self.keep_rendezvous(envelope, header, region);
            self.counters.received += u64::from(kept);
            return kept;
        }
        self.counters.received += u64::from(handler.is_some());
        self.counters.unknown_dispatch += u64::from(handler.is_none());
        let order = self.next_order();
        self.begin_pull(number, envelope, order, region, received);
        true
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
            Receive::Done | Receive::Later => Stage::Answer,
            Receive::Into(buffer, then) => {
                let len = total.min(u32::try_from(buffer.len()).unwrap_or(u32::MAX));
                Stage::Whole { region, into: buffer.share(), len, total, then }
            }
            in_pieces => {
                let sink = Self::sink(in_pieces);
                let partial = Partial { origin, message, received: 0, total, acked: false, sink };
                Stage::Pieces { region, partial, landing: None }
            }
        };
        self.receive_at(number, envelope, order, Some(Kind::Pulled), stage);
    }
}
