//! SHMEM's part of the traffic: every PE puts a word to the next one, and counts there behind it.

use super::book::{Book, told};
use kernel::{JobError, Task};
use shmem::{Compare, Settings, Shmem, Sym};

pub struct Words {
    shmem: Shmem<Task>,
    /// What the PE before puts here, and how often it did.
    word: Sym<u64>,
    count: Sym<u64>,
    rounds: u64,
}

impl Words {
    pub fn new(task: &'static Task) -> Result<Self, JobError> {
        let settings = Settings { heap: 64 << 10, polls: 64, ..Settings::default() };
        let shmem = Shmem::init(task, settings).map_err(told)?;
        let (word, count) = (shmem.calloc(1).map_err(told)?, shmem.calloc(1).map_err(told)?);
        Ok(Self { shmem, word, count, rounds: 0 })
    }

    /// One more round goes to the next PE.
    pub fn begin(&mut self) -> Result<(), JobError> {
        let next = (self.shmem.my_pe() + 1) % self.shmem.n_pes();
        self.rounds += 1;
        self.shmem.p(self.word, self.rounds, next).map_err(told)?;
        self.shmem.atomic_inc(self.count, next).map_err(told)
    }

    /// Whether that of the PE before is here.
    pub fn test(&self) -> Result<bool, JobError> {
        self.shmem.test(self.count, Compare::Ge, self.rounds).map_err(told)
    }

    /// It is here. The PE before may be ahead, and nobody waits for it.
    pub fn check(&self, book: &Book) -> Result<(), JobError> {
        let mut word = [0];
        self.shmem.read(self.word, &mut word).map_err(told)?;
        book.check(word[0] >= self.rounds, "SHMEM's word is there before it is counted");
        Ok(())
    }

    /// One round, to its end.
    pub fn round(&mut self, book: &Book) -> Result<(), JobError> {
        self.begin()?;
        self.shmem.wait_until(self.count, Compare::Ge, self.rounds).map_err(told)?;
        self.check(book)
    }

    /// The end of the library: as much has come as was sent.
    pub fn end(self, book: &Book) -> Result<(), JobError> {
        self.shmem.barrier_all().map_err(told)?;
        let mut count = [0];
        self.shmem.read(self.count, &mut count).map_err(told)?;
        book.check(count[0] == self.rounds, "SHMEM counted each round once");
        self.shmem.finalize().map_err(told)
    }
}
