//! What the tree network counts (SPEC X-4).

use super::super::traffic::Traffic;
use pami::combine::tree::{CHILDREN, TreeShape};

/// Frames that the tree did not carry, by reason (SPEC D-9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeDropped {
    /// Of a length that no packet has.
    pub unfit: u64,
    /// Of another network.
    pub foreign: u64,
    /// The source address is not the sender's own.
    pub forged: u64,
    /// Not for the network.
    pub unroutable: u64,
    /// No packet, or none that a node sends.
    pub malformed: u64,
    /// On a class route that is not there (any more), or in which the node has no such part.
    pub no_route: u64,
    /// Beyond what the node had credit for.
    pub overrun: u64,
    /// For this node, which had left.
    pub undelivered: u64,
}

impl TreeDropped {
    /// All of them.
    pub fn total(&self) -> u64 {
        let Self { unfit, foreign, forged, unroutable, malformed, no_route, overrun, undelivered } = *self;
        unfit + foreign + forged + unroutable + malformed + no_route + overrun + undelivered
    }
}

/// What one node and its router did.
#[derive(Clone, Debug, Default)]
pub struct TreeNodeStatistics {
    /// A valid Hello came from it.
    pub joined: bool,
    /// Why its connection has ended, if it has.
    pub left: Option<String>,
    /// Contributions and broadcasts that it sent.
    pub injected: Traffic,
    /// Results and broadcasts that it was given.
    pub delivered: Traffic,
    /// Packets that left its router for the parent.
    pub up: Traffic,
    /// Packets that left its router for the children.
    pub down: [Traffic; CHILDREN],
    /// Packets that its ALU made of two or more.
    pub combined: u64,
    /// Frames between it and its router that carried neither contributions nor results.
    pub control: u64,
    /// Contributions and broadcasts of its that were held back, as asked for.
    pub delayed: u64,
    /// Frames that were not carried.
    pub dropped: TreeDropped,
}

/// A snapshot of the tree network.
#[derive(Clone, Debug, Default)]
pub struct TreeStatistics {
    /// Steps in which a packet moved.
    pub steps: u64,
    /// Class routes that were set up.
    pub opened: u64,
    /// Class routes that were refused.
    pub refused: u64,
    /// Calls that nodes sent to their I/O nodes.
    pub shipped: u64,
    /// By rank.
    pub nodes: Vec<TreeNodeStatistics>,
}

impl TreeStatistics {
    /// Both ways of each link, with their names, and what left over them: that up from a node, then that down to it.
    pub fn links(&self) -> impl Iterator<Item = (String, Traffic)> {
        let shape = TreeShape::new(self.nodes.len() as u32);
        let pairs = (0..shape.nodes()).filter_map(move |rank| Some((rank, shape.parent(rank)?)));
        pairs.flat_map(move |(below, above)| {
            let up = self.nodes[below as usize].up;
            let down = self.nodes[above as usize].down[shape.side(below)];
            [(format!("{below} up to {above}"), up), (format!("{above} down to {below}"), down)]
        })
    }
}
