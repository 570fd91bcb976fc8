//! Arrival: from a packet to its handler, its buffer and its acknowledgement.
//!
//! Packets of one origin come in order, and an origin sends one message at a time to each target. So the state
//! of messages in flight is one entry for each origin that is in the middle of one, found by hashing the origin.

use crate::context::Active;
use crate::device::Port;
use crate::dispatch::{Message, OnPart, OnReceived, Part, Receive, Received};
use crate::endpoint::Endpoint;
use crate::packet::{Envelope, Kind};
use rings::buffer::Buffer;

/// What becomes of the packets after the first.
enum Sink<P: Port> {
    Discard,
    Into(Buffer, OnReceived<P>),
    Packets(OnPart<P>),
}

/// A message of which some packets are still to come.
pub struct Partial<P: Port> {
    origin: Endpoint,
    message: u32,
    received: u32,
    total: u32,
    acked: bool,
    sink: Sink<P>,
}

/// One place in the table of messages in flight; its size is what a context's memory is reckoned by.
pub type Place<P> = Option<Partial<P>>;

/// The messages in flight towards one context: an open-addressed table, twice as many places as endpoints.
pub struct Incoming<P: Port> {
    places: &'static mut [Place<P>],
}

impl<P: Port> Incoming<P> {
    /// Takes a table whose length is a power of two over the number of endpoints that may send.
    pub(crate) fn new(places: &'static mut [Place<P>]) -> Self {
        Self { places }
    }

    /// Whether no message is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.places.iter().all(Option::is_none)
    }

    pub(crate) fn into_places(self) -> &'static mut [Place<P>] {
        self.places
    }

    fn home(&self, origin: Endpoint) -> usize {
        let key = origin.task ^ (u32::from(origin.context.0) << 24);
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

    fn take(&mut self, origin: Endpoint) -> Option<Partial<P>> {
        let mask = self.places.len() - 1;
        let mut hole = self.find(origin)?;
        let taken = self.places[hole].take()?;
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

    fn put(&mut self, entry: Partial<P>) -> Result<(), Partial<P>> {
        match self.find(entry.origin) {
            Some(at) => {
                self.places[at] = Some(entry);
                Ok(())
            }
            None => Err(entry),
        }
    }
}

impl<P: Port> Active<P> {
    pub(crate) fn receive(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        match envelope.kind {
            Kind::First | Kind::FirstAcked => self.first(envelope, header, data),
            Kind::Next => self.next(envelope, data),
            Kind::Ack => self.acknowledged(envelope.origin, envelope.message),
            _ => self.counters.strays += 1,
        }
    }

    fn first(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) {
        let origin = envelope.origin;
        if envelope.offset != 0 {
            self.counters.strays += 1;
            return;
        }
        // Only a hostile or broken origin starts a message in the middle of another.
        if let Some(broken) = self.incoming.take(origin) {
            self.counters.strays += 1;
            self.deliver(broken);
        }
        let handler = self.handlers.get(usize::from(envelope.dispatch)).copied().flatten();
        let received = match handler {
            Some(handler) => {
                self.counters.received += 1;
                let total = envelope.total as usize;
                handler(self, &Message { origin, header, data, total })
            }
            None => {
                self.counters.unknown_dispatch += 1;
                Receive::Done
            }
        };
        let sink = match received {
            Receive::Done => Sink::Discard,
            Receive::Into(buffer, then) => Sink::Into(buffer, then),
            Receive::Packets(then) => Sink::Packets(then),
        };
        let acked = envelope.kind == Kind::FirstAcked;
        let (message, total) = (envelope.message, envelope.total);
        let entry = Partial { origin, message, received: 0, total, acked, sink };
        self.take_in(entry, data);
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
                let _ = other.map(|entry| self.incoming.put(entry));
            }
        }
    }

    /// Puts one packet's data where it belongs, then the entry back if more is to come.
    fn take_in(&mut self, mut entry: Partial<P>, data: &[u8]) {
        let offset = entry.received as usize;
        match &mut entry.sink {
            Sink::Discard => {}
            Sink::Into(buffer, _) => {
                let room = buffer.as_mut_slice().get_mut(offset..).unwrap_or_default();
                let len = room.len().min(data.len());
                room[..len].copy_from_slice(&data[..len]);
            }
            Sink::Packets(then) => {
                let (origin, total) = (entry.origin, entry.total as usize);
                (then.call)(self, &Part { origin, offset, data, total, cookie: then.cookie });
            }
        }
        // The packet parser holds offset + length to at most the total.
        entry.received += data.len() as u32;
        if entry.received >= entry.total {
            if entry.acked {
                self.sends.owe_ack(entry.origin, entry.message);
            }
            self.deliver(entry);
        } else if self.incoming.put(entry).is_err() {
            self.counters.strays += 1;
        }
    }

    fn deliver(&mut self, entry: Partial<P>) {
        if let Sink::Into(buffer, then) = entry.sink {
            let (origin, total) = (entry.origin, entry.total as usize);
            let len = buffer.as_slice().len().min(entry.received as usize);
            (then.call)(self, Received { origin, buffer, len, total, cookie: then.cookie });
        }
    }
}
