//! The fabric: the networks between emulated nodes, a model of the torus and tree routers on the host (SPEC X-4, D-2,
//! D-3).
//!
//! Each node connects to its own listener and exchanges Ethernet frames over it; the fabric carries them
//! hop by hop along the links of a torus. One thread serves all nodes from one epoll loop and sleeps
//! whenever nothing can move.
//!
//! | module | concern |
//! |---|---|
//! | [`torus`] | routers, links, queues: pure and deterministic |
//! | [`tree`] | the collective network, where nodes have one |
//! | `stream` | the transport: length-prefixed frames over a Unix stream, as QEMU's `-netdev stream` speaks |
//! | `frame` | Ethernet addresses, Hello, Go and Gone |
//! | `muster` | who has joined, and when all have |
//! | [`faults`], `quantity` | which faults are asked for: words, percentages, times |
//! | `fault_injector`, `dice` | what befalls packets, by the seed |
//! | `awake` | rounds over the nodes for which something has changed |
//! | `switch` | what arrives, moves and leaves in one round |
//! | `plain` | a plain Ethernet switch in the place of torus and tree |
//! | `event_loop` | readiness, commands |
//! | `listeners` | a Unix socket per node |
//! | `pcap` | the capture file |
//! | [`statistics`], `traffic` | what is counted |
//!
//! *Back-pressure.* Nothing here grows without bound. A node that does not read lets its socket fill, then
//! its output buffer, its ejection queue, the routers on the way, the injection queues of the origins and
//! their input buffers; then the fabric no longer reads the origins' sockets, and they stall.
//!
//! *Who is gone.* That a node's stream has ended the fabric sees, why it does not: the service node, which watches the
//! processes, does, and has it [told](FabricHandle::announce) to all other nodes, in the same order to each (SPEC R-2).
//!
//! *Faults.* A link that is down loses packets where they would cross it, in [`torus`]; what befalls a packet
//! on its whole way does so at its end, in `fault_injector`. Hello, Go and Gone always pass. The capture has what nodes
//! sent, before any fault.
//!
//! *Another transport* (vhost-user, say) replaces `stream`, whose interface is small.

mod awake;
mod dice;
mod event_loop;
mod fault_injector;
pub mod faults;
mod frame;
mod listeners;
mod muster;
mod pcap;
mod plain;
mod quantity;
pub mod statistics;
mod stream;
mod switch;
pub mod torus;
mod traffic;
pub mod tree;

#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod tests;

pub use faults::{Faults, LinkDown};
pub use quantity::time;
pub use statistics::{Dropped, FaultCounts, NodeStatistics, Statistics};
pub use traffic::Traffic;
pub use tree::{TreeDropped, TreeNodeStatistics, TreeStatistics};

use event_loop::{Command, EventLoop, Progress};
use listeners::Sockets;
use mio::Waker;
use pami::topology::TorusShape;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

/// The longest Ethernet frame that is carried, in bytes.
pub const MAX_FRAME: usize = 17 * 1024;
/// The shortest Ethernet frame that is carried: one of the tree without a payload.
pub const MIN_FRAME: usize = frame::ETHERNET_BYTES + pami::combine::packet::HEADER_BYTES;
const _: () = assert!(MIN_FRAME <= frame::ETHERNET_BYTES + frame::LINK_BYTES);

/// What a fabric is made of.
#[derive(Clone, Debug)]
pub struct Config {
    /// The torus; one router and one listener per node.
    pub shape: TorusShape,
    /// The folder the listeners `node-N.sock` are made in; made if absent.
    pub sockets: PathBuf,
    /// Where to write a capture of all frames.
    pub pcap: Option<PathBuf>,
    /// Packets that each queue of a router holds, at least [`torus::LEAST_ROOM`].
    pub queue_room: usize,
    /// What shall befall packets.
    pub faults: Option<Faults>,
    /// Links that shall be down for a while. Those the torus does not have do no harm.
    pub links_down: Vec<LinkDown>,
    /// Whether there is a tree as well; its listeners are `tree-N.sock`.
    pub tree: bool,
    /// Where the nodes listen for the torus and for the tree, by rank, if they do and the fabric does not.
    pub nodes_listen: Option<[Vec<PathBuf>; 2]>,
    /// I/O nodes on the tree; their listeners are those behind the nodes'.
    pub io_nodes: u32,
    /// Whether there is a plain Ethernet switch instead of the torus. Nodes gather themselves then.
    pub plain: bool,
}

impl Config {
    /// A fabric without tree, capture and faults, with queues of eight packets.
    pub fn new(shape: TorusShape, sockets: impl Into<PathBuf>) -> Self {
        Self {
            shape,
            sockets: sockets.into(),
            pcap: None,
            queue_room: 8,
            faults: None,
            links_down: Vec::new(),
            tree: false,
            nodes_listen: None,
            io_nodes: 0,
            plain: false,
        }
    }

    /// The faults in words, if there are any.
    fn fault_words(&self) -> Option<String> {
        let mut words = self.faults.map(|faults| faults.to_string()).unwrap_or_default();
        for down in &self.links_down {
            // Writing to a String cannot fail.
            let _ = write!(words, "{}down {down}", if words.is_empty() { "" } else { ", " });
        }
        (!words.is_empty()).then_some(words)
    }
}

/// How a node went.
pub use pami::device::Gone as Fate;

/// Starts fabrics.
pub struct Fabric;

impl Fabric {
    /// Binds every listener, then serves them from a thread of its own until the handle is stopped or dropped.
    ///
    /// Each listener takes one connection in its life.
    ///
    /// # Errors
    /// A listener or the capture file cannot be made, or a node does not listen (the message names it), or no thread.
    pub fn start(config: Config) -> io::Result<FabricHandle> {
        let (commands, inbox) = channel();
        let progress = Arc::new(Progress::default());
        let own = if config.nodes_listen.is_some() { config.shape.nodes() } else { 0 };
        let bind = |name, nodes| listeners::bind(&config.sockets, name, own, nodes);
        let (sockets, listeners) = bind("node", config.shape.nodes())?;
        let (tree_sockets, tree_listeners) =
            bind("tree", if config.tree { config.shape.nodes() + config.io_nodes } else { 0 })?;
        let listeners = [listeners, tree_listeners];
        let (event_loop, waker) = EventLoop::new(&config, listeners, inbox, Arc::clone(&progress))?;
        let thread = std::thread::Builder::new().name("fabric".into()).spawn(move || event_loop.run())?;
        Ok(FabricHandle { sockets, tree_sockets, commands, waker, progress, thread: Some(thread) })
    }
}

/// A running fabric. Dropping it stops it.
pub struct FabricHandle {
    sockets: Sockets,
    tree_sockets: Sockets,
    commands: Sender<Command>,
    waker: Waker,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<io::Result<Statistics>>>,
}

impl FabricHandle {
    /// Where node `node` connects to.
    ///
    /// # Panics
    /// If the torus has no such node.
    pub fn socket(&self, node: u32) -> &Path {
        &self.sockets.paths()[node as usize]
    }

    /// Where node `node` connects its second network card to, if there is a tree.
    pub fn tree_socket(&self, node: u32) -> Option<&Path> {
        self.tree_sockets.paths().get(node as usize).map(PathBuf::as_path)
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.sockets.paths().len() as u32
    }

    /// Where I/O node `number` of those that the fabric was made with connects to, if there is a tree.
    pub fn io_socket(&self, number: u32) -> Option<&Path> {
        self.tree_socket(self.nodes() + number)
    }

    /// Nodes that have said a valid Hello.
    pub fn joined(&self) -> usize {
        self.progress.joined.load(Ordering::Acquire)
    }

    /// Whether all nodes have joined and Go was given.
    pub fn started(&self) -> bool {
        self.progress.started.load(Ordering::Acquire)
    }

    /// The nodes whose connection to the torus has ended, in that order.
    pub fn departed(&self) -> Vec<u32> {
        self.progress.departed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells all other nodes that `node` is gone, and how it went.
    pub fn announce(&self, node: u32, fate: Fate) {
        self.tell(Command::Announce(node, fate));
    }

    /// Ends the connections of `node`, as if its cables were pulled.
    pub fn cut(&self, node: u32) {
        self.tell(Command::Cut(node));
    }

    fn tell(&self, command: Command) {
        // A thread that has ended tells nobody anything; `stop` says why it has.
        if self.commands.send(command).is_ok() {
            let _ = self.waker.wake();
        }
    }

    /// A snapshot of all counters. After a fault of the fabric itself, it only holds that complaint.
    pub fn statistics(&self) -> Statistics {
        let gone = || Statistics {
            complaints: vec!["the fabric's thread has ended".into()],
            ..Statistics::default()
        };
        self.ask(Command::Statistics).unwrap_or_else(gone)
    }

    /// Packets that each node has sent, and that it was given, on torus and tree together.
    pub fn traffic(&self) -> Vec<(u64, u64)> {
        let Statistics { nodes, tree, .. } = self.statistics();
        let of_tree = tree.map(|tree| tree.nodes).unwrap_or_default();
        let of_tree = of_tree.iter().map(|node| (node.injected.packets, node.delivered.packets));
        let of_tree = of_tree.chain(std::iter::repeat((0, 0)));
        let both = nodes.iter().zip(of_tree);
        both.map(|(node, (sent, given))| (node.injected.packets + sent, node.delivered.packets + given))
            .collect()
    }

    /// A text for people on why a run hangs: per node, what its queues and its stream hold.
    pub fn state_dump(&self) -> String {
        self.ask(Command::Dump).unwrap_or_else(|| "the fabric's thread has ended\n".into())
    }

    /// Ends the fabric: closes connections, completes the capture, removes the listeners.
    ///
    /// # Errors
    /// What ended the fabric's thread earlier, or what kept the capture from being written.
    pub fn stop(mut self) -> io::Result<Statistics> {
        self.join()
    }

    fn ask<T>(&self, command: impl FnOnce(Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = channel();
        self.commands.send(command(reply)).ok()?;
        self.waker.wake().ok()?;
        answer.recv().ok()
    }

    fn join(&mut self) -> io::Result<Statistics> {
        let Some(thread) = self.thread.take() else { return Ok(Statistics::default()) };
        // A thread that has ended hears nothing; its result tells why.
        if self.commands.send(Command::Stop).is_ok() {
            self.waker.wake()?;
        }
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the fabric's thread panicked")))
    }
}

impl Drop for FabricHandle {
    fn drop(&mut self) {
        // Whoever wants the result calls `stop`.
        let _ = self.join();
    }
}
