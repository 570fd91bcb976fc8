//! Arrival: from a packet to its handler, its buffer and its acknowledgement.
//!
//! Packets of one origin come in order, and an origin sends one message at a time to each target. So the state
//! of messages in flight is one entry for each origin that is in the middle of one, found by hashing the origin.

use crate::context::Active;
use crate::device::{Arrival, Port};
use crate::dispatch::{DISPATCH_IDS, Handler, Message, OnPart, OnReceived, Part, Receive, Received};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::layout::{Cursor, Layout};
use crate::packet::{Envelope, Kind};
use crate::send::HEADER_LIMIT;
use rings::buffer::Buffer;

/// What becomes of a message's data.
pub(crate) enum Sink<P: Port> {
    Discard,
    Into(Buffer, OnReceived<P>),
    Scatter(Scatter, OnReceived<P>),
    Packets(OnPart<P>),
    /// The kept place with this number.
    Kept(u8),
}

/// Data on its way to places in a buffer.
pub(crate) struct Scatter {
    buffer: Buffer,
    layout: Layout,
    cursor: Cursor,
    placed: usize,
    /// Something did not fit.
    over: bool,
}

impl Scatter {
    fn new(buffer: Buffer, layout: Layout) -> Self {
        Self { buffer, layout, cursor: Cursor::default(), placed: 0, over: false }
    }

    fn place(&mut self, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() && !self.over {
            let run = self.layout.next_run(&mut self.cursor, rest.len() as u32);
            let room = run.and_then(|(offset, len)| {
                let offset = offset as usize;
                self.buffer.as_mut_slice().get_mut(offset..offset.checked_add(len as usize)?)
            });
            let Some(room) = room.filter(|room| room.len() <= rest.len()) else {
                self.over = true;
                return;
            };
            let (now, later) = rest.split_at(room.len());
            room.copy_from_slice(now);
            self.placed += now.len();
            rest = later;
        }
    }
}

/// A message of which some data is still to come.
pub(crate) struct Partial<P: Port> {
    pub(crate) origin: Endpoint,
    pub(crate) message: u32,
    pub(crate) received: u32,
    pub(crate) total: u32,
    pub(crate) acked: bool,
    pub(crate) sink: Sink<P>,
}

/// One place in the table of messages in flight; its size is what a context's memory is reckoned by.
pub(crate) type Place<P> = Option<Partial<P>>;

/// The messages in flight towards one context: an open-addressed table, twice as many places as endpoints.
pub(crate) struct Incoming<P: Port> {
    places: &'static mut [Place<P>],
    used: usize,
}

impl<P: Port> Incoming<P> {
    /// Takes a table whose length is a power of two over the number of endpoints that may send.
    pub(crate) fn new(places: &'static mut [Place<P>]) -> Self {
        Self { places, used: 0 }
    }

    /// Whether no message is in flight.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn into_places(self) -> &'static mut [Place<P>] {
        self.places
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Partial<P>> {
        self.places.iter().flatten().take(self.used)
    }

    /// An origin that is in the middle of a message and for which `holds` holds.
    pub(crate) fn find_origin(&self, holds: impl Fn(Endpoint) -> bool) -> Option<Endpoint> {
        self.iter().map(|entry| entry.origin).find(|&origin| holds(origin))
    }

    fn home(&self, origin: Endpoint) -> usize {
        let key = origin.task() ^ (u32::from(origin.context().0) << 24);
        (key.wrapping_mul(0x9e37_79b9) >> 7) as usize & (self.places.len() - 1)
    }

    /// The place that holds `origin`'s entry, or else the free one where it belongs.
    fn find(&self, origin: Endpoint) -> Option<usize> {
        let mask = self.places.len() - 1;
        let home = self.home(origin);
        (0..=mask)
            .map(|step| (home + step) & mask)
            .find(|&at| self.places[at].as_ref().is_none_or(|entry| entry.origin == origin))
    }

    pub(crate) fn take(&mut self, origin: Endpoint) -> Option<Partial<P>> {
        if self.used == 0 {
            return None;
        }
        let mask = self.places.len() - 1;
        let mut hole = self.find(origin)?;
        let taken = self.places[hole].take()?;
        self.used -= 1;
        // Entries behind the hole move up, so that a search never has to pass one.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(entry) = &self.places[at] else { break };
            let wants = self.home(entry.origin);
            if (at.wrapping_sub(wants) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.places[hole] = self.places[at].take();
                hole = at;
            }
        }
        Some(taken)
    }

    /// Returns whether there was room.
    pub(crate) fn put(&mut self, entry: Partial<P>) -> bool {
        let Some(at) = self.find(entry.origin) else { return false };
        self.used += usize::from(self.places[at].is_none());
        self.places[at] = Some(entry);
        true
    }
}

impl<P: Port> Active<P> {
    /// Does with a packet what its kind says. Returns `false` if it has to wait; nothing was done then.
    #[inline(never)]
    pub(crate) fn receive(&mut self, arrival: &P::Arrival) -> bool {
        let (header, data) = arrival.parts();
        // Most messages: nothing of them, nor of another of their origin, is anywhere else.
        if let Some((dispatch, origin)) = arrival.whole()
            && self.incoming.is_idle()
            && let Some(handler) = self.handler(dispatch)
        {
            let received = handler(self, &Message { origin, header, data, total: data.len() });
            if matches!(received, Receive::Done) {
                self.counters.received += 1;
                return true;
            }
            return self.begin_reception(&arrival.envelope(), header, data, received);
        }
        self.receive_any(&arrival.envelope(), header, data)
    }

    /// A packet that lies ready in memory, while nothing is under way: if it is a whole message, the shortest way to its
    /// handler. It comes from a context of this node, which sends one message after the other, to ids of handlers. Returns
    /// whether there was one that does not have to wait.
    #[inline(never)]
    pub(crate) fn take_ready(&mut self) -> bool {
        let Some(arrival) = self.port.pull_ready() else { return false };
        let Some((dispatch, origin)) = arrival.whole() else { return self.take_other(arrival) };
        let Some(handler) = self.handlers[usize::from(dispatch) % DISPATCH_IDS] else {
            return self.take_other(arrival);
        };
        let (header, data) = arrival.parts();
        let received = handler(self, &Message { origin, header, data, total: data.len() });
        if !matches!(received, Receive::Done) {
            return self.take_more(arrival, received);
        }
        self.counters.received += 1;
        self.port.release(arrival);
        true
    }

    /// One that is not a whole message for a handler.
    #[inline(never)]
    fn take_other(&mut self, arrival: P::Arrival) -> bool {
        let taken = self.receive(&arrival);
        self.let_go(arrival, taken)
    }

    /// A whole message whose handler wants more than to have seen it.
    #[inline(never)]
    fn take_more(&mut self, arrival: P::Arrival, received: Receive<P>) -> bool {
        let (header, data) = arrival.parts();
        let taken = self.begin_reception(&arrival.envelope(), header, data, received);
        self.let_go(arrival, taken)
    }

    fn let_go(&mut self, arrival: P::Arrival, taken: bool) -> bool {
        if taken {
            self.port.release(arrival);
        } else {
            self.hold(arrival);
        }
        taken
    }

    fn receive_any(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) -> bool {
        match envelope.kind {
            Kind::First | Kind::FirstAcked => self.first(envelope, header, data),
            _ => self.receive_later(envelope, header, data),
        }
    }

    fn receive_later(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) -> bool {
        match envelope.kind {
            Kind::Next => self.next(envelope, data),
            Kind::Ack => self.ack_arrived(envelope, data),
            Kind::Rts => return self.rendezvous_arrived(envelope, header, data),
            Kind::Pulled => self.pulled(envelope.origin, envelope.message),
            Kind::Fence => return self.fence_arrived(envelope),
            Kind::FenceAck => self.fence_acked(envelope.origin, envelope.message),
            Kind::Collective => return self.collective_arrived(envelope, header, data),
            Kind::Chunk => return self.chunk_arrived(envelope, header, data),
            Kind::Refused => self.refusal_arrived(envelope),
            Kind::AskAdvice => return self.advice_asked(envelope),
            Kind::Advice => self.advice_arrived(envelope),
            // The rest is the message unit's.
            _ => self.counters.strays += 1,
        }
        true
    }

    /// The handler of a dispatch id.
    #[inline]
    pub(crate) fn handler(&self, dispatch: u8) -> Option<Handler<P>> {
        self.handlers.get(usize::from(dispatch)).copied().flatten()
    }

    fn first(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) -> bool {
        if (envelope.offset != 0 || !self.incoming.is_idle()) && self.is_stray_first(envelope) {
            return true;
        }
        let Some(handler) = self.handler(envelope.dispatch) else { return self.no_handler(envelope, data) };
        let total = envelope.total as usize;
        let received = handler(self, &Message { origin: envelope.origin, header, data, total });
        if matches!(received, Receive::Done) && data.len() >= total {
            self.counters.received += 1;
            if envelope.kind == Kind::FirstAcked {
                self.owe_ack(envelope.origin, envelope.message);
            }
            return true;
        }
        self.begin_reception(envelope, header, data, received)
    }

    /// Whether a first packet makes no sense. A message of which its origin was in the middle ends: only a hostile or
    /// broken one starts another.
    #[cold]
    #[inline(never)]
    fn is_stray_first(&mut self, envelope: &Envelope) -> bool {
        if envelope.offset != 0 {
            self.counters.strays += 1;
            return true;
        }
        if let Some(broken) = self.incoming.take(envelope.origin) {
            self.counters.strays += 1;
            self.deliver(broken, Ok(()));
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn no_handler(&mut self, envelope: &Envelope, data: &[u8]) -> bool {
        self.counters.unknown_dispatch += 1;
        self.take_first(envelope, data, Sink::Discard);
        true
    }

    /// Begins to do with an eager message what its handler said.
    #[inline(never)]
    fn begin_reception(
        &mut self,
        envelope: &Envelope,
        header: &[u8],
        data: &[u8],
        received: Receive<P>,
    ) -> bool {
        let sink = match received {
            Receive::Done => Sink::Discard,
            Receive::Into(buffer, then) => Sink::Into(buffer, then),
            Receive::Scatter(buffer, layout, then) => Sink::Scatter(Scatter::new(buffer, layout), then),
            Receive::Packets(then) => Sink::Packets(then),
            Receive::Later if header.len() > HEADER_LIMIT => {
                self.counters.strays += 1;
                Sink::Discard
            }
            Receive::Later => match self.keep_eager(envelope, header) {
                Some(place) => Sink::Kept(place),
                None => return false,
            },
        };
        self.counters.received += 1;
        self.take_first(envelope, data, sink);
        true
    }

    fn take_first(&mut self, envelope: &Envelope, data: &[u8], sink: Sink<P>) {
        let Envelope { origin, message, total, .. } = *envelope;
        // Of a kept message the place knows that.
        let acked = envelope.kind == Kind::FirstAcked && !matches!(sink, Sink::Kept(_));
        self.take_in(Partial { origin, message, received: 0, total, acked, sink }, data);
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
                self.counters.strays += 1;
                // It had a place a moment ago.
                if let Some(entry) = other {
                    self.incoming.put(entry);
                }
            }
        }
    }

    /// Puts one packet's data where it belongs, then the entry back if more is to come.
    fn take_in(&mut self, mut entry: Partial<P>, data: &[u8]) {
        self.absorb(&mut entry, data);
        if entry.received >= entry.total {
            if entry.acked {
                self.owe_ack(entry.origin, entry.message);
            }
            self.deliver(entry, Ok(()));
        } else {
            self.stir();
            self.counters.strays += u64::from(!self.incoming.put(entry));
        }
    }

    /// Puts the next `data` of a message where it belongs. It is at most what is missing: the packet parser sees to it.
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
            Sink::Kept(place) => self.kept.store(*place, offset, data),
        }
        entry.received += data.len() as u32;
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
            Sink::Scatter(scatter, then) => (scatter.buffer, scatter.placed, then),
            Sink::Packets(then) if result.is_err() => {
                let (offset, cookie) = (received as usize, then.cookie);
                return (then.call)(self, &Part { origin, offset, data: &[], total, result, cookie });
            }
            Sink::Kept(place) => return self.kept.stored(place, received, result),
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
            Receive::Done | Receive::Later => Sink::Discard,
        }
    }
}
