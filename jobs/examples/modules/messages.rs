//! MPI's traffic: messages round a ring by each protocol, and a sum over all.

use super::book::{Book, told};
use super::settings::Mpi;
use kernel::{JobError, Shared, Task};
use mpi::{Communicator, Data, Op, Request};

/// Words of the messages: far below the eager limit, above it, in many packets.
const WORDS: [usize; 3] = [1, 600, 4000];
const MOST: usize = 4000;
/// Words of the sum.
const SUM: usize = 16;

/// One task's part.
pub struct Messages {
    mpi: Mpi,
    world: Communicator<Task>,
    /// A communicator on MPI's other context.
    copy: Communicator<Task>,
    out: [Shared; WORDS.len()],
    into: [Shared; WORDS.len()],
    mine: Shared,
    sum: Shared,
    requests: [Request; 2 * WORDS.len() + 1],
}

/// What task `rank` sends at place `at` of its message number `kind` in a round.
fn value(rank: u32, round: u32, kind: usize, at: usize) -> u64 {
    (u64::from(rank) << 40) ^ (u64::from(round) << 24) ^ ((kind as u64) << 20) ^ at as u64
}

impl Messages {
    pub fn new(task: &'static Task, mpi: Mpi) -> Result<Self, JobError> {
        let world = mpi.world();
        let copy = world.dup().map_err(told)?;
        let room = || Ok::<_, JobError>(task.memory().buffer(MOST * size_of::<u64>())?.share());
        let rooms = || Ok::<_, JobError>([room()?, room()?, room()?]);
        let (out, into, mine, sum) = (rooms()?, rooms()?, room()?, room()?);
        Ok(Self { mpi, world, copy, out, into, mine, sum, requests: [Request::NULL; 2 * WORDS.len() + 1] })
    }

    /// Begins a round's messages and its sum.
    pub fn begin(&mut self, round: u32) -> Result<(), JobError> {
        let (rank, size) = (self.world.rank(), self.world.size());
        let [next, previous] = [(rank + 1) % size, (rank + size - 1) % size].map(|rank| rank as i32);
        for (kind, &words) in WORDS.iter().enumerate() {
            let comm = if kind % 2 == 0 { self.world } else { self.copy };
            let into = Data::of::<u64>(&self.into[kind], 0, words).map_err(told)?;
            let out = Data::of::<u64>(&self.out[kind], 0, words).map_err(told)?;
            for at in 0..words {
                out.part(at, 1).and_then(|one| one.write(&[value(rank, round, kind, at)])).map_err(told)?;
            }
            self.requests[2 * kind] = comm.irecv(&into, previous, kind as i32).map_err(told)?;
            self.requests[2 * kind + 1] = comm.isend(&out, next, kind as i32).map_err(told)?;
        }
        let mine = Data::of::<i64>(&self.mine, 0, SUM).map_err(told)?;
        let sum = Data::of::<i64>(&self.sum, 0, SUM).map_err(told)?;
        mine.write(&[i64::from(rank + round); SUM]).map_err(told)?;
        self.requests[2 * WORDS.len()] = self.copy.iallreduce(&mine, &sum, Op::Sum).map_err(told)?;
        Ok(())
    }

    /// Makes progress; true if the round's messages and sum are complete.
    pub fn test(&mut self) -> Result<bool, JobError> {
        self.mpi.test_all(&mut self.requests, &mut []).map_err(told)
    }

    /// Waits for the round's messages and sum.
    pub fn wait(&mut self) -> Result<(), JobError> {
        self.mpi.wait_all(&mut self.requests, &mut []).map_err(told)
    }

    /// What has come is what was sent.
    pub fn check(&self, book: &Book, round: u32) -> Result<(), JobError> {
        let (rank, size) = (self.world.rank(), self.world.size());
        let previous = (rank + size - 1) % size;
        for (kind, &words) in WORDS.iter().enumerate() {
            let into = Data::of::<u64>(&self.into[kind], 0, words).map_err(told)?;
            let mut good = true;
            for at in 0..words {
                let mut one = [0];
                into.part(at, 1).and_then(|part| part.read(&mut one)).map_err(told)?;
                good &= one[0] == value(previous, round, kind, at);
            }
            book.check(good, "an MPI message holds what its sender sent");
        }
        let mut sums = [0; SUM];
        Data::of::<i64>(&self.sum, 0, SUM).and_then(|sum| sum.read(&mut sums)).map_err(told)?;
        let expected = (0..size).map(|rank| i64::from(rank + round)).sum::<i64>();
        book.check(sums == [expected; SUM], "MPI's sum is that of all");
        Ok(())
    }

    /// One round alone.
    pub fn round(&mut self, book: &Book, round: u32) -> Result<(), JobError> {
        self.begin(round)?;
        self.wait()?;
        self.check(book, round)
    }

    /// Ends MPI.
    pub fn end(self) -> Result<(), JobError> {
        self.copy.free().map_err(told)?;
        self.mpi.finalize().map_err(told)
    }
}
