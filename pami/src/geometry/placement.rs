//! Where the tasks of a geometry are, among those of their nodes.

use crate::mapping::{MapOrder, TaskLocation, TaskMap};

/// Places of tasks of which every node has as many, the same ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Places of the task indices, read as task numbers: nodes without tasks are left out.
    pub map: TaskMap,
    /// Number of the first of a node's tasks among all that the node has.
    pub first: u32,
    /// By how much that number rises from one to the next.
    pub stride: u32,
}

impl Placement {
    /// Of `count` tasks of a job, the first and every `stride`-th after it; `None` where nodes have different ones.
    pub(super) fn of_range(machine: &TaskMap, first: u32, count: u32, stride: u32) -> Option<Self> {
        let (tasks, per_node) = (machine.tasks(), machine.tasks_per_node());
        if (first, count, stride) == (0, tasks, 1) {
            return Some(Self { map: *machine, first: 0, stride: 1 });
        }
        let TaskLocation { node, local } = machine.place(first)?;
        let map = |nodes, per_node, order| TaskMap::new(nodes, per_node, order);
        let span = u64::from(stride) * u64::from(count - 1);
        // Along one dimension, of so many tasks, the range is within a row, or in the same places of all rows.
        let within = |at: u32, row: u32| u64::from(at) + span < row.into();
        let across = |at: u32, row: u32| {
            row.is_multiple_of(stride) && at < stride && count.is_multiple_of(row / stride)
        };
        let nodes = tasks / per_node;
        match machine.order() {
            MapOrder::TasksFirst if within(local, per_node) => {
                Some(Self { map: map(1, count, MapOrder::TasksFirst)?, first: local, stride })
            }
            MapOrder::TasksFirst if stride.is_multiple_of(per_node) => {
                Some(Self { map: map(count, 1, MapOrder::TasksFirst)?, first: local, stride: 1 })
            }
            MapOrder::TasksFirst if across(local, per_node) => {
                let each = per_node / stride;
                Some(Self { map: map(count / each, each, MapOrder::TasksFirst)?, first: local, stride })
            }
            MapOrder::NodesFirst if within(node, nodes) => {
                Some(Self { map: map(count, 1, MapOrder::TasksFirst)?, first: local, stride: 1 })
            }
            MapOrder::NodesFirst if stride.is_multiple_of(nodes) => {
                Some(Self { map: map(1, count, MapOrder::TasksFirst)?, first: local, stride: stride / nodes })
            }
            MapOrder::NodesFirst if across(node, nodes) => {
                let each = nodes / stride;
                Some(Self { map: map(each, count / each, MapOrder::NodesFirst)?, first: local, stride: 1 })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    #[test]
    fn a2_the_places_of_a_range_are_known_wherever_all_its_nodes_have_the_same() {
        let mut known = 0;
        for (nodes, per_node) in [(1, 8), (4, 1), (3, 4), (4, 6), (6, 4), (2, 2)] {
            for order in [MapOrder::TasksFirst, MapOrder::NodesFirst] {
                let machine = TaskMap::new(nodes, per_node, order).unwrap();
                let tasks = nodes * per_node;
                for first in 0..tasks {
                    for stride in 1..tasks {
                        for count in 1..=(tasks - first).div_ceil(stride) {
                            let places: Vec<_> = (0..count)
                                .map(|index| machine.place(first + index * stride).unwrap())
                                .collect();
                            let mut by_node = BTreeMap::<u32, Vec<u32>>::new();
                            places
                                .iter()
                                .for_each(|place| by_node.entry(place.node).or_default().push(place.local));
                            let alike =
                                by_node.values().all(|locals| locals == by_node.values().next().unwrap());
                            let placement = Placement::of_range(&machine, first, count, stride);
                            let which = std::format!("{count} from {first} by {stride} of {machine:?}");
                            assert_eq!(placement.is_some(), alike, "{which}");
                            let Some(Placement { map, first, stride }) = placement else { continue };
                            known += 1;
                            assert_eq!(map.tasks(), count, "{which}");
                            let mut nodes = BTreeMap::new();
                            for (index, place) in (0..count).zip(&places) {
                                let TaskLocation { node, local } = map.place(index).unwrap();
                                assert_eq!(first + local * stride, place.local, "{which}");
                                assert_eq!(*nodes.entry(node).or_insert(place.node), place.node, "{which}");
                            }
                            assert_eq!(nodes.len(), by_node.len(), "{which}");
                        }
                    }
                }
            }
        }
        assert!(known > 1000);
    }
}
