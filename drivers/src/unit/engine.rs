//! The engine: moves descriptors from injection FIFOs to the adapter and packets from the adapter to reception FIFOs,
//! or to memory and back if they ask for that. Whoever holds the token runs it (SPEC D-7).
//!
//! Nothing that arrives is dropped for want of room: a reception FIFO holds as many packets as there are receive
//! buffers. What is for contexts that do not take theirs is refused when those run out, and its senders stall
//! (SPEC P-11, R-1).

use super::MessageUnit;
use super::descriptor::Body;
use super::fifo::{Arrived, Lane};
use super::outstanding::Outstanding;
use super::responder::Responder;
use super::slots::{CopySlots, Slot};
use crate::adapter::{Adapter, FABRIC, HEAD_BYTES, IN_FLIGHT, Lent, RX_BUFFERS};
use crate::bits::BitSet as PortSet;
use crate::platform::Platform;
use crate::ranks::Ranks;
use alloc::boxed::Box;
use alloc::vec::Vec;
use pami::packet::{Envelope, Header};

/// A packet that the adapter is sending, and whose memory it reads.
pub(super) struct Flight {
    /// `None`: the unit's own packet.
    pub(super) port: Option<u16>,
    /// Who waits for lent memory to be free.
    pub(super) lender: Option<u16>,
    pub(super) body: Body,
}

/// A packet that came before its client.
pub(super) struct Early {
    pub(super) port: u16,
    pub(super) generation: u16,
    pub(super) arrived: Arrived,
}

/// What the token guards.
pub(crate) struct Engine<A> {
    pub(crate) adapter: A,
    pub(super) lanes: Box<[Lane]>,
    pub(super) slots: CopySlots,
    /// By cookie.
    pub(super) flights: Box<[Option<Flight>]>,
    /// The first `free` are not in flight.
    pub(super) cookies: Box<[u16]>,
    pub(super) free: usize,
    /// Flights that read senders' memory.
    pub(super) lent: usize,
    /// Ports with descriptors to send, and whose turn it is.
    pub(super) pending: PortSet,
    pub(super) turn: u16,
    pub(super) to_wake: PortSet,
    /// Has room for all receive buffers.
    pub(super) early: Vec<Early>,
    /// Nodes that were asked for something.
    pub(super) asked: Ranks,
    pub(super) outstanding: Outstanding,
    /// Nodes that asked.
    pub(super) askers: Ranks,
    pub(super) responder: Responder,
    /// Whether answers leave before what ports send.
    pub(super) answers_first: bool,
}

impl<A: Adapter> Engine<A> {
    /// An engine of one of `nodes` nodes; `own` are the copy slots of its answers. Allocates.
    pub(crate) fn new(
        adapter: A,
        lanes: Box<[Lane]>,
        slots: CopySlots,
        own: impl Iterator<Item = Slot>,
        nodes: usize,
    ) -> Self {
        // Whom this node owes something is one of those that the adapter has something under way with.
        let (asked, askers) = (Ranks::new(nodes), Ranks::new(nodes.min(adapter.most_peers())));
        Self {
            adapter,
            outstanding: Outstanding::new(asked.most(), lanes.len()),
            responder: Responder::new(askers.most(), own),
            asked,
            askers,
            lanes,
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
    pub(crate) fn progress<P: Platform>(&mut self, unit: &MessageUnit<P, A>) -> bool {
        let mut wake = PortSet::EMPTY;
        let starved = !unit.starved.is_empty();
        let mut moved = self.reclaim(unit, starved, &mut wake);
        moved |= self.answer_doorbells(unit, &mut wake);
        // What arrives is answered, and makes room for what waits for an answer, in the same round.
        moved |= self.receive(unit, &mut wake);
        if self.has_to_send() {
            moved |= self.send(unit, starved, &mut wake);
        }
        if self.adapter.wants_room() {
            let (askers, responder) = (&self.askers, &self.responder);
            self.adapter.make_room(|node| askers.find(node).is_some_and(|index| !responder.is_idle(index)));
        }
        self.adapter.flush();
        self.to_wake.join(&wake);
        moved
    }

    /// Ports with something new. They are woken without the token: a hart that wakes tries to get it.
    pub(crate) fn take_to_wake(&mut self) -> PortSet {
        core::mem::replace(&mut self.to_wake, PortSet::EMPTY)
    }

    /// Asks the adapter for an interrupt when there is something to do again. Returns whether there is already.
    pub(crate) fn arm<P: Platform>(&mut self, unit: &MessageUnit<P, A>) -> bool {
        let sent = self.lent > 0 || self.has_to_send() || !unit.starved.is_empty();
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
            && self.responder.owed.is_empty()
            && self.lanes.iter_mut().all(|lane| lane.descriptors.is_empty() && lane.parked.is_empty())
            && now >= self.adapter.linger_until()
    }

    /// Sends a packet of the unit's own to the network itself, if there is room.
    pub(crate) fn send_to_fabric(&mut self, envelope: &Envelope) {
        if self.has_room() {
            let header = Header::new(envelope, 0, 0);
            if let Some(refused) = self.transmit(None, None, &header, Body::inline(FABRIC, &[])) {
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
        self.flights[usize::from(cookie)] =
            Some(Flight { port: None, lender: None, body: Body::inline(node, &[]) });
        self.adapter.flush();
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
            if let Some(target) = lane.refused
                && lane.arrived.ring().is_empty()
            {
                lane.refused = None;
                self.adapter.ready(target.to_bits());
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

    /// Index of node `node` among those that are asked, from now on. `None` while as many as can be owe something: then it
    /// is asked later.
    #[inline]
    pub(super) fn asked(&mut self, node: u32) -> Option<u16> {
        let idle = |index| self.outstanding.is_idle(index);
        self.asked.find_or_add(node).or_else(|| take_over(&mut self.asked, node, idle))
    }

    /// Index of node `node` among those that ask, from now on. There is one: no more can ask than the adapter lets in.
    #[inline]
    pub(super) fn asker(&mut self, node: u32) -> Option<u16> {
        self.askers.find_or_add(node).or_else(|| {
            let index = take_over(&mut self.askers, node, |index| self.responder.is_idle(index))?;
            self.responder.purge(index);
            Some(index)
        })
    }

    /// A node is gone: it will neither answer nor hear answers.
    #[cold]
    pub(super) fn node_died(&mut self, node: u32) {
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
