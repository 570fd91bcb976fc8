//! Affinity domains: which tasks share a core, a chip, a processor, a node (SPEC ).
//!
//! A node's harts are listed with their places, as the device tree's `cpu-map` or the personality gives them. Harts
//! with equal beginnings of their places make a domain:
//!
//! | domain | harts that agree in | its members |
//! |---|---|---|
//! | core | socket, cluster, core | harts |
//! | chip | socket, cluster | leaders of cores |
//! | processor | socket | leaders of chips |
//! | node | | leaders of processors |
//! | machine | | leaders of nodes |
//!
//! A domain's leader is its lowest hart, or the collective's root if that is among its harts. The members of a
//! domain form a tree of the level's radix below their leader, and since leaders are the next level's members,
//! these trees are one tree over all ranks. A reduction goes up that tree; a broadcast, or the news that a barrier
//! is complete, goes down it: inside each domain, among the leaders, and so on. Between the domains of any level it
//! has one edge less than there are domains, the least that connects them (SPEC ).
//!
//! Nothing is stored but the list of one node's harts; where a rank is in the tree is worked out from it in time
//! linear in the harts of a node.

mod crossings;
mod threads;
mod tree;

use crate::mapping::{TaskLocation, TaskMap};
use core::fmt;
use core::ops::Range;

pub use crossings::Crossings;
pub use threads::{Affinities, RADIX};
pub(crate) use tree::DomainTree;

/// Where a hart is in its node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct HartPlace {
    /// The processor.
    pub socket: u16,
    /// The chip of the processor.
    pub cluster: u16,
    /// The core of the chip.
    pub core: u16,
    /// The thread of the core.
    pub thread: u16,
}

impl HartPlace {
    /// The innermost level with a domain that has both harts, of one node.
    #[inline]
    fn meet(self, other: Self) -> Level {
        if self.socket != other.socket {
            Level::Node
        } else if self.cluster != other.cluster {
            Level::Processor
        } else if self.core != other.core {
            Level::Chip
        } else {
            Level::Core
        }
    }
}

/// What the harts of a domain share, from the inside out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// A core with its hardware threads.
    Core,
    /// A chip, or a cluster, with its cores.
    Chip,
    /// A processor, or a socket, with its chips.
    Processor,
    /// A node with its processors.
    Node,
    /// All nodes.
    Machine,
}

/// Every level, from the inside out.
pub const LEVELS: [Level; 5] = [Level::Core, Level::Chip, Level::Processor, Level::Node, Level::Machine];

/// Why a table describes no domains. Whoever wrote the table is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DomainsError {
    /// The table has not one place for each task of a node.
    Count {
        /// Tasks of a node.
        tasks: u32,
        /// Places in the table.
        places: usize,
    },
    /// The place with this index comes before the one before it.
    Order(usize),
    /// A tree's radix is 0.
    Radix(Level),
}

impl fmt::Display for DomainsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { tasks, places } => {
                write!(f, "a node has {tasks} tasks, but the table has {places} harts: list one for each")
            }
            Self::Order(index) => {
                write!(f, "hart {index} of the table comes before the one before it: sort by place")
            }
            Self::Radix(level) => write!(f, "the radix of level {level:?} is 0: take 1 or more"),
        }
    }
}

impl core::error::Error for DomainsError {}

/// The affinity domains of a geometry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Domains<'a> {
    /// Of crews: ranks that follow each other and share a hart.
    map: TaskMap,
    crew: u32,
    /// The first crew of each node is at the first of these, the next one `stride` on, and so on.
    harts: &'a [HartPlace],
    stride: u32,
    radix: [u32; LEVELS.len()],
}

impl<'a> Domains<'a> {
    /// Domains of the ranks that `map` places, read as task numbers; the `local`-th of each node runs at
    /// `harts[local]`. Two may share a hart, and count as threads of its core. `radix` is the most children that a member has at
    /// each of the [`LEVELS`].
    ///
    /// # Errors
    /// The table's first mistake.
    pub fn new(
        map: TaskMap,
        harts: &'a [HartPlace],
        radix: [u32; LEVELS.len()],
    ) -> Result<Self, DomainsError> {
        if harts.len() != map.tasks_per_node() as usize {
            return Err(DomainsError::Count { tasks: map.tasks_per_node(), places: harts.len() });
        }
        Self::of_crews(map, 1, harts, 1, radix)
    }

    /// Domains of crews of so many ranks, which share a hart: `map` places crews, those of each node at the first of `harts` and
    /// every `stride`-th after it.
    fn of_crews(
        map: TaskMap,
        crew: u32,
        harts: &'a [HartPlace],
        stride: u32,
        radix: [u32; LEVELS.len()],
    ) -> Result<Self, DomainsError> {
        if let Some(before) = harts.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(DomainsError::Order(before + 1));
        }
        if let Some(level) = LEVELS.into_iter().find(|&level| radix[level as usize] == 0) {
            return Err(DomainsError::Radix(level));
        }
        Ok(Self { map, crew, harts, stride, radix })
    }

    /// All that they are, in words that can be compared.
    pub(crate) fn words(&self) -> impl Iterator<Item = u32> {
        let shape = [self.nodes(), self.per_node(), self.are_ranges().into(), self.crew];
        let place = |hart: HartPlace| {
            [
                u32::from(hart.socket) << 16 | u32::from(hart.cluster),
                u32::from(hart.core) << 16 | u32::from(hart.thread),
            ]
        };
        let harts = (0..self.per_node()).map(|local| self.hart(local));
        shape.into_iter().chain(self.radix).chain(harts.flat_map(place))
    }

    /// Where the `local`-th rank of each node runs.
    fn hart(&self, local: u32) -> HartPlace {
        let crew = if self.crew == 1 { local } else { local / self.crew };
        self.harts[(crew * self.stride) as usize]
    }

    /// Number of ranks.
    pub fn size(&self) -> u32 {
        self.map.tasks() * self.crew
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.map.tasks() / self.map.tasks_per_node()
    }

    /// Ranks of each node.
    pub fn per_node(&self) -> u32 {
        self.map.tasks_per_node() * self.crew
    }

    /// Where a rank is, or `None` if it does not exist.
    fn location(&self, rank: u32) -> Option<TaskLocation> {
        if self.crew == 1 {
            return self.map.place(rank);
        }
        let TaskLocation { node, local } = self.map.place(rank / self.crew)?;
        Some(TaskLocation { node, local: local * self.crew + rank % self.crew })
    }

    /// The `local`-th rank of a node.
    pub(crate) fn rank(&self, node: u32, local: u32) -> Option<u32> {
        let crew = self.map.task(TaskLocation { node, local: local / self.crew })?;
        Some(crew * self.crew + local % self.crew)
    }

    /// The lowest hart of the node of `rank`, as a rank. A rank that does not exist leads itself.
    pub fn leader(&self, rank: u32) -> u32 {
        self.location(rank).and_then(|place| self.rank(place.node, 0)).unwrap_or(rank)
    }

    /// The node of `rank`. A rank that does not exist is of the first.
    pub(crate) fn node(&self, rank: u32) -> u32 {
        self.location(rank).map_or(0, |place| place.node)
    }

    /// Most children of a member in a domain of `level`.
    pub fn radix(&self, level: Level) -> u32 {
        self.radix[level as usize]
    }

    /// Children that no rank has more of in a tree over all domains.
    pub fn fanout(&self) -> u32 {
        let most = |level: Level| if level == Level::Machine { self.nodes() } else { self.per_node() };
        let children = |level| self.radix(level).min(most(level) - 1);
        LEVELS.into_iter().map(children).fold(0, u32::saturating_add).min(self.size() - 1)
    }

    /// Whether some domain inside a node has more than one member, so that affinity matters (SPEC A-5).
    pub fn matter(&self) -> bool {
        self.per_node() > 1
    }

    /// Whether the ranks of every domain follow each other, so that a subtree of rank 0's tree is a range of ranks.
    pub fn are_ranges(&self) -> bool {
        let last = self.per_node() - 1;
        self.rank(0, last) == Some(last)
    }

    /// Whether two ranks are in one domain of `level`. Ranks that do not exist are in none.
    pub fn together(&self, level: Level, a: u32, b: u32) -> bool {
        self.meet(a, b).is_some_and(|met| met <= level)
    }

    /// The innermost level with a domain that has both ranks: a message between them crosses the boundaries of
    /// every level further in. `None` if one does not exist.
    pub fn meet(&self, a: u32, b: u32) -> Option<Level> {
        let (a, b) = (self.location(a)?, self.location(b)?);
        if a.node != b.node {
            return Some(Level::Machine);
        }
        Some(self.hart(a.local).meet(self.hart(b.local)))
    }

    /// Where a rank is among the harts of all nodes, node by node. One that does not exist is nowhere.
    fn place(&self, rank: u32) -> u32 {
        self.location(rank).map_or(0, |place| place.node * self.per_node() + place.local)
    }

    /// The rank at a place.
    fn rank_at(&self, place: u32) -> Option<u32> {
        self.rank(place / self.per_node(), place % self.per_node())
    }

    /// The ranks at some places, as ranges in no order: few, unless harts are shared.
    fn ranks_at(&self, places: Range<u32>) -> impl Iterator<Item = Range<u32>> + use<'a> {
        let (domains, per_node, ordered) = (*self, self.per_node(), self.are_ranges());
        let whole = Some(places.clone()).filter(|_| ordered);
        // Without order, ranks follow each other from node to node, if each is a crew.
        let locals = if ordered { 0..0 } else { 0..per_node };
        let of_local = move |local: u32| {
            let node = |place: u32| place.saturating_sub(local).div_ceil(per_node);
            let (node, end) = (node(places.start), node(places.end).max(node(places.start)));
            let first = domains.rank(node, local).unwrap_or(0);
            let (runs, len) = if domains.crew == 1 { (1, end - node) } else { (end - node, 1) };
            (0..runs).map(move |run| first + run * domains.crew).map(move |first| first..first + len)
        };
        whole.into_iter().chain(locals.flat_map(of_local).filter(|ranks| !ranks.is_empty()))
    }

    /// Number of domains of `level` in all nodes.
    pub fn count(&self, level: Level) -> u32 {
        if level == Level::Machine {
            return 1;
        }
        self.nodes() * (1 + (1..self.per_node()).filter(|&local| self.step(local) > level).count() as u32)
    }

    /// Where a rank of a node, not its first, meets the one before it. A domain is a run of ranks with no step above
    /// its level, and the steps at its level part its members.
    fn step(&self, local: u32) -> Level {
        self.hart(local - 1).meet(self.hart(local))
    }
}

#[cfg(test)]
mod tests;
