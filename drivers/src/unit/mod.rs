//! The message unit: a DMA engine in software (SPEC D-4, D-7, docs/design.md decision 4).
//!
//! ```text
//! port -> injection FIFO -.                              .-> reception FIFO -> port
//! port -> injection FIFO --+-> engine -> adapter -> engine +-> reception FIFO -> port
//!         doorbells -------'                               '-> wakes the port's sleeper
//! ```
//!
//! Every context has a port. Its FIFOs exist from the start, whether or not it is open, so what arrives for a
//! context that is still to be created waits, until the clients before its own [have ended](MessageUnit::renew). FIFOs have
//! one writer and one reader and need no lock; the engine is run by whichever hart drives a port and gets the token, or by an
//! agent core that does nothing else.
//!
//! **Nothing new costs next to nothing.** Whoever has something for a port rings its bell: the engine that put a packet
//! into its FIFO, a port of the node that filled a line. The engine runs when the device has received something, or a
//! doorbell of the port's own was rung; every so many looks a port also sees whether the device has sent something,
//! another port's doorbell was rung, or a timer has run out. Each port that has a hart looks, so one of them comes.
//!
//! **Nothing is left behind.** A hart that finds the token taken leaves its work to the holder: it rings its
//! doorbell before it tries, and the holder looks at the doorbells after it let the token go. A hart that sleeps
//! has armed its bell, and after that either looked at everything and armed the adapter's interrupts, or left that
//! to the holder in the same way; while any hart sleeps, whoever runs the engine arms the interrupts again whenever
//! it took something from the adapter.

mod dead;
mod descriptor;
mod engine;
mod fifo;
mod joining;
mod muster;
mod network;
mod outstanding;
mod parked;
mod port;
mod regions;
mod responder;
mod running;
mod setup;
mod slots;
mod statistics;

#[cfg(test)]
pub(crate) mod tests;

pub use descriptor::{INJECTION_ENTRIES, INLINE_BYTES};
pub use engine::Bare;
pub use fifo::{Arrived, COPY_SLOTS, SHORT_SLOTS};
pub use muster::MOST_GATHERED;
pub use network::Network;
pub use outstanding::WINDOW;
pub use port::{NodeArrival, NodePort, NodeWaker};
pub use regions::REGIONS;
pub use setup::{OpenError, Setup, Sharing, StartError};
pub use statistics::{Dropped, Statistics};

use crate::adapter::{MOST_MTU, RX_BUFFERS, Watch};
use crate::bits::LIMIT as MOST_PORTS;
use crate::platform::{MOST_HARTS, Platform};
use crate::ranks::MOST_NODES;
use crate::shm::Shm;
use crate::state::{self, FifoRecord};
use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use dead::Dead;
use fifo::PortState;
use muster::Muster;
use network::Held;
use outstanding::Outstanding;
use pami::device::{Gone, REQUESTS};
use pami::endpoint::{CLIENTS, ClientId, ContextOffset, Endpoint};
use pami::mapping::{TaskLocation, TaskMap};
use pami::region::Memory;
use regions::Regions;
use responder::{ANSWER_SLOTS, Responder};
use rings::bell::Bell;
use rings::buffer::Source;
use rings::segment::reach;
use rings::table::Hazard;
use running::Doorbells;
use slots::SHORT_BYTES;
use statistics::Counters;

/// Largest packet payload of a node without an adapter, in bytes.
const LOCAL_MTU: usize = 4096;
/// Pairs of ports that may talk through shared memory; further ones use the adapter's loop-back.
const MOST_PAIRS: usize = 256;

/// The node's message unit.
pub struct MessageUnit<P: Platform, N: Network> {
    node: u32,
    map: TaskMap,
    contexts: u8,
    agent: Option<usize>,
    /// Most payload of a packet that is copied, and of one of bulk data.
    copied: usize,
    bulk: usize,
    interrupt: Option<N::Interrupt>,
    /// Where to see that the device has news.
    watch: Option<Watch>,
    /// What the device had sent before the last round, and when the next is due without news; 0 at once.
    sent_seen: AtomicU16,
    due: AtomicU64,
    /// The token.
    engine: Option<N::Engine>,
    port_states: Box<[PortState]>,
    shm: Shm,
    regions: Regions,
    /// Ports with new descriptors or returned buffers.
    doorbells: Doorbells,
    /// Ports that were refused for want of room in the injection FIFO and wait for it.
    starved: Doorbells,
    /// Harts that sleep or are about to, a bit each.
    sleeping: AtomicU64,
    /// A hart that sleeps found the token taken, and its holder is to run the engine once more and arm the
    /// adapter's interrupts.
    arm_asked: AtomicBool,
    /// When a sleeping hart will wake by itself and run the engine.
    watched: AtomicU64,
    dead: Dead,
    /// Where no fabric gathers the nodes.
    muster: Option<Muster>,
    agent_bell: Bell,
    joined: AtomicBool,
    join_bell: Bell,
    bare_bell: Bell,
    counters: Counters,
    platform: PhantomData<fn() -> P>,
}

impl<P: Platform, N: Network> MessageUnit<P, N> {
    /// Starts the node's message unit; [`heap_bytes`] says how much it allocates.
    ///
    /// # Errors
    /// What in `setup` cannot be.
    pub fn start(setup: Setup<N>) -> Result<&'static Self, StartError> {
        let Setup { adapter, node, map, contexts, harts, agent, near, plain } = setup;
        let tasks = map.tasks_per_node();
        if map.task(TaskLocation { node, local: 0 }).is_none() {
            return Err(StartError::NoSuchNode(node));
        }
        let wanted = CLIENTS * tasks as usize * usize::from(contexts);
        if wanted > MOST_PORTS {
            return Err(StartError::TooManyPorts { wanted });
        }
        if let Some(hart) =
            agent.filter(|&agent| agent >= harts).or((harts > MOST_HARTS).then_some(MOST_HARTS))
        {
            return Err(StartError::NoSuchHart(hart));
        }
        let bulk = adapter.as_ref().map_or(LOCAL_MTU, Network::mtu);
        let copied = bulk.min(MOST_MTU);
        let pairs = pairs(wanted, near.map_or(0, |near| near.desks.len()));
        let shm = Shm::new(wanted, pairs, copied, near).map_err(|_| StartError::Mtu(copied))?;

        let records = (0..wanted).map(|port| {
            let (group, context) = (port / usize::from(contexts), port % usize::from(contexts));
            FifoRecord::new((group / tasks as usize) as u8, (group % tasks as usize) as u8, context as u8)
        });
        let records = state::publish(records.collect());
        let port_states: Box<[_]> = records.iter().map(PortState::new).collect();
        let interrupt = adapter.as_ref().map(Network::interrupt);
        let watch = adapter.as_ref().and_then(Network::watch);
        let nodes = map.tasks().div_ceil(tasks);
        let peers = adapter.as_ref().map_or(0, Network::most_peers).min(nodes as usize);
        if peers > MOST_NODES {
            return Err(StartError::TooManyPeers(peers));
        }
        if plain.is_some() && nodes > MOST_GATHERED {
            return Err(StartError::TooManyNodes(nodes));
        }
        let engine = adapter.map(|adapter| adapter.engine(&port_states, copied, nodes));
        let unit: &'static Self = Box::leak(Box::new(Self {
            node,
            map,
            contexts,
            agent,
            copied,
            bulk,
            interrupt,
            watch,
            sent_seen: AtomicU16::new(0),
            due: AtomicU64::new(0),
            engine,
            port_states,
            shm,
            regions: Regions::new(),
            doorbells: Doorbells::new(wanted),
            starved: Doorbells::new(wanted),
            sleeping: AtomicU64::new(0),
            arm_asked: AtomicBool::new(false),
            watched: AtomicU64::new(u64::MAX),
            dead: Dead::new(nodes),
            muster: plain.map(|own| Muster::new(node, nodes, own)),
            agent_bell: Bell::new(),
            joined: AtomicBool::new(false),
            join_bell: Bell::new(),
            bare_bell: Bell::new(),
            counters: Counters::default(),
            platform: PhantomData,
        }));
        if let Some(desk) = near.and_then(|near| near.desks.get(node as usize)) {
            desk.shm.set(&unit.shm);
            desk.unit.set(unit);
        }
        Ok(unit)
    }

    /// The message unit of node `node`: this one, or that of a node whose memory this one reaches.
    #[inline(always)]
    fn reached(&'static self, node: u32) -> Option<&'static Self> {
        if !P::NEAR || node == self.node { Some(self) } else { self.reached_afar(node) }
    }

    #[inline(never)]
    fn reached_afar(&self, node: u32) -> Option<&'static Self> {
        let desk = self.shm.near()?.desks.get(node as usize)?;
        // SAFETY: a desk's `unit` is the message unit of its node, of the image's one kind; the node has its memory and its image
        // where they are here.
        unsafe { desk.unit.get::<Self>() }
    }

    /// Whether a node that reaches this one's memory, and lives, shows something of it.
    fn is_shown(&'static self, shows: &dyn Fn(&Hazard) -> bool) -> bool {
        // Who waits for one that dies hears of it.
        self.progress();
        let nodes = 0..self.shm.near().map_or(0, |near| near.desks.len() as u32);
        let others = nodes.filter(|&node| node != self.node && self.gone(node).is_none());
        let mut units = others.filter_map(|node| self.reached(node));
        units.any(|unit| unit.port_states.iter().any(|port| shows(&port.own.hazard)))
    }

    /// Whether all nodes that reach this one's memory reach this, if there are such.
    fn is_shared(&self, memory: &Memory) -> bool {
        let lies = || match memory {
            Memory::Shared(shared) => shared.lies(P::shares),
            Memory::Lent(source) => source.lies(P::shares),
        };
        self.shm.near().is_none() || lies()
    }

    /// Whether the port with this number reads `data` where it lies.
    #[inline]
    fn lends(&self, number: u16, data: &Source) -> bool {
        usize::from(number) < self.port_states.len() || data.lies(P::shares)
    }

    /// What others have of the port with this number: of this node's, or of one whose memory this one reaches.
    #[inline(always)]
    fn port_state(&'static self, number: u16) -> Option<&'static PortState> {
        self.port_states
            .get(usize::from(number))
            .or_else(|| if P::NEAR { self.port_state_afar(number) } else { None })
    }

    #[inline(never)]
    fn port_state_afar(&self, number: u16) -> Option<&'static PortState> {
        let (node, port) = self.shm.place(number)?;
        self.reached_afar(node)?.port_states.get(usize::from(port))
    }

    /// Opens the port of context `context` of `client` of the node's task `local_task`.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(
        &'static self,
        client: ClientId,
        local_task: u32,
        context: u8,
        sharing: Sharing,
    ) -> Result<NodePort<P, N>, OpenError> {
        let port = self.port_number(client, local_task, context).ok_or(OpenError::NoSuchPort)?;
        let task = self
            .map
            .task(TaskLocation { node: self.node, local: local_task })
            .ok_or(OpenError::NoSuchPort)?;
        let me = Endpoint::from_parts(client, task, ContextOffset(context));
        NodePort::open(self, port, port - u16::from(context), me, sharing)
    }

    /// The client before `client` in its place has ended in the node's task `local_task`: drops what arrived for it, and has
    /// the ports, which are closed, wait for `client` (SPEC P-1).
    pub fn renew(&self, client: ClientId, local_task: u32) {
        for context in 0..self.contexts {
            let Some(port) = self.port_number(client, local_task, context) else { return };
            let reception = &self.port_states[usize::from(port)].reception;
            self.with_engine(|engine| {
                if let Some(reception) = reception.lock().as_mut() {
                    engine.renew(port, client.generation(), reception);
                }
            });
        }
    }

    /// Sends bytes to another node that need be no packet: what a hostile node does (SPEC D-9), for tests. False if
    /// there is no room now, or the bytes are over [`HEAD_BYTES`](crate::adapter::HEAD_BYTES).
    pub fn send_raw(&self, node: u32, bytes: &[u8]) -> bool {
        self.with_engine(|engine| engine.send_raw(node, bytes)).unwrap_or(false)
    }

    /// What went through the unit so far.
    pub fn statistics(&self) -> Statistics {
        let faults = self.with_engine(|engine| engine.faults()).unwrap_or_default();
        let counters = &self.counters;
        let local = self
            .port_states
            .iter()
            .map(|port_state| port_state.own.local_packets.load(Ordering::Relaxed))
            .sum();
        Statistics {
            sent_packets: counters.sent_packets.get(),
            received_packets: counters.received_packets.get(),
            sent_bytes: counters.sent_bytes.get(),
            received_bytes: counters.received_bytes.get(),
            local_packets: local,
            failed_packets: counters.failed_packets.get(),
            served: counters.served.get(),
            refused: counters.refused.get(),
            placed: counters.placed.get(),
            late: counters.late.get(),
            reliability: faults.reliability,
            dropped: Dropped {
                overflow: counters.overflow.get(),
                malformed: counters.malformed.get(),
                unexpected: counters.unexpected.get(),
                wrong_node: counters.wrong_node.get(),
                unknown_origin: counters.unknown_origin.get(),
                no_fifo: counters.no_fifo.get(),
                unsolicited: counters.unsolicited.get(),
                beyond: counters.beyond.get(),
                runts: faults.runts,
                foreign: faults.foreign,
                stray: faults.stray,
                rings: faults.rings,
            },
        }
    }

    /// How node `node` went, if it is gone: what was sent to it may not have arrived, nothing more can be.
    pub fn gone(&self, node: u32) -> Option<Gone> {
        self.dead.find(node)
    }

    /// Whether node `node` has died.
    pub fn is_dead(&self, node: u32) -> bool {
        self.gone(node) == Some(Gone::Died)
    }

    /// The first node that died.
    pub fn first_dead(&self) -> Option<u32> {
        self.dead.first()
    }

    /// Nodes that are gone so far; all sleepers are woken when it grows.
    pub fn deaths(&self) -> u32 {
        self.dead.count()
    }

    /// Takes note that node `node` is gone, as if the network had told (SPEC R-2).
    pub fn announce(&self, node: u32, gone: Gone) {
        self.with_engine(|engine| engine.note_gone(self, node, gone));
    }

    /// Number of a port, if there is such a one.
    #[inline]
    pub(crate) fn port_number(&self, client: ClientId, local_task: u32, context: u8) -> Option<u16> {
        let tasks = self.map.tasks_per_node();
        let client = client.place();
        if local_task >= tasks || context >= self.contexts {
            return None;
        }
        Some(
            ((u32::from(client) * tasks + local_task) * u32::from(self.contexts) + u32::from(context)) as u16,
        )
    }
}

/// About how many bytes of heap a node's message unit takes, without its adapter.
pub const fn heap_bytes(tasks_per_node: usize, contexts: usize, mtu: usize, near: usize) -> usize {
    let ports = CLIENTS * tasks_per_node * contexts;
    let fifos = (RX_BUFFERS * 2 + INJECTION_ENTRIES) * 64
        + parked::HEAP_BYTES
        + COPY_SLOTS * (mtu + 64)
        + SHORT_SLOTS * SHORT_BYTES
        + 4096
        + 32 * REQUESTS;
    let shm = pairs(ports, near) * (4096 + 4 * mtu + 512) + 64 * ports * reach(ports, near);
    let one_sided = regions::HEAP_BYTES
        + ANSWER_SLOTS * (mtu + 64)
        + Outstanding::heap_bytes(MOST_NODES, ports)
        + Responder::heap_bytes(MOST_NODES);
    ports * fifos + shm + one_sided + (128 << 10)
}

/// Rings for pairs of ports that a node has.
const fn pairs(ports: usize, near: usize) -> usize {
    let all = ports * reach(ports, near);
    if all < MOST_PAIRS { all } else { MOST_PAIRS }
}
