//! The engine's way out: descriptors, requests and answers to the adapter.

use super::super::MessageUnit;
use super::super::descriptor::{Body, Descriptor};
use super::super::network::Network;
use super::super::outstanding::{Awaited, Outstanding, Request};
use super::super::responder::Next;
use super::{Engine, EnginePort, Flight, take_over};
use crate::adapter::{Lent, Outcome, ReliableAdapter};
use crate::platform::Platform;
use crate::ranks::Ranks;
use pami::packet::{Header, Kind};
use zerocopy::IntoBytes;

/// Packets of one port, or answers to one node, that are sent in sequence before the next has its turn.
const SEND_BURST: usize = 16;

impl<A: ReliableAdapter> Engine<A> {
    /// Takes back what the adapter is done with.
    #[inline]
    pub(super) fn reclaim<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        starved: bool,
    ) -> bool {
        let mut moved = false;
        while let Some((cookie, outcome)) = self.adapter.reclaim() {
            if outcome == Outcome::Failed {
                unit.counters.failed_packets.add(1);
            }
            moved |= self.retire(cookie, starved);
        }
        moved
    }

    /// Frees what a packet held that was refused.
    #[cold]
    #[inline(never)]
    pub(super) fn retire_refused(&mut self, cookie: u16, starved: bool) {
        self.retire(cookie, starved);
    }

    /// Frees what a packet held.
    #[inline(always)]
    fn retire(&mut self, cookie: u16, starved: bool) -> bool {
        let Some(flight) = self.flights.get_mut(usize::from(cookie)).and_then(Option::take) else {
            return false;
        };
        self.cookies[self.free] = cookie;
        self.free += 1;
        let slot = match flight.body {
            Body::Inline { .. } | Body::Get { .. } => None,
            Body::Copied { slot, .. } => Some(slot),
            Body::Lent { header, data, .. } => {
                self.lent -= 1;
                if let Some(lender) = flight.lender {
                    self.to_wake.insert(lender);
                }
                drop(data);
                header
            }
        };
        let Some(port) = flight.port else {
            if let Some(slot) = slot {
                self.responder.give_back(slot);
            }
            return true;
        };
        let ends = &mut self.ports[usize::from(port)];
        if let Some(slot) = slot {
            // There is room: the ring is as long as the port has slots.
            let _ = ends.freed.push(slot);
        }
        ends.record.note_retired();
        if starved {
            self.to_wake.insert(port);
        }
        true
    }

    /// Whether packets or answers wait for room in the adapter, or for answers.
    #[inline]
    pub(super) fn has_to_send(&self) -> bool {
        !self.pending.is_empty() || !self.responder.owes_nothing()
    }

    /// Gives the adapter what it takes. Ports and answers have the first turn alternately: neither may keep the other
    /// from the little room that a slow peer leaves.
    #[inline]
    pub(super) fn send<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>, starved: bool) -> bool {
        self.answers_first = !self.answers_first;
        let mut moved = self.answers_first && !self.responder.owes_nothing() && self.send_answers(unit);
        moved |= !self.pending.is_empty() && self.send_pending(unit, starved);
        moved | (!self.answers_first && !self.responder.owes_nothing() && self.send_answers(unit))
    }

    /// Gives the adapter what it takes of the ports' packets, the ports taking turns. What a node does not take is
    /// parked.
    #[inline]
    fn send_pending<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>, starved: bool) -> bool {
        let mut moved = false;
        // Those that have had what they can have now stay in this set, and do not come back to the other.
        let mut ready = self.pending;
        while let Some(port) = ready.take_next(self.turn) {
            let mut left = SEND_BURST;
            if !self.ports[usize::from(port)].parked.is_empty() {
                self.send_parked(unit, port, &mut left, starved);
            }
            let (mut went, mut room) = (left < SEND_BURST, true);
            while left > 0 {
                room = self.has_room();
                if !room {
                    break;
                }
                let Self { ports, adapter, asked, outstanding, .. } = self;
                let ends = &mut ports[usize::from(port)];
                let Some(next) = ends.descriptors.peek() else { break };
                let (node, kind) = (next.body.node(), next.header.kind());
                // Nothing overtakes what is parked or aside.
                let some = !ends.parked.is_empty() || adapter.has_aside();
                let may = !(some && has_before(ends, adapter))
                    && adapter.has_room_for(node)
                    && (!kind.is_some_and(Kind::is_request) || may_ask(asked, outstanding, unit, node));
                if may {
                    let Some(Descriptor { header, body }) = ends.descriptors.pop() else { break };
                    self.send_one(unit, port, (&header, body), starved);
                    left -= 1;
                } else {
                    let Some(flow) = ends.descriptors.peek().map(|next| next.flow()) else { break };
                    if !ends.park(flow) {
                        break;
                    }
                }
                went = true;
            }
            moved |= went;
            // Only what left its FIFO, or its list, made room there.
            if starved && went {
                self.to_wake.insert(port);
            }
            if !room {
                break;
            }
            if left == 0 {
                ready.insert(port);
            } else {
                let ends = &mut self.ports[usize::from(port)];
                if ends.descriptors.is_empty() && ends.parked.is_empty() {
                    self.pending.remove(port);
                }
            }
            self.turn = port + 1;
        }
        moved
    }

    /// Gives the adapter at most `left` of a port's parked packets, and takes them off that.
    #[cold]
    fn send_parked<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        port: u16,
        left: &mut usize,
        starved: bool,
    ) {
        let mut at = 0;
        while *left > 0
            && self.has_room()
            && let Some(first) = self.ports[usize::from(port)].parked.first(at)
        {
            let (node, kind, flow) = (first.body.node(), first.header.kind(), first.flow());
            let behind = !self.ports[usize::from(port)].parked.may_go(at)
                || self.adapter.holds_aside(node, flow.name());
            let Self { adapter, asked, outstanding, .. } = self;
            let may = adapter.has_room_for(node)
                && (!kind.is_some_and(Kind::is_request) || may_ask(asked, outstanding, unit, node));
            if behind || !may {
                at += 1;
                continue;
            }
            let ends = &mut self.ports[usize::from(port)];
            let Some(Descriptor { header, body }) = ends.parked.take(at) else { return };
            self.send_one(unit, port, (&header, body), starved);
            *left -= 1;
        }
    }

    /// Gives the adapter a port's packet; its node takes it.
    // A descriptor is not worth moving twice.
    #[inline(always)]
    fn send_one<P: Platform, N: Network>(
        &mut self,
        unit: &MessageUnit<P, N>,
        port: u16,
        (header, body): (&Header, Body),
        starved: bool,
    ) {
        let node = body.node();
        let is_request = header.kind().is_some_and(Kind::is_request);
        let (body, request) = if is_request { unit.split_request(port, header, body) } else { (body, None) };
        if let Some(refused) = self.transmit(Some(port), Some(port), header, body) {
            unit.counters.failed_packets.add(1);
            self.retire_refused(refused, starved);
            if let Some(request) = request {
                self.outstanding.forget(&request);
                // It may wait for the memory that the request held.
                self.to_wake.insert(request.port);
            }
            return;
        }
        if let (Some(request), Some(index)) = (request, self.asked.find(node)) {
            // There is room: `may_ask` looked.
            self.outstanding.add(index, request);
        }
        unit.counters.sent_packets.add(1);
        unit.counters.sent_bytes.add(header.payload_len() as u64);
    }

    /// Gives the adapter what it takes of the answers to other nodes, the nodes taking turns.
    fn send_answers<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) -> bool {
        let mut moved = false;
        let mut ready = self.responder.owed();
        while let Some(node) = ready.next(self.responder.turn()) {
            let Some(rank) = self.askers.rank(node) else { return moved };
            for _ in 0..SEND_BURST {
                if !self.has_room() {
                    return moved;
                }
                if !self.adapter.has_room_for(rank) {
                    ready.remove(node);
                    break;
                }
                let (header, body) =
                    match self.responder.next(node, rank, &unit.regions, self.slots, unit.bulk) {
                        Next::Packet(header, body) => (header, body),
                        // A slot comes back when the adapter has sent what lies in it.
                        Next::NoSlot | Next::Nothing => {
                            ready.remove(node);
                            break;
                        }
                    };
                moved = true;
                unit.counters.sent_packets.add(1);
                unit.counters.sent_bytes.add(header.payload_len() as u64);
                let lends = matches!(body, Body::Lent { .. });
                let lender = if lends { unit.port_of(&header) } else { None };
                if let Some(refused) = self.transmit_own(lender, &header, body) {
                    unit.counters.failed_packets.add(1);
                    self.retire_refused(refused, false);
                }
            }
            self.responder.had_turn(node);
        }
        moved
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.free > 0 && self.adapter.has_room()
    }

    /// As [`transmit`](Self::transmit), of what no port sends.
    #[inline(never)]
    pub(super) fn transmit_own(&mut self, lender: Option<u16>, header: &Header, body: Body) -> Option<u16> {
        self.transmit(None, lender, header, body)
    }

    /// Gives the adapter one packet; there is room for it. Returns the packet's cookie if it was refused: its node
    /// is dead.
    #[must_use]
    // The way of all packets, in one piece.
    #[inline(always)]
    fn transmit(
        &mut self,
        port: Option<u16>,
        lender: Option<u16>,
        header: &Header,
        body: Body,
    ) -> Option<u16> {
        self.free -= 1;
        let cookie = self.cookies[self.free];
        let flight = self.flights[usize::from(cookie)].insert(Flight { port, lender, body });
        let (node, inline, lent) = match &flight.body {
            Body::Inline { node, len, bytes } => (*node, &bytes[..usize::from(*len)], [Lent::NONE; 2]),
            Body::Copied { node, slot } => {
                let payload = &self.slots.bytes(slot)[..header.payload_len()];
                (*node, &[][..], [Lent::new(payload), Lent::NONE])
            }
            Body::Lent { node, header: slot, data } => {
                self.lent += 1;
                let front = slot
                    .as_ref()
                    .map_or(Lent::NONE, |slot| Lent::new(&self.slots.bytes(slot)[..header.header_len()]));
                (*node, &[][..], [front, Lent::new(data.as_slice())])
            }
            Body::Get { node, .. } => (*node, &[][..], [Lent::NONE; 2]),
        };
        // SAFETY: the flight's body owns the slot and the source that are lent; it stays in `flights` under this cookie,
        // which is nobody else's, until the adapter gives the cookie back.
        let taken = unsafe { self.adapter.transmit(node, header.as_bytes(), inline, lent, cookie) };
        (!taken).then_some(cookie)
    }
}

/// Whether the next packet of a port's FIFO has to wait for some that are parked or aside.
#[cold]
fn has_before<A: ReliableAdapter>(ends: &mut EnginePort, adapter: &A) -> bool {
    let Some((flow, node)) = ends.descriptors.peek().map(|next| (next.flow(), next.body.node())) else {
        return false;
    };
    ends.parked.has_before(flow) || adapter.holds_aside(node, flow.name())
}

/// Whether node `node` may be asked for something now.
#[inline(never)]
fn may_ask<P: Platform, N: Network>(
    asked: &mut Ranks,
    outstanding: &Outstanding,
    unit: &MessageUnit<P, N>,
    node: u32,
) -> bool {
    let index = asked.find_or_add(node);
    match index.or_else(|| take_over(asked, node, |index| outstanding.is_idle(index))) {
        Some(index) => outstanding.has_room(index),
        // What is for a node that is gone is refused and waits for none that lives.
        None => unit.gone(node).is_some(),
    }
}

impl<P: Platform, N: Network> MessageUnit<P, N> {
    /// The port of this node that a packet comes from.
    fn port_of(&self, header: &Header) -> Option<u16> {
        let origin = header.envelope()?.origin;
        let place = self.map.place(origin.task())?;
        self.port_number(origin.client(), place.local, origin.context().0)
    }

    /// Splits a request from injection FIFO `injection` into what goes over the wire and what is kept of it.
    fn split_request(&self, injection: u16, header: &Header, body: Body) -> (Body, Option<Request>) {
        let Some(envelope) = header.envelope() else { return (body, None) };
        // A shared FIFO is that of context 0; either way the group's ports lie behind each other.
        let contexts = u16::from(self.contexts).max(1);
        let port = injection - injection % contexts + u16::from(envelope.origin.context().0);
        let request = |awaited| Some(Request { port, message: envelope.message, awaited });
        match (envelope.kind, body) {
            (Kind::PutLast, body) => (body, request(Awaited::End)),
            (Kind::Rmw, body) => (body, request(Awaited::Word)),
            (Kind::Get, Body::Get { node, region, into, at, last }) => {
                let mut bytes = [0; 12];
                bytes[..8].copy_from_slice(region.as_bytes());
                bytes[8..].copy_from_slice(&at.to_le_bytes());
                let awaited = Awaited::Data { into, at, left: envelope.total, last };
                (Body::inline(node, &bytes), request(awaited))
            }
            (_, body) => (body, None),
        }
    }
}
