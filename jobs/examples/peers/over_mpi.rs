//! The rows over the module `mpi`, by the calls that xtask/peers/mpi.c makes.

use super::mark::{self, EMPTY, NOT_THIS, NOTHING, PROGRESS, SEND, marked, that_was};
use super::{HALVES, RATE_BYTES, WINDOW, Wanted, first, measure, rate, stand_still, tell};
use kernel::{JobError, Shared, Task};
use mpi::{Data, Mpi, Op, Request};
use pami::collective::Collective;

const PING: i32 = 1;
const RATE: i32 = 2;
const ANSWER: i32 = 3;
const STEP: i32 = 4;

struct Side {
    task: &'static Task,
    mpi: Mpi<Task>,
    rank: u32,
    /// Task 0, or the last one.
    other: i32,
    out: Shared,
    into: Shared,
    /// A word for numbers of rounds.
    word: Shared,
}

pub fn run(task: &'static Task, wanted: Wanted) -> Result<(), JobError> {
    let mpi = Mpi::init(task)?;
    let (rank, size) = (mpi.world().rank(), mpi.world().size());
    let longest = wanted.collectives().map(|(_, _, bytes)| bytes * size as usize).max();
    let room = longest.unwrap_or(0).max(if size == 2 { wanted.longest() } else { 0 }).max(64 * RATE_BYTES);
    let memory = task.memory();
    let [out, into, word] =
        [memory.buffer(room)?.share(), memory.buffer(room)?.share(), memory.buffer(8)?.share()];
    let other = if rank == 0 { size as i32 - 1 } else { 0 };
    let mut side = Side { task, mpi, rank, other, out, into, word };
    if rank == 0 || rank + 1 == size {
        side.half(1, 4)?;
    }
    if rank == 0 {
        first();
    }
    if size == 2 {
        for (row, bytes) in HALVES.into_iter().filter(|(row, _)| wanted.has(row)) {
            side.row(row, |side, rounds| side.half(rounds, bytes).map(|ns| ns / 2))?;
        }
        if wanted.has("rate-8") {
            let each = measure(&mut side, Side::rate, Side::agree)?;
            if rank == 0 {
                tell("rate-8", rate(WINDOW, each));
            }
        }
        if wanted.has("stream-8") {
            let each = measure(&mut side, Side::stream, Side::agree)?;
            if rank == 0 {
                tell("stream-8", rate(1, each));
            }
        }
        if wanted.steps() {
            side.steps()?;
        }
    }
    if wanted.names("memory") {
        side.mpi.world().barrier()?;
        if rank == 0 {
            stand_still(task);
        }
        side.mpi.world().barrier()?;
    }
    if wanted.has("barrier") {
        side.row("barrier", |side, rounds| side.times(rounds, |side| Ok(side.mpi.world().barrier()?)))?;
    }
    for (row, what, bytes) in wanted.collectives() {
        // Of an exchange it is a block, of which there is one for each task.
        let (out, into) = (side.out(bytes)?, side.place(bytes)?);
        side.row(row, |side, rounds| {
            let mut round = 0;
            side.times(rounds, |side| {
                round += 1;
                let world = side.mpi.world();
                match what {
                    Collective::Allreduce => world.allreduce(&out, &into, Op::Sum)?,
                    Collective::Broadcast => world.bcast(&into, round % size)?,
                    _ => world.alltoall(&out, &into)?,
                }
                Ok(())
            })
        })?;
    }
    side.mpi.finalize()?;
    Ok(())
}

impl Side {
    /// Words of what is sent.
    fn out(&self, bytes: usize) -> Result<Data, JobError> {
        Ok(Data::of::<u64>(&self.out, 0, bytes / 8)?)
    }

    fn place(&self, bytes: usize) -> Result<Data, JobError> {
        Ok(Data::of::<u64>(&self.into, 0, bytes / 8)?)
    }

    fn row(
        &mut self,
        row: &str,
        batch: impl FnMut(&mut Self, u32) -> Result<u64, JobError>,
    ) -> Result<(), JobError> {
        let each = measure(self, batch, Self::agree)?;
        if self.rank == 0 {
            tell(row, each);
        }
        Ok(())
    }

    fn agree(&mut self, rounds: u32) -> Result<u32, JobError> {
        let word = Data::all::<u64>(&self.word);
        let mut number = [u64::from(rounds)];
        word.write(&number)?;
        self.mpi.world().bcast(&word, 0)?;
        word.read(&mut number)?;
        Ok(number[0] as u32)
    }

    fn times(
        &mut self,
        rounds: u32,
        mut what: impl FnMut(&mut Self) -> Result<(), JobError>,
    ) -> Result<u64, JobError> {
        let start = self.task.now_ns();
        for _ in 0..rounds {
            what(self)?;
        }
        Ok(self.task.now_ns() - start)
    }

    /// Whole round trips.
    fn half(&mut self, rounds: u32, bytes: usize) -> Result<u64, JobError> {
        let (out, into) = (Data::of::<u8>(&self.out, 0, bytes)?, Data::of::<u8>(&self.into, 0, bytes)?);
        self.times(rounds, |side| {
            let world = side.mpi.world();
            if side.rank == 0 {
                world.send(&out, side.other, PING)?;
                world.recv(&into, side.other, PING)?;
            } else {
                world.recv(&into, side.other, PING)?;
                world.send(&out, side.other, PING)?;
            }
            Ok(())
        })
    }

    /// Messages whose requests are used again as they end, and one answer to all.
    fn stream(&mut self, rounds: u32) -> Result<u64, JobError> {
        let parts = self.parts()?;
        let answer = (Data::of::<u8>(&self.out, 0, 4)?, Data::of::<u8>(&self.into, 0, 4)?);
        let mut requests = [Request::NULL; WINDOW as usize];
        let start = self.task.now_ns();
        let world = self.mpi.world();
        for round in 0..rounds {
            let at = (round % WINDOW) as usize;
            self.mpi.wait(&mut requests[at])?;
            requests[at] = if self.rank == 0 {
                world.isend(&parts[at].0, self.other, RATE)?
            } else {
                world.irecv(&parts[at].1, self.other, RATE)?
            };
        }
        self.mpi.wait_all(&mut requests, &mut [])?;
        if self.rank == 0 {
            world.recv(&answer.1, self.other, ANSWER)?;
        } else {
            world.send(&answer.0, self.other, ANSWER)?;
        }
        Ok(self.task.now_ns() - start)
    }

    /// Calls whose instructions are counted from outside. The other task answers.
    fn steps(&mut self) -> Result<(), JobError> {
        let (out, into) = (Data::of::<u8>(&self.out, 0, 8)?, Data::of::<u8>(&self.into, 0, 8)?);
        let (mpi, other) = (&self.mpi, self.other);
        let world = mpi.world();
        let mut incoming = world.irecv(&into, other, STEP)?;
        if self.rank == 0 {
            mark::await_stepper(self.task)?;
        }
        for _ in 0..mark::CALLS {
            if self.rank == 1 {
                // Awake: nobody has to wake it.
                while mpi.test(&mut incoming)?.is_none() {}
                incoming = world.irecv(&into, other, STEP)?;
                world.send(&out, other, STEP)?;
                continue;
            }
            let mut outgoing = marked(|| world.isend(&out, other, STEP))?;
            that_was(SEND);
            mpi.wait(&mut outgoing)?;
            mark::pause_for_a_message(self.task);
            let came = marked(|| mpi.test(&mut incoming))?.is_some();
            that_was(if came { PROGRESS } else { NOT_THIS });
            if !came {
                mpi.wait(&mut incoming)?;
            }
            incoming = world.irecv(&into, other, STEP)?;
            for _ in 0..10 {
                mpi.test(&mut incoming)?;
            }
            let came = marked(|| mpi.test(&mut incoming))?.is_some();
            that_was(if came { NOT_THIS } else { EMPTY });
            marked(|| ());
            that_was(NOTHING);
        }
        if self.rank == 0 {
            mark::over();
        }
        // What both still receive for.
        world.send(&out, other, STEP)?;
        mpi.wait(&mut incoming)?;
        Ok(())
    }

    /// Places of a window's messages: where they are sent from, and received.
    fn parts(&self) -> Result<heapless::Vec<(Data, Data), { WINDOW as usize }>, JobError> {
        let mut parts = heapless::Vec::new();
        for at in (0..WINDOW as usize).map(|at| at * RATE_BYTES) {
            let part = |memory: &Shared| Data::of::<u8>(memory, at, RATE_BYTES);
            let _ = parts.push((part(&self.out)?, part(&self.into)?));
        }
        Ok(parts)
    }

    /// A window of messages, and the answer to it.
    fn rate(&mut self, rounds: u32) -> Result<u64, JobError> {
        let answer = (Data::of::<u8>(&self.out, 0, 4)?, Data::of::<u8>(&self.into, 0, 4)?);
        let parts = self.parts()?;
        let mut requests = [Request::NULL; WINDOW as usize];
        self.times(rounds, |side| {
            let world = side.mpi.world();
            for ((out, into), request) in parts.iter().zip(&mut requests) {
                *request = if side.rank == 0 {
                    world.isend(out, side.other, RATE)?
                } else {
                    world.irecv(into, side.other, RATE)?
                };
            }
            side.mpi.wait_all(&mut requests, &mut [])?;
            if side.rank == 0 {
                world.recv(&answer.1, side.other, ANSWER)?;
            } else {
                world.send(&answer.0, side.other, ANSWER)?;
            }
            Ok(())
        })
    }
}
