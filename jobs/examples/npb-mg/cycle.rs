//! V-cycles on a hierarchy of grids, from the class's extent down to 2.
//!
//! Each task holds a block of the finer grids. From the grid on where a block would be under [`LEAST_POINTS`] wide,
//! every task holds the whole grid and does all the work on it: that costs one collective a cycle, where ghosts of
//! almost empty blocks would cost dozens of messages.

use super::charges;
use super::class::Class;
use super::grid::{Block, Ghosts, TaskBox, Triple};
use super::npb::machine::{Machine, Tasks};
use super::stencil;

/// Blocks of all grids but the finest are at least so many points wide.
const LEAST_POINTS: usize = 4;
/// Room for grids up to 2^16 wide.
const LEVELS: usize = 16;

/// One grid of the hierarchy.
#[derive(Default)]
struct Level {
    block: Block,
    /// The block is the whole grid, at every task.
    whole: bool,
    /// The solution; on coarser grids its correction.
    u: &'static mut [f64],
    /// The residual.
    r: &'static mut [f64],
}

/// What moves data between tasks.
struct Traffic<M: Machine> {
    all_tasks: M::Group,
    tasks: TaskBox,
    ghosts: Ghosts,
    /// A grid that comes together at every task: the points from this task, and from all.
    mine: &'static mut [f64],
    all: &'static mut [f64],
}

/// One task's part of the solver.
pub struct Solver<M: Machine> {
    /// The finest first; `depth` of them.
    levels: [Level; LEVELS],
    depth: usize,
    right: &'static mut [f64],
    traffic: Traffic<M>,
    class: &'static Class,
}

/// Whether so many tasks can share a class's grid: a power of two, with at least 2 points each way for each task.
pub fn suits(class: &Class, tasks: usize) -> bool {
    tasks.is_power_of_two() && TaskBox::new(0, tasks).extents.iter().all(|extent| 2 * extent <= class.extent)
}

impl<M: Machine> Solver<M> {
    /// For a number of tasks that [`suits`].
    pub fn new(machine: &mut M, class: &'static Class) -> Result<Self, M::Error> {
        let count = machine.tasks();
        let tasks = TaskBox::new(machine.task(), count);
        let mut levels: [Level; LEVELS] = Default::default();
        let depth = class.extent.ilog2() as usize;
        let mut gathered = 0;
        for (number, level) in levels[..depth].iter_mut().enumerate() {
            let extent = class.extent >> number;
            let points = tasks.extents.map(|tasks| extent / tasks);
            level.whole = number > 0 && points.iter().any(|&points| points < LEAST_POINTS);
            level.block = Block { points: if level.whole { [extent; 3] } else { points } };
            if level.whole && gathered == 0 {
                gathered = level.block.inner();
            }
            level.u = machine.reals(level.block.len())?;
            level.r = machine.reals(level.block.len())?;
        }
        let finest = levels[0].block;
        let traffic = Traffic {
            all_tasks: machine.group(Tasks::all(count))?,
            tasks,
            ghosts: Ghosts::new(machine, tasks, finest)?,
            mine: machine.reals(gathered / count)?,
            all: machine.reals(gathered)?,
        };
        let right = machine.reals(finest.len())?;
        charges::place(machine, class.extent, tasks, finest, right)?;
        Ok(Self { levels, depth, right, traffic, class })
    }

    /// Sets the solution to 0.
    pub fn restart(&mut self, machine: &mut M) -> Result<(), M::Error> {
        self.levels[0].u.fill(0.0);
        self.find_residual(machine)
    }

    /// One V-cycle.
    pub fn cycle(&mut self, machine: &mut M) -> Result<(), M::Error> {
        let levels = &mut self.levels[..self.depth];
        self.traffic.correct_from_coarser(machine, levels)?;
        self.find_residual(machine)?;
        let finest = &mut self.levels[0];
        stencil::smooth(finest.block, finest.r, finest.u);
        self.find_residual(machine)
    }

    /// The residual of the finest grid's solution, ghosts and all.
    fn find_residual(&mut self, machine: &mut M) -> Result<(), M::Error> {
        let Level { block, whole, u, r } = &mut self.levels[0];
        let ghosts = &mut self.traffic.ghosts;
        ghosts.fill(machine, *block, *whole, u)?;
        stencil::residual(*block, u, self.right, r);
        ghosts.fill(machine, *block, *whole, r)
    }

    /// The root of the mean square of the finest grid's residual.
    pub fn norm(&mut self, machine: &mut M) -> Result<f64, M::Error> {
        let Level { block, r, .. } = &self.levels[0];
        let mut sum = [0.0];
        block.rows(|start| sum[0] += r[start..start + block.points[0]].iter().map(|r| r * r).sum::<f64>());
        machine.sum(&self.traffic.all_tasks, &mut sum)?;
        let points = (self.class.extent as f64) * (self.class.extent as f64) * (self.class.extent as f64);
        Ok(libm::sqrt(sum[0] / points))
    }
}

impl<M: Machine> Traffic<M> {
    /// Adds to the solution of the first of `levels` the correction that the coarser ones find for its residual.
    fn correct_from_coarser(&mut self, machine: &mut M, levels: &mut [Level]) -> Result<(), M::Error> {
        let [fine, coarser @ ..] = levels else { return Ok(()) };
        let Some(coarse) = coarser.first_mut() else { return Ok(()) };
        self.restrict(machine, fine, coarse)?;
        self.ghosts.fill(machine, coarse.block, coarse.whole, coarse.r)?;
        coarse.u.fill(0.0);
        if coarser.len() > 1 {
            self.correct_from_coarser(machine, coarser)?;
            let Level { block, whole, u, r } = &mut coarser[0];
            self.ghosts.fill(machine, *block, *whole, u)?;
            stencil::residual_in_place(*block, u, r);
            self.ghosts.fill(machine, *block, *whole, r)?;
        }
        let coarse = &mut coarser[0];
        stencil::smooth(coarse.block, coarse.r, coarse.u);
        self.ghosts.fill(machine, coarse.block, coarse.whole, coarse.u)?;
        let spread = coarse.whole && !fine.whole;
        let origin =
            [0, 1, 2].map(|d| if spread { self.tasks.place[d] * fine.block.points[d] / 2 } else { 0 });
        stencil::interpolate(coarse.block, coarse.u, origin, fine.block, fine.u);
        Ok(())
    }

    /// Restricts the residual.
    fn restrict(&mut self, machine: &mut M, fine: &Level, coarse: &mut Level) -> Result<(), M::Error> {
        let (first, strides) = (coarse.block.at([1; 3]), coarse.block.strides());
        if fine.whole || !coarse.whole {
            stencil::restrict(fine.block, fine.r, coarse.r, first, strides);
            return Ok(());
        }
        let points = fine.block.points.map(|points| points / 2);
        stencil::restrict(fine.block, fine.r, self.mine, 0, [1, points[0], points[0] * points[1]]);
        machine.all_gather(&self.all_tasks, self.mine, self.all)?;
        let mut rows = self.all.chunks_exact(points[0]);
        for task in 0..machine.tasks() {
            let place = self.tasks.coordinates(task);
            let corner: Triple = [0, 1, 2].map(|d| place[d] * points[d] + 1);
            for z in 0..points[2] {
                for y in 0..points[1] {
                    let start = coarse.block.at([corner[0], corner[1] + y, corner[2] + z]);
                    if let Some(row) = rows.next() {
                        coarse.r[start..start + points[0]].copy_from_slice(row);
                    }
                }
            }
        }
        Ok(())
    }
}
