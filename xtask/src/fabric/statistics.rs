//! What the fabric counts (SPEC X-4).

use super::torus::LINKS;
use super::traffic::Traffic;
use super::tree::TreeStatistics;
use pami::topology::{Direction, TorusShape};
use std::ops::AddAssign;

/// Frames the fabric did not carry, by reason (SPEC D-9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Dropped {
    /// Shorter than an Ethernet header and a packet header.
    pub short: u64,
    /// Longer than [`MAX_FRAME`](super::MAX_FRAME).
    pub long: u64,
    /// Of another EtherType.
    pub foreign: u64,
    /// The source's rank is not the sender's, or its address is not that of the sender's card.
    pub forged: u64,
    /// The target's rank is no node's and not the fabric's, or the address is not the target's.
    pub unroutable: u64,
    /// For the fabric, but no valid Hello.
    pub control: u64,
    /// For this node, which had left.
    pub undelivered: u64,
}

impl Dropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { short, long, foreign, forged, unroutable, control, undelivered } = *self;
        short + long + foreign + forged + unroutable + control + undelivered
    }
}

/// What was done to the packets a node sent, as asked for (SPEC X-4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Packets lost.
    pub dropped: u64,
    /// Packets changed.
    pub corrupted: u64,
    /// Packets that became two.
    pub duplicated: u64,
    /// Packets held back for some time.
    pub delayed: u64,
    /// Packets held back for others to overtake them.
    pub reordered: u64,
    /// Packets lost at a link that was down.
    pub cut: u64,
}

impl AddAssign for FaultCounts {
    fn add_assign(&mut self, more: Self) {
        let Self { dropped, corrupted, duplicated, delayed, reordered, cut } = more;
        self.dropped += dropped;
        self.corrupted += corrupted;
        self.duplicated += duplicated;
        self.delayed += delayed;
        self.reordered += reordered;
        self.cut += cut;
    }
}

/// What one node and its router did.
#[derive(Clone, Debug, Default)]
pub struct NodeStatistics {
    /// A valid Hello came from it.
    pub joined: bool,
    /// Why its connection has ended, if it has.
    pub left: Option<String>,
    /// Packets it sent into the torus.
    pub injected: Traffic,
    /// Packets it was given.
    pub delivered: Traffic,
    /// Links crossed by the packets it sent.
    pub hops: u64,
    /// Packets that left its router over each link, by `Direction::index`.
    pub links: [Traffic; LINKS],
    /// Frames between it and the fabric itself (Hello and Go).
    pub control: u64,
    /// Frames it sent that were not carried; `undelivered` are those it was to get.
    pub dropped: Dropped,
    /// Faults injected into the packets it sent. Corrupted, delayed and reordered copies count as well.
    pub faults: FaultCounts,
}

impl NodeStatistics {
    /// The links that node `rank` of a torus has, each with the rank behind it and what left over it.
    pub fn links_of(&self, shape: TorusShape, rank: u32) -> impl Iterator<Item = (Direction, u32, Traffic)> {
        let links = self.links.into_iter().enumerate();
        links.filter_map(move |(index, traffic)| {
            let direction = Direction::from_index(index);
            let next = shape.rank(shape.neighbour(shape.coord(rank)?, direction)?)?;
            Some((direction, next, traffic))
        })
    }
}

/// What the link of a router of the torus is called, as in `0 to 1 (+x)`.
pub fn link_name(rank: u32, direction: Direction, next: u32) -> String {
    format!("{rank} to {next} ({direction})")
}

/// A snapshot of the whole fabric.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Steps of the torus in which a packet moved.
    pub steps: u64,
    /// Times the fabric looked whether there is something to do; at rest, none.
    pub rounds: u64,
    /// Looks at a node, in all rounds and on both networks: only at those for which something has changed.
    pub looks: u64,
    /// By rank.
    pub nodes: Vec<NodeStatistics>,
    /// The faults that were asked for, in words that say them again; `None` if none were.
    pub faults: Option<String>,
    /// What went wrong, each with the node's name; the first of a kind per node.
    pub complaints: Vec<String>,
    /// The tree, if there is one.
    pub tree: Option<TreeStatistics>,
}

impl Statistics {
    /// The links of both networks that carried something, by their names.
    pub fn used_links(&self, shape: TorusShape) -> Vec<(String, Traffic)> {
        let torus = (0..).zip(&self.nodes).flat_map(|(rank, node)| {
            let links = node.links_of(shape, rank);
            links.map(move |(direction, next, traffic)| (link_name(rank, direction, next), traffic))
        });
        let tree = self.tree.iter().flat_map(TreeStatistics::links);
        torus.chain(tree).filter(|(_, traffic)| traffic.packets > 0).collect()
    }
}
