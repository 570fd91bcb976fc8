//! Settings that conflict, and stay apart.

use super::arguments::{Arguments, Module};
use super::book::{Book, told};
use armci::{Split, Wait};
use kernel::{JobError, Sharing, Task};
use mpi::{Setting, Threads};

pub type Mpi = mpi::Mpi<Task>;
pub type Armci = armci::Library<Task>;

/// Two contexts over one injection FIFO, messages over 1 KiB stay with their sender.
fn of_mpi(polls: Module) -> mpi::Settings {
    mpi::Settings {
        contexts: 2,
        sharing: Sharing::Shared,
        eager_limit: 1 << 10,
        sleeps: polls != Module::Mpi,
        ..mpi::Settings::default()
    }
}

/// One context with a FIFO of its own.
fn of_armci(polls: Module) -> armci::Settings {
    let wait = if polls == Module::Armci { Wait::Poll(2048) } else { Wait::Interrupt };
    armci::Settings {
        contexts: 1,
        sharing: Sharing::Exclusive,
        wait,
        slab: 256 << 10,
        ..armci::Settings::default()
    }
}

/// Initialises both, in the order that is wanted.
pub fn initialise(task: &'static Task, arguments: Arguments) -> Result<(Mpi, Armci), JobError> {
    let mpi = || Mpi::init_thread(task, of_mpi(arguments.polls), Threads::Multiple).map_err(told);
    let armci = || Armci::init(task, of_armci(arguments.polls)).map_err(told);
    match arguments.first {
        Module::Mpi => {
            let mpi = mpi()?;
            Ok((mpi, armci()?))
        }
        Module::Armci => {
            let armci = armci()?;
            Ok((mpi()?, armci))
        }
    }
}

/// Each reads back its own after the other has changed its own.
pub fn stay_apart(book: &Book, mpi: Mpi, armci: Armci, polls: Module) -> Result<(), JobError> {
    book.check(mpi.settings() == of_mpi(polls), "MPI has the settings that it was given");
    book.check(armci.settings() == of_armci(polls), "ARMCI has the settings that it was given");

    mpi.set(Setting::EagerLimit(3000));
    mpi.set(Setting::Sleeps(polls == Module::Mpi));
    let changed = mpi::Settings { eager_limit: 3000, sleeps: polls == Module::Mpi, ..of_mpi(polls) };
    book.check(mpi.settings() == changed, "MPI has what it changed");
    book.check(armci.settings() == of_armci(polls), "ARMCI's settings are as before MPI changed its own");

    armci.set_accumulate(Split::OriginOnly).map_err(told)?;
    armci.set_wait(Wait::Poll(7)).map_err(told)?;
    let wait = Wait::Poll(7);
    let other = armci::Settings { accumulate: Split::OriginOnly, wait, ..of_armci(polls) };
    book.check(armci.settings() == other, "ARMCI has what it changed");
    book.check(mpi.settings() == changed, "MPI's settings are as before ARMCI changed its own");

    // As they were, for what follows.
    mpi.set(Setting::EagerLimit(of_mpi(polls).eager_limit));
    mpi.set(Setting::Sleeps(of_mpi(polls).sleeps));
    armci.set_accumulate(of_armci(polls).accumulate).map_err(told)?;
    armci.set_wait(of_armci(polls).wait).map_err(told)?;
    book.check(mpi.settings() == of_mpi(polls), "MPI is set as at first");
    book.check(armci.settings() == of_armci(polls), "ARMCI is set as at first");
    Ok(())
}
