//! Arrival: from a packet to its handler, its buffer and its acknowledgement.

use super::{Active, Handler, Partial, Receive, Sink, Wish};
use crate::acks::Lack;
use crate::device::Arrival;
use crate::device::Port;
use crate::dispatch::{Message, Part, Received};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::packet::{DEFERRING, Envelope, HEADER_LIMIT, Kind, is_dispatch_id};
use crate::receive::{Owes, Scatter};

impl<P: Port> Active<P> {
    /// Does with a packet what its kind says.
    #[inline(never)]
    pub(crate) fn receive(&mut self, arrival: &P::Arrival) {
        let (header, data) = arrival.parts();
        // Most messages: nothing of them, nor of another of their origin, is anywhere else.
        if let Some((dispatch, origin)) = arrival.whole()
            && self.incoming.is_idle()
            && let Some(handler) = self.handler(dispatch)
        {
            let received = handler(self, &Message { origin, header, data, total: data.len() });
            if matches!(received, Receive::Done) {
                self.transport.note_received();
                return;
            }
            return self.begin_reception(&arrival.envelope(), data, received);
        }
        self.receive_any(&arrival.envelope(), header, data);
    }

    fn receive_any(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        match envelope.kind {
            Kind::EagerFirst | Kind::EagerFirstAcked => self.first(envelope, header, data),
            _ => self.receive_later(envelope, header, data),
        }
    }

    fn receive_later(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        match envelope.kind {
            Kind::EagerNext => self.next(envelope, data),
            Kind::Ack => self.acks_arrived(envelope.origin, data),
            Kind::Rts => self.rendezvous_arrived(envelope, header, data),
            Kind::RendezvousDone => self.rendezvous_done(envelope.origin, envelope.message),
            Kind::PutSignal | Kind::PutSignalAcked => self.signal_arrived(envelope, header),
            Kind::Fence => self.fence_arrived(envelope),
            Kind::FenceAck => self.fences_acked(envelope.origin, data),
            Kind::Collective => self.collective_arrived(envelope, header, data),
            Kind::Chunk => self.chunk_arrived(envelope, header, data),
            Kind::Refused => self.refusals_arrived(envelope, data),
            Kind::Asked | Kind::AskedAcked => self.asked(envelope, header, data),
            Kind::Admitted => self.admissions_arrived(envelope.origin, data),
            Kind::Retry => self.refused(envelope.origin, envelope.message),
            Kind::Query => self.query_arrived(envelope, data),
            Kind::Unknown => self.unknown_arrived(envelope, data),
            Kind::AskAdvice => self.advice_asked(envelope),
            Kind::Advice => self.advice_arrived(envelope),
            // The rest is the message unit's.
            _ => self.transport.protocol_error(),
        }
    }

    /// The handler of a dispatch id.
    #[inline]
    pub(crate) fn handler(&self, dispatch: u8) -> Option<Handler<P>> {
        self.handlers.get(usize::from(dispatch)).copied().flatten()
    }

    /// Asks the handler of a dispatch id.
    pub(crate) fn ask(&mut self, dispatch: u8, message: &Message<'_>) -> Wish<P> {
        if let Some(handler) = self.handler(dispatch) {
            return Wish::Take(handler(self, message));
        }
        let later =
            usize::from(dispatch).checked_sub(usize::from(DEFERRING)).and_then(|id| self.deferring.get(id));
        match later.copied().flatten() {
            Some(handler) => handler(self, message).map_or(Wish::Defer, Wish::Take),
            None => self.ask_late(dispatch, message),
        }
    }

    /// The same of a handler that this context does not know yet.
    #[cold]
    #[inline(never)]
    fn ask_late(&mut self, dispatch: u8, message: &Message<'_>) -> Wish<P> {
        if let Some(handler) = self.learn(dispatch) {
            return Wish::Take(handler(self, message));
        }
        match self.learn_deferring(dispatch) {
            Some(handler) => handler(self, message).map_or(Wish::Defer, Wish::Take),
            None if self.late.is_some() && dispatch >= DEFERRING && is_dispatch_id(dispatch) => Wish::Defer,
            None => Wish::Nobody,
        }
    }

    /// The first packet of a message that can be refused.
    fn asked(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let Envelope { origin, message, total, .. } = *envelope;
        if header.len() > HEADER_LIMIT {
            self.transport.protocol_error();
            return;
        }
        if !self.acks.opens_for(origin, message) || self.is_stray_first(envelope, data.len()) {
            return;
        }
        if !self.can_answer(origin) {
            return;
        }
        let total = total as usize;
        // Before the handler, which is asked once.
        if data.len() < total && !self.has_half_for(origin) {
            return self.refuse(envelope, Lack::Half);
        }
        match self.ask(envelope.dispatch, &Message { origin, header, data, total }) {
            Wish::Take(received) => {
                self.acks.let_in(origin);
                self.begin_reception(envelope, data, received);
            }
            Wish::Defer => match self.keep_eager(envelope, header) {
                Some(place) => {
                    self.acks.let_in(origin);
                    self.transport.note_received();
                    self.take_first(envelope, data, Sink::Unexpected(place), Owes::unexpected(envelope.kind));
                }
                None => self.refuse(envelope, Lack::Unexpected(envelope.total)),
            },
            Wish::Nobody => {
                self.acks.let_in(origin);
                self.no_handler(envelope, data);
            }
        }
    }

    pub(crate) fn first(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        if (envelope.offset != 0 || !self.incoming.is_idle()) && self.is_stray_first(envelope, data.len()) {
            return;
        }
        let dispatch = envelope.dispatch;
        let Some(handler) = self.handler(dispatch).or_else(|| self.learn(dispatch)) else {
            return self.no_handler(envelope, data);
        };
        let total = envelope.total as usize;
        let received = handler(self, &Message { origin: envelope.origin, header, data, total });
        if matches!(received, Receive::Done) && data.len() >= total {
            self.transport.note_received();
            if envelope.kind == Kind::EagerFirstAcked {
                self.owe_ack(envelope.origin, envelope.message);
            }
            return;
        }
        self.begin_reception(envelope, data, received);
    }

    /// Whether a message of an origin's may be half-way in: its node leaves some places to others.
    pub(crate) fn has_half_for(&self, origin: Endpoint) -> bool {
        let port = &self.port;
        let node = port.node_of(origin.task());
        self.incoming.has_room_for(|other| port.node_of(other.task()) == node)
    }

    /// Whether a first packet with so many bytes makes no sense. A message of which its origin was in the middle ends: only a
    /// hostile or broken one starts another, or one that has no place and does not ask.
    #[cold]
    #[inline(never)]
    fn is_stray_first(&mut self, envelope: &Envelope, len: usize) -> bool {
        if envelope.offset != 0 {
            self.transport.protocol_error();
            return true;
        }
        // What goes over a path of its own is whole, and acknowledged.
        let apart = envelope.kind == Kind::EagerFirstAcked && len == envelope.total as usize;
        if !apart && let Some(broken) = self.incoming.take(envelope.origin) {
            self.transport.protocol_error();
            self.deliver(broken, Ok(()));
        }
        let asks = matches!(envelope.kind, Kind::Asked | Kind::AskedAcked);
        if !asks && len < envelope.total as usize && !self.incoming.has_room() {
            self.transport.protocol_error();
            return true;
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn no_handler(&mut self, envelope: &Envelope, data: &[u8]) {
        self.transport.note_unknown_dispatch();
        self.take_first(envelope, data, Sink::Discard, Owes::taken(envelope.kind));
    }

    /// Begins to do with an eager message what its handler said.
    #[inline(never)]
    pub(super) fn begin_reception(&mut self, envelope: &Envelope, data: &[u8], received: Receive<P>) {
        self.transport.note_received();
        self.take_first(envelope, data, Self::sink(received), Owes::taken(envelope.kind));
    }

    fn take_first(&mut self, envelope: &Envelope, data: &[u8], sink: Sink<P>, owes: Owes) {
        let Envelope { origin, message, total, .. } = *envelope;
        self.take_in(Partial { origin, message, received: 0, total, owes, sink }, data);
    }

    fn next(&mut self, envelope: &Envelope, data: &[u8]) {
        match self.incoming.take(envelope.origin) {
            Some(entry)
                if (entry.message, entry.total, entry.received)
                    == (envelope.message, envelope.total, envelope.offset) =>
            {
                self.take_in(entry, data);
            }
            other => {
                // What was refused, or not looked at, at its first packet comes again.
                if !self.acks.is_crowded() && !self.acks.is_shut(envelope.origin) {
                    self.transport.protocol_error();
                }
                // It had a place a moment ago.
                if let Some(entry) = other {
                    self.incoming.put(entry);
                }
            }
        }
    }

    /// Puts one packet's data where it belongs, then the entry back if more is to come.
    fn take_in(&mut self, mut entry: Partial<P>, data: &[u8]) {
        self.acks.pin(entry.origin);
        self.absorb(&mut entry, data);
        entry.received += data.len() as u32;
        if entry.received >= entry.total {
            if self.incoming.is_crowded() {
                self.acks.note_room();
            }
            match entry.owes {
                Owes::Nothing => {}
                Owes::Ack => self.owe_ack(entry.origin, entry.message),
                Owes::Both => self.owe_admission(entry.origin, entry.message),
            }
            self.deliver(entry, Ok(()));
        } else {
            self.note_work();
            if !self.incoming.put(entry) {
                self.transport.protocol_error();
            }
        }
    }

    /// Puts the next `data` of a message where it belongs, whose entry does not count it yet. It is at most what is missing:
    /// the packet parser sees to it.
    pub(crate) fn absorb(&mut self, entry: &mut Partial<P>, data: &[u8]) {
        let offset = entry.received as usize;
        match &mut entry.sink {
            Sink::Discard => {}
            Sink::Into(buffer, _) => {
                let room = buffer.as_mut_slice().get_mut(offset..).unwrap_or_default();
                let len = room.len().min(data.len());
                room[..len].copy_from_slice(&data[..len]);
            }
            Sink::Scatter(scatter, _) => scatter.place(data),
            Sink::Packets(then) => {
                let (origin, total, cookie) = (entry.origin, entry.total as usize, then.cookie);
                (then.call)(self, &Part { origin, offset, data, total, result: Ok(()), cookie });
            }
            Sink::Unexpected(place) => self.unexpected.store(*place, offset, data),
        }
    }

    /// Tells that all data that comes is in its place.
    pub(crate) fn deliver(&mut self, entry: Partial<P>, result: Result<(), OperationError>) {
        let Partial { origin, received, total, .. } = entry;
        let total = total as usize;
        let (buffer, len, then) = match entry.sink {
            Sink::Into(buffer, then) => {
                let len = buffer.len().min(received as usize);
                (buffer, len, then)
            }
            Sink::Scatter(scatter, then) => {
                let (buffer, placed) = scatter.into_placed();
                (buffer, placed, then)
            }
            Sink::Packets(then) if result.is_err() => {
                let (offset, cookie) = (received as usize, then.cookie);
                return (then.call)(self, &Part { origin, offset, data: &[], total, result, cookie });
            }
            Sink::Unexpected(place) => return self.unexpected.stored(place, received, result),
            Sink::Packets(_) | Sink::Discard => return,
        };
        (then.call)(self, Received { origin, buffer, len, total, result, cookie: then.cookie });
    }

    /// Where the data of a message goes of which the handler wants all, in pieces.
    pub(crate) fn sink(received: Receive<P>) -> Sink<P> {
        match received {
            Receive::Into(buffer, then) => Sink::Into(buffer, then),
            Receive::Scatter(buffer, layout, then) => Sink::Scatter(Scatter::new(buffer, layout), then),
            Receive::Packets(then) => Sink::Packets(then),
            Receive::Done => Sink::Discard,
        }
    }
}
