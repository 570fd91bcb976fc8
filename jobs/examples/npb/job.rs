//! What the jobs say and are told.

use super::machine::{Machine, Tasks};
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

/// Prints what was computed and whether it is right.
///
/// # Errors
/// If it is not.
pub fn judge(task: &Task, good: bool, computed: Arguments) -> Result<(), JobError> {
    say(task, format_args!("{computed}: {}", if good { "verified" } else { "WRONG" }));
    if good { Ok(()) } else { Err(JobError::Other("the result is not the official one")) }
}

/// The time when every task has come here.
pub fn start_ns<M: Machine>(task: &Task, machine: &mut M) -> Result<u64, M::Error> {
    let group = machine.group(Tasks::all(machine.tasks()))?;
    machine.barrier(&group)?;
    Ok(task.now_ns())
}

/// Prints the time since `start_ns`, which is that of the host that emulates the nodes.
pub fn say_time(task: &Task, start_ns: u64) {
    say(task, format_args!("{} us", (task.now_ns() - start_ns) / 1000));
}
