//! What a node is told at boot: the words of `/chosen/bootargs` (SPEC N-4).
//!
//! `node=3 torus=2x2x2 mode=vn map=txyz agent=1 contexts=2 tree=1 topology=2x1x2x2 job=npb-is -- --class W`
//!
//! | word | value | without it |
//! |---|---|---|
//! | `node` | rank in the torus | refused |
//! | `torus` | the machine's [`TorusShape`] | refused |
//! | `mode` | [`Mode`] | `smp` |
//! | `map` | [`MapOrder`] | `xyzt` |
//! | `agent` | 1: the last hart runs the message unit only | 0 |
//! | `contexts` | most contexts per client and task, 1 to 8 | 4 |
//! | `tree` | 1: the second network card is on the collective network | 0 |
//! | `topology` | the node's harts, as a [`HartTopology`] | the device tree's |
//! | `life` | a number of this run's own, by which frames of others are told apart (SPEC R-3) | 0 |
//! | `peers` | most nodes at once that this one keeps connections to, 2 or more | as many as its memory is laid out for |
//! | `fabric` | 1: on the network is a fabric, as the host tool's, that gathers the nodes and tells who is gone, and that may have a tree; 0: a plain Ethernet, whose node 0 gathers them | 0 |
//! | `lossless` | 1: the torus loses nothing and holds senders back; a frame that is missing ends the node | 0 |
//! | `baud` | bits a second that the serial line is not faster than, 300 or more, as an emulator's that takes all at once (SPEC N-12) | its own rate |
//! | `log` | [`Level`] of the least grave log lines that are sent | `warn` |
//! | `trace` | events that each hart keeps for a timeline (SPEC X-6), in an image that can | none |
//! | `geometries` | geometries that are there from the start (SPEC G-1), as [`ConfiguredGeometry`] reads them, with `;` between them | those of the job's [`Usage`](crate::usage::Usage) |
//! | `job` | the job's name | empty |
//!
//! With [`ASKS`] in their place the node asks for these words over its serial line (SPEC S-1).
//!
//! The host tool writes what [`Personality`] displays and the node parses it, so both are this code.

mod hart_topology;
mod log_level;
mod refusal;

pub use hart_topology::{HartTopology, TopologyError};
pub use log_level::Level;
pub use refusal::{BadPersonality, Reason};

use core::fmt;
use core::str::{FromStr, SplitAsciiWhitespace};
use pami::client::ConfiguredGeometry;
use pami::mapping::{MapOrder, TaskMap};
use pami::topology::TorusShape;

/// The boot arguments of a node that is told its personality over its serial line.
pub const ASKS: &str = "personality=console";
/// What has a node that asked so begin again when it has parked.
pub const AGAIN: u8 = b'\n';
/// Most harts of a node (SPEC N-1).
pub const MAX_HARTS: usize = 64;
/// Least rate that a serial line is paced to, in bits a second.
pub const MIN_BAUD: u32 = 300;
/// Most contexts per client and task.
pub const MAX_CONTEXTS: u8 = 8;

/// How the harts of a node make tasks (SPEC N-6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// `smp`: one task per node, with all harts and all memory.
    #[default]
    Smp,
    /// `vn`, virtual nodes: one task per hart, memory in equal parts.
    VirtualNode,
}

impl FromStr for Mode {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        match text {
            "smp" => Ok(Self::Smp),
            "vn" => Ok(Self::VirtualNode),
            _ => Err(Reason::Mode),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smp => "smp",
            Self::VirtualNode => "vn",
        })
    }
}

/// A node's personality.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Personality<'a> {
    /// Rank of the node.
    pub node: u32,
    /// The machine.
    pub shape: TorusShape,
    /// How harts make tasks.
    pub mode: Mode,
    /// The order of task numbers.
    pub map: MapOrder,
    /// Whether the last hart runs the message unit only.
    pub agent: bool,
    /// Most contexts per client and task.
    pub contexts: u8,
    /// Whether the second network card is on the collective network.
    pub tree: bool,
    /// Where the node's harts are, if the device tree is not to be believed.
    pub topology: Option<HartTopology>,
    /// Which run it is: frames of others are dropped.
    pub life: u32,
    /// Most nodes at once that the node keeps connections to, if that is to be less than it could.
    pub peers: Option<u32>,
    /// Whether there is a fabric, or a plain Ethernet.
    pub fabric: bool,
    /// Whether the torus loses nothing.
    pub lossless: bool,
    /// Bits a second that its serial line is not faster than, if that is to be paced.
    pub baud: Option<u32>,
    /// The least grave log lines that the node sends.
    pub log: Level,
    /// Events that each hart keeps, if it is to.
    pub trace: Option<u32>,
    /// Geometries that are there from the start, in words that are good; may be empty.
    pub geometries: &'a str,
    /// The job's name; may be empty.
    pub job: &'a str,
    /// The job's arguments, separated by blanks.
    pub arguments: &'a str,
}

impl<'a> Personality<'a> {
    /// The personality of node `node` with the defaults for the rest.
    pub fn new(node: u32, shape: TorusShape) -> Self {
        let (mode, map) = (Mode::Smp, MapOrder::NodesFirst);
        Self {
            node,
            shape,
            mode,
            map,
            agent: false,
            contexts: 4,
            tree: false,
            topology: None,
            life: 0,
            peers: None,
            fabric: false,
            lossless: false,
            baud: None,
            log: Level::default(),
            trace: None,
            geometries: "",
            job: "",
            arguments: "",
        }
    }

    /// Reads boot arguments.
    ///
    /// # Errors
    /// The first bad word and what would be right.
    pub fn parse(text: &'a str) -> Result<Self, BadPersonality<'a>> {
        let (words, arguments) = split_arguments(text);
        let (mut node, mut shape, mut mode, mut map) = (None, None, None, None);
        let (mut agent, mut contexts, mut tree, mut topology, mut job) = (None, None, None, None, None);
        let (mut life, mut peers, mut fabric, mut lossless, mut baud, mut log) =
            (None, None, None, None, None, None);
        let (mut trace, mut geometries) = (None, None);
        for word in words.split_ascii_whitespace() {
            let bad = |reason| BadPersonality { word, reason };
            let (key, value) = word.split_once('=').ok_or(bad(Reason::Unknown))?;
            let first = match key {
                "node" => node.replace((word, number(value).ok_or(bad(Reason::Node))?)).is_none(),
                "torus" => shape.replace(value.parse().map_err(|error| bad(Reason::Torus(error)))?).is_none(),
                "mode" => mode.replace(value.parse().map_err(bad)?).is_none(),
                "map" => map.replace(value.parse().map_err(|_| bad(Reason::Map))?).is_none(),
                "agent" => agent.replace(flag(value).ok_or(bad(Reason::Agent))?).is_none(),
                "contexts" => contexts.replace(context_count(value).ok_or(bad(Reason::Contexts))?).is_none(),
                "tree" => tree.replace(flag(value).ok_or(bad(Reason::Tree))?).is_none(),
                "topology" => {
                    topology.replace(value.parse().map_err(|error| bad(Reason::Topology(error)))?).is_none()
                }
                "life" => life.replace(number(value).ok_or(bad(Reason::Life))?).is_none(),
                "peers" => peers.replace(peer_count(value).ok_or(bad(Reason::Peers))?).is_none(),
                "fabric" => fabric.replace(flag(value).ok_or(bad(Reason::Fabric))?).is_none(),
                "lossless" => lossless.replace(flag(value).ok_or(bad(Reason::Lossless))?).is_none(),
                "baud" => baud.replace(baud_rate(value).ok_or(bad(Reason::Baud))?).is_none(),
                "log" => log.replace(value.parse().map_err(bad)?).is_none(),
                "trace" => trace.replace(event_count(value).ok_or(bad(Reason::Trace))?).is_none(),
                "geometries" => geometries.replace(read_geometries(value)?).is_none(),
                "job" => job.replace(value).is_none(),
                _ => return Err(bad(Reason::Unknown)),
            };
            if !first {
                return Err(bad(Reason::Twice));
            }
        }
        let (node_word, node) = node.ok_or(BadPersonality { word: "node", reason: Reason::Missing })?;
        let shape: TorusShape = shape.ok_or(BadPersonality { word: "torus", reason: Reason::Missing })?;
        if node >= shape.nodes() {
            return Err(BadPersonality { word: node_word, reason: Reason::OutsideTorus(shape) });
        }
        let defaults = Self::new(node, shape);
        if fabric != Some(true) {
            let lacks = |word, told| {
                if told == Some(true) {
                    Err(BadPersonality { word, reason: Reason::NoFabric })
                } else {
                    Ok(())
                }
            };
            lacks("tree=1", tree)?;
            lacks("lossless=1", lossless)?;
        }
        Ok(Self {
            mode: mode.unwrap_or(defaults.mode),
            map: map.unwrap_or(defaults.map),
            agent: agent.unwrap_or(defaults.agent),
            contexts: contexts.unwrap_or(defaults.contexts),
            tree: tree.unwrap_or(defaults.tree),
            topology,
            life: life.unwrap_or(defaults.life),
            peers,
            fabric: fabric.unwrap_or(defaults.fabric),
            lossless: lossless.unwrap_or(defaults.lossless),
            baud,
            log: log.unwrap_or(defaults.log),
            trace,
            geometries: geometries.unwrap_or(defaults.geometries),
            job: job.unwrap_or(defaults.job),
            arguments,
            ..defaults
        })
    }

    /// The job's arguments, one by one.
    pub fn arguments(&self) -> SplitAsciiWhitespace<'a> {
        self.arguments.split_ascii_whitespace()
    }

    /// The geometries that are there from the start, with their words.
    pub fn geometries(&self) -> impl Iterator<Item = (&'a str, ConfiguredGeometry<'a>)> + use<'a> {
        // They were found good when they were read.
        ConfiguredGeometry::all(self.geometries).flatten()
    }

    /// How a node with `harts` harts divides itself.
    ///
    /// # Errors
    /// The personality asks for more than the node has.
    pub fn divide(&self, harts: usize) -> Result<Division, BadPersonality<'a>> {
        if let Some(topology) = self.topology.filter(|topology| topology.harts() != harts) {
            return Err(BadPersonality { word: "topology", reason: Reason::OtherHarts(topology, harts) });
        }
        let application = harts.saturating_sub(usize::from(self.agent));
        if application == 0 {
            return Err(BadPersonality { word: "agent=1", reason: Reason::NoHartLeft });
        }
        let tasks = match self.mode {
            Mode::Smp => 1,
            Mode::VirtualNode => application,
        };
        let map = TaskMap::new(self.shape.nodes(), tasks as u32, self.map)
            .ok_or(BadPersonality { word: "mode=vn", reason: Reason::TooManyTasks })?;
        for (word, geometry) in self.geometries() {
            let good = geometry.check(map.tasks(), self.contexts);
            good.map_err(|error| BadPersonality { word, reason: Reason::Geometry(error) })?;
        }
        Ok(Division { application, agent: self.agent.then_some(application), tasks, map })
    }
}

/// What the harts of a node do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    /// Harts for tasks: 0 up to this.
    pub application: usize,
    /// The hart that runs the message unit only.
    pub agent: Option<usize>,
    /// Tasks of this node.
    pub tasks: usize,
    /// The tasks of the whole machine.
    pub map: TaskMap,
}

impl Division {
    /// Harts of each task.
    pub fn harts_per_task(&self) -> usize {
        self.application / self.tasks
    }
}

impl fmt::Display for Personality<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            node,
            shape,
            mode,
            map,
            agent,
            contexts,
            tree,
            topology,
            life,
            peers,
            fabric,
            lossless,
            baud,
            log,
            trace,
            geometries,
            job,
            arguments,
        } = self;
        let agent = u8::from(*agent);
        write!(f, "node={node} torus={shape} mode={mode} map={map} agent={agent} contexts={contexts}")?;
        if *tree {
            write!(f, " tree=1")?;
        }
        if let Some(topology) = topology {
            write!(f, " topology={topology}")?;
        }
        if *life != 0 {
            write!(f, " life={life}")?;
        }
        if let Some(peers) = peers {
            write!(f, " peers={peers}")?;
        }
        if *fabric {
            write!(f, " fabric=1")?;
        }
        if *lossless {
            write!(f, " lossless=1")?;
        }
        if let Some(baud) = baud {
            write!(f, " baud={baud}")?;
        }
        if *log != Level::default() {
            write!(f, " log={log}")?;
        }
        if let Some(trace) = trace {
            write!(f, " trace={trace}")?;
        }
        if !geometries.is_empty() {
            write!(f, " geometries={geometries}")?;
        }
        if !job.is_empty() {
            write!(f, " job={job}")?;
        }
        if !arguments.is_empty() {
            write!(f, " -- {arguments}")?;
        }
        Ok(())
    }
}

/// Cuts `text` at the word `--`.
fn split_arguments(text: &str) -> (&str, &str) {
    let is_blank = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_whitespace);
    for (at, _) in text.match_indices("--") {
        let before = at.checked_sub(1).and_then(|before| text.as_bytes().get(before));
        if is_blank(before) && is_blank(text.as_bytes().get(at + 2)) {
            return (&text[..at], text[at + 2..].trim_ascii());
        }
    }
    (text, "")
}

/// The words of geometries, if they are good.
fn read_geometries(text: &str) -> Result<&str, BadPersonality<'_>> {
    let bad = ConfiguredGeometry::all(text).find_map(Result::err);
    bad.map_or(Ok(text), |(word, error)| Err(BadPersonality { word, reason: Reason::Geometry(error) }))
}

fn number(text: &str) -> Option<u32> {
    // `u32::from_str` takes a sign; a rank has none.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

fn context_count(text: &str) -> Option<u8> {
    let count = u8::try_from(number(text)?).ok()?;
    (1..=MAX_CONTEXTS).contains(&count).then_some(count)
}

fn event_count(text: &str) -> Option<u32> {
    number(text).filter(|&count| count >= 1)
}

fn peer_count(text: &str) -> Option<u32> {
    number(text).filter(|&count| count >= 2)
}

fn baud_rate(text: &str) -> Option<u32> {
    number(text).filter(|&baud| baud >= MIN_BAUD)
}

#[cfg(test)]
mod tests;
