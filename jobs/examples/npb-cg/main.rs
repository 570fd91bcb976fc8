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
mod solver;

use class::{CLASSES, Class};
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, judge, say, say_time, start_ns};
use npb::machine::Grid;
use npb::machine::Machine;
use npb::mpi::Processes;
use solver::{Solver, Step};

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
    solver.restart();
    solver.step(&mut machine)?; // untimed, as the benchmark has it: touches all memory once
    solver.restart();
    let start = start_ns(task, &mut machine)?;
    let mut zeta = 0.0;
    for iteration in 1..=class.iterations {
        let Step { residual, zeta: estimate } = solver.step(&mut machine)?;
        say(task, format_args!("iteration {iteration}: residual {residual:.6e}, zeta {estimate:.13}"));
        zeta = estimate;
    }
    say_time(task, start);
    judge(task, class.verifies(zeta), format_args!("zeta {zeta:.13}"))
}
