//! Which node and which of its tasks a task number means (SPEC N-4, N-6).

use core::fmt;
use core::str::FromStr;

/// The order in which task numbers run over the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapOrder {
    /// `xyzt`: over the nodes first, then over the tasks within a node.
    NodesFirst,
    /// `txyz`: over the tasks within a node first, then over the nodes.
    TasksFirst,
}

/// The word is no map order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownOrder;

impl fmt::Display for UnknownOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task mapping is xyzt (nodes first) or txyz (tasks of a node first)")
    }
}

impl core::error::Error for UnknownOrder {}

impl FromStr for MapOrder {
    type Err = UnknownOrder;

    fn from_str(text: &str) -> Result<Self, UnknownOrder> {
        match text {
            "xyzt" => Ok(Self::NodesFirst),
            "txyz" => Ok(Self::TasksFirst),
            _ => Err(UnknownOrder),
        }
    }
}

impl fmt::Display for MapOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NodesFirst => "xyzt",
            Self::TasksFirst => "txyz",
        })
    }
}

/// Task numbers of a job: O(1), whatever its size (docs/design.md decision 8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskMap {
    nodes: u32,
    tasks_per_node: u32,
    order: MapOrder,
}

/// A task's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskLocation {
    /// Rank of the node in the torus.
    pub node: u32,
    /// Number of the task within its node.
    pub local: u32,
}

impl TaskMap {
    /// A map of `nodes * tasks_per_node` tasks, or `None` if that is zero or over `u32`.
    pub fn new(nodes: u32, tasks_per_node: u32, order: MapOrder) -> Option<Self> {
        nodes.checked_mul(tasks_per_node).filter(|&tasks| tasks > 0)?;
        Some(Self { nodes, tasks_per_node, order })
    }

    /// Number of tasks.
    pub fn tasks(&self) -> u32 {
        self.nodes * self.tasks_per_node
    }

    /// Tasks of each node.
    pub fn tasks_per_node(&self) -> u32 {
        self.tasks_per_node
    }

    /// The order in which task numbers run.
    pub fn order(&self) -> MapOrder {
        self.order
    }

    /// Where `task` runs, or `None` if there is no such task.
    pub fn place(&self, task: u32) -> Option<TaskLocation> {
        if task >= self.tasks() {
            return None;
        }
        Some(match self.order {
            MapOrder::NodesFirst => TaskLocation { node: task % self.nodes, local: task / self.nodes },
            MapOrder::TasksFirst => {
                TaskLocation { node: task / self.tasks_per_node, local: task % self.tasks_per_node }
            }
        })
    }

    /// The task at `place`, or `None` if the place is outside the machine.
    pub fn task(&self, place: TaskLocation) -> Option<u32> {
        let TaskLocation { node, local } = place;
        if node >= self.nodes || local >= self.tasks_per_node {
            return None;
        }
        Some(match self.order {
            MapOrder::NodesFirst => local * self.nodes + node,
            MapOrder::TasksFirst => node * self.tasks_per_node + local,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n6_tasks_and_places_are_inverse_in_both_orders() {
        for order in ["xyzt", "txyz"] {
            let map = TaskMap::new(6, 4, order.parse().unwrap()).unwrap();
            for task in 0..24 {
                assert_eq!(map.task(map.place(task).unwrap()), Some(task), "{order}");
            }
            assert_eq!(map.place(24), None);
            assert_eq!(map.task(TaskLocation { node: 0, local: 4 }), None);
        }
    }

    #[test]
    fn n6_the_first_tasks_lie_where_the_order_says() {
        let map = |order: &str| TaskMap::new(6, 4, order.parse().unwrap()).unwrap();
        assert_eq!(map("xyzt").place(1), Some(TaskLocation { node: 1, local: 0 }));
        assert_eq!(map("txyz").place(1), Some(TaskLocation { node: 0, local: 1 }));
    }

    #[test]
    fn n4_a_bad_order_is_refused() {
        assert_eq!("xyz".parse::<MapOrder>(), Err(UnknownOrder));
        assert_eq!(TaskMap::new(u32::MAX, 2, MapOrder::NodesFirst), None);
        assert_eq!(TaskMap::new(0, 2, MapOrder::NodesFirst), None);
    }
}
