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
        let mut chosen = Self { first: Module::Mpi, polls: Module::Mpi, rounds: 4 };
        let mut args = task.args();
        while let Some(arg) = args.next() {
            let word = args.next().ok_or(JobError::Argument(arg, "wants a value behind it"));
            match arg {
                "--first" => chosen.first = module(word?)?,
                "--polls" => chosen.polls = module(word?)?,
                "--rounds" => {
                    let word = word?;
                    chosen.rounds =
                        word.parse().map_err(|_| JobError::Argument(word, "is no number of rounds"))?;
                }
                _ => {
                    let problem = "is unknown: modules takes --first, --polls and --rounds";
                    return Err(JobError::Argument(arg, problem));
                }
            }
        }
        Ok(chosen)
    }
}

fn module(word: &'static str) -> Result<Module, JobError> {
    match word {
        "mpi" => Ok(Module::Mpi),
        "armci" => Ok(Module::Armci),
        _ => Err(JobError::Argument(word, "is no module: there are mpi and armci")),
    }
}
