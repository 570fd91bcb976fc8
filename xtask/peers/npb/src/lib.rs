//! The NAS Parallel Benchmarks of the jobs `npb-*`, from the same files, over any MPI: what `cargo xtask bench peers` measures
//! beside the jobs (SPEC H-6). `xtask/peers/npb.c` is the program around it, compiled for each MPI, as their ABIs differ.

#[path = "../../../../jobs/examples/npb/mod.rs"]
#[allow(dead_code, reason = "what the host's tests need too")]
mod npb;

#[path = "../../../../jobs/examples/npb-cg"]
mod cg {
    use super::npb;

    pub mod class;
    pub mod matrix;
    pub mod run;
    pub mod solver;
}

#[path = "../../../../jobs/examples/npb-ep"]
mod ep {
    use super::npb;

    pub mod class;
    pub mod deviates;
    pub mod run;
}

#[path = "../../../../jobs/examples/npb-ft"]
mod ft {
    use super::npb;

    pub mod class;
    pub mod fourier;
    pub mod pencils;
    pub mod run;
    pub mod solver;
}

#[path = "../../../../jobs/examples/npb-is"]
mod is {
    use super::npb;

    pub mod class;
    pub mod ranker;
    pub mod run;
}

#[path = "../../../../jobs/examples/npb-mg"]
mod mg {
    use super::npb;

    pub mod charges;
    pub mod class;
    pub mod cycle;
    pub mod grid;
    pub mod run;
    pub mod stencil;
}

mod world;

use npb::machine::{Grid, Machine};
use std::fmt::{self, Display, Formatter};

/// Why a benchmark does not run to its end.
#[derive(Debug)]
enum Error {
    /// There is no such benchmark.
    Benchmark(String),
    /// It has no such class.
    Class(String),
    /// It does not run on so many tasks.
    Tasks(usize),
    /// More values came than a task has room for.
    TooMany(usize),
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Benchmark(word) => {
                write!(f, "there is no {word}, but npb-cg, npb-ep, npb-ft, npb-is and npb-mg")
            }
            Self::Class(word) => write!(f, "there is no class {word}, but S, W and A"),
            Self::Tasks(tasks) => write!(f, "it does not run on {tasks} tasks"),
            Self::TooMany(values) => write!(f, "{values} values came, more than there is room for"),
        }
    }
}

/// The class with this letter.
fn named<C>(
    classes: &'static [C],
    name: impl Fn(&C) -> &'static str,
    letter: &str,
) -> Result<&'static C, Error> {
    classes.iter().find(|class| name(class) == letter).ok_or_else(|| Error::Class(letter.to_owned()))
}

/// Runs a benchmark. Returns whether its results are the official ones.
fn run(benchmark: &str, letter: &str, machine: &mut impl Machine<Error = Error>) -> Result<bool, Error> {
    let tasks = machine.tasks();
    let on = |suits: bool| if suits { Ok(()) } else { Err(Error::Tasks(tasks)) };
    match benchmark {
        "npb-cg" => cg::run::run(machine, named(&cg::class::CLASSES, |class| class.name, letter)?),
        "npb-ep" => ep::run::run(machine, named(&ep::class::CLASSES, |class| class.name, letter)?),
        "npb-ft" => {
            let class = named(&ft::class::CLASSES, |class| class.name, letter)?;
            let grid = Grid::square(machine.task(), tasks);
            on(ft::pencils::suits(class, &grid))?;
            ft::run::run(machine, class, grid)
        }
        "npb-is" => {
            on(tasks <= is::ranker::TASKS)?;
            is::run::run(machine, named(&is::class::CLASSES, |class| class.name, letter)?)
        }
        "npb-mg" => {
            let class = named(&mg::class::CLASSES, |class| class.name, letter)?;
            on(mg::cycle::suits(class, tasks))?;
            mg::run::run(machine, class)
        }
        _ => Err(Error::Benchmark(benchmark.to_owned())),
    }
}
