//! The MPI module's own conformance run: one file per chapter of the standard, each with its checks.
//!
//! Every task counts its checks and names those that fail. `--chapter NAME` runs one chapter.
#![no_std]
#![no_main]

mod check;
mod collectives;
mod communicators;
mod datatypes;
mod desk;
mod environment;
mod limits;
mod one_sided;
mod operators;
mod point_to_point;
mod threads;
mod topologies;

use check::{Outcome, Suite};
use kernel::{JobError, Task};
use mpi::{Error, Mpi, Settings, Threads};

kernel::entry!(main, jobs::USAGE);

/// Contexts of the library; communicators are hashed over them.
const CONTEXTS: u8 = 2;

/// A chapter's name, and what runs it.
type Chapter = (&'static str, fn(&Suite) -> Outcome);

const CHAPTERS: [Chapter; 10] = [
    ("point-to-point", point_to_point::run),
    ("datatypes", datatypes::run),
    ("operators", operators::run),
    ("collectives", collectives::run),
    ("communicators", communicators::run),
    ("topologies", topologies::run),
    ("environment", environment::run),
    ("one-sided", one_sided::run),
    ("limits", limits::run),
    ("threads", threads::run),
];

fn main(task: &'static Task) -> Result<(), JobError> {
    let only = task.arguments().word("--chapter");
    let settings = Settings { contexts: CONTEXTS.min(task.contexts()), ..Settings::default() };
    let mpi = Mpi::init_thread(task, settings, Threads::Multiple).map_err(|error| fail(task, error))?;
    let suite = Suite::new(task, mpi).map_err(|error| fail(task, error))?;
    for (name, run) in CHAPTERS {
        if only.is_none_or(|only| only == name) {
            suite.chapter(name, run);
        }
    }
    let ended = suite.end();
    mpi.finalize().map_err(|error| fail(task, error))?;
    ended
}

fn fail(task: &Task, error: Error) -> JobError {
    defmt::error!("task {=u32}: {}", task.number(), defmt::Display2Format(&error));
    JobError::Other("the library could not be set up or ended")
}
