//! What the job is told.

use kernel::{JobError, Task};

/// One of the two libraries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Module {
    Mpi,
    Armci,
}

#[derive(Clone, Copy)]
pub struct Arguments {
    /// The one that is initialised first, and is there to the end.
    pub first: Module,
    /// The one that polls; the other sleeps.
    pub polls: Module,
    pub rounds: u32,
}

impl Arguments {
    pub fn of(task: &'static Task) -> Result<Self, JobError> {
        let arguments = task.arguments();
        Ok(Self {
            first: module(arguments.word("--first")),
            polls: module(arguments.word("--polls")),
            rounds: arguments.get("--rounds")?.unwrap_or(4),
        })
    }
}

fn module(word: Option<&str>) -> Module {
    if word == Some("armci") { Module::Armci } else { Module::Mpi }
}
