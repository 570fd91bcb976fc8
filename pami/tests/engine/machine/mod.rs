//! A machine in one process for host tests: contexts' FIFOs are bounded queues, and every node has a message unit.
//!
//! By default the units of all nodes run to the end of what they can do whenever any port is driven. A machine that is
//! [`stepped`](World::stepped) moves only when the test says so, one packet at a time and in any order that the network
//! could have.

mod network;
mod tree;
mod unit;
mod world;

pub use network::TestNetwork;
use pami::affinity::Affinities;
use pami::client::{ClientError, Clients, ConfiguredGeometry, Node, Sharing};
use pami::device::{
    Arrival, Completed, Full, Gone, Liveness, NoRegion, Path, Port, Receiving, RemoteMemory, Sending,
    Sleeping, Unreachable, Wake,
};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{Envelope, Kind};
use pami::region::{Memory, RegionFault, RegionHandle, RegionId, Rights, RmwOp};
use pami::topology::{TorusCoord, TorusShape};
use rings::buffer::{Buffer, CONTROL_BYTES, Source};
use rings::bulletin::Bulletin;
use rings::shared::{Extent, Shared, Update, Width};
use std::any::{Any, TypeId};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
pub use tree::Tree;
use unit::Injected;
pub use world::{Step, World};
use zerocopy::{FromBytes, IntoBytes};

pub const MTU: usize = 512;
pub const CONTEXTS: u8 = 8;
pub const CLIENTS: usize = 2;
/// Packets that a reception FIFO, a shared-memory ring and an injection FIFO hold.
pub const QUEUE: usize = 8;

/// Data copied, or lent and read only when it arrives, as the hardware does.
enum Data {
    Copied(Vec<u8>),
    Lent(Source),
}

pub struct Packet {
    envelope: Envelope,
    header: Vec<u8>,
    data: Data,
}

impl Packet {
    pub fn new(envelope: Envelope, header: &[u8], data: &[u8]) -> Self {
        Self { envelope, header: header.to_vec(), data: Data::Copied(data.to_vec()) }
    }
}

impl Arrival for Packet {
    fn envelope(&self) -> Envelope {
        self.envelope
    }
    fn parts(&self) -> (&[u8], &[u8]) {
        match &self.data {
            Data::Copied(bytes) => (&self.header, bytes),
            Data::Lent(source) => (&self.header, source.as_slice()),
        }
    }
    fn whole(&self) -> Option<(u8, Endpoint)> {
        let Envelope { kind, dispatch, origin, offset, total, .. } = self.envelope;
        let whole = kind == Kind::EagerFirst && offset == 0 && total as usize == self.data().len();
        whole.then_some((dispatch, origin))
    }
}

/// One task.
pub struct TestNode {
    pub task: u32,
    pub tasks: u32,
    pub world: &'static World,
    clients: Mutex<Clients<CLIENTS>>,
}

/// Tasks, each on a node of its own unless `local` makes all share one.
pub fn machine(tasks: u32, local: bool) -> Vec<&'static TestNode> {
    machine_of(tasks, if local { tasks } else { 1 })
}

/// Tasks, so many on each node, numbered over the tasks of a node first.
pub fn machine_of(tasks: u32, per_node: u32) -> Vec<&'static TestNode> {
    let world: &World = Box::leak(Box::new(World::new(tasks, per_node)));
    let node = |task| TestNode { task, tasks, world, clients: Mutex::default() };
    (0..tasks).map(|task| &*Box::leak(Box::new(node(task)))).collect()
}

/// A task of a job of `tasks` of which no other is there: for what its own memory takes.
pub fn node_among(tasks: u32) -> &'static TestNode {
    let world: &World = Box::leak(Box::new(World::new(1, 1)));
    Box::leak(Box::new(TestNode { task: 0, tasks, world, clients: Mutex::default() }))
}

pub struct TestPort {
    world: &'static World,
    me: Endpoint,
    local_first: bool,
    /// Deaths that were seen when the port was last asked whether it is quiet.
    deaths: usize,
}

#[derive(Clone, Copy)]
pub struct CountsWakes(&'static World);

impl Wake for CountsWakes {
    fn wake(&self) {
        self.0.wakes.fetch_add(1, Ordering::Relaxed);
    }

    /// Overlooks all but what a test says: whoever goes by it has to look for himself before long.
    fn is_quiet(&self) -> bool {
        !self.0.rung.load(Ordering::Relaxed)
    }
}

impl TestPort {
    fn push_unless_refused(&mut self, path: Path, packet: Packet) -> Result<(), Full> {
        if self.world.lock().holds_back(self.me) { Err(Full) } else { self.push(path, packet) }
    }

    fn push(&mut self, path: Path, packet: Packet) -> Result<(), Full> {
        match path {
            Path::Local(_) => self.world.lock().push_local(packet),
            Path::Torus(node) => self.world.lock().inject(self.me, Injected::packet(node, packet)),
        }
    }
}

impl Sending for TestPort {
    type Route = (Path, Endpoint);

    fn locate(&self, target: Endpoint, local: bool) -> Result<Path, Unreachable> {
        let node = self.node_of(target.task()).ok_or(Unreachable::NoSuchEndpoint)?;
        if target.context().0 >= CONTEXTS {
            return Err(Unreachable::NoSuchEndpoint);
        }
        let near = self.world.lock().near;
        let reached = near && self.gone(node).is_none();
        if local && (reached || Some(node) == self.node_of(self.me.task())) {
            let number = target.task() * u32::from(CONTEXTS) + u32::from(target.context().0);
            return Ok(Path::Local(number as u16));
        }
        self.gone(node).map_or(Ok(Path::Torus(node)), |gone| Err(Unreachable::Gone(node, gone)))
    }

    fn take_back_from_gone(&mut self) {
        self.world.lock().drop_local_of_gone();
    }

    fn route(&self, target: Endpoint, path: Path) -> Option<Self::Route> {
        Some((path, target))
    }

    fn push_short(
        &mut self,
        &(path, target): &Self::Route,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full> {
        // As much as a descriptor has room for.
        let dead = matches!(path, Path::Torus(node) if self.gone(node).is_some());
        if dead || header.len() + data.len() > 24 {
            return Err(Full);
        }
        let (kind, total) = (Kind::EagerFirst, data.len() as u32);
        let envelope = Envelope { kind, dispatch, origin: self.me, target, message: 0, offset: 0, total };
        self.push_unless_refused(path, Packet::new(envelope, header, data))
    }

    fn mtu(&self) -> usize {
        MTU
    }

    fn push_bcopy(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), Full> {
        assert!(header.len() + data.len() <= MTU, "pami asked for more than an MTU");
        self.push_unless_refused(path, Packet::new(*envelope, header, data))
    }

    fn push_zcopy(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        let local = matches!(path, Path::Local(_));
        assert!(local || header.len() + data.as_slice().len() <= MTU, "pami asked for more than an MTU");
        let data = Data::Lent(data.clone());
        self.push_unless_refused(path, Packet { envelope: *envelope, header: header.to_vec(), data })
    }

    fn push_packed(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Full> {
        assert!(header.len() + len <= MTU, "pami asked for more than an MTU");
        let mut state = self.world.lock();
        if state.holds_back(self.me) || !state.has_room(self.me, path, envelope.target) {
            return Err(Full);
        }
        drop(state);
        let mut data = vec![0xee; len];
        fill(&mut data);
        self.push(path, Packet::new(*envelope, header, &data))
    }

    fn push_get(
        &mut self,
        node: u32,
        envelope: &Envelope,
        remote: RegionId,
        into: Option<(&Shared, u32)>,
        last: bool,
    ) -> Result<(), Full> {
        assert!(into.is_some() || (envelope.total == 0 && remote == RegionId::NONE));
        let into = into.map(|(memory, at)| (memory.clone(), at));
        let mut state = self.world.lock();
        if state.holds_back(self.me) {
            return Err(Full);
        }
        state.inject(self.me, Injected::get(node, *envelope, remote, into, last))
    }

    fn completed(&mut self) -> Option<Completed> {
        self.world.lock().port(self.me).completions.pop_front()
    }
}

impl RemoteMemory for TestPort {
    type WordAccess = (Endpoint, RegionHandle);

    fn register(&mut self, memory: Memory, rights: Rights) -> Result<RegionId, NoRegion> {
        self.world.lock().unit_of(self.me).register(memory, rights, self.me)
    }

    fn deregister(&mut self, region: RegionId) {
        self.world.lock().unit_of(self.me).deregister(region);
    }

    fn put_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        data: &[u8],
    ) -> Result<(), RegionFault> {
        self.world.lock().unit_of(target).put(target, region, offset, data)
    }

    fn reach_words(
        &mut self,
        target: Endpoint,
        region: &RegionHandle,
        wanted: Rights,
    ) -> Option<Self::WordAccess> {
        let mut world = self.world.lock();
        world.windows += 1;
        let memory = world.unit_of(target).memory(target, region.id(), wanted).ok()?;
        matches!(memory, Memory::Shared(memory) if memory.len() >= region.len() as usize)
            .then_some((target, *region))
    }

    fn put_word(&mut self, &(target, region): &Self::WordAccess, offset: u32, word: u64) -> bool {
        // Rights and owner were seen when the region was reached first.
        let memory = self.world.lock().unit_of(target).memory(target, region.id(), Rights::empty());
        let Ok(Memory::Shared(memory)) = memory else { return false };
        let inside = offset.is_multiple_of(8) && offset < region.len() / 8 * 8;
        inside && memory.write(offset as usize, &word.to_ne_bytes()).is_ok()
    }

    fn add_to_word(
        &mut self,
        &(target, region): &Self::WordAccess,
        offset: u32,
        operand: u64,
    ) -> Option<u64> {
        let memory = self.world.lock().unit_of(target).memory(target, region.id(), Rights::empty());
        let Ok(Memory::Shared(memory)) = memory else { return None };
        if !offset.is_multiple_of(8) || offset >= region.len() / 8 * 8 {
            return None;
        }
        memory.update(offset as usize, Width::Eight, Update::Add(operand)).ok()
    }

    fn get_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        into: (&Shared, u32),
        len: u32,
    ) -> Result<(), RegionFault> {
        let mut state = self.world.lock();
        let bytes = state.unit_of(target).get(target, region, offset, len)?;
        state.got += bytes.len();
        drop(state);
        into.0.write(into.1 as usize, &bytes).expect("pami checks where it lets the unit write");
        Ok(())
    }

    fn rmw_local(
        &mut self,
        target: Endpoint,
        region: RegionId,
        offset: u32,
        op: RmwOp,
    ) -> Result<u64, RegionFault> {
        self.world.lock().unit_of(target).update(target, region, offset, op)
    }

    fn bulletin(&self, of: Endpoint) -> Option<&'static Bulletin> {
        self.world.lock().bulletin(of)
    }

    fn exposed(&self, memory: &Shared) -> Option<Extent> {
        let state = &mut *self.world.lock();
        if state.hides == Some(self.me.task()) {
            return None;
        }
        if !state.exposed.iter().any(|known| known.is_same(memory)) {
            state.exposed.push(memory.clone());
        }
        Some(memory.extent())
    }

    fn read_exposed(&self, from: Extent, offset: usize, (into, at): (&Shared, usize), len: usize) -> bool {
        let exposed = self.world.lock().exposed.iter().find(|known| known.extent() == from).cloned();
        exposed.is_some_and(|memory| memory.copy(offset, into, at, len).is_ok())
    }

    fn tell_reader(&self, _: &'static Bulletin) {
        self.world.wakes.fetch_add(1, Ordering::Relaxed);
    }

    fn reach<R>(
        &mut self,
        owner: Endpoint,
        region: RegionId,
        wanted: Rights,
        what: impl FnOnce(&Memory) -> R,
    ) -> Result<R, RegionFault> {
        let memory = self.world.lock().unit_of(owner).memory(owner, region, wanted)?;
        Ok(what(&memory))
    }
}

impl Liveness for TestPort {
    fn node_of(&self, task: u32) -> Option<u32> {
        self.world.node_of(task)
    }

    fn deaths(&self) -> u32 {
        self.world.lock().gone()
    }

    fn first_dead(&self) -> Option<u32> {
        self.world.lock().first_dead
    }

    fn gone(&self, node: u32) -> Option<Gone> {
        let world = self.world.lock();
        let ended = world.ended.contains(&node).then_some(Gone::Ended);
        if world.dead.contains(&node) { Some(Gone::Died) } else { ended }
    }

    fn note_awaited(&mut self, node: Option<u32>) {
        self.world.lock().awaited.push(node);
    }
}

impl Receiving for TestPort {
    type Arrival = Packet;

    /// Where packets move by steps, a look at a port does not move any.
    fn is_quiet(&mut self) -> bool {
        let mut state = self.world.lock();
        state.looks += 1;
        let (deaths, stepped) = (state.gone() as usize, state.stepped);
        let died = std::mem::replace(&mut self.deaths, deaths) != deaths;
        let port = state.port(self.me);
        let arrived = !port.local.is_empty() || !port.reception.is_empty() || !port.completions.is_empty();
        stepped && !died && !arrived
    }

    fn pull_ready(&mut self) -> Option<Packet> {
        let mut state = self.world.lock();
        if state.ready { state.port(self.me).local.pop_front() } else { None }
    }

    fn is_drained(&mut self) -> bool {
        let mut state = self.world.lock();
        let ready = state.ready;
        let port = state.port(self.me);
        ready && port.local.is_empty() && port.reception.is_empty()
    }

    fn pull(&mut self) -> Option<Packet> {
        self.local_first = !self.local_first;
        let mut state = self.world.lock();
        let port = state.port(self.me);
        let pulled = if self.local_first {
            port.local.pop_front().or_else(|| port.reception.pop_front())
        } else {
            port.reception.pop_front().or_else(|| port.local.pop_front())
        };
        if pulled.is_none() {
            state.found_nothing();
        }
        pulled
    }

    fn release(&mut self, _: Packet) {}
}

impl Sleeping for TestPort {
    type Waker = CountsWakes;

    fn now_ns(&self) -> u64 {
        self.world.lock().now
    }

    fn waker(&self) -> CountsWakes {
        CountsWakes(self.world)
    }

    fn arm(&mut self) {}

    /// Until the deadline: nothing comes by itself.
    fn sleep(&mut self, deadline_ns: Option<u64>) {
        if let Some(meanwhile) = self.world.meanwhile.lock().unwrap().take() {
            meanwhile();
        }
        let mut state = self.world.lock();
        state.now = state.now.max(deadline_ns.unwrap_or(0));
        drop(state);
        std::thread::yield_now();
    }

    fn disarm(&mut self) {}

    fn idle_share(&self) -> u16 {
        self.world.lock().port(self.me).idle
    }

    fn note_idle(&mut self, from_ns: u64, to_ns: u64) {
        self.world.lock().port(self.me).idle_ns += to_ns - from_ns;
    }
}

impl Port for TestPort {
    type Network = TestNetwork;

    fn progress(&mut self) -> bool {
        let mut state = self.world.lock();
        state.drives += 1;
        if let Some(node) = state.dies_driven.take() {
            drop(state);
            self.world.kill(node);
            state = self.world.lock();
        }
        state.progress(self.me)
    }

    fn network(&self) -> Option<TestNetwork> {
        let node = self.node_of(self.me.task())?;
        let mut state = self.world.lock();
        state.network_looks += 1;
        state.tree.is_some().then_some(TestNetwork::new(self.world, node))
    }
}

impl Node for TestNode {
    type Port = TestPort;

    fn task(&self) -> u32 {
        self.task
    }
    fn tasks(&self) -> u32 {
        self.tasks
    }
    fn context_limit(&self) -> u8 {
        CONTEXTS
    }
    fn torus(&self) -> (TorusShape, TorusCoord) {
        // A line of nodes.
        let node = |task| self.world.node_of(task).unwrap();
        let shape: TorusShape = (node(self.tasks - 1) + 1).to_string().parse().unwrap();
        (shape, shape.coord(node(self.task)).unwrap())
    }
    fn affinities(&self) -> Option<Affinities> {
        self.world.threads.get().copied()
    }
    fn geometries(&self) -> impl Iterator<Item = ConfiguredGeometry<'static>> {
        let words = self.world.geometries.get().map_or("", |words| words(self.task));
        ConfiguredGeometry::all(words).map(|read| read.unwrap().1)
    }
    fn clock_hz(&self) -> u64 {
        1_000_000_000
    }

    fn claim_client(&self, name: &'static str) -> Result<ClientId, ClientError> {
        self.clients.lock().unwrap().claim(name)
    }

    fn release_client(&self, id: ClientId) {
        self.clients.lock().unwrap().release(id);
    }

    fn open(&self, id: ClientId, context: ContextOffset, _: Sharing) -> Result<TestPort, ClientError> {
        let me = Endpoint::from_parts(id, self.task, context);
        Ok(TestPort { world: self.world, me, local_first: false, deaths: 0 })
    }

    fn rest(&self) {
        std::thread::yield_now();
    }

    fn memory<T: Send>(&self, len: usize, mut value: impl FnMut() -> T) -> Option<&'static mut [T]> {
        let mut world = self.world.lock();
        let bytes = len * size_of::<T>();
        if world.memory - world.taken < bytes {
            return None;
        }
        world.taken += bytes;
        drop(world);
        if TypeId::of::<T>() == TypeId::of::<u8>() {
            // Zeros, as who asks for bytes wants. Pages that nobody writes take no memory: worlds are never given back.
            let bytes: Box<dyn Any> = Box::new(vec![0u8; len]);
            return bytes.downcast::<Vec<T>>().ok().map(|bytes| bytes.leak());
        }
        Some(Box::leak((0..len).map(|_| value()).collect()))
    }
}

/// Memory as buffers want it: whole lines.
#[derive(Clone, Copy, FromBytes, IntoBytes)]
#[repr(C, align(64))]
struct MemoryLine([u8; 64]);

/// Memory of buffers that were given back.
static FREE: Mutex<Vec<&'static mut [u8]>> = Mutex::new(Vec::new());

/// A buffer of exactly `len` bytes, all 0. Dropping it leaks it; see [`free`].
pub fn buffer(len: usize) -> Buffer {
    let bytes = CONTROL_BYTES + len;
    let mut free = FREE.lock().unwrap();
    let used = free.iter().position(|memory| memory.len() == bytes).map(|at| free.swap_remove(at));
    drop(free);
    let memory = used.unwrap_or_else(|| {
        let lines = vec![MemoryLine([0; 64]); bytes.div_ceil(size_of::<MemoryLine>())];
        &mut lines.leak().as_mut_bytes()[..bytes]
    });
    memory.fill(0);
    Buffer::new(memory).expect("room for the count")
}

/// Gives the memory of a [`buffer`] back.
pub fn free(buffer: Buffer) {
    FREE.lock().unwrap().push(buffer.into_memory().unwrap());
}

/// A buffer that holds `bytes`.
pub fn filled(bytes: &[u8]) -> Buffer {
    let mut buffer = buffer(bytes.len());
    buffer.as_mut_slice().copy_from_slice(bytes);
    buffer
}

/// Bytes that tell where they belong.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(17)) as u8).collect()
}
