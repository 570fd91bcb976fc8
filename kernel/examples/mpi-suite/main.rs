//! Conformance run of the MPI module.
#![no_std]
#![no_main]

mod check;
mod collectives;
mod datatypes;
mod desk;
mod operators;

use check::Check;
use kernel::{JobError, Task};
use mpi::Mpi;

kernel::entry!(main);

fn main(task: &'static Task) -> Result<(), JobError> {
    let mut check = Check::new(task);
    let outcome = run(task, &mut check);
    if let Err(error) = outcome {
        defmt::println!("task {=u32}: {}", task.number(), defmt::Display2Format(&error));
        return Err(JobError::Other("a call failed"));
    }
    let (held, failed) = check.counts();
    if task.number() == 0 {
        defmt::println!("{=u32} checks held, {=u32} did not", held, failed);
    }
    if failed == 0 { Ok(()) } else { Err(JobError::Other("a check failed")) }
}

fn run(task: &'static Task, check: &mut Check) -> mpi::Result<()> {
    let mpi = Mpi::init(task)?;
    let desk = desk::Desk::new(task)?;
    check.chapter("datatypes");
    datatypes::run(&mpi, &desk, check)?;
    check.chapter("operators");
    operators::run(&mpi, &desk, check)?;
    check.chapter("collectives");
    collectives::run(&mpi, &desk, check)?;
    mpi.finalize()
}
