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
mod stencil;

use class::{CLASSES, Class};
use cycle::Solver;
use grid::TaskBox;
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, judge, say, say_time, start_ns};
use npb::machine::Machine;
use npb::mpi::Processes;

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
    match over {
        Over::Pami => run(task, Collectives::new(task)?, class),
        Over::Mpi => run(task, Processes::new(task)?, class),
    }
}

fn run(
    task: &'static Task,
    mut machine: impl Machine<Error = JobError>,
    class: &'static Class,
) -> Result<(), JobError> {
    let mut solver = Solver::new(&mut machine, class)?;
    solver.restart(&mut machine)?;
    solver.cycle(&mut machine)?; // untimed, as the benchmark has it: touches all memory once
    solver.restart(&mut machine)?;
    let start = start_ns(task, &mut machine)?;
    for _ in 0..class.iterations {
        solver.cycle(&mut machine)?;
    }
    let norm = solver.norm(&mut machine)?;
    say_time(task, start);
    judge(task, class.verifies(norm), format_args!("norm of the residual {norm:.13e}"))
}
