//! Counts checks, and names those that fail.

use super::desk::Desk;
use core::cell::Cell;
use core::fmt::Debug;
use kernel::{Buffer, JobError, Shared, Task};
use mpi::{Communicator, Data, Mpi, Native};

pub type Library = Mpi<Task>;
pub type Comm = Communicator<Task>;

/// One task's share of the suite.
pub struct Suite {
    pub task: &'static Task,
    pub mpi: Library,
    pub world: Comm,
    /// The world's.
    pub rank: i32,
    pub size: i32,
    pub desk: Desk,
    chapter: Cell<&'static str>,
    checks: Cell<u32>,
    failed: Cell<u32>,
}

/// What a chapter returns; an error counts as a check that failed.
pub type Outcome = Result<(), mpi::Error>;

impl Suite {
    pub fn new(task: &'static Task, mpi: Library) -> Result<Self, mpi::Error> {
        let world = mpi.world();
        let (rank, size) = (world.rank() as i32, world.size() as i32);
        let zero = || Cell::new(0);
        let (desk, chapter) = (Desk::new(task)?, Cell::new(""));
        Ok(Self { task, mpi, world, rank, size, desk, chapter, checks: zero(), failed: zero() })
    }

    /// Runs a chapter.
    pub fn chapter(&self, name: &'static str, run: fn(&Self) -> Outcome) {
        self.chapter.set(name);
        let (start, before) = (self.task.now_ns(), self.checks.get());
        if let Err(error) = run(self) {
            self.fail("no error", &error);
        }
        if self.rank == 0 {
            let ms = (self.task.now_ns() - start) / 1_000_000;
            defmt::println!(
                "{=str}: {=u32} checks at task 0, {=u64} ms",
                name,
                self.checks.get() - before,
                ms
            );
        }
    }

    fn fail(&self, name: &str, got: &dyn Debug) {
        self.checks.set(self.checks.get() + 1);
        self.failed.set(self.failed.get() + 1);
        let mut text = heapless::String::<160>::new();
        // What does not fit is cut off.
        let _ = core::fmt::write(&mut text, format_args!("{got:?}"));
        let (task, chapter) = (self.rank, self.chapter.get());
        defmt::error!("task {=i32}: {=str}: {=str}: it is {=str}", task, chapter, name, text.as_str());
    }

    /// A check: `holds`.
    pub fn that(&self, name: &str, holds: bool) {
        self.equal(name, holds, true);
    }

    /// A check: `got` is `wanted`.
    pub fn equal<T: PartialEq + Debug>(&self, name: &str, got: T, wanted: T) {
        if got == wanted {
            self.checks.set(self.checks.get() + 1);
        } else {
            self.fail(name, &got);
        }
    }

    /// Says how many checks there were; an error if some failed.
    pub fn end(&self) -> Result<(), JobError> {
        let (checks, failed) = (self.checks.get(), self.failed.get());
        defmt::println!("task {=i32}: {=u32} checks, {=u32} failed", self.rank, checks, failed);
        if failed > 0 { Err(JobError::Other("checks failed")) } else { Ok(()) }
    }

    /// Memory of so many bytes, all 0.
    pub fn memory(&self, len: usize) -> Result<Shared, mpi::Error> {
        let none = mpi::Error::NoMem { what: "bytes of the task's memory", limit: self.task.memory().left() };
        self.task.memory().buffer(len).map(Buffer::share).map_err(|_| none)
    }

    /// Room for so many numbers, all 0.
    pub fn room<T: Native>(&self, count: usize) -> Result<Data, mpi::Error> {
        Ok(Data::all::<T>(&self.memory(count * size_of::<T>())?))
    }

    /// Data that holds these numbers.
    pub fn numbers<T: Native>(&self, values: &[T]) -> Result<Data, mpi::Error> {
        let data = self.room::<T>(values.len())?;
        data.write(values)?;
        Ok(data)
    }

    /// The first numbers that some data holds.
    pub fn values<T: Native + Default, const COUNT: usize>(
        &self,
        data: &Data,
    ) -> Result<[T; COUNT], mpi::Error> {
        let mut values = [T::default(); COUNT];
        data.read(&mut values)?;
        Ok(values)
    }

    /// The next rank of the world, and the one before.
    pub fn neighbours(&self) -> (i32, i32) {
        ((self.rank + 1) % self.size, (self.rank + self.size - 1) % self.size)
    }
}
