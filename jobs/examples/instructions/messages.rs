//! Rows of MPI: messages of one task to itself within its node, so that one hart does what both sides have to.

use super::count::{Count, slow_row};
use kernel::{JobError, Task};
use mpi::{Data, Mpi, Settings, Threads};

/// Bytes of a large message.
const LARGE: usize = 1 << 20;

fn failed(error: impl core::fmt::Display) -> JobError {
    defmt::error!("MPI: {}", defmt::Display2Format(&error));
    JobError::Other("an MPI call did not end well")
}

pub fn rows(task: &'static Task, count: Count) -> Result<(), JobError> {
    // Asleep it would execute nothing that could be counted.
    let settings = Settings { sleeps: false, ..Settings::default() };
    let mpi = Mpi::init_thread(task, settings, Threads::Single).map_err(failed)?;
    let world = mpi.world();
    let out = Data::all::<u8>(&task.memory().buffer(LARGE)?.share());
    let into = Data::all::<u8>(&task.memory().buffer(LARGE)?.share());
    slow_row("mpi-1-mib-shared-memory", || {
        let around = count.around(|| {
            let mut requests = [world.irecv(&into, 0, 0)?, world.isend(&out, 0, 0)?];
            mpi.wait_all(&mut requests, &mut [])
        });
        Ok(count.between(around.map_err(failed)?))
    })?;
    mpi.finalize().map_err(failed)
}
