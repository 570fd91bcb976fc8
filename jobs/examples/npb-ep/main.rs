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

use class::{CLASSES, Class};
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, judge, say, say_time, start_ns};
use npb::machine::Machine;
use npb::mpi::Processes;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let (class, over) = arguments(task, &CLASSES, |class| class.name)?;
    let (name, log2, tasks) = (class.name, class.pairs_log2, task.tasks());
    say(task, format_args!("NPB EP class {name}: 2^{log2} pairs on {tasks} tasks over {over}"));
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
    let start = start_ns(task, &mut machine)?;
    let tally = deviates::tally(&mut machine, class)?;
    say_time(task, start);
    for (annulus, count) in tally.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        say(task, format_args!("annulus {annulus}: {count} pairs"));
    }
    let [x, y] = tally.sums;
    judge(task, class.verifies(tally.sums), format_args!("sums {x:.13e} {y:.13e}"))
}
