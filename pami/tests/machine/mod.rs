//! A machine in one process for host tests: every context's reception side is a bounded queue.

use pami::client::{ClientError, Node, Sharing};
use pami::context::Work;
use pami::device::{Arrival, Full, Path, Port, Unreachable, Wake};
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::Envelope;
use pami::topology::{TorusCoord, TorusShape};
use rings::buffer::{Buffer, CONTROL_BYTES, Source};
use rings::post::{Consumer, PostQueue};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

pub const MTU: usize = 512;
pub const CONTEXTS: u8 = 4;
pub const CLIENTS: usize = 2;

/// Packets that a queue holds before its senders find it full.
const QUEUE: usize = 8;

type Queue = Arc<Mutex<VecDeque<Packet>>>;

/// What all nodes of the machine share.
#[derive(Default)]
pub struct Wires {
    queues: Mutex<HashMap<(u8, u32, u8), Queue>>,
}

impl Wires {
    pub fn queue(&self, to: Endpoint) -> Queue {
        let key = (to.client().0, to.task(), to.context().0);
        self.queues.lock().unwrap().entry(key).or_default().clone()
    }
}

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
    pub fn new(envelope: Envelope, data: &[u8]) -> Self {
        Self { envelope, header: Vec::new(), data: Data::Copied(data.to_vec()) }
    }
}

impl Arrival for Packet {
    fn envelope(&self) -> &Envelope {
        &self.envelope
    }
    fn header(&self) -> &[u8] {
        &self.header
    }
    fn data(&self) -> &[u8] {
        match &self.data {
            Data::Copied(bytes) => bytes,
            Data::Lent(source) => source.as_slice(),
        }
    }
}

/// One task, on a node of its own unless `local` makes all tasks share one.
pub struct TestNode {
    pub task: u32,
    pub tasks: u32,
    pub local: bool,
    pub wires: Arc<Wires>,
    names: Mutex<[Option<&'static str>; CLIENTS]>,
}

pub fn machine(tasks: u32, local: bool) -> Vec<&'static TestNode> {
    let wires = Arc::new(Wires::default());
    let node = |task| TestNode { task, tasks, local, wires: wires.clone(), names: Mutex::default() };
    (0..tasks).map(|task| &*Box::leak(Box::new(node(task)))).collect()
}

pub struct TestPort {
    node: &'static TestNode,
    inbound: Queue,
    posts: &'static PostQueue<Work<TestPort>>,
    posted: Consumer<Work<TestPort>>,
}

#[derive(Clone, Copy)]
pub struct NobodySleeps;

impl Wake for NobodySleeps {
    fn wake(&self) {}
}

impl TestPort {
    fn push(&mut self, packet: Packet) -> Result<(), Full> {
        let queue = self.node.wires.queue(packet.envelope.target);
        let mut queue = queue.lock().unwrap();
        if queue.len() == QUEUE {
            return Err(Full);
        }
        queue.push_back(packet);
        Ok(())
    }
}

impl Port for TestPort {
    type Arrival = Packet;
    type Waker = NobodySleeps;

    fn locate(&self, target: Endpoint, local: bool) -> Result<Path, Unreachable> {
        if target.task() >= self.node.tasks || target.context().0 >= CONTEXTS {
            return Err(Unreachable);
        }
        let number = target.task() * u32::from(CONTEXTS) + u32::from(target.context().0);
        Ok(if self.node.local && local { Path::Local(number as u16) } else { Path::Torus(target.task()) })
    }

    fn mtu(&self) -> usize {
        MTU
    }

    fn push_copy(&mut self, _: Path, envelope: &Envelope, header: &[u8], data: &[u8]) -> Result<(), Full> {
        assert!(header.len() + data.len() <= MTU, "pami asked for more than an MTU");
        self.push(Packet { envelope: *envelope, header: header.to_vec(), data: Data::Copied(data.to_vec()) })
    }

    fn push_lend(
        &mut self,
        path: Path,
        envelope: &Envelope,
        header: &[u8],
        data: &Source,
    ) -> Result<(), Full> {
        let local = matches!(path, Path::Local(_));
        assert!(local || header.len() + data.as_slice().len() <= MTU, "pami asked for more than an MTU");
        self.push(Packet { envelope: *envelope, header: header.to_vec(), data: Data::Lent(data.clone()) })
    }

    fn pull(&mut self) -> Option<Packet> {
        self.inbound.lock().unwrap().pop_front()
    }

    fn release(&mut self, _: Packet) {}

    fn drive(&mut self) -> bool {
        false
    }

    fn posts(&self) -> &'static PostQueue<Work<Self>> {
        self.posts
    }

    fn waker(&self) -> NobodySleeps {
        NobodySleeps
    }

    fn posted(&mut self) -> &mut Consumer<Work<Self>> {
        &mut self.posted
    }

    fn arm(&mut self) {}

    fn sleep(&mut self, _: Option<u64>) {
        std::thread::yield_now();
    }

    fn disarm(&mut self) {}

    fn now_ns(&self) -> u64 {
        0
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
        let shape: TorusShape = self.tasks.to_string().parse().unwrap();
        (shape, shape.coord(self.task).unwrap())
    }
    fn clock_hz(&self) -> u64 {
        1_000_000_000
    }

    fn claim_client(&self, name: &'static str) -> Result<ClientId, ClientError> {
        let mut names = self.names.lock().unwrap();
        if names.contains(&Some(name)) {
            return Err(ClientError::NameTaken);
        }
        let free = names.iter().position(Option::is_none);
        let free = free.ok_or(ClientError::Exhausted { what: "clients", limit: CLIENTS })?;
        names[free] = Some(name);
        Ok(ClientId(free as u8))
    }

    fn release_client(&self, id: ClientId) {
        self.names.lock().unwrap()[usize::from(id.0)] = None;
    }

    fn open(&self, id: ClientId, context: ContextOffset, _: Sharing) -> Result<TestPort, ClientError> {
        let posts: &'static PostQueue<_> = Box::leak(Box::new(PostQueue::new()));
        let me = Endpoint::from_parts(id, self.task, context);
        let (task, tasks, local, wires) = (self.task, self.tasks, self.local, self.wires.clone());
        let node = Box::leak(Box::new(TestNode { task, tasks, local, wires, names: Mutex::default() }));
        let posted = posts.consumer().expect("a new queue");
        Ok(TestPort { node, inbound: self.wires.queue(me), posts, posted })
    }

    fn memory<T: Send>(&self, len: usize, mut value: impl FnMut() -> T) -> Option<&'static mut [T]> {
        Some(Box::leak((0..len).map(|_| value()).collect()))
    }
}

/// A buffer on the heap, never freed.
pub fn buffer(len: usize) -> Buffer {
    Buffer::new(Box::leak(vec![0; len + CONTROL_BYTES + 63].into_boxed_slice())).expect("room for the count")
}

/// Bytes that tell where they belong.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 8) ^ seed.wrapping_mul(17)) as u8).collect()
}
