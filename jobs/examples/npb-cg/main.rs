//! NAS Parallel Benchmark CG: smallest eigenvalue of a sparse matrix, with the official verification.
//!
//! Any number of tasks share the matrix, as a grid that is as square as their number allows.
//! One hart of each task works: its work between two collectives is too short to share.
#![no_std]
#![no_main]

mod class;
mod matrix;
#[allow(dead_code, reason = "each benchmark needs a part")]
#[path = "../npb/mod.rs"]
mod npb;
mod run;
mod solver;

use class::CLASSES;
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
    let Grid { rows, columns, .. } = Grid::square(task.number() as usize, tasks);
    let (name, order, iterations) = (class.name, class.order, class.iterations);
    say(
        task,
        format_args!(
            "NPB CG class {name}: order {order} on {tasks} tasks over {over} as {rows} x {columns}, {iterations} iterations"
        ),
    );
    outcome(match over {
        Over::Pami => run(&mut Collectives::new(task)?, class)?,
        Over::Mpi => run(&mut Processes::new(task)?, class)?,
    })
}
