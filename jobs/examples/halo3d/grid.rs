//! Which block of the domain each task has: the torus, folded to three dimensions, laid over the cube.

use core::ops::Range;
use kernel::Task;
use pami::mapping::TaskLocation;
use pami::topology::TorusCoord;

/// Faces of a block: face `2 * d` looks towards lower coordinates of dimension `d`, `2 * d + 1` towards higher ones.
pub const FACES: usize = 6;

/// The tasks in a block of three dimensions. The third takes in what the torus has beyond it, and the tasks of a node.
pub struct Blocks {
    task: &'static Task,
    extents: [usize; 3],
    mine: [usize; 3],
}

impl Blocks {
    pub fn new(task: &'static Task) -> Self {
        let shape = task.shape();
        let extent = |d| usize::from(shape.extent(d));
        let c = task.coord().0.map(usize::from);
        let (e2, e3, e4) = (extent(2), extent(3), extent(4));
        let locals = task.map().tasks_per_node() as usize;
        Self {
            task,
            extents: [extent(0), extent(1), e2 * e3 * e4 * locals],
            mine: [c[0], c[1], c[2] + e2 * (c[3] + e3 * (c[4] + e4 * task.local() as usize))],
        }
    }

    /// Tasks along each dimension.
    pub fn extents(&self) -> [usize; 3] {
        self.extents
    }

    /// This task's part of `points` points along dimension `d`.
    pub fn part(&self, d: usize, points: usize) -> Range<usize> {
        let (extent, mine) = (self.extents[d], self.mine[d]);
        points * mine / extent..points * (mine + 1) / extent
    }

    /// The task behind a face; `None` at the border of the cube.
    pub fn neighbour(&self, face: usize) -> Option<u32> {
        let (d, mut there) = (face / 2, self.mine);
        there[d] = if face % 2 == 1 { there[d] + 1 } else { there[d].checked_sub(1)? };
        (there[d] < self.extents[d]).then_some(())?;
        let shape = self.task.shape();
        let mut rest = there[2];
        let mut coord = TorusCoord([there[0] as u16, there[1] as u16, 0, 0, 0]);
        for dimension in 2..coord.0.len() {
            let extent = usize::from(shape.extent(dimension));
            coord.0[dimension] = (rest % extent) as u16;
            rest /= extent;
        }
        self.task.map().task(TaskLocation { node: shape.rank(coord)?, local: rest as u32 })
    }
}
