//! Affinities of software threads: which hart each runs on (SPEC ).

use super::{Domains, HartPlace, LEVELS};
use crate::geometry::{Members, Placement};
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
    /// [`LEVELS`]. Known where [`Members::placement`] is. Contexts of a task on a node with several share its hart; if it is
    /// alone there, each is to have one.
    pub fn domains(&self, members: &Members<'_>, radix: [u32; LEVELS.len()]) -> Option<Domains<'static>> {
        let placement = members.placement(&self.map)?;
        let contexts = members.contexts()?;
        let (ranks, first) = (contexts.len() as u32, usize::from(contexts.start));
        if self.map.tasks_per_node() == 1 && ranks > 1 {
            let map = TaskMap::new(placement.map.tasks(), ranks, MapOrder::TasksFirst)?;
            return Domains::new(map, self.harts.get(first..first + ranks as usize)?, radix).ok();
        }
        let Placement { map, first, stride } = placement;
        map.tasks().checked_mul(ranks)?;
        let last = first + (map.tasks_per_node() - 1) * stride;
        let harts = self.harts.get(first as usize..=last as usize)?;
        Domains::of_crews(map, ranks, harts, stride, radix).ok()
    }
}
