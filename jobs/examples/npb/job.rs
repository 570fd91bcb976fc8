//! What the jobs say and are told.

use core::fmt::{self, Arguments, Display, Formatter, Write};
use kernel::{JobError, Task};

/// What carries the benchmark's messages and collectives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Over {
    /// Geometries and active messages.
    Pami,
    /// The module `mpi`.
    Mpi,
}

impl Display for Over {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pami => "PAMI",
            Self::Mpi => "MPI",
        })
    }
}

/// The class that the job's arguments name, by default the first, and what it is to run over, by default PAMI; `name`
/// tells a class's letter.
pub fn arguments<C>(
    task: &'static Task,
    classes: &'static [C],
    name: impl Fn(&C) -> &'static str,
) -> Result<(&'static C, Over), JobError> {
    let arguments = task.arguments();
    let chosen = match arguments.word("--class") {
        None => classes.first(),
        Some(letter) => classes.iter().find(|class| name(class) == letter),
    };
    let over = if arguments.word("--over") == Some("mpi") { Over::Mpi } else { Over::Pami };
    Ok((chosen.ok_or(JobError::Other("the job has no such class"))?, over))
}

/// Prints a line, at task 0.
pub fn say(task: &Task, text: Arguments) {
    if task.number() == 0 {
        let mut line = heapless::String::<160>::new();
        // A longer line is cut.
        let _ = line.write_fmt(text);
        defmt::println!("{=str}", line.as_str());
    }
}

/// How the job ends, by whether its results are right.
pub fn outcome(good: bool) -> Result<(), JobError> {
    if good { Ok(()) } else { Err(JobError::Other("the result is not the official one")) }
}
