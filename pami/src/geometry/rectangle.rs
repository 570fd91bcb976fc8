//! Boxes of the torus.

use super::digest::Sequence;
use super::{MembersError, task_part};
use crate::collective::Grid;
use crate::mapping::{TaskLocation, TaskMap};
use crate::topology::{MAX_DIMENSIONS, TorusCoord, TorusShape};

/// A box of nodes with all their tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rectangle {
    shape: TorusShape,
    map: TaskMap,
    low: TorusCoord,
    extents: [u16; MAX_DIMENSIONS],
}

impl Rectangle {
    /// The box of `extents` nodes from `low` on, in the machine of that shape and task mapping. It may go round the
    /// end of a dimension whose ends are joined.
    ///
    /// # Errors
    /// [`MembersError::Empty`], [`MembersError::Edge`], [`MembersError::Mapping`].
    pub fn new(
        shape: TorusShape,
        map: TaskMap,
        low: TorusCoord,
        extents: [u16; MAX_DIMENSIONS],
    ) -> Result<Self, MembersError> {
        if map.tasks() / map.tasks_per_node() != shape.nodes() {
            return Err(MembersError::Mapping);
        }
        if extents.contains(&0) {
            return Err(MembersError::Empty);
        }
        let over = (0..MAX_DIMENSIONS).find(|&d| {
            let (start, extent) = (u32::from(low.0[d]), u32::from(shape.extent(d)));
            let end = start + u32::from(extents[d]);
            start >= extent || u32::from(extents[d]) > extent || (end > extent && !shape.wraps(d))
        });
        over.map_or(Ok(Self { shape, map, low, extents }), |dimension| Err(MembersError::Edge(dimension)))
    }

    /// Tasks of the whole machine.
    pub(super) fn machine_tasks(&self) -> u32 {
        self.map.tasks()
    }

    /// Tasks of each node.
    pub fn tasks_per_node(&self) -> u32 {
        self.map.tasks_per_node()
    }

    /// Tasks of the box.
    pub fn tasks(&self) -> u32 {
        self.extents.iter().map(|&extent| u32::from(extent)).product::<u32>() * self.tasks_per_node()
    }

    /// The task with this index.
    pub fn task(&self, index: u32) -> Option<u32> {
        if index >= self.tasks() {
            return None;
        }
        let (mut rest, local) = (index / self.tasks_per_node(), index % self.tasks_per_node());
        let mut coord = self.low;
        for dimension in 0..MAX_DIMENSIONS {
            let (extent, around) =
                (u32::from(self.extents[dimension]), u32::from(self.shape.extent(dimension)));
            let place = u32::from(self.low.0[dimension]) + rest % extent;
            coord.0[dimension] = (place % around) as u16;
            rest /= extent;
        }
        self.map.task(TaskLocation { node: self.shape.rank(coord)?, local })
    }

    /// The index of a task, or `None` if it is outside the box.
    pub fn index(&self, task: u32) -> Option<u32> {
        let TaskLocation { node, local } = self.map.place(task)?;
        let coord = self.shape.coord(node)?;
        let mut index = 0;
        for dimension in (0..MAX_DIMENSIONS).rev() {
            let around = u32::from(self.shape.extent(dimension));
            let place = u32::from(coord.0[dimension]) + around - u32::from(self.low.0[dimension]);
            let (place, extent) = (place % around, u32::from(self.extents[dimension]));
            if place >= extent {
                return None;
            }
            index = index * extent + place;
        }
        Some(index * self.tasks_per_node() + local)
    }

    /// The numbers of all endpoints, where `contexts` are those of task 0.
    pub(super) fn sequence(&self, contexts: Sequence) -> Sequence {
        // Task numbers rise evenly along a node's tasks, and along each dimension but where it goes round.
        let step = |place| self.map.task(place).map_or(0, task_part);
        let local = step(TaskLocation { node: 0, local: 1 });
        let mut all = contexts.repeated(self.tasks_per_node(), local);
        let mut stride = step(TaskLocation { node: 1, local: 0 });
        for dimension in 0..MAX_DIMENSIONS {
            let (low, extent) = (u32::from(self.low.0[dimension]), u32::from(self.extents[dimension]));
            let around = u32::from(self.shape.extent(dimension));
            let straight = extent.min(around - low);
            let from_low = all.raised(u64::from(low) * stride).repeated(straight, stride);
            all = from_low.then(all.repeated(extent - straight, stride));
            stride *= u64::from(around);
        }
        all
    }

    /// The box as algorithms see it. A dimension is closed to a ring only where the box spans all of a ring.
    pub(super) fn grid(&self) -> Option<Grid> {
        let wraps = |d: usize| self.shape.wraps(d) && self.extents[d] == self.shape.extent(d);
        Grid::new(self.tasks_per_node(), self.extents, core::array::from_fn(wraps))
    }
}
