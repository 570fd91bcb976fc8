//! The nodes of a geometry, as a request for a class route lists them.

use super::route::{MOST_MEMBERS, Role, RouteMembers};
use heapless::Vec;

/// Why nodes have no class route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CensusError {
    /// The node was named before: no more than one rank of a node speaks for it.
    Twice(u32),
    /// They are no [`MOST_MEMBERS`] ranges.
    TooScattered,
}

/// Nodes that contribute and receive, in ranges at a stride, made as they are named.
#[derive(Clone, Debug, Default)]
pub struct Census {
    ranges: Vec<RouteMembers, MOST_MEMBERS>,
}

impl Census {
    /// No nodes.
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// One more node. Nodes that are named in rising order, at one distance from each other, make one range.
    ///
    /// # Errors
    /// [`CensusError`]
    pub fn add(&mut self, node: u32) -> Result<(), CensusError> {
        let has = |range: &RouteMembers| {
            (range.first..=range.last).contains(&node) && (node - range.first).is_multiple_of(range.stride)
        };
        if self.ranges.iter().any(has) {
            return Err(CensusError::Twice(node));
        }
        if let Some(range) = self.ranges.last_mut()
            && node > range.last
            && (range.first == range.last || node - range.last == range.stride)
        {
            (range.stride, range.last) = (node - range.last, node);
            return Ok(());
        }
        let range = RouteMembers::range(node, node, Role::BOTH);
        self.ranges.push(range).map_err(|_| CensusError::TooScattered)
    }

    /// The ranges.
    pub fn members(&self) -> &[RouteMembers] {
        &self.ranges
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u32 {
        self.ranges.iter().map(|range| (range.last - range.first) / range.stride + 1).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    fn census(nodes: impl IntoIterator<Item = u32>) -> Result<Census, CensusError> {
        let mut census = Census::new();
        nodes.into_iter().try_for_each(|node| census.add(node)).map(|()| census)
    }

    #[test]
    fn g1_ranges_and_rows_of_nodes_take_few_lists() {
        for (nodes, lists) in [
            ((0..1_000_000).collect::<Vec<_>>(), 1),
            ((0..1000).map(|node| 3 + 7 * node).collect(), 1),
            // A plane of 8x8x8: eight rows of eight.
            ((0..8).flat_map(|z| (0..8).map(move |x| 64 * z + x)).collect(), 8),
            (std::vec![5], 1),
        ] {
            let census = census(nodes.iter().copied()).unwrap();
            assert_eq!(census.members().len(), lists);
            assert!(census.members().iter().flat_map(RouteMembers::ranks).eq(nodes));
        }
    }

    #[test]
    fn g1_a_node_that_is_named_twice_or_nodes_all_over_the_place_have_no_class_route() {
        assert_eq!(census([0, 2, 4, 2]).unwrap_err(), CensusError::Twice(2));
        // Every rank before the one in front of it.
        let scattered = census((0..=MOST_MEMBERS as u32).rev()).unwrap_err();
        assert_eq!(scattered, CensusError::TooScattered);
    }

    proptest! {
        #[test]
        fn g1_all_nodes_are_listed_and_no_others(nodes in proptest::collection::vec(0u32..200, 1..50)) {
            let mut seen = BTreeSet::new();
            let mut census = Census::new();
            for node in nodes {
                let added = census.add(node);
                prop_assert_eq!(added, if seen.insert(node) { Ok(()) } else { Err(CensusError::Twice(node)) });
            }
            let listed: Vec<_> = census.members().iter().flat_map(RouteMembers::ranks).collect();
            prop_assert_eq!(listed.len(), census.nodes() as usize);
            prop_assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), seen);
        }
    }
}
