//! The shape of the collective network: a binary tree by rank (SPEC D-3).
//!
//! Rank 0 is the root; the children of rank r are 2r + 1 and 2r + 2, so ranks number the layers from the root down
//! and from left to right, and all leaves lie in the last two layers.
//!
//! *Mapping onto the torus.* A node has the same rank in both networks. The tree's links are cables of their own:
//! they take nothing of a torus link. Of the seven links of 2x2x2, those between ranks 0-1, 0-2, 1-3, 2-6 and 3-7 join
//! neighbours in the torus, 1-4 nodes two links apart, 2-5 opposite corners.

/// Links of a router to its children.
pub const CHILDREN: usize = 2;

/// The tree over the ranks below its number of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeShape {
    nodes: u32,
}

impl TreeShape {
    /// A tree of `nodes` nodes.
    pub const fn new(nodes: u32) -> Self {
        Self { nodes }
    }

    /// Its number of nodes.
    pub const fn nodes(self) -> u32 {
        self.nodes
    }

    /// The rank above, or `None` for the root and for ranks outside the tree.
    pub fn parent(self, rank: u32) -> Option<u32> {
        (1..self.nodes).contains(&rank).then(|| (rank - 1) / 2)
    }

    /// The rank below on the left (`side` 0) or on the right (1).
    pub fn child(self, rank: u32, side: usize) -> Option<u32> {
        let below = rank.checked_mul(2)?.checked_add(1 + u32::try_from(side).ok()?)?;
        (side < CHILDREN && below < self.nodes).then_some(below)
    }

    /// The side of its parent that a rank other than 0 lies on.
    pub fn side(self, rank: u32) -> usize {
        usize::from(rank.is_multiple_of(2))
    }

    /// Links between the root and `rank`.
    pub fn depth(self, rank: u32) -> u32 {
        (u64::from(rank) + 1).ilog2()
    }

    /// The lowest router that both ranks lie at or below.
    pub fn meeting(self, mut a: u32, mut b: u32) -> u32 {
        while a != b {
            let lower = if a > b { &mut a } else { &mut b };
            *lower = (*lower - 1) / 2;
        }
        a
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TorusShape;

    #[test]
    fn d3_every_rank_is_the_child_of_its_parent_and_layers_are_full_but_the_last() {
        for nodes in 1..=65 {
            let tree = TreeShape::new(nodes);
            assert_eq!(tree.parent(0), None);
            assert_eq!(tree.parent(nodes), None);
            for rank in 1..nodes {
                let parent = tree.parent(rank).unwrap();
                assert_eq!(tree.child(parent, tree.side(rank)), Some(rank));
                assert_eq!(tree.depth(rank), tree.depth(parent) + 1);
                assert!(tree.depth(rank - 1) <= tree.depth(rank), "ranks number the layers");
            }
            let children = (0..nodes).flat_map(|rank| [0, 1].map(|side| tree.child(rank, side))).flatten();
            assert!(children.eq(1..nodes), "each has one parent");
            assert_eq!(tree.depth(nodes - 1), nodes.ilog2());
        }
        assert_eq!(TreeShape::new(u32::MAX).child(u32::MAX - 1, 1), None);
        assert_eq!(TreeShape::new(9).child(1, 2), None);
    }

    #[test]
    fn d3_two_ranks_meet_at_their_lowest_common_ancestor() {
        let tree = TreeShape::new(65);
        let above = |rank: u32| {
            let up = core::iter::successors(Some(rank), |&rank| tree.parent(rank));
            up.collect::<std::vec::Vec<_>>()
        };
        for (a, b) in (0..65).flat_map(|a| (0..65).map(move |b| (a, b))) {
            let common = above(a).into_iter().find(|rank| above(b).contains(rank));
            assert_eq!(Some(tree.meeting(a, b)), common);
        }
    }

    #[test]
    fn d3_the_mapping_onto_the_torus_is_as_documented() {
        let torus: TorusShape = "2x2x2".parse().unwrap();
        let tree = TreeShape::new(8);
        let hops = |rank: u32| {
            let ends = (torus.coord(rank), torus.coord(tree.parent(rank).unwrap()));
            torus.hops(ends.0.unwrap(), ends.1.unwrap())
        };
        assert!((1..8).map(hops).eq([1, 1, 1, 2, 3, 1, 1]));
    }
}
