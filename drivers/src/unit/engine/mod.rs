//! The engine: moves descriptors from injection FIFOs to the adapter and packets from the adapter to reception FIFOs,
//! or to memory and back if they ask for that. Whoever holds the token runs it (SPEC D-7).
//!
//! Nothing that arrives is dropped for want of room: a reception FIFO holds as many packets as there are receive
//! buffers. What is for contexts that do not take theirs is refused when those run out, and its senders stall
//! (SPEC P-11, R-1).

mod bare;
mod held;
mod receiving;
mod sending;

pub use bare::Bare;

use super::MessageUnit;
use super::descriptor::{Body, Descriptor, Flow, INJECTION_ENTRIES};
use super::fifo::{Arrived, Ends};
use super::network::Network;
use super::outstanding::Outstanding;
use super::parked::Parked;
use super::responder::Responder;
use super::slots::{CopySlot, CopySlots};
use crate::adapter::{
    AdapterFaults, FABRIC, HEAD_BYTES, IN_FLIGHT, Lent, RX_BUFFERS, ReliableAdapter, RxBuffer,
};
use crate::bits::BitSet as PortSet;
use crate::platform::Platform;
use crate::ranks::Ranks;
use crate::state::FifoRecord;
use alloc::boxed::Box;
use alloc::vec::Vec;
use pami::device::Completed;
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, Header};
use rings::spsc::{Consumer, Producer};
use zerocopy::IntoBytes;

/// A packet that the adapter is sending, and whose memory it reads.
struct Flight {
    /// `None`: the unit's own packet.
    port: Option<u16>,
    /// Who waits for lent memory to be free.
    lender: Option<u16>,
    body: Body,
}

/// A packet that came before its client.
struct Early {
    port: u16,
    generation: u16,
    arrived: Arrived,
}

/// The engine's ends of a port's FIFOs, and what it remembers of the port.
pub(crate) struct EnginePort {
    descriptors: Consumer<Descriptor>,
    /// Number of the first packet of the FIFO that may be of another flow than the first.
    alike: usize,
    parked: Parked,
    freed: Producer<CopySlot>,
    arrived: Producer<Arrived>,
    returned: Consumer<RxBuffer>,
    completed: Producer<Completed>,
    /// Of the client that the port is of, or will be.
    generation: u16,
    /// What was refused since the port last took all it had was for this context.
    refused: Option<Endpoint>,
    /// How many packets the port had taken when it was last given one while buffers ran out, and how many it was given since.
    taken: usize,
    given: u32,
    record: &'static FifoRecord,
}

impl EnginePort {
    /// That of a port that was not open yet.
    pub(crate) fn new(ends: Ends) -> Self {
        let Ends { descriptors, parked, freed, arrived, returned, completed, record } = ends;
        Self {
            descriptors,
            alike: 0,
            parked,
            freed,
            arrived,
            returned,
            completed,
            generation: 0,
            refused: None,
            taken: 0,
            given: 0,
            record,
        }
    }

    /// Parks the first packet of the FIFO, which is of this flow, if something for others is behind it or parked. Returns
    /// whether it was.
    #[cold]
    fn park(&mut self, flow: Flow) -> bool {
        let parks = self.parked.has_room(flow) && (!self.parked.is_empty() || self.holds_others(flow));
        if parks {
            self.parked.park(flow, &mut self.descriptors);
        }
        parks
    }

    /// Whether the FIFO, whose first packet is of this flow, holds some of others.
    fn holds_others(&mut self, flow: Flow) -> bool {
        let first = self.descriptors.popped();
        let alike = self.alike.wrapping_sub(first);
        let mut alike = if alike <= INJECTION_ENTRIES { alike } else { 0 };
        while self.descriptors.get(alike).is_some_and(|packet| packet.flow() == flow) {
            alike += 1;
        }
        self.alike = first.wrapping_add(alike);
        self.descriptors.get(alike).is_some()
    }
}

/// What the token guards.
pub struct Engine<A> {
    adapter: A,
    ports: Box<[EnginePort]>,
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
    /// Has room for all receive buffers.
    early: Vec<Early>,
    /// Nodes that were asked for something.
    asked: Ranks,
    outstanding: Outstanding,
    /// Nodes that asked.
    askers: Ranks,
    responder: Responder,
    /// Whether answers leave before what ports send.
    answers_first: bool,
}

impl<A: ReliableAdapter> Engine<A> {
    /// An engine of one of `nodes` nodes; `own` are the copy slots of its answers. Allocates.
    pub(crate) fn new(
        adapter: A,
        ports: Box<[EnginePort]>,
        slots: CopySlots,
        own: impl Iterator<Item = CopySlot>,
        nodes: usize,
    ) -> Self {
        // Whom this node owes something is one of those that the adapter has something under way with.
        let (asked, askers) = (Ranks::new(nodes), Ranks::new(nodes.min(adapter.most_peers())));
        Self {
            adapter,
            outstanding: Outstanding::new(asked.most(), ports.len()),
            responder: Responder::new(askers.most(), own),
            asked,
            askers,
            ports,
            slots,
            flights: (0..IN_FLIGHT).map(|_| None).collect(),
            cookies: (0..IN_FLIGHT as u16).collect(),
            free: IN_FLIGHT,
            lent: 0,
            pending: PortSet::EMPTY,
            turn: 0,
            to_wake: PortSet::EMPTY,
            early: Vec::with_capacity(RX_BUFFERS),
            answers_first: false,
        }
    }

    /// One round of everything. Returns whether anything moved.
    #[inline(always)]
    pub(crate) fn progress<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) -> bool {
        let starved = !unit.starved.is_empty();
        let mut moved = self.reclaim(unit, starved);
        moved |= self.answer_doorbells(unit);
        // What arrives is answered, and makes room for what waits for an answer, in the same round.
        moved |= self.receive(unit);
        if self.has_to_send() {
            moved |= self.send(unit, starved);
        }
        if self.adapter.wants_room() {
            self.take_said(unit);
            let (askers, responder) = (&self.askers, &self.responder);
            self.adapter.make_room(|node| askers.find(node).is_some_and(|index| !responder.is_idle(index)));
        }
        self.adapter.flush();
        moved
    }

    /// Ports with something new. They are woken without the token: a hart that wakes tries to get it.
    #[inline]
    pub(crate) fn take_to_wake(&mut self) -> PortSet {
        self.to_wake.take()
    }

    /// Asks the adapter for an interrupt when there is something to do again. Returns whether there is already.
    pub(crate) fn arm<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) -> bool {
        let sent = self.lent > 0 || self.has_to_send() || !unit.starved.is_empty();
        self.adapter.arm(sent)
    }

    /// As [`arm`](Self::arm), when no hart may run the engine for a while.
    pub(crate) fn arm_settled<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) -> bool {
        self.adapter.settle();
        self.arm(unit)
    }

    /// When the next round is due without news, after one in which nothing moved: 0 at once, `u64::MAX` never.
    #[inline]
    pub(crate) fn due(&mut self) -> u64 {
        if self.adapter.is_settled() { self.adapter.due().unwrap_or(u64::MAX) } else { 0 }
    }

    /// When a hart that sleeps has to run the engine, if ever.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.adapter.deadline()
    }

    /// What went wrong in the adapter so far.
    pub(crate) fn faults(&self) -> AdapterFaults {
        self.adapter.faults()
    }

    /// Whether everything that the engine knows of was sent, and no peer needs to hear of this node any more.
    pub(crate) fn may_rest(&mut self, now: u64) -> bool {
        self.adapter.settle();
        let rests = self.free == IN_FLIGHT
            && self.responder.owes_nothing()
            && self.ports.iter_mut().all(|ends| ends.descriptors.is_empty() && ends.parked.is_empty());
        if rests {
            self.adapter.say_last();
        }
        rests && now >= self.adapter.linger_until()
    }

    /// Sends a control packet to the network itself, without data, or to node `to`. False without room.
    pub(crate) fn say(&mut self, to: u32, envelope: &Envelope, data: &[u8]) -> bool {
        let header = Header::new(envelope, 0, data.len() as u16);
        let said = if to != FABRIC {
            self.adapter.say(to, [header.as_bytes(), data])
        } else if !self.has_room() {
            false
        } else {
            if let Some(refused) = self.transmit_own(None, &header, Body::inline(to, &[])) {
                self.retire_refused(refused, false);
            }
            true
        };
        self.adapter.flush();
        said
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
        self.flights[usize::from(cookie)] =
            Some(Flight { port: None, lender: None, body: Body::inline(node, &[]) });
        self.adapter.flush();
        true
    }

    /// Notes which ports have packets to send, and gives the adapter the buffers that ports gave back.
    #[inline]
    fn answer_doorbells<P: Platform, N: Network>(&mut self, unit: &MessageUnit<P, N>) -> bool {
        let mut moved = false;
        unit.doorbells.take(|port| {
            moved = true;
            let Some(ends) = self.ports.get_mut(usize::from(port)) else { return };
            while let Some(buffer) = ends.returned.pop() {
                self.adapter.recycle(buffer);
            }
            if let Some(target) = ends.refused
                && ends.arrived.ring().is_empty()
            {
                ends.refused = None;
                self.adapter.ready(target.to_bits());
            }
            if !ends.descriptors.is_empty() {
                self.pending.insert(port);
            }
            // It may have been refused after `reclaim` looked who waits for room.
            if unit.starved.contains(port) {
                self.to_wake.insert(port);
            }
        });
        moved
    }

    /// Index of node `node` among those that ask, from now on. There is one: no more can ask than the adapter lets in.
    #[inline]
    fn asker(&mut self, node: u32) -> Option<u16> {
        self.askers.find_or_add(node).or_else(|| {
            let index = take_over(&mut self.askers, node, |index| self.responder.is_idle(index))?;
            self.responder.purge(index);
            Some(index)
        })
    }

    /// A node is gone: it will neither answer nor hear answers.
    #[cold]
    fn node_died(&mut self, node: u32) {
        self.adapter.node_died(node);
        if let Some(index) = self.asked.find(node) {
            self.outstanding.purge(index);
        }
        if let Some(index) = self.askers.find(node) {
            self.responder.purge(index);
        }
    }
}

/// Gives the index of a node with which nothing is under way to node `node`.
#[cold]
fn take_over(ranks: &mut Ranks, node: u32, is_idle: impl Fn(u16) -> bool) -> Option<u16> {
    let index = (0..ranks.indices()).find(|&index| is_idle(index))?;
    ranks.remove(index);
    ranks.find_or_add(node)
}
