//! Why a personality was refused, in words for a person.

use super::{HartTopology, MAX_CONTEXTS, MIN_BAUD, TopologyError};
use core::fmt;
use pami::client::ConfiguredError;
use pami::topology::{ShapeError, TorusShape};

/// A personality that no node takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadPersonality<'a> {
    /// The bad word, or the missing one.
    pub word: &'a str,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// No key is known by that name.
    Unknown,
    /// The key came before.
    Twice,
    /// The key must be there and is not.
    Missing,
    /// No rank.
    Node,
    /// The rank lies outside the torus.
    OutsideTorus(TorusShape),
    /// No shape.
    Torus(ShapeError),
    /// No mode.
    Mode,
    /// No mapping.
    Map,
    /// Neither 0 nor 1.
    Agent,
    /// No number of contexts.
    Contexts,
    /// No number of a run.
    Life,
    /// No number of peers.
    Peers,
    /// Neither 0 nor 1.
    Fabric,
    /// What a plain Ethernet has not.
    NoFabric,
    /// Neither lossless nor not.
    Lossless,
    /// No rate of a serial line.
    Baud,
    /// No level of log lines.
    Level,
    /// No number of events.
    Trace,
    /// No geometry, or not of this job's tasks and contexts.
    Geometry(ConfiguredError),
    /// The image is not one that keeps events.
    KeepsNoEvents,
    /// Neither 0 nor 1.
    Tree,
    /// No topology.
    Topology(TopologyError),
    /// A topology of another number of harts than this.
    OtherHarts(HartTopology, usize),
    /// The agent takes the node's only hart.
    NoHartLeft,
    /// More tasks than numbers for them.
    TooManyTasks,
}

impl fmt::Display for BadPersonality<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, reason } = self;
        match reason {
            Reason::Missing => write!(f, "word `{word}=` is missing from the boot arguments: ")?,
            _ => write!(f, "bad word `{word}` in the boot arguments: ")?,
        }
        match reason {
            Reason::Unknown => f.write_str(
                "the words are node=, torus=, mode=, map=, agent=, contexts=, tree=, topology=, life=, peers=, fabric=, lossless=, baud=, log=, trace=, geometries=, job=, then -- and the job's arguments",
            ),
            Reason::Twice => f.write_str("each word comes once"),
            Reason::Missing if *word == "torus" => f.write_str("say the machine's shape, as in torus=2x2x2"),
            Reason::Missing => f.write_str("say the node's rank, as in node=0"),
            Reason::Node => f.write_str("a node is its rank in the torus, as in node=0"),
            Reason::OutsideTorus(shape) => {
                write!(f, "the nodes of torus {shape} are 0 to {}", shape.nodes() - 1)
            }
            Reason::Torus(error) => error.fmt(f),
            Reason::Mode => f.write_str("a mode is smp (one task per node) or vn (one task per hart)"),
            Reason::Map => pami::mapping::UnknownOrder.fmt(f),
            Reason::Agent => f.write_str("agent is 0, or 1 for a hart that runs the message unit only"),
            Reason::Contexts => {
                write!(f, "a task has 1 to {MAX_CONTEXTS} contexts per client, as in contexts=4")
            }
            Reason::Life => f.write_str("a life is a number below 4294967296, as in life=1"),
            Reason::Peers => f.write_str("a node has 2 peers at once or more, as in peers=100"),
            Reason::Baud => {
                write!(f, "a serial line is paced to {MIN_BAUD} bits a second or more, as in baud=115200")
            }
            Reason::Level => f.write_str("log is off, error, warn, info, debug or trace"),
            Reason::Fabric => f.write_str("fabric is 0 for a plain Ethernet, or 1 for a network with the host tool's fabric"),
            Reason::NoFabric => f.write_str("a plain Ethernet has no tree and may lose frames: leave it out, or say fabric=1 where there is one"),
            Reason::Trace => f.write_str("each hart keeps 1 event or more, as in trace=65536"),
            Reason::Geometry(error) => error.fmt(f),
            Reason::KeepsNoEvents => f.write_str("the image keeps no events: it was built without the feature `trace`"),
            Reason::Lossless => f.write_str("lossless is 0, or 1 for a torus that loses nothing"),
            Reason::Tree => f.write_str("tree is 0, or 1 for nodes on the collective network as well"),
            Reason::Topology(error) => error.fmt(f),
            Reason::OtherHarts(topology, harts) => write!(f, "the node has {harts} harts, which {topology} is not"),
            Reason::NoHartLeft => f.write_str("an agent needs a second hart, so that one is left for the job"),
            Reason::TooManyTasks => f.write_str("the machine would have more than 4294967295 tasks"),
        }
    }
}

impl core::error::Error for BadPersonality<'_> {}
