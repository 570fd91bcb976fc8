//! NAS Parallel Benchmark IS: ranks integer keys, with the official verification.
//!
//! Any number of tasks, at most 512, share the keys. One hart of each task works: its work between two collectives is
//! too short to share.
#![no_std]
#![no_main]

mod class;
#[allow(dead_code, reason = "each benchmark needs a part")]
#[path = "../npb/mod.rs"]
mod npb;
mod ranker;

use class::{CLASSES, Class, ITERATIONS};
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, judge, say, say_time, start_ns};
use npb::machine::Machine;
use npb::mpi::Processes;
use ranker::Ranker;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let (class, over) = arguments(task, &CLASSES, |class| class.name)?;
    let tasks = task.tasks() as usize;
    if tasks > ranker::TASKS {
        return Err(JobError::Other("npb-is runs on at most 512 tasks"));
    }
    let (name, keys, values) = (class.name, class.keys(), class.values());
    say(
        task,
        format_args!(
            "NPB IS class {name}: {keys} keys below {values} on {tasks} tasks over {over}, {ITERATIONS} iterations"
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
    let mut ranker = Ranker::new(&mut machine, class)?;
    ranker.rank(&mut machine, 1)?; // untimed, as the benchmark has it: touches all memory once
    let start = start_ns(task, &mut machine)?;
    for iteration in 1..=ITERATIONS {
        let ranks = ranker.rank(&mut machine, iteration)?;
        let good = class.verifies(iteration, ranks);
        judge(task, good, format_args!("iteration {iteration}: ranks of the test keys {ranks:?}"))?;
    }
    say_time(task, start);
    let sorted = ranker.sort(&mut machine)?;
    judge(task, sorted, format_args!("full verification: all {} keys in order", class.keys()))
}
