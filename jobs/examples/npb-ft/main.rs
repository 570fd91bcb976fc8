//! NAS Parallel Benchmark FT: the heat equation by 3-D Fourier transforms, with the official verification.
//!
//! The tasks, a power of two, share the array as pencils; transposes run in rows and in columns of tasks.
//! One hart of each task works: its work between two collectives is too short to share.
#![no_std]
#![no_main]

mod class;
mod fourier;
#[allow(dead_code, reason = "each benchmark needs a part")]
#[path = "../npb/mod.rs"]
mod npb;
mod pencils;
mod run;
mod solver;

use class::{CLASSES, STEPS};
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, outcome, say};
use npb::machine::Grid;
use npb::mpi::Processes;
use run::run;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let (class, over) = arguments(task, &CLASSES, |class| class.name)?;
    let tasks = task.tasks() as usize;
    let grid = Grid::square(task.number() as usize, tasks);
    if !pencils::suits(class, &grid) {
        return Err(JobError::Other(
            "npb-ft wants a power of two of tasks, no more than the array has pencils each way",
        ));
    }
    let (name, [x, y, z]) = (class.name, class.extents);
    let Grid { rows, columns, .. } = grid;
    say(
        task,
        format_args!(
            "NPB FT class {name}: {x} x {y} x {z} points on {tasks} tasks over {over} as {rows} x {columns}, {STEPS} steps"
        ),
    );
    outcome(match over {
        Over::Pami => run(&mut Collectives::new(task)?, class, grid)?,
        Over::Mpi => run(&mut Processes::new(task)?, class, grid)?,
    })
}
