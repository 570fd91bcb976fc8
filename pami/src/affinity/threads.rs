//! Affinities of software threads: which hart each runs on (SPEC ).

use super::{Domains, HartPlace, LEVELS};
use crate::geometry::Members;
use crate::mapping::{MapOrder, TaskMap};

/// The most children that a member of a domain has at each of the [`LEVELS`], if nobody says otherwise.
pub const RADIX: [u32; LEVELS.len()] = [4, 4, 4, 4, 2];

/// Where the threads of a job run, as the kernel says: the same in all nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affinities {
    /// Which node and local number each task has.
    pub map: TaskMap,
    /// With several tasks per node, task `n` of each runs at `harts[n]`. With one, the thread that drives its context
    /// `n` does.
    pub harts: &'static [HartPlace],
}

impl Affinities {
    /// The affinity domains of a geometry's ranks; `radix` is the most children that a member has at each of the
    /// [`LEVELS`]. Known for rectangles and for all tasks of the job; with several contexts of each task, only where a
    /// node has one task.
    pub fn domains(&self, members: &Members<'_>, radix: [u32; LEVELS.len()]) -> Option<Domains<'static>> {
        let map = members.placement(&self.map)?;
        let contexts = members.contexts()?;
        let (ranks, tasks) = (contexts.len(), map.tasks_per_node() as usize);
        let first = usize::from(contexts.start);
        let (map, harts) = match (tasks, ranks) {
            (_, 1) => (map, self.harts.get(..tasks)?),
            (1, _) => {
                let map = TaskMap::new(map.tasks(), ranks as u32, MapOrder::TasksFirst)?;
                (map, self.harts.get(first..first + ranks)?)
            }
            _ => return None,
        };
        Domains::new(map, harts, radix).ok()
    }
}
