//! What `pami` asks of a port: its packets, its one-sided operations, its sleep.

use super::{NodeArrival, NodePort, NodeRoute, NodeWaker, RUNG, ring};
use crate::platform::Platform;
use crate::shm::PushError;
use crate::tree_network::TreeUnit;
use crate::unit::network::Network;
use crate::unit::regions::RegionWords;
use core::sync::atomic::{AtomicU64, Ordering};
use pami::addends::Addends;
use pami::device::{
    Completed, Full, Gone, Liveness, NoRegion, Path, Port, Receiving, RemoteMemory, Sending, Sleeping,
    Unreachable,
};
use pami::endpoint::Endpoint;
use pami::packet::{Envelope, HeaderTemplate};
use pami::region::{Memory, RegionFault, RegionHandle, RegionId, Rights, RmwOp};
use pami::trace::Event;
use rings::buffer::Source;
use rings::bulletin::Bulletin;
use rings::shared::{Extent, Shared};

impl<P: Platform, N: Network> Sending for NodePort<P, N> {
    type Route = NodeRoute;

    #[inline]
    fn locate(&self, target: Endpoint, local: bool) -> Result<Path, Unreachable> {
        let place = self.unit.map.place(target.task()).ok_or(Unreachable::NoSuchEndpoint)?;
        let port = self.unit.port_number(target.client(), place.local, target.context().0);
        let port = port.filter(|_| target.is_fellow(self.me)).ok_or(Unreachable::NoSuchEndpoint)?;
        let number = if place.node == self.unit.node {
            Some(port)
        } else if P::NEAR && self.unit.gone(place.node).is_none() {
            self.unit.shm.number(place.node, port)
        } else {
            None
        };
        // Once a pair has a ring it keeps it, and without one it never gets one: a pair has one path for ever.
        if let Some(number) = number.filter(|_| local)
            && self.shm.connect(number) != Err(PushError::Unreachable)
        {
            return Ok(Path::Local(number));
        }
        if let Some(gone) = self.unit.gone(place.node) {
            Err(Unreachable::Gone(place.node, gone))
        } else if self.unit.engine.is_some() {
            Ok(Path::Torus(place.node))
        } else {
            Err(Unreachable::NoSuchEndpoint)
        }
    }

    #[cfg(target_os = "linux")]
    fn take_back_from_gone(&mut self) {
        if P::NEAR {
            let unit = self.unit;
            self.shm.take_back(|node| unit.gone(node).is_some());
        }
    }

    #[inline(always)]
    fn lends(&self, path: Path, data: &Source) -> bool {
        match path {
            Path::Torus(_) => false,
            Path::Local(number) => !P::NEAR || self.unit.lends(number, data),
        }
    }

    fn route(&self, target: Endpoint, path: Path) -> Option<NodeRoute> {
        Some(match path {
            Path::Torus(node) => {
                // Before the look: a death behind it makes the route useless.
                let deaths = self.deaths();
                if self.unit.gone(node).is_some() {
                    return None;
                }
                NodeRoute::Torus(node, HeaderTemplate::new(self.me, target), deaths)
            }
            Path::Local(port) => NodeRoute::Local(port, &self.unit.port_state(port)?.bell),
        })
    }

    #[inline(always)]
    fn push_short(
        &mut self,
        route: &NodeRoute,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full> {
        match *route {
            NodeRoute::Torus(node, ref front, deaths) => {
                // A FIFO that is shared has a lock to be taken first: the longer way does.
                let own = self.injector.as_mut().ok_or(Full)?;
                own.push_short((node, deaths), front, dispatch, header, data)?;
                self.injected();
                Ok(())
            }
            NodeRoute::Local(port, bell) => {
                self.shm.push_short(port, dispatch, header, data).map_err(|_| Full)?;
                self.ring_locally(bell);
                Ok(())
            }
        }
    }

    #[inline]
    fn mtu(&self) -> usize {
        self.unit.copied
    }

    #[inline]
    fn push_bcopy(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full> {
        #[cfg(feature = "trace")]
        self.note_send(envelope);
        let pushed = match path {
            Path::Torus(node) => self.inject(|fifo| fifo.push_bcopy(node, envelope, header, data)),
            Path::Local(port) => {
                let pushed = self.shm.push_bcopy(port, envelope, header, data);
                self.pushed_locally(port, pushed)
            }
        };
        #[cfg(feature = "trace")]
        self.note_queued(envelope, pushed);
        pushed
    }

    #[inline]
    fn push_zcopy(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        #[cfg(feature = "trace")]
        self.note_send(envelope);
        let pushed = match path {
            Path::Torus(node) => self.lend_to_node(node, envelope, header, data),
            Path::Local(port) if self.lends(path, data) => self.lend_locally(port, envelope, header, data),
            Path::Local(port) => {
                let pushed = self.shm.push_bcopy(port, envelope, header, data.as_slice());
                self.pushed_locally(port, pushed)
            }
        };
        #[cfg(feature = "trace")]
        self.note_queued(envelope, pushed);
        pushed
    }

    // What is filled in is most often known where it is called: a word, behind a header of one length.
    #[inline(always)]
    fn push_packed(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        #[cfg(feature = "trace")]
        self.note_send(envelope);
        let pushed = match path {
            Path::Torus(node) => self.inject(|fifo| fifo.push_packed(node, envelope, header, len, fill)),
            Path::Local(port) => {
                let pushed = self.shm.push_packed(port, envelope, header, len, fill);
                self.pushed_locally(port, pushed)
            }
        };
        #[cfg(feature = "trace")]
        self.note_queued(envelope, pushed);
        pushed
    }

    #[inline]
    fn push_get(
        &mut self,
        node: u32,
        envelope: &Envelope,
        remote: RegionId,
        into: Option<(&Shared, u32)>,
        last: bool,
    ) -> Result<(), Full> {
        self.inject(|fifo| fifo.push_get(node, envelope, remote, into, last))
    }

    #[inline]
    fn completed(&mut self) -> Option<Completed> {
        self.reception.as_mut()?.completed.pop()
    }
}

impl<P: Platform, N: Network> RemoteMemory for NodePort<P, N> {
    type WordAccess = RegionWords;

    fn register(&mut self, memory: Memory, rights: Rights) -> Result<RegionId, NoRegion> {
        if P::NEAR && !self.unit.is_shared(&memory) {
            return Err(NoRegion::OutOfReach);
        }
        self.unit.regions.register(self.me, memory, rights)
    }

    fn deregister(&mut self, region: RegionId) {
        let unit = self.unit;
        if P::NEAR && unit.shm.near().is_some() {
            unit.regions.deregister_unless(self.me, region, P::heavy_fence, |shows| unit.is_shown(shows));
        } else {
            unit.regions.deregister(self.me, region);
        }
    }

    #[inline]
    fn put_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        data: &[u8],
    ) -> Result<(), RegionFault> {
        let (regions, look) = self.regions_of(target);
        regions.put(target, region, offset, data, look)
    }

    #[inline]
    fn reach_words(
        &mut self,
        target: Endpoint,
        region: &RegionHandle,
        wanted: Rights,
    ) -> Option<RegionWords> {
        let (regions, look) = self.regions_of(target);
        regions.reach_words(target, region, wanted, look)
    }

    #[inline(always)]
    fn put_word(&mut self, words: &RegionWords, offset: u32, word: u64) -> bool {
        words.reach(offset, self.look(words), |place| place.store(word, Ordering::Relaxed)).is_some()
    }

    #[inline(always)]
    fn add_to_word(&mut self, words: &RegionWords, offset: u32, operand: u64) -> Option<u64> {
        words.reach(offset, self.look(words), |word| word.fetch_add(operand, Ordering::AcqRel))
    }

    #[inline(always)]
    fn push_words<const WORDS: usize>(
        &mut self,
        node: u32,
        envelope: &Envelope,
        region: RegionId,
        words: [u64; WORDS],
    ) -> Result<(), Full> {
        // A FIFO that is shared has a lock to be taken first: the longer way does.
        let own = self.injector.as_mut().ok_or(Full)?;
        own.push_words(node, envelope, region, words)?;
        self.injected();
        Ok(())
    }

    #[inline]
    fn get_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        into: (&Shared, u32),
        len: u32,
    ) -> Result<(), RegionFault> {
        let (regions, look) = self.regions_of(target);
        regions.get(target, region, offset, into, len, look)
    }

    #[inline]
    fn rmw_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        op: RmwOp,
    ) -> Result<u64, RegionFault> {
        let (regions, look) = self.regions_of(target);
        regions.update(target, region, offset, op, look)
    }

    fn bulletin(&self, of: Endpoint) -> Option<&'static Bulletin> {
        let place = self.unit.map.place(of.task()).filter(|_| P::NEAR && of.is_fellow(self.me))?;
        let port = self.unit.port_number(of.client(), place.local, of.context().0)?;
        self.unit.shm.bulletin(place.node, place.node == self.unit.node, port)
    }

    fn exposed(&self, memory: &Shared) -> Option<Extent> {
        let reached = self.unit.shm.near().is_none() || memory.lies(P::shares);
        reached.then(|| memory.extent())
    }

    fn read_exposed(&self, from: Extent, offset: usize, (into, at): (&Shared, usize), len: usize) -> bool {
        if self.unit.shm.near().is_some() && !P::shares(from.start, from.len) {
            return false;
        }
        // SAFETY: all of it is memory that every node maps for ever, or it is this program's own. Its owner, who told of it, holds it
        // in shared use until this one has said that it reads there no more, or for ever; another node, which is another program,
        // may do with it what it likes.
        unsafe { from.copy(offset, into, at, len) }.is_ok()
    }

    #[inline]
    fn tell_reader(&self, bulletin: &'static Bulletin) {
        P::light_fence();
        if !bulletin.bell().is_watched() {
            ring::<P>(bulletin.bell());
        }
    }

    #[inline]
    fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
        P::add_numbers(words, addends);
    }

    fn reach<R>(
        &mut self,
        owner: Endpoint,
        region: RegionId,
        wanted: Rights,
        what: impl FnOnce(&Memory) -> R,
    ) -> Result<R, RegionFault> {
        let (regions, look) = self.regions_of(owner);
        regions.reach(owner, region, wanted, look, what)
    }
}

impl<P: Platform, N: Network> Liveness for NodePort<P, N> {
    #[inline]
    fn node_of(&self, task: u32) -> Option<u32> {
        self.unit.map.place(task).map(|place| place.node)
    }

    #[inline]
    fn deaths(&self) -> u32 {
        self.unit.deaths()
    }

    fn first_dead(&self) -> Option<u32> {
        self.unit.first_dead()
    }

    fn gone(&self, node: u32) -> Option<Gone> {
        self.unit.gone(node)
    }

    fn note_awaited(&mut self, node: Option<u32>) {
        self.port_state.record.note_awaited(node);
    }
}

impl<P: Platform, N: Network> Receiving for NodePort<P, N> {
    type Arrival = NodeArrival;

    #[inline]
    fn is_quiet(&mut self) -> bool {
        self.hears_nothing() && self.engine_rests()
    }

    #[inline]
    fn seems_quiet(&mut self) -> bool {
        self.hears_nothing() && self.engine_rests_on()
    }

    fn look(&mut self) {
        self.look_everywhere();
        if !P::NEAR {
            // The hart is awake.
            self.port_state.bell.ring();
        }
    }

    #[inline]
    fn pull(&mut self) -> Option<NodeArrival> {
        if !self.may_pull() {
            return None;
        }
        let pulled = if self.local_first {
            self.pull_local().or_else(|| self.pull_torus())
        } else {
            self.pull_torus().or_else(|| self.pull_local())
        };
        if pulled.is_none() {
            self.found_nothing();
        }
        #[cfg(feature = "trace")]
        self.note_pulled(pulled.as_ref());
        pulled
    }

    #[inline]
    fn pull_ready(&mut self) -> Option<NodeArrival> {
        let pulled = self.shm.pull_ready().map(NodeArrival::Local);
        #[cfg(feature = "trace")]
        self.note_pulled(pulled.as_ref());
        pulled
    }

    #[inline(always)]
    fn pull_queued(&mut self) -> Option<NodeArrival> {
        let pulled = self.pull_torus();
        #[cfg(feature = "trace")]
        self.note_pulled(pulled.as_ref());
        pulled
    }

    #[inline]
    fn is_drained(&mut self) -> bool {
        // Hears of what has come before it looks.
        self.may_pull();
        let drained = self.shm.is_drained()
            && self.reception.as_mut().is_none_or(|reception| reception.arrived.peek().is_none());
        if drained {
            self.found_nothing();
        }
        drained
    }

    #[inline]
    fn release(&mut self, arrival: NodeArrival) {
        match arrival {
            NodeArrival::Torus(arrived) => {
                self.local_first = true;
                self.give_back(arrived.buffer);
            }
            NodeArrival::Local(arrival) => self.release_local(arrival),
        }
    }

    #[inline(always)]
    fn release_ready(&mut self, arrival: NodeArrival) {
        match arrival {
            NodeArrival::Local(arrival) => self.release_local(arrival),
            other => self.release(other),
        }
    }
}

impl<P: Platform, N: Network> Sleeping for NodePort<P, N> {
    type Waker = NodeWaker<P>;

    fn now_ns(&self) -> u64 {
        P::now_ns()
    }

    fn waker(&self) -> NodeWaker<P> {
        let bell = &self.port_state.bell;
        let rings = !P::NEAR && (self.agent || self.unit.engine.is_none());
        let heard = if rings { bell } else { &RUNG };
        NodeWaker { bell, heard, platform: core::marker::PhantomData }
    }

    fn arm(&mut self) {
        self.look_everywhere();
        self.port_state.bell.arm(P::name());
        if let Some(bulletin) = self.bulletin {
            bulletin.bell().arm(P::name());
        }
        // For those who look whether the bell is watched.
        P::heavy_fence();
        if let Some(tree) = self.tree {
            tree.look();
        }
    }

    fn sleep(&mut self, deadline_ns: Option<u64>) {
        self.unit.sleep(deadline_ns);
    }

    fn disarm(&mut self) {
        self.port_state.bell.disarm(Self::REST);
        if let Some(bulletin) = self.bulletin {
            bulletin.bell().disarm(Self::REST);
        }
        self.look_everywhere();
        // Packets that were refused are tried again before the next sleep.
        if self.port_state.listens.load(Ordering::Relaxed) && self.shm.is_settled() {
            self.port_state.listens.store(false, Ordering::Relaxed);
        }
    }

    fn owns_core(&self) -> bool {
        P::owns_core()
    }

    fn idle_share(&self) -> u16 {
        P::idle_share()
    }

    fn note_idle(&mut self, from_ns: u64, to_ns: u64) {
        P::note_idle(from_ns, to_ns);
    }
}

impl<P: Platform, N: Network> Port for NodePort<P, N> {
    type Network = &'static TreeUnit<P>;

    #[inline]
    fn progress(&mut self) -> bool {
        self.progress_engine()
    }

    fn network(&self) -> Option<&'static TreeUnit<P>> {
        self.tree
    }

    fn note(&self, event: Event) {
        P::note(self.me, event);
    }
}
