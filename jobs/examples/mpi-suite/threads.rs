//! Threads: all harts of the task communicate at the same time.

use super::check::{Comm, Outcome, Suite};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use heapless::Vec;
use kernel::{Shared, Task};
use mpi::{ANY_TAG, Data, Error, Op, Threads};

/// Rounds of each thread.
const ROUNDS: u32 = 40;
/// Most threads.
const THREADS: usize = 8;

/// What one thread works with.
#[derive(Clone)]
struct Share {
    /// Its own.
    own: Comm,
    /// All threads'.
    common: Comm,
    memory: Shared,
    number: u32,
}

pub fn run(suite: &Suite) -> Outcome {
    suite.equal("level", suite.mpi.query_thread(), Threads::Multiple);
    let threads = suite.task.harts().min(THREADS);
    let common = suite.world.dup()?;
    let mut shares = Vec::<Share, THREADS>::new();
    for number in 0..threads as u32 {
        let (own, memory) = (suite.world.dup()?, suite.memory(64)?);
        let _ = shares.push(Share { own, common, memory, number });
    }
    let memory = suite.task.memory();
    let none = |_| Error::NoMem { what: "bytes of the task's memory", limit: memory.left() };
    let wrong: &'static AtomicU32 = memory.place(AtomicU32::new(0)).map_err(none)?;
    for (hart, share) in shares.iter().enumerate().skip(1) {
        let share = share.clone();
        let thread = memory.place(move |_: &'static Task| work(&share, wrong)).map_err(none)?;
        suite.that("a thread starts", suite.task.spawn(hart, thread).is_ok());
    }
    work(&shares[0], wrong);
    (1..threads).for_each(|hart| suite.task.join(hart));
    suite.equal("rounds of all threads that went wrong", wrong.load(Relaxed), 0);
    for share in &shares {
        share.own.free()?;
    }
    common.free()
}

fn work(share: &Share, wrong: &AtomicU32) {
    for round in 0..ROUNDS {
        if !matches!(one_round(share, round), Ok(true)) {
            wrong.fetch_add(1, Relaxed);
        }
    }
}

/// Neighbours exchange in the thread's own communicator, then in the common one, told apart by tags; then all sum up.
fn one_round(share: &Share, round: u32) -> Result<bool, Error> {
    let Share { own, common, memory, number } = share;
    let (rank, size) = (own.rank(), own.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    let word = |at: usize| Data::of::<u32>(memory, 8 * at, 1);
    let (out, into) = (word(0)?, word(1)?);
    let read = |data: &Data| {
        let mut value = [0u32];
        data.read(&mut value).map(|()| value[0])
    };
    out.write(&[rank + 1000 * round])?;
    own.sendrecv(&out, next as i32, round as i32, &into, before as i32, ANY_TAG)?;
    let mut good = read(&into)? == before + 1000 * round;
    let tag = *number as i32;
    common.sendrecv(&out, before as i32, tag, &into, next as i32, tag)?;
    good &= read(&into)? == next + 1000 * round;
    own.allreduce(&out, &into, Op::Sum)?;
    good &= read(&into)? == size * (size - 1) / 2 + 1000 * round * size;
    Ok(good)
}
