//! The machine of the jobs over MPI: groups are communicators. MPI sends and receives a benchmark's own arrays, where they lie
//! (SPEC Q-3).

use super::job::say;
use super::machine::{Machine, Tasks};
use super::threads::on_threads;
use core::fmt::Arguments;
use kernel::{JobError, Shared, Task};
use mpi::{Blocks, Communicator, Data, Error, IN_PLACE, Mpi, Native, Op, Settings, Threads};
use zerocopy::{FromBytes, IntoBytes};

/// Tag of exchanges.
const EXCHANGE: i32 = 1;

/// One process of the benchmark.
pub struct Processes {
    task: &'static Task,
    world: Communicator<Task>,
    /// Counts and displacements of what goes, and of what comes.
    counts: [&'static mut [usize]; 2],
    displacements: [&'static mut [isize]; 2],
}

/// What MPI says is printed; the job's error has no room for it.
fn failed(error: impl core::fmt::Display) -> JobError {
    defmt::error!("MPI: {}", defmt::Display2Format(&error));
    JobError::Other("an MPI call did not end well")
}

impl Processes {
    /// Initialises MPI.
    pub fn new(task: &'static Task) -> Result<Self, JobError> {
        let mpi = Mpi::init_thread(task, Settings::default(), Threads::Funneled).map_err(failed)?;
        let (memory, tasks) = (task.memory(), task.tasks() as usize);
        Ok(Self {
            task,
            world: mpi.world(),
            counts: [memory.slice(tasks)?, memory.slice(tasks)?],
            displacements: [memory.slice(tasks)?, memory.slice(tasks)?],
        })
    }
}

/// Has `work` done on values where they lie, as data of the first `count` of them.
fn lend<T, R>(
    values: &mut [T],
    count: usize,
    work: impl FnOnce(&Data) -> Result<R, Error>,
) -> Result<R, Error>
where
    T: Native + IntoBytes + FromBytes,
{
    Shared::scope(values.as_mut_bytes(), |memory| work(&Data::of::<T>(memory, 0, count)?))
}

fn sum_of<T>(group: &Communicator<Task>, values: &mut [T]) -> Result<(), JobError>
where
    T: Native + IntoBytes + FromBytes,
{
    let count = values.len();
    lend(values, count, |all| group.allreduce(IN_PLACE, all, Op::Sum)).map_err(failed)
}

fn all_to_all_of<T>(group: &Communicator<Task>, send: &mut [T], received: &mut [T]) -> Result<(), JobError>
where
    T: Native + IntoBytes + FromBytes,
{
    let block = send.len() / group.size() as usize;
    lend(send, block, |from| lend(received, block, |into| group.alltoall(from, into))).map_err(failed)
}

/// Writes counts down, and the displacements of blocks that follow each other. Returns the sum of the counts.
fn follow(lens: impl Iterator<Item = usize>, counts: &mut [usize], displacements: &mut [isize]) -> usize {
    let mut next = 0;
    for ((len, count), displacement) in lens.zip(counts).zip(displacements) {
        (*count, *displacement) = (len, next as isize);
        next += len;
    }
    next
}

impl Machine for Processes {
    type Group = Communicator<Task>;
    type Error = JobError;

    fn task(&self) -> usize {
        self.world.rank() as usize
    }

    fn tasks(&self) -> usize {
        self.world.size() as usize
    }

    fn now_ns(&self) -> u64 {
        self.task.now_ns()
    }

    fn say(&self, line: Arguments) {
        say(self.task, line);
    }

    fn reals(&mut self, len: usize) -> Result<&'static mut [f64], JobError> {
        Ok(self.task.memory().slice(len)?)
    }

    fn indices(&mut self, len: usize) -> Result<&'static mut [u32], JobError> {
        Ok(self.task.memory().slice(len)?)
    }

    fn on_threads<T: Send + 'static>(
        &mut self,
        work: impl Fn(usize, usize) -> T + Send + Sync + 'static,
        take: impl FnMut(T),
    ) -> Result<(), JobError> {
        on_threads(self.task, work, take)
    }

    fn group(&mut self, tasks: Tasks) -> Result<Self::Group, JobError> {
        if tasks == Tasks::all(Machine::tasks(self)) {
            return Ok(self.world);
        }
        // Tasks that make groups at the same time make such that do not meet: their first members tell them apart.
        let (color, key) = (tasks.first as i32, tasks.rank(Machine::task(self)) as i32);
        let group = self.world.split(color, key).map_err(failed)?;
        group.ok_or(JobError::Other("a task is in no group of its own"))
    }

    fn barrier(&mut self, group: &Self::Group) -> Result<(), JobError> {
        group.barrier().map_err(failed)
    }

    fn sum(&mut self, group: &Self::Group, values: &mut [f64]) -> Result<(), JobError> {
        sum_of(group, values)
    }

    fn sum_indices(&mut self, group: &Self::Group, values: &mut [u32]) -> Result<(), JobError> {
        sum_of(group, values)
    }

    fn all_gather(&mut self, group: &Self::Group, mine: &mut [f64], all: &mut [f64]) -> Result<(), JobError> {
        let block = mine.len();
        lend(mine, block, |from| lend(all, block, |into| group.allgather(from, into))).map_err(failed)
    }

    fn all_to_all(
        &mut self,
        group: &Self::Group,
        send: &mut [f64],
        received: &mut [f64],
    ) -> Result<(), JobError> {
        all_to_all_of(group, send, received)
    }

    fn all_to_all_indices(
        &mut self,
        group: &Self::Group,
        send: &mut [u32],
        starts: &[usize],
        received: &mut [u32],
    ) -> Result<usize, JobError> {
        let size = group.size() as usize;
        // First everybody is told how much comes.
        let lens = starts.windows(2).map(|pair| pair[1] - pair[0]);
        let going = self.indices(size)?;
        going.iter_mut().zip(lens.clone()).for_each(|(word, len)| *word = len as u32);
        let coming = self.indices(size)?;
        all_to_all_of(group, going, coming)?;
        let [out, back] = &mut self.counts;
        let [out_at, back_at] = &mut self.displacements;
        let sent = follow(lens, out, out_at);
        let total = follow(coming.iter().map(|&len| len as usize), back, back_at);
        let room = received.get_mut(..total);
        let room = room.ok_or(JobError::Other("more values came than a task has room for"))?;
        let [out, back] = &self.counts;
        let [out_at, back_at] = &self.displacements;
        lend(&mut send[starts[0]..starts[size]], sent, |data| {
            let from = Blocks { data, counts: &out[..size], displacements: &out_at[..size] };
            lend(room, total, |data| {
                let into = Blocks { data, counts: &back[..size], displacements: &back_at[..size] };
                group.alltoallv(Some(from), into)
            })
        })
        .map_err(failed)?;
        Ok(total)
    }

    fn exchange(&mut self, partner: usize, send: &mut [f64], received: &mut [f64]) -> Result<(), JobError> {
        let (sent, room, partner) = (send.len(), received.len(), partner as i32);
        lend(send, sent, |from| {
            lend(received, room, |into| self.world.sendrecv(from, partner, EXCHANGE, into, partner, EXCHANGE))
        })
        .map_err(failed)?;
        Ok(())
    }
}
