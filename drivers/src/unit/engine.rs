//! The engine: moves descriptors from injection FIFOs to the adapter and packets from the adapter to reception
//! FIFOs. Whoever holds the token runs it (SPEC D-7).
//!
//! Nothing that arrives is dropped for want of room: a reception FIFO holds as many packets as there are receive
//! buffers. When stalled contexts keep all of them, the adapter has none to receive into, the network holds its
//! packets, and the senders stall (SPEC P-11).

use super::MessageUnit;
use super::bits::PortSet;
use super::descriptor::{Body, Descriptor};
use super::fifo::{Arrived, Lane};
use super::platform::Platform;
use super::slots::CopySlots;
use crate::adapter::{Adapter, FABRIC, HEAD_BYTES, IN_FLIGHT, Lent, Outcome, RxBuffer};
use crate::state::count;
use alloc::boxed::Box;
use pami::packet::{Envelope, Header, Kind, Packet};
use zerocopy::IntoBytes;

/// Packets of one port that are sent in sequence before the next port has its turn.
const SEND_BURST: usize = 16;
/// Packets received in one pass.
const RECEIVE_BURST: usize = 64;

/// A packet that the adapter is sending, and whose memory it reads.
struct Flight {
    /// `None`: the unit's own packet.
    port: Option<u16>,
    body: Body,
}

/// What the token guards.
pub(crate) struct Engine<A> {
    pub(crate) adapter: A,
    lanes: Box<[Lane]>,
    slots: CopySlots,
    /// By cookie.
    flights: Box<[Option<Flight>]>,
    /// The first `free` are not in flight.
    cookies: Box<[u16]>,
    free: usize,
    /// Flights that read senders' memory.
    lent: usize,
    /// Ports with descriptors to send, and whose turn it is.
    pending: PortSet,
    turn: u16,
    to_wake: PortSet,
}

impl<A: Adapter> Engine<A> {
    pub(crate) fn new(adapter: A, lanes: Box<[Lane]>, slots: CopySlots) -> Self {
        Self {
            adapter,
            lanes,
            slots,
            flights: (0..IN_FLIGHT).map(|_| None).collect(),
            cookies: (0..IN_FLIGHT as u16).collect(),
            free: IN_FLIGHT,
            lent: 0,
            pending: PortSet::EMPTY,
            turn: 0,
            to_wake: PortSet::EMPTY,
        }
    }

    /// One round of everything. Returns whether anything moved.
    pub(crate) fn pass<P: Platform>(&mut self, unit: &MessageUnit<P, A>) -> bool {
        let mut wake = PortSet::EMPTY;
        let starved = !unit.starved.is_empty();
        let mut moved = self.reclaim(unit, starved, &mut wake);
        moved |= self.answer_doorbells(unit, &mut wake);
        if !self.pending.is_empty() {
            moved |= self.send_pending(unit, starved, &mut wake);
            self.adapter.flush();
        }
        moved |= self.receive(unit, &mut wake);
        self.adapter.flush();
        while let Some(node) = self.adapter.take_dead() {
            unit.note_death(node);
        }
        self.to_wake.join(wake);
        moved
    }

    /// Ports with something new. They are woken without the token: a hart that wakes tries to get it.
    pub(crate) fn take_to_wake(&mut self) -> PortSet {
        core::mem::replace(&mut self.to_wake, PortSet::EMPTY)
    }

    /// Asks the adapter for an interrupt when there is something to do again. Returns whether there is already.
    pub(crate) fn arm<P: Platform>(&mut self, unit: &MessageUnit<P, A>) -> bool {
        let sent = self.lent > 0 || !self.pending.is_empty() || !unit.starved.is_empty();
        self.adapter.arm(sent)
    }

    /// As [`arm`](Self::arm), when no hart may run the engine for a while.
    pub(crate) fn arm_settled<P: Platform>(&mut self, unit: &MessageUnit<P, A>) -> bool {
        self.adapter.settle();
        self.arm(unit)
    }

    /// Whether everything that the engine knows of was sent, and no peer needs to hear of this node any more.
    pub(crate) fn may_rest(&mut self, now: u64) -> bool {
        self.adapter.settle();
        self.free == IN_FLIGHT
            && self.lanes.iter_mut().all(|lane| lane.descriptors.is_empty())
            && now >= self.adapter.linger_until()
    }

    /// Sends a packet of the unit's own to the network itself, if there is room.
    pub(crate) fn send_to_fabric(&mut self, envelope: &Envelope) {
        if self.has_room() {
            let body = Body::Inline { node: FABRIC, len: 0, bytes: [0; _] };
            if let Some(refused) = self.transmit(None, &Header::new(envelope, 0, 0), body) {
                let mut nobody = PortSet::EMPTY;
                self.retire(refused, false, &mut nobody);
            }
            self.adapter.flush();
        }
    }

    /// Sends bytes that need be no packet, at most [`HEAD_BYTES`](crate::adapter::HEAD_BYTES). False without room.
    pub(crate) fn send_raw(&mut self, node: u32, bytes: &[u8]) -> bool {
        if bytes.len() > HEAD_BYTES || !self.has_room() {
            return false;
        }
        self.free -= 1;
        let cookie = self.cookies[self.free];
        // SAFETY: nothing is lent, and the cookie is nobody else's until the adapter gives it back.
        if !unsafe { self.adapter.transmit(node, &[], bytes, [Lent::NONE; 2], cookie) } {
            self.free += 1;
            return false;
        }
        let body = Body::Inline { node, len: 0, bytes: [0; _] };
        self.flights[usize::from(cookie)] = Some(Flight { port: None, body });
        self.adapter.flush();
        true
    }

    /// Takes back what the adapter is done with.
    fn reclaim<P: Platform>(&mut self, unit: &MessageUnit<P, A>, starved: bool, wake: &mut PortSet) -> bool {
        let mut moved = false;
        while let Some((cookie, outcome)) = self.adapter.reclaim() {
            if outcome == Outcome::Failed {
                unit.counters.failed_packets.add(1);
            }
            moved |= self.retire(cookie, starved, wake);
        }
        moved
    }

    /// Frees what a packet held.
    fn retire(&mut self, cookie: u16, starved: bool, wake: &mut PortSet) -> bool {
        let Some(flight) = self.flights.get_mut(usize::from(cookie)).and_then(Option::take) else {
            return false;
        };
        self.cookies[self.free] = cookie;
        self.free += 1;
        let Some(port) = flight.port else { return true };
        let lane = &mut self.lanes[usize::from(port)];
        let slot = match flight.body {
            Body::Inline { .. } => None,
            Body::Copied { slot, .. } => Some(slot),
            Body::Lent { header, data, .. } => {
                self.lent -= 1;
                wake.insert(port);
                drop(data);
                header
            }
        };
        if let Some(slot) = slot {
            // There is room: the ring is as long as the port has slots.
            let _ = lane.freed.push(slot);
        }
        count(&lane.record.retired);
        if starved {
            wake.insert(port);
        }
        true
    }

    /// Notes which ports have packets to send, and gives the adapter the buffers that ports gave back.
    fn answer_doorbells<P: Platform>(&mut self, unit: &MessageUnit<P, A>, wake: &mut PortSet) -> bool {
        let mut rung = PortSet::EMPTY;
        unit.doorbells.take(&mut rung);
        let moved = !rung.is_empty();
        while let Some(port) = rung.pop() {
            let Some(lane) = self.lanes.get_mut(usize::from(port)) else { continue };
            while let Some(buffer) = lane.returned.pop() {
                self.adapter.recycle(buffer);
            }
            if !lane.descriptors.is_empty() {
                self.pending.insert(port);
            }
            // It may have been refused after `reclaim` looked who waits for room.
            if unit.starved.contains(port) {
                wake.insert(port);
            }
        }
        moved
    }

    /// Gives the adapter what it takes, the ports taking turns.
    fn send_pending<P: Platform>(
        &mut self,
        unit: &MessageUnit<P, A>,
        starved: bool,
        wake: &mut PortSet,
    ) -> bool {
        let mut moved = false;
        // Those whose next packet is for a node that takes none now leave this set, not the other.
        let mut ready = self.pending;
        while let Some(port) = ready.next(self.turn) {
            for _ in 0..SEND_BURST {
                if !self.has_room() {
                    return moved;
                }
                let descriptors = &mut self.lanes[usize::from(port)].descriptors;
                if let Some(next) = descriptors.peek()
                    && !self.adapter.has_room_for(next.body.node())
                {
                    ready.remove(port);
                    break;
                }
                let Some(Descriptor { header, body }) = descriptors.pop() else { break };
                moved = true;
                if let Some(refused) = self.transmit(Some(port), &header, body) {
                    unit.counters.failed_packets.add(1);
                    self.retire(refused, starved, wake);
                    continue;
                }
                unit.counters.sent_packets.add(1);
                unit.counters.sent_bytes.add(header.payload_len() as u64);
            }
            if starved {
                wake.insert(port);
            }
            if self.lanes[usize::from(port)].descriptors.is_empty() {
                self.pending.remove(port);
                ready.remove(port);
            }
            self.turn = port + 1;
        }
        moved
    }

    fn has_room(&self) -> bool {
        self.free > 0 && self.adapter.has_room()
    }

    /// Gives the adapter one packet; there is room for it. Returns the packet's cookie if it was refused: its node
    /// is dead.
    #[must_use]
    fn transmit(&mut self, port: Option<u16>, header: &Header, body: Body) -> Option<u16> {
        self.free -= 1;
        let cookie = self.cookies[self.free];
        let (node, inline, lent) = match &body {
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
        };
        // SAFETY: the body owns the slot and the source that are lent; it stays in `flights` under this cookie,
        // which is nobody else's, until the adapter gives the cookie back.
        let taken = unsafe { self.adapter.transmit(node, header.as_bytes(), inline, lent, cookie) };
        self.flights[usize::from(cookie)] = Some(Flight { port, body });
        (!taken).then_some(cookie)
    }

    /// Moves packets from the adapter to the FIFOs they are for.
    fn receive<P: Platform>(&mut self, unit: &MessageUnit<P, A>, wake: &mut PortSet) -> bool {
        let mut moved = false;
        for _ in 0..RECEIVE_BURST {
            let Some(buffer) = self.adapter.receive() else { break };
            moved = true;
            if let Err(buffer) = self.deliver(unit, buffer, wake) {
                self.adapter.recycle(buffer);
            }
        }
        moved
    }

    /// Puts a packet into its reception FIFO, or gives its buffer back.
    fn deliver<P: Platform>(
        &mut self,
        unit: &MessageUnit<P, A>,
        buffer: RxBuffer,
        wake: &mut PortSet,
    ) -> Result<(), RxBuffer> {
        let counters = &unit.counters;
        let Ok(packet) = Packet::parse(buffer.packet()) else {
            counters.malformed.add(1);
            return Err(buffer);
        };
        let Packet { envelope, header, data } = packet;
        match envelope.kind {
            Kind::First | Kind::FirstAcked | Kind::Next | Kind::Ack => {}
            Kind::Go => {
                unit.note_go();
                return Err(buffer);
            }
            Kind::Hello => {
                counters.unexpected.add(1);
                return Err(buffer);
            }
        }
        let Some(place) = unit.map.place(envelope.target.task()).filter(|place| place.node == unit.node)
        else {
            counters.wrong_node.add(1);
            return Err(buffer);
        };
        // A node speaks for its own contexts only; what the network itself sends, it vouches for.
        let vouched = |node| buffer.source() == node || buffer.source() == FABRIC;
        let origin = unit.map.place(envelope.origin.task()).filter(|origin| vouched(origin.node));
        if origin.is_none() || envelope.origin.context().0 >= unit.contexts {
            counters.unknown_origin.add(1);
            return Err(buffer);
        }
        let Some(port) =
            unit.port_number(envelope.target.client().0, place.local, envelope.target.context().0)
        else {
            counters.no_fifo.add(1);
            return Err(buffer);
        };
        let (header_len, data_len) = (header.len() as u16, data.len() as u16);
        let lane = &mut self.lanes[usize::from(port)];
        if let Err(Arrived { buffer, .. }) =
            lane.arrived.push(Arrived { envelope, header_len, data_len, buffer })
        {
            counters.overflow.add(1);
            return Err(buffer);
        }
        count(&lane.record.delivered);
        counters.received_packets.add(1);
        counters.received_bytes.add(u64::from(header_len) + u64::from(data_len));
        wake.insert(port);
        Ok(())
    }
}
