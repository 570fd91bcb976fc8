//! NAS Parallel Benchmark MG: V-cycles of a multigrid solver, with the official verification.
//!
//! The tasks, a power of two, share the grid as a box of blocks.
//! One hart of each task works: its work between two collectives is too short to share.
#![no_std]
#![no_main]

mod charges;
mod class;
mod cycle;
mod grid;
#[allow(dead_code, reason = "each benchmark needs a part")]
#[path = "../npb/mod.rs"]
mod npb;
mod run;
mod stencil;

use class::CLASSES;
use grid::TaskBox;
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, outcome, say};
use npb::mpi::Processes;
use run::run;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let (class, over) = arguments(task, &CLASSES, |class| class.name)?;
    let tasks = task.tasks() as usize;
    if !cycle::suits(class, tasks) {
        return Err(JobError::Other(
            "npb-mg wants a power of two of tasks, with at least 2 points of the grid each way for each",
        ));
    }
    let [x, y, z] = TaskBox::new(task.number() as usize, tasks).extents;
    let (name, extent, iterations) = (class.name, class.extent, class.iterations);
    say(
        task,
        format_args!(
            "NPB MG class {name}: {extent}^3 points on {tasks} tasks over {over} as {x} x {y} x {z}, {iterations} iterations"
        ),
    );
    outcome(match over {
        Over::Pami => run(&mut Collectives::new(task)?, class)?,
        Over::Mpi => run(&mut Processes::new(task)?, class)?,
    })
}
