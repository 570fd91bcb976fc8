//! The same through the messaging libraries: what others want of task 0 is a message, a sum or a lock.

use super::{Wait, compute};
use kernel::{Buffer, JobError, Task};
use mpi::{Data, IN_PLACE, Mpi, Op};

/// What a library says is printed; the job's error has no room for it.
fn failed(error: impl core::fmt::Display) -> JobError {
    defmt::error!("{}", defmt::Display2Format(&error));
    JobError::Other("a library's call did not end well")
}

/// Task 0 computes before it sends to all, or before it joins in a sum.
pub fn mpi(task: &'static Task, seconds: u64, wait: Wait) -> Result<(), JobError> {
    let mpi = Mpi::init(task).map_err(failed)?;
    let world = mpi.world();
    let number = Data::all::<u32>(&task.memory().buffer(4).map(Buffer::share)?);
    number.write(&[1u32]).map_err(|_| JobError::Other("a number has no room"))?;
    if task.number() == 0 {
        compute(task, seconds);
    }
    if wait == Wait::Sum {
        world.allreduce(IN_PLACE, &number, Op::Sum).map_err(failed)?;
    } else if task.number() == 0 {
        for other in 1..task.tasks() {
            world.send(&number, other as i32, 0).map_err(failed)?;
        }
    } else {
        world.recv(&number, 0, 0).map_err(failed)?;
    }
    defmt::println!("was answered");
    mpi.finalize().map_err(failed)
}

/// Task 0 computes while it holds a lock.
pub fn lock(task: &'static Task, seconds: u64) -> Result<(), JobError> {
    let library = armci::Library::init(task, armci::Settings::default()).map_err(failed)?;
    library.create_mutexes(1).map_err(failed)?;
    let mine = if task.number() == 0 { Some(library.lock(0, 0).map_err(failed)?) } else { None };
    library.barrier(&library.world()).map_err(failed)?;
    if mine.is_some() {
        compute(task, seconds);
    }
    let held = mine.map_or_else(|| library.lock(0, 0), Ok).map_err(failed)?;
    library.unlock(held).map_err(failed)?;
    defmt::println!("was answered");
    library.barrier(&library.world()).map_err(failed)?;
    library.destroy_mutexes().map_err(failed)?;
    library.finalize().map_err(failed)
}
