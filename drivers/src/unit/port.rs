//! A context's port: its FIFOs on the torus and its end of the node's shared memory.

use super::fifo::{Arrived, Injector, Reception, Station};
use super::platform::Platform;
use super::{MessageUnit, OpenError, Sharing};
use crate::Torus;
use crate::adapter::{Adapter, RxBuffer};
use crate::shm::{self, PushError, ShmPort};
use crate::state::count;
use crate::tree::TreeUnit;
use core::sync::atomic::{Ordering, fence};
use pami::context::Work;
use pami::device::{Arrival, Full, Wake};
use pami::endpoint::Endpoint;
use pami::packet::Envelope;
use rings::post::Consumer;
use rings::sleep::SleepFlag;

/// A context's share of the message unit and of the shared memory. Dropping it closes the port; what arrives from
/// then on waits for its next opening.
pub struct NodePort<P: Platform, A: Adapter = Torus<P>> {
    pub(super) unit: &'static MessageUnit<P, A>,
    pub(super) station: &'static Station<Self>,
    number: u16,
    /// Whose injection FIFO the port uses: its own, or that of context 0.
    injection: u16,
    /// The injection FIFO, if it is exclusive.
    injector: Option<Injector>,
    /// `None` without an adapter, and once the port is closed.
    pub(super) reception: Option<Reception>,
    pub(super) shm: ShmPort,
    pub(super) posted: Consumer<Work<Self>>,
    /// Whether shared memory is looked at first next time.
    pub(super) local_first: bool,
    /// Whether the unit knows that the port waits for room.
    starved: bool,
    pub(super) me: Endpoint,
    /// The collective network, if the node is on it.
    pub(super) tree: Option<&'static TreeUnit<P>>,
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
    fn envelope(&self) -> &Envelope {
        match self {
            Self::Torus(arrived) => arrived.envelope(),
            Self::Local(arrival) => arrival.envelope(),
        }
    }

    #[inline]
    fn header(&self) -> &[u8] {
        match self {
            Self::Torus(arrived) => arrived.header(),
            Self::Local(arrival) => arrival.header(),
        }
    }

    #[inline]
    fn data(&self) -> &[u8] {
        match self {
            Self::Torus(arrived) => arrived.data(),
            Self::Local(arrival) => arrival.data(),
        }
    }
}

/// Wakes the sleeper of one port.
pub struct NodeWaker<P> {
    pub(super) flag: &'static SleepFlag,
    pub(super) platform: core::marker::PhantomData<fn() -> P>,
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
        if let Some(hart) = self.flag.wake() {
            P::wake(hart);
        }
    }
}

impl<P: Platform, A: Adapter> NodePort<P, A> {
    /// Takes the parts of port `number`, whose group of contexts begins at `group`, out of the unit.
    pub(super) fn open(
        unit: &'static MessageUnit<P, A>,
        number: u16,
        group: u16,
        me: Endpoint,
        sharing: Sharing,
    ) -> Result<Self, OpenError> {
        let station = unit.stations.get(usize::from(number)).ok_or(OpenError::NoSuchPort)?;
        let shm = unit.shm.open(number, me).map_err(|error| match error {
            shm::OpenError::NoSuchPort => OpenError::NoSuchPort,
            shm::OpenError::InUse => OpenError::InUse,
        })?;
        let posted = station.posts.consumer().ok_or(OpenError::InUse)?;
        let injection = if sharing == Sharing::Shared { group } else { number };
        let injector = take_injector(unit, injection, sharing)?;
        station.record.set_open(true);
        Ok(Self {
            unit,
            station,
            number,
            injection,
            injector,
            reception: station.reception.lock().take(),
            shm,
            posted,
            local_first: false,
            starved: false,
            me,
            tree: None,
        })
    }

    /// This port, on a node that is on the collective network.
    #[must_use]
    pub fn on_tree(mut self, tree: Option<&'static TreeUnit<P>>) -> Self {
        self.tree = tree;
        self
    }

    /// Puts one packet into the injection FIFO, with or without its lock.
    #[inline]
    pub(super) fn inject(
        &mut self,
        push: impl FnOnce(&mut Injector) -> Result<(), Full>,
    ) -> Result<(), Full> {
        let pushed = match &mut self.injector {
            Some(own) => push(own),
            None => self.unit.stations[usize::from(self.injection)]
                .injection
                .lock()
                .injector
                .as_mut()
                .map_or(Err(Full), push),
        };
        if pushed.is_ok() {
            self.unit.ring(self.injection);
        }
        if pushed.is_err() != self.starved {
            self.note_starved(pushed.is_err());
        }
        pushed
    }

    /// Lets the engine know whether the port waits for room.
    #[cold]
    fn note_starved(&mut self, starved: bool) {
        self.starved = starved;
        if starved {
            self.unit.starved.ring(self.number);
            // An agent that sleeps asked for no interrupt when packets have been sent.
            self.unit.ring(self.number);
        } else {
            self.unit.starved.clear(self.number);
        }
    }

    /// What became of a packet for port `target` of this node.
    #[inline]
    pub(super) fn pushed_locally(&mut self, target: u16, result: Result<(), PushError>) -> Result<(), Full> {
        let Ok(()) = result else {
            self.station.listens.store(true, Ordering::Relaxed);
            return Err(Full);
        };
        let sent = &self.station.local_packets;
        sent.store(sent.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if let Some(target) = self.unit.stations.get(usize::from(target))
            && let Some(hart) = target.flag.wake()
        {
            P::wake(hart);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn pull_torus(&mut self) -> Option<NodeArrival> {
        self.reception.as_mut()?.arrived.pop().map(NodeArrival::Torus)
    }

    #[inline]
    pub(super) fn pull_local(&mut self) -> Option<NodeArrival> {
        self.shm.pull().map(NodeArrival::Local)
    }

    /// Gives a receive buffer back to the engine.
    #[inline]
    pub(super) fn give_back(&mut self, buffer: RxBuffer) {
        if let Some(reception) = &mut self.reception {
            // There is room: the ring is as long as there are buffers.
            let _ = reception.returned.push(buffer);
            count(&self.station.record.consumed);
            self.unit.ring(self.number);
        }
    }

    /// Tells a sender in this node that a packet of its was released, if it cares.
    #[inline]
    pub(super) fn tell_origin(&self, origin: Endpoint) {
        let port = self
            .unit
            .map
            .place(origin.task())
            .and_then(|place| self.unit.port_number(origin.client().0, place.local, origin.context().0));
        let Some(station) = port.and_then(|port| self.unit.stations.get(usize::from(port))) else { return };
        // Against a sender that was refused just before: it says that it listens, passes a fence and tries again.
        fence(Ordering::SeqCst);
        if station.listens.load(Ordering::Relaxed)
            && let Some(hart) = station.flag.wake()
        {
            P::wake(hart);
        }
    }
}

/// Takes the injection FIFO of port `injection`, or a share of it.
fn take_injector<P: Platform, A: Adapter>(
    unit: &MessageUnit<P, A>,
    injection: u16,
    sharing: Sharing,
) -> Result<Option<Injector>, OpenError> {
    if unit.engine.is_none() {
        return Ok(None);
    }
    let station = unit.stations.get(usize::from(injection)).ok_or(OpenError::NoSuchPort)?;
    let mut held = station.injection.lock();
    match sharing {
        Sharing::Exclusive if held.sharers == 0 => held.injector.take().map(Some).ok_or(OpenError::Sharing),
        Sharing::Shared if held.injector.is_some() => {
            held.sharers += 1;
            station.shared.store(true, Ordering::Relaxed);
            Ok(None)
        }
        _ => Err(OpenError::Sharing),
    }
}

impl<P: Platform, A: Adapter> Drop for NodePort<P, A> {
    fn drop(&mut self) {
        if self.starved {
            self.note_starved(false);
        }
        self.station.record.set_open(false);
        *self.station.reception.lock() = self.reception.take();
        if let Some(station) = self.unit.stations.get(usize::from(self.injection)) {
            let mut held = station.injection.lock();
            match self.injector.take() {
                Some(own) => held.injector = Some(own),
                None => {
                    held.sharers = held.sharers.saturating_sub(1);
                    station.shared.store(held.sharers > 0, Ordering::Relaxed);
                }
            }
        }
    }
}
