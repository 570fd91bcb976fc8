//! The trees that rooted collectives run along.

use crate::affinity::{DomainTree, Domains};
use crate::geometry::grid::{Grid, GridTree};
use crate::nary::Nary;

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
        let to_end = self.size - self.root;
        if distance < to_end { self.root + distance } else { distance - to_end }
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

    /// Ranks of the subtree, which follow its root, round the end. Only where subtrees are ranges: everywhere
    /// but in grids, and in domains whose ranks do not follow each other.
    pub(super) fn extent(&self) -> u32 {
        match &self.place {
            Position::Binomial { extent, .. } => *extent,
            Position::Nary(nary) => nary.extent(),
            Position::Grid(_) => 1,
            Position::Domains(domains) => domains.extent(),
        }
    }

    /// Ranks of the subtree of the child with this number; as [`extent`](Self::extent).
    pub(super) fn child_extent(&self, index: usize) -> u32 {
        let end = if index + 1 < self.children() { self.below(index + 1) } else { self.extent() };
        end - self.below(index)
    }

    /// Ranks from this one to a child, round the end.
    fn below(&self, index: usize) -> u32 {
        let child = self.child(index);
        if child >= self.own { child - self.own } else { self.size - self.own + child }
    }
}
