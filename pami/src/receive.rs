//! Arrival: from a packet to its handler, its buffer and its acknowledgement.
//!
//! Packets of one origin come in order, and an origin sends one message at a time to each target. So the state
//! of messages in flight is one entry for each origin that is in the middle of one, found by hashing the origin.

use crate::acks::Lack;
use crate::context::{Active, Handler, OnPart, OnReceived, Receive};
use crate::device::{Arrival, Port};
use crate::dispatch::{Message, Part, Received};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::layout::{Cursor, Layout};
use crate::packet::{DISPATCH_IDS, Envelope, HEADER_LIMIT, Kind, LATER};
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

/// What a handler wants of a message.
pub(crate) enum Wish<P: Port> {
    Take(Receive<P>),
    /// To be asked later.
    Later,
    /// There is no handler.
    Nobody,
}

/// What the origin is told when all of an eager message is in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owes {
    Nothing,
    /// That it is, and it hears no more of it.
    Ack,
    /// That it is kept; and when it is accepted, that.
    Both,
}

impl Owes {
    /// For a message that is taken.
    fn taken(kind: Kind) -> Self {
        if kind == Kind::First { Self::Nothing } else { Self::Ack }
    }

    /// For one that is kept.
    pub(crate) fn kept(kind: Kind) -> Self {
        if kind == Kind::AskedAcked { Self::Both } else { Self::taken(kind) }
    }
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
    pub(crate) owes: Owes,
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
                self.transport.counters.received += 1;
                return;
            }
            return self.begin_reception(&arrival.envelope(), data, received);
        }
        self.receive_any(&arrival.envelope(), header, data);
    }

    /// A packet that lies ready in memory, while nothing is under way: if it is a whole message, the shortest way to its
    /// handler. It comes from a context of this node, which sends one message after the other, to ids of handlers. Returns
    /// whether there was one.
    #[inline(never)]
    pub(crate) fn take_ready(&mut self) -> bool {
        let Some(arrival) = self.transport.port.pull_ready() else { return false };
        let Some((dispatch, origin)) = arrival.whole() else { return self.take_other(arrival) };
        let Some(handler) = self.handlers[usize::from(dispatch) % DISPATCH_IDS] else {
            return self.take_other(arrival);
        };
        let (header, data) = arrival.parts();
        let received = handler(self, &Message { origin, header, data, total: data.len() });
        if !matches!(received, Receive::Done) {
            return self.take_more(arrival, received);
        }
        self.transport.counters.received += 1;
        self.transport.port.release(arrival);
        true
    }

    /// One that is not a whole message for a handler.
    #[inline(never)]
    fn take_other(&mut self, arrival: P::Arrival) -> bool {
        self.receive(&arrival);
        self.transport.port.release(arrival);
        true
    }

    /// A whole message whose handler wants more than to have seen it.
    #[inline(never)]
    fn take_more(&mut self, arrival: P::Arrival, received: Receive<P>) -> bool {
        self.begin_reception(&arrival.envelope(), arrival.parts().1, received);
        self.transport.port.release(arrival);
        true
    }

    fn receive_any(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        match envelope.kind {
            Kind::First | Kind::FirstAcked => self.first(envelope, header, data),
            _ => self.receive_later(envelope, header, data),
        }
    }

    fn receive_later(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        match envelope.kind {
            Kind::Next => self.next(envelope, data),
            Kind::Ack => self.acks_arrived(envelope.origin, data),
            Kind::Rts => self.rendezvous_arrived(envelope, header, data),
            Kind::Pulled => self.pulled(envelope.origin, envelope.message),
            Kind::Fence => self.fence_arrived(envelope),
            Kind::FenceAck => self.fences_acked(envelope.origin, data),
            Kind::Collective => self.collective_arrived(envelope, header, data),
            Kind::Chunk => self.chunk_arrived(envelope, header, data),
            Kind::Refused => self.refusals_arrived(envelope, data),
            Kind::Asked | Kind::AskedAcked => self.asked(envelope, header, data),
            Kind::Admitted => self.admissions_arrived(envelope.origin, data),
            Kind::Retry => self.refused(envelope.origin, envelope.message),
            Kind::AskAdvice => self.advice_asked(envelope),
            Kind::Advice => self.advice_arrived(envelope),
            // The rest is the message unit's.
            _ => self.transport.counters.strays += 1,
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
        let later = usize::from(dispatch).checked_sub(usize::from(LATER)).and_then(|id| self.later.get(id));
        match later.copied().flatten() {
            Some(handler) => handler(self, message).map_or(Wish::Later, Wish::Take),
            None => Wish::Nobody,
        }
    }

    /// The first packet of a message that can be refused.
    fn asked(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let Envelope { origin, message, total, .. } = *envelope;
        if header.len() > HEADER_LIMIT {
            self.transport.stray();
            return;
        }
        if !self.acks.opens_for(origin, message) || self.is_stray_first(envelope) {
            return;
        }
        let total = total as usize;
        match self.ask(envelope.dispatch, &Message { origin, header, data, total }) {
            Wish::Take(received) => {
                self.acks.let_in(origin);
                self.begin_reception(envelope, data, received);
            }
            Wish::Later => match self.keep_eager(envelope, header) {
                Some(place) => {
                    self.acks.let_in(origin);
                    self.transport.counters.received += 1;
                    self.take_first(envelope, data, Sink::Kept(place), Owes::kept(envelope.kind));
                }
                None => self.refuse(envelope, Lack::Kept(envelope.total)),
            },
            Wish::Nobody => {
                self.acks.let_in(origin);
                self.no_handler(envelope, data);
            }
        }
    }

    fn first(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        if (envelope.offset != 0 || !self.incoming.is_idle()) && self.is_stray_first(envelope) {
            return;
        }
        let Some(handler) = self.handler(envelope.dispatch) else { return self.no_handler(envelope, data) };
        let total = envelope.total as usize;
        let received = handler(self, &Message { origin: envelope.origin, header, data, total });
        if matches!(received, Receive::Done) && data.len() >= total {
            self.transport.counters.received += 1;
            if envelope.kind == Kind::FirstAcked {
                self.owe_ack(envelope.origin, envelope.message);
            }
            return;
        }
        self.begin_reception(envelope, data, received);
    }

    /// Whether a first packet makes no sense. A message of which its origin was in the middle ends: only a hostile or
    /// broken one starts another.
    #[cold]
    #[inline(never)]
    fn is_stray_first(&mut self, envelope: &Envelope) -> bool {
        if envelope.offset != 0 {
            self.transport.stray();
            return true;
        }
        if let Some(broken) = self.incoming.take(envelope.origin) {
            self.transport.stray();
            self.deliver(broken, Ok(()));
        }
        false
    }

    #[cold]
    #[inline(never)]
    fn no_handler(&mut self, envelope: &Envelope, data: &[u8]) {
        self.transport.counters.unknown_dispatch += 1;
        self.take_first(envelope, data, Sink::Discard, Owes::taken(envelope.kind));
    }

    /// Begins to do with an eager message what its handler said.
    #[inline(never)]
    fn begin_reception(&mut self, envelope: &Envelope, data: &[u8], received: Receive<P>) {
        self.transport.counters.received += 1;
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
                // What was refused at its first packet comes again.
                self.transport.counters.strays += u64::from(!self.acks.is_shut(envelope.origin));
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
            match entry.owes {
                Owes::Nothing => {}
                Owes::Ack => self.owe_ack(entry.origin, entry.message),
                Owes::Both => self.owe_admission(entry.origin, entry.message),
            }
            self.deliver(entry, Ok(()));
        } else {
            self.stir();
            self.transport.counters.strays += u64::from(!self.incoming.put(entry));
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
            Receive::Done => Sink::Discard,
        }
    }
}
