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
mod run;

use class::{CLASSES, ITERATIONS};
use kernel::{JobError, Task};
use npb::collectives::Collectives;
use npb::job::{Over, arguments, outcome, say};
use npb::mpi::Processes;
use run::run;

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
    outcome(match over {
        Over::Pami => run(&mut Collectives::new(task)?, class)?,
        Over::Mpi => run(&mut Processes::new(task)?, class)?,
    })
}
