//! NAS Parallel Benchmark EP: tallies Gaussian deviates, with the official verification.
//!
//! Any number of tasks share the pairs of random numbers evenly, each task's harts its share; one sum over all tasks
//! brings the tallies together.
#![no_std]
#![no_main]

mod class;
mod deviates;
#[allow(dead_code, reason = "each benchmark needs a part")]
#[path = "../npb/mod.rs"]
mod npb;
mod run;

use class::CLASSES;
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, outcome, say};
use npb::mpi::Processes;
use run::run;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let (class, over) = arguments(task, &CLASSES, |class| class.name)?;
    let (name, log2, tasks) = (class.name, class.pairs_log2, task.tasks());
    say(task, format_args!("NPB EP class {name}: 2^{log2} pairs on {tasks} tasks over {over}"));
    outcome(match over {
        Over::Pami => run(&mut Collectives::new(task)?, class)?,
        Over::Mpi => run(&mut Processes::new(task)?, class)?,
    })
}
