//! Rows of MPI: messages of one task to itself within its node, so that one hart does what both sides have to.

use super::count::{Count, row, slow_row};
use kernel::{JobError, Task};
use mpi::{Data, Mpi, Request, Settings, Threads};

/// Bytes of a large message, and of a small one.
const LARGE: usize = 1 << 20;
const SMALL: usize = 8;
const NOTHING_TAKEN_IN: JobError = JobError::Other("a message that was sent is not there at the next test");

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
    let small = Data::all::<u8>(&task.memory().buffer(SMALL)?.share());
    let word = Data::all::<u8>(&task.memory().buffer(SMALL)?.share());
    row("mpi-isend-8-shared-memory", || {
        let mut requests = [world.irecv(&word, 0, 0).map_err(failed)?, Request::NULL];
        let from = count.now();
        requests[1] = world.isend(&small, 0, 0).map_err(failed)?;
        let to = count.now();
        mpi.wait_all(&mut requests, &mut []).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    row("mpi-irecv-8", || {
        let from = count.now();
        let received = world.irecv(&word, 0, 0);
        let to = count.now();
        let mut requests = [received.map_err(failed)?, world.isend(&small, 0, 0).map_err(failed)?];
        mpi.wait_all(&mut requests, &mut []).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    row("mpi-matched-receive-8-shared-memory", || {
        let mut received = world.irecv(&word, 0, 0).map_err(failed)?;
        let mut sent = world.isend(&small, 0, 0).map_err(failed)?;
        let from = count.now();
        let taken = mpi.test(&mut received);
        let to = count.now();
        taken.map_err(failed)?.ok_or(NOTHING_TAKEN_IN)?;
        mpi.wait(&mut sent).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    row("mpi-waited-receive-8-shared-memory", || {
        let mut received = world.irecv(&word, 0, 0).map_err(failed)?;
        let mut sent = world.isend(&small, 0, 0).map_err(failed)?;
        let from = count.now();
        let taken = mpi.wait(&mut received);
        let to = count.now();
        taken.map_err(failed)?;
        mpi.wait(&mut sent).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    row("mpi-second-receive-8-shared-memory", || {
        let mut other = world.irecv(&word, 0, 1).map_err(failed)?;
        let mut received = world.irecv(&word, 0, 0).map_err(failed)?;
        let mut sent = world.isend(&small, 0, 0).map_err(failed)?;
        let from = count.now();
        let taken = mpi.test(&mut received);
        let to = count.now();
        taken.map_err(failed)?.ok_or(NOTHING_TAKEN_IN)?;
        mpi.wait(&mut sent).map_err(failed)?;
        sent = world.isend(&small, 0, 1).map_err(failed)?;
        mpi.wait(&mut other).map_err(failed)?;
        mpi.wait(&mut sent).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    row("mpi-unexpected-receive-8-shared-memory", || {
        let mut other = world.irecv(&word, 0, 1).map_err(failed)?;
        let mut sent = world.isend(&small, 0, 0).map_err(failed)?;
        let from = count.now();
        let none = mpi.test(&mut other);
        let received = world.irecv(&word, 0, 0);
        let mut received = received.map_err(failed)?;
        let taken = mpi.test(&mut received);
        let to = count.now();
        taken.map_err(failed)?.ok_or(NOTHING_TAKEN_IN)?;
        none.map_err(failed)?;
        mpi.wait(&mut sent).map_err(failed)?;
        let mut requests = [other, world.isend(&small, 0, 1).map_err(failed)?];
        mpi.wait_all(&mut requests, &mut []).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    row("mpi-test-empty", || {
        let mut received = world.irecv(&word, 0, 0).map_err(failed)?;
        // What came last may have left another message behind it, for which this one looks.
        mpi.test(&mut received).map_err(failed)?;
        let from = count.now();
        let none = mpi.test(&mut received);
        let to = count.now();
        none.map_err(failed)?;
        let mut requests = [received, world.isend(&small, 0, 0).map_err(failed)?];
        mpi.wait_all(&mut requests, &mut []).map_err(failed)?;
        Ok(count.between((from, to)))
    })?;
    slow_row("mpi-1-mib-shared-memory", || {
        let around = count.around(|| {
            let mut requests = [world.irecv(&into, 0, 0)?, world.isend(&out, 0, 0)?];
            mpi.wait_all(&mut requests, &mut [])
        });
        Ok(count.between(around.map_err(failed)?))
    })?;
    mpi.finalize().map_err(failed)
}
