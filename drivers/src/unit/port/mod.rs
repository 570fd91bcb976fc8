//! A context's port: its FIFOs on the torus and its end of the node's shared memory.

mod device;

use super::fifo::{Arrived, Injector, PortState, Reception};
use super::network::{Network, Ran};
use super::regions::{Look, RegionWords, Regions};
use super::running::{Doorbell, ring};
use super::{MessageUnit, OpenError, Sharing};
use crate::adapter::RxBuffer;
use crate::platform::Platform;
use crate::shm::{self, PushError, ShmOpenError, ShmPort};
use crate::tree_network::TreeUnit;
use core::sync::atomic::{AtomicU16, Ordering, fence};
use pami::device::{Arrival, Full, Wake};
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, HeaderTemplate};
#[cfg(feature = "trace")]
use pami::trace::Event;
use rings::bell::{Bell, Rest};
use rings::buffer::Source;
use rings::bulletin::Bulletin;
use rings::table::HazardOwner;

/// Looks at which nothing was new, after which a port also looks whether anything else is for the engine to do: a
/// timer that has run out, a packet of a port whose hart does not come.
const QUIET_LOOKS: u32 = 32;
/// What is watched where nothing comes in, or an agent looks after it.
static NEVER: AtomicU16 = AtomicU16::new(0);

/// Never quiet.
static RUNG: Bell = Bell::rung();

/// A context's share of the message unit and of the shared memory. Dropping it closes the port; what arrives from
/// then on waits for its next opening.
pub struct NodePort<P: Platform, N: Network> {
    unit: &'static MessageUnit<P, N>,
    port_state: &'static PortState,
    number: u16,
    /// Whose injection FIFO the port uses: its own, or that of context 0.
    injection: u16,
    /// Of the injection FIFO that the port uses, and of its own.
    injection_bell: Doorbell,
    doorbell: Doorbell,
    /// Whether an agent runs the engine.
    agent: bool,
    /// The injection FIFO, if it is exclusive.
    injector: Option<Injector>,
    /// `None` without an adapter, and once the port is closed.
    reception: Option<Reception>,
    shm: ShmPort,
    /// What it shows to other nodes.
    bulletin: Option<&'static Bulletin>,
    /// Who sent the last packet that was released from shared memory.
    sender: Option<(u16, &'static PortState)>,
    /// Whether shared memory is looked at first: it and the network have turns while there is something.
    local_first: bool,
    /// Whether the unit knows that the port waits for room.
    starved: bool,
    /// Whether something may have arrived since a pull found nothing.
    fresh: bool,
    /// Looks at which the engine may rest, before a longer one.
    rest: u32,
    /// Changes when something comes in, and its value when the engine last had nothing to do.
    watched: &'static AtomicU16,
    seen: u16,
    me: Endpoint,
    /// The collective network, if the node is on it.
    tree: Option<&'static TreeUnit<P>>,
}

/// A packet from either side.
pub enum NodeArrival {
    /// From a reception FIFO.
    Torus(Arrived),
    /// From a ring in shared memory.
    Local(shm::Arrival),
}

impl Arrival for NodeArrival {
    #[inline]
    fn envelope(&self) -> Envelope {
        match self {
            Self::Torus(arrived) => arrived.envelope(),
            Self::Local(arrival) => arrival.envelope(),
        }
    }

    #[inline]
    fn parts(&self) -> (&[u8], &[u8]) {
        match self {
            Self::Torus(arrived) => arrived.parts(),
            Self::Local(arrival) => arrival.parts(),
        }
    }

    #[inline]
    fn whole(&self) -> Option<(u8, Endpoint)> {
        match self {
            Self::Torus(arrived) => arrived.whole(),
            Self::Local(arrival) => arrival.whole(),
        }
    }
}

/// A way that messages go from one port.
#[derive(Clone, Copy)]
pub enum NodeRoute {
    /// To a node, with what their headers have in common, while no node dies beyond so many.
    Torus(u32, HeaderTemplate, u32),
    /// To a port of the node, and its bell.
    Local(u16, &'static Bell),
}

/// Wakes the sleeper of one port.
pub struct NodeWaker<P> {
    bell: &'static Bell,
    /// What tells whether anything has come: the bell, or [`RUNG`] where nobody rings for what a card has received, or what comes
    /// from other nodes.
    heard: &'static Bell,
    platform: core::marker::PhantomData<fn() -> P>,
}

impl<P> Clone for NodeWaker<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for NodeWaker<P> {}

impl<P: Platform> Wake for NodeWaker<P> {
    #[inline]
    fn wake(&self) {
        ring::<P>(self.bell);
    }

    #[inline]
    fn is_quiet(&self) -> bool {
        self.heard.rests(Rest::Quiet)
    }
}

impl<P: Platform, N: Network> NodePort<P, N> {
    /// What the bell is while the port's hart is awake. Where each look and each ringing moves a cache line from one core to another
    /// the hart looks at the rings themselves.
    const REST: Rest = if P::NEAR { Rest::Watched } else { Rest::Quiet };

    /// Takes the parts of port `number`, whose group of contexts begins at `group`, out of the unit.
    pub(super) fn open(
        unit: &'static MessageUnit<P, N>,
        number: u16,
        group: u16,
        me: Endpoint,
        sharing: Sharing,
    ) -> Result<Self, OpenError> {
        let port_state = unit.port_states.get(usize::from(number)).ok_or(OpenError::NoSuchPort)?;
        let shm = unit.shm.open(number, me).map_err(|error| match error {
            ShmOpenError::NoSuchPort => OpenError::NoSuchPort,
            ShmOpenError::InUse => OpenError::InUse,
        })?;
        let injection = if sharing == Sharing::Shared { group } else { number };
        let injector = take_injector(unit, injection, sharing)?;
        port_state.record.set_open(true);
        port_state.bell.disarm(Self::REST);
        if let Some(bulletin) = unit.shm.bulletin(unit.node, true, number) {
            bulletin.bell().disarm(Self::REST);
        }
        Ok(Self {
            unit,
            port_state,
            number,
            injection,
            injection_bell: unit.doorbells.of(injection),
            doorbell: unit.doorbells.of(number),
            agent: unit.agent.is_some(),
            injector,
            reception: port_state.reception.lock().take(),
            shm,
            bulletin: unit.shm.bulletin(unit.node, true, number),
            sender: None,
            local_first: true,
            starved: false,
            fresh: true,
            rest: 0,
            watched: unit.watch().map_or(&NEVER, |watch| watch.received),
            seen: 0,
            me,
            tree: None,
        })
    }

    /// The regions of the node of `endpoint`, which this one reaches, and how to look at them.
    #[inline(always)]
    fn regions_of(&mut self, endpoint: Endpoint) -> (&'static Regions, Look<'_>) {
        let unit = self.unit;
        if !P::NEAR {
            return (&unit.regions, None);
        }
        let node = unit.map.place(endpoint.task()).map(|place| place.node).filter(|&node| node != unit.node);
        match node.and_then(|node| unit.reached(node)) {
            Some(other) => (&other.regions, Some(self.hazard(full_fence))),
            None => (&unit.regions, None),
        }
    }

    /// By what it shows what it looks at of other nodes' memory.
    #[inline(always)]
    fn hazard(&mut self, order: fn()) -> HazardOwner<'_> {
        // SAFETY: it is this port's, which is open once, and this borrow of that is exclusive.
        unsafe { self.port_state.own.hazard.owned(order) }
    }

    /// How to look at words of this or another node's.
    #[inline(always)]
    fn look(&mut self, words: &RegionWords) -> Look<'_> {
        (P::NEAR && !self.unit.regions.contain(words)).then(|| self.hazard(P::light_fence))
    }

    /// This port, on a node that is on the collective network.
    #[must_use]
    pub fn on_tree(mut self, tree: Option<&'static TreeUnit<P>>) -> Self {
        self.tree = tree;
        self
    }

    /// The message unit that it is of.
    #[cfg(test)]
    pub(super) fn unit(&self) -> &'static MessageUnit<P, N> {
        self.unit
    }

    /// What is rung for it.
    #[cfg(test)]
    pub(super) fn bell(&self) -> &'static Bell {
        &self.port_state.bell
    }

    /// A packet is about to be queued: notes the message that it begins. Before, so that whoever receives it is never earlier.
    #[cfg(feature = "trace")]
    fn note_send(&self, envelope: &Envelope) {
        if envelope.kind.begins_message() {
            P::note(self.me, Event::Send(envelope.target));
        }
    }

    /// What became of that.
    #[cfg(feature = "trace")]
    fn note_queued(&self, envelope: &Envelope, pushed: Result<(), Full>) {
        if pushed.is_err() && envelope.kind.begins_message() {
            P::note(self.me, Event::Unsent);
        }
    }

    /// Notes the message that a packet begins.
    #[cfg(feature = "trace")]
    fn note_pulled(&self, pulled: Option<&NodeArrival>) {
        if let Some(envelope) = pulled.map(Arrival::envelope)
            && envelope.kind.begins_message()
        {
            P::note(self.me, Event::Receive(envelope.origin));
        }
    }

    /// Puts one packet into the injection FIFO, with or without its lock.
    #[inline]
    fn inject(&mut self, push: impl FnOnce(&mut Injector) -> Result<(), Full>) -> Result<(), Full> {
        let pushed = match &mut self.injector {
            Some(own) => push(own),
            None => self.with_shared(push).unwrap_or(Err(Full)),
        };
        self.note_pushed(pushed)
    }

    /// Whether a packet was put into the injection FIFO, or found no room.
    #[inline(always)]
    fn note_pushed(&mut self, pushed: Result<(), Full>) -> Result<(), Full> {
        match pushed {
            Ok(()) => self.injected(),
            Err(Full) if !self.starved => self.note_starved(true),
            Err(Full) => {}
        }
        pushed
    }

    /// Queues a packet for `node` whose data stays where it is. A function of its own, as is the next: neither pays for the
    /// other's registers.
    #[inline(never)]
    fn lend_to_node(
        &mut self,
        node: u32,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        match &mut self.injector {
            Some(own) => {
                let pushed = own.push_zcopy(node, envelope, header, data);
                self.note_pushed(pushed)
            }
            None => self.lend_to_node_with_others(node, envelope, header, data),
        }
    }

    /// The same by an injection FIFO that is shared.
    #[cold]
    #[inline(never)]
    fn lend_to_node_with_others(
        &mut self,
        node: u32,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        let pushed = self.with_shared(|fifo| fifo.push_zcopy(node, envelope, header, data));
        self.note_pushed(pushed.unwrap_or(Err(Full)))
    }

    /// The same for port `target` of this node.
    #[inline(never)]
    fn lend_locally(
        &mut self,
        target: u16,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        self.port_state.listens.store(true, Ordering::Relaxed);
        let pushed = self.shm.push_zcopy(target, envelope, header, data);
        self.pushed_locally(target, pushed)
    }

    /// A packet was put into the injection FIFO.
    #[inline(always)]
    fn injected(&mut self) {
        self.ring(self.injection_bell);
        if self.starved {
            self.note_some_room();
        }
    }

    /// There was room for a packet; others may wait on, as their nodes take none.
    #[cold]
    #[inline(never)]
    fn note_some_room(&mut self) {
        let refuses_some = match &mut self.injector {
            Some(own) => own.refuses_some(),
            None => self.with_shared(Injector::refuses_some) == Some(true),
        };
        if !refuses_some {
            self.note_starved(false);
        }
    }

    /// Does `what` with the injection FIFO that is shared, under its lock.
    #[cold]
    #[inline(never)]
    fn with_shared<R>(&self, what: impl FnOnce(&mut Injector) -> R) -> Option<R> {
        self.unit.port_states.get(usize::from(self.injection))?.injection.lock().injector.as_mut().map(what)
    }

    /// Lets the engine know of new descriptors or returned buffers.
    #[inline]
    fn ring(&mut self, doorbell: Doorbell) {
        doorbell.ring();
        self.rest = 0;
        if self.agent {
            self.unit.wake_agent();
        }
    }

    /// Lets the engine know whether the port waits for room.
    #[cold]
    fn note_starved(&mut self, starved: bool) {
        self.starved = starved;
        if starved {
            self.unit.starved.ring(self.number);
            // An agent that sleeps asked for no interrupt when packets have been sent.
            self.ring(self.doorbell);
        } else {
            self.unit.starved.clear(self.number);
        }
    }

    /// What became of a packet for port `target` of this node.
    #[inline]
    fn pushed_locally(&mut self, target: u16, result: Result<(), PushError>) -> Result<(), Full> {
        let target = self.unit.port_state(target);
        if result.is_err() {
            self.port_state.listens.store(true, Ordering::Relaxed);
        }
        match (target, result) {
            (Some(target), Ok(())) => self.ring_locally(&target.bell),
            // Room may be made only by dropping what was for the client before, which is nobody else's news.
            (Some(target), Err(_)) => ring::<P>(&target.bell),
            (None, _) => {}
        }
        result.map_err(|_| Full)
    }

    /// Lets a port of this node know that there is a packet for it, if it does not look there.
    #[inline]
    fn ring_locally(&self, bell: &Bell) {
        let sent = &self.port_state.own.local_packets;
        sent.store(sent.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if P::NEAR {
            P::light_fence();
            if bell.is_watched() {
                return;
            }
        }
        ring::<P>(bell);
    }

    #[inline(always)]
    fn pull_torus(&mut self) -> Option<NodeArrival> {
        self.reception.as_mut()?.arrived.pop().map(NodeArrival::Torus)
    }

    #[inline]
    fn pull_local(&mut self) -> Option<NodeArrival> {
        let unit = self.unit;
        self.shm.pull(|sender| unit.tell_sender(sender)).map(NodeArrival::Local)
    }

    /// Gives a line back to the ring that it is of.
    #[inline(always)]
    fn release_local(&mut self, arrival: shm::Arrival) {
        self.local_first = false;
        let sender = arrival.port();
        drop(arrival);
        match self.sender {
            // Another node's is not found by a look at a table.
            _ if !P::NEAR => self.unit.tell_sender(sender),
            Some((number, state)) if number == sender => MessageUnit::<P, N>::tell(state),
            _ => self.tell_another(sender),
        }
    }

    /// Tells a port that a packet of its was released, and remembers it.
    #[inline(never)]
    fn tell_another(&mut self, sender: u16) {
        self.sender = self.unit.port_state(sender).map(|state| (sender, state));
        self.unit.tell_sender(sender);
    }

    /// Gives a receive buffer back to the engine.
    #[inline]
    fn give_back(&mut self, buffer: RxBuffer) {
        if let Some(reception) = &mut self.reception {
            // There is room: the ring is as long as there are buffers.
            let _ = reception.returned.push(buffer);
            self.port_state.record.note_consumed();
            self.ring(self.doorbell);
        }
    }

    /// Whether nothing is new, as far as the port has heard, and where it looks.
    #[inline]
    fn hears_nothing(&self) -> bool {
        self.port_state.bell.rests(Self::REST) && !(P::NEAR && (self.fresh || self.shm.has_news()))
    }

    /// Whether anything may have arrived, as far as the port has heard.
    #[inline]
    fn may_pull(&mut self) -> bool {
        self.fresh |= self.port_state.bell.take(Self::REST) || P::NEAR && self.shm.has_news();
        self.fresh
    }

    /// A pull looked everywhere and found nothing.
    #[inline]
    fn found_nothing(&mut self) {
        (self.fresh, self.local_first) = (false, true);
    }

    /// The next look is to be everywhere.
    fn look_everywhere(&mut self) {
        (self.fresh, self.rest) = (true, 0);
    }

    /// Whether the engine has nothing to do that this port knows of: nothing has come in, nothing was given to it.
    #[inline]
    fn engine_rests(&mut self) -> bool {
        (self.rest > 0 || self.may_rest_on()) && self.engine_rests_on()
    }

    /// The same, as long as no longer look is due.
    #[inline]
    fn engine_rests_on(&mut self) -> bool {
        let Some(rest) = self.rest.checked_sub(1) else { return false };
        self.rest = rest;
        self.watched.load(Ordering::Relaxed) == self.seen
    }

    /// A longer look at what the engine may have to do.
    #[cold]
    #[inline(never)]
    fn may_rest_on(&mut self) -> bool {
        let rests = self.unit.engine_rests();
        self.rest = if rests { QUIET_LOOKS } else { 0 };
        rests
    }

    /// Runs the engine, unless it is known that it has nothing to do. Returns whether anything moved.
    fn progress_engine(&mut self) -> bool {
        // Who finds that it does not rest need not look again.
        if self.rest > 0 && self.engine_rests() && self.unit.has_all_sent() {
            return false;
        }
        let seen = self.watched.load(Ordering::Relaxed);
        match self.unit.progress_unless_agent() {
            Ran::Moved => true,
            Ran::Quiet => {
                (self.rest, self.seen) = (QUIET_LOOKS, seen);
                false
            }
            Ran::NotAllDone => {
                self.rest = 0;
                false
            }
        }
    }
}

/// Between showing a region and looking at it, where that is seldom enough that whoever removes one need not pay for it.
fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Takes the injection FIFO of port `injection`, or a share of it.
fn take_injector<P: Platform, N: Network>(
    unit: &MessageUnit<P, N>,
    injection: u16,
    sharing: Sharing,
) -> Result<Option<Injector>, OpenError> {
    if unit.engine.is_none() {
        return Ok(None);
    }
    let port_state = unit.port_states.get(usize::from(injection)).ok_or(OpenError::NoSuchPort)?;
    let mut held = port_state.injection.lock();
    match sharing {
        Sharing::Exclusive if held.sharers == 0 => held.injector.take().map(Some).ok_or(OpenError::Sharing),
        Sharing::Shared if held.injector.is_some() => {
            held.sharers += 1;
            port_state.shared.store(true, Ordering::Relaxed);
            Ok(None)
        }
        _ => Err(OpenError::Sharing),
    }
}

impl<P: Platform, N: Network> Drop for NodePort<P, N> {
    fn drop(&mut self) {
        if self.starved {
            self.note_starved(false);
        }
        self.port_state.record.set_open(false);
        *self.port_state.reception.lock() = self.reception.take();
        if let Some(port_state) = self.unit.port_states.get(usize::from(self.injection)) {
            let mut held = port_state.injection.lock();
            match self.injector.take() {
                Some(own) => held.injector = Some(own),
                None => {
                    held.sharers = held.sharers.saturating_sub(1);
                    port_state.shared.store(held.sharers > 0, Ordering::Relaxed);
                }
            }
        }
    }
}
