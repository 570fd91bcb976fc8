//! The trees that rooted collectives run along.

use super::blocks::{Blocks, around};
use crate::affinity::{DomainTree, Domains};
use crate::geometry::grid::{Grid, GridTree};
use crate::nary::Nary;
use core::ops::Range;

/// What a tree looks like.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    /// Child `i` of the root is 2^i ranks away (Knuth, The Art of Computer Programming 1, 2.3).
    Binomial,
    /// Every rank has at most this many children; a million: all are children of the root.
    Nary(u32),
    /// Along the links of a box of the torus.
    Grid(Grid),
    /// Within affinity domains first.
    Domains(Domains<'a>),
    /// Within the affinity domains of the rank's node, whose leader is the root.
    Node(Domains<'a>),
    /// The rank by itself.
    Alone,
}

/// As many children as there are ranks.
pub(super) const FLAT: Shape<'static> = Shape::Nary(u32::MAX);

enum Position<'a> {
    Binomial { distance: u32, extent: u32 },
    Nary(Nary),
    Grid(GridTree),
    Domains(DomainTree<'a>),
}

/// A rank's place in a tree.
pub(super) struct Tree<'a> {
    size: u32,
    root: u32,
    own: u32,
    place: Position<'a>,
}

impl<'a> Tree<'a> {
    /// A tree of one rank.
    #[inline(always)]
    pub(super) const fn alone() -> Self {
        Self { size: 1, root: 0, own: 0, place: Position::Binomial { distance: 0, extent: 1 } }
    }

    /// The place of `rank` in the tree of `size` ranks from `root`.
    pub(super) fn new(shape: Shape<'a>, size: u32, root: u32, rank: u32) -> Self {
        // Regular trees are laid from rank 0 and turned, so that 0 becomes the root.
        let distance = if rank >= root { rank - root } else { size - root + rank };
        let place = match shape {
            Shape::Binomial => {
                let lowest = if distance == 0 { size } else { 1 << distance.trailing_zeros() };
                Position::Binomial { distance, extent: lowest.min(size - distance) }
            }
            Shape::Nary(radix) => Position::Nary(Nary::new(size, radix, distance)),
            Shape::Grid(grid) => Position::Grid(GridTree::new(grid, root, rank)),
            Shape::Domains(domains) => Position::Domains(DomainTree::new(domains, root, rank)),
            Shape::Node(domains) => Position::Domains(DomainTree::of_node(domains, rank)),
            Shape::Alone => Position::Nary(Nary::new(1, 1, 0)),
        };
        Self { size, root, own: rank, place }
    }

    fn rank(&self, distance: u32) -> u32 {
        ahead(self.root, distance, self.size)
    }

    /// The rank above, or `None` at the root.
    pub(super) fn parent(&self) -> Option<u32> {
        match &self.place {
            Position::Binomial { distance, .. } => {
                (*distance > 0).then(|| self.rank(distance & (distance - 1)))
            }
            Position::Nary(nary) => nary.parent().map(|parent| self.rank(parent)),
            Position::Grid(grid) => grid.parent(),
            Position::Domains(domains) => domains.parent(),
        }
    }

    /// Number of ranks right below.
    pub(super) fn children(&self) -> usize {
        match &self.place {
            Position::Binomial { extent, .. } => extent.next_power_of_two().trailing_zeros() as usize,
            Position::Nary(nary) => nary.children() as usize,
            Position::Grid(grid) => grid.children().count(),
            Position::Domains(domains) => domains.children(),
        }
    }

    /// The child with this number, below [`children`](Self::children). But for grids, children stand in the order
    /// of their ranks, counted from the root on.
    pub(super) fn child(&self, index: usize) -> u32 {
        match &self.place {
            Position::Binomial { distance, .. } => self.rank(distance + (1 << index)),
            Position::Nary(nary) => self.rank(nary.child(index as u32)),
            Position::Grid(grid) => grid.children().nth(index).unwrap_or(self.root),
            Position::Domains(domains) => domains.child(index),
        }
    }

    /// Ranks of the subtree. They are numbered from its root, number 0, on, so that those below each child stand together: round
    /// the end everywhere but in domains. Grids have no such numbers.
    pub(super) fn extent(&self) -> u32 {
        match &self.place {
            Position::Binomial { extent, .. } => *extent,
            Position::Nary(nary) => nary.extent(),
            Position::Grid(_) => 1,
            Position::Domains(domains) => domains.extent(),
        }
    }

    /// Ranks of the subtree of the child with this number, by their numbers.
    pub(super) fn below(&self, index: usize) -> Range<u32> {
        let end = if index + 1 < self.children() { self.before(index + 1) } else { self.extent() };
        self.before(index)..end
    }

    /// Ranks of the subtree in front of a child.
    fn before(&self, index: usize) -> u32 {
        if let Position::Domains(domains) = &self.place {
            return domains.below(index);
        }
        let child = self.child(index);
        if child >= self.own { child - self.own } else { self.size - self.own + child }
    }

    /// Whether ranks below one child may be scattered.
    pub(super) fn may_scatter(&self) -> bool {
        matches!(self.place, Position::Domains(_))
    }

    /// The rank of the subtree with this number.
    pub(super) fn entry(&self, number: u32) -> u32 {
        match &self.place {
            Position::Domains(domains) => domains.entry(number),
            _ => ahead(self.own, number, self.size),
        }
    }

    /// Ranks of the subtree as ranges in the order of their numbers, the second often empty; `None` if they are scattered.
    pub(super) fn ranges(&self, numbers: Range<u32>) -> Option<[Range<u32>; 2]> {
        let count = numbers.len() as u32;
        match &self.place {
            Position::Domains(domains) => domains.range(numbers.start, count).map(|range| [range, 0..0]),
            _ => Some(around(ahead(self.own, numbers.start, self.size), count, self.size)),
        }
    }

    /// Elements of the blocks of ranks of the subtree.
    pub(super) fn elements(&self, blocks: &Blocks, numbers: Range<u32>) -> usize {
        let count = numbers.len() as u32;
        match &self.place {
            _ if count == 0 => 0,
            Position::Domains(domains) => {
                let ranges = domains.ranks(numbers.start, count);
                ranges.map(|ranks| blocks.start(ranks.end) - blocks.start(ranks.start)).sum()
            }
            _ => blocks.round_len(ahead(self.own, numbers.start, self.size), count, self.size),
        }
    }
}

/// The rank `distance` on, round the end of `size`. `distance` is below the size.
fn ahead(rank: u32, distance: u32, size: u32) -> u32 {
    let to_end = size - rank;
    if distance < to_end { rank + distance } else { distance - to_end }
}
