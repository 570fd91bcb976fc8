//! The same through the messaging libraries: what others want of task 0 is a message, a sum or a lock.

use super::{Wait, compute};
use kernel::{Buffer, JobError, Task};
use mpi::{Data, IN_PLACE, Mpi, Op};

/// Task 0 computes before it sends to all, or before it joins in a sum.
pub fn mpi(task: &'static Task, seconds: u64, wait: Wait) -> Result<(), JobError> {
    let mpi = Mpi::init(task)?;
    let world = mpi.world();
    let number = Data::all::<u32>(&task.memory().buffer(4).map(Buffer::share)?);
    number.write(&[1u32]).map_err(|_| JobError::Other("a number has no room"))?;
    if task.number() == 0 {
        compute(task, seconds);
    }
    if wait == Wait::Sum {
        world.allreduce(IN_PLACE, &number, Op::Sum)?;
    } else if task.number() == 0 {
        for other in 1..task.tasks() {
            world.send(&number, other as i32, 0)?;
        }
    } else {
        world.recv(&number, 0, 0)?;
    }
    defmt::println!("was answered");
    Ok(mpi.finalize()?)
}

/// Task 0 computes while it holds a lock.
pub fn lock(task: &'static Task, seconds: u64) -> Result<(), JobError> {
    let library = armci::Library::init(task, armci::Settings::default())?;
    library.create_mutexes(1)?;
    let mine = if task.number() == 0 { Some(library.lock(0, 0)?) } else { None };
    library.barrier(&library.world())?;
    if mine.is_some() {
        compute(task, seconds);
    }
    let held = mine.map_or_else(|| library.lock(0, 0), Ok)?;
    library.unlock(held)?;
    defmt::println!("was answered");
    library.barrier(&library.world())?;
    library.destroy_mutexes()?;
    Ok(library.finalize()?)
}
