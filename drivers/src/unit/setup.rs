//! What a message unit is made of, how its FIFOs are shared, and why it was refused.

use super::muster::MOST_GATHERED;
use crate::bits::LIMIT as MOST_PORTS;
use crate::gathering::Identity;
use crate::near::Near;
use crate::ranks::MOST_NODES;
use core::fmt;
use pami::mapping::TaskMap;

/// What a message unit is made of.
pub struct Setup<A> {
    /// The network; none if the job has one node.
    pub adapter: Option<A>,
    /// Rank of this node.
    pub node: u32,
    /// Where the job's tasks run.
    pub map: TaskMap,
    /// Most contexts per client and task.
    pub contexts: u8,
    /// Harts of this node.
    pub harts: usize,
    /// The hart that does nothing but run the engine, if one does.
    pub agent: Option<usize>,
    /// The nodes whose memory this one reaches, if there are such, and which of them it is.
    pub near: Option<Near>,
    /// What this node says of itself to node 0, which gathers the nodes; none if a fabric does.
    pub plain: Option<Identity>,
}

/// Why a message unit did not start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StartError {
    /// Clients, tasks and contexts come to more ports than a message unit has.
    TooManyPorts {
        /// Ports asked for.
        wanted: usize,
    },
    /// The adapter may have something under way with more nodes at once than there is memory for.
    TooManyPeers(usize),
    /// More nodes than gather themselves.
    TooManyNodes(u32),
    /// The job has no such node.
    NoSuchNode(u32),
    /// The agent is no hart of this node, or it has more than [`MOST_HARTS`](crate::platform::MOST_HARTS); then it is the first too many.
    NoSuchHart(usize),
    /// The adapter's packets are larger than descriptors can say.
    Mtu(usize),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooManyPorts { wanted } => write!(f, "{wanted} ports are more than {MOST_PORTS}"),
            Self::TooManyPeers(peers) => write!(f, "{peers} peers at once are more than {MOST_NODES}"),
            Self::TooManyNodes(nodes) => {
                write!(
                    f,
                    "{nodes} nodes are more than {MOST_GATHERED}, as many as gather on a plain Ethernet"
                )
            }
            Self::NoSuchNode(node) => write!(f, "the job has no node {node}"),
            Self::NoSuchHart(hart) => write!(f, "the node has no hart {hart}"),
            Self::Mtu(mtu) => write!(f, "packets of {mtu} bytes are too large"),
        }
    }
}

impl core::error::Error for StartError {}

/// How the contexts of one client and task share the injection FIFOs (SPEC P-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Each has its own, and uses it without a lock.
    Exclusive,
    /// All use that of context 0, under a lock.
    Shared,
}

/// Why a port was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// No such client, task in this node, or context.
    NoSuchPort,
    /// It is open already.
    InUse,
    /// Contexts of this client and task use the FIFO that is asked for in the other way.
    Sharing,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchPort => "no such client, task or context",
            Self::InUse => "the context's port is open already",
            Self::Sharing => "the FIFO is shared by some contexts and exclusive to another",
        })
    }
}

impl core::error::Error for OpenError {}
