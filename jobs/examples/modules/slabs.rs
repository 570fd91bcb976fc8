//! ARMCI's traffic: puts round a ring, sums that two neighbours add to, and a counter of task 0.

use super::book::{Book, told};
use super::settings::Armci;
use armci::{GlobalAddress, Group, Handle, Local, Scale};
use kernel::{JobError, Shared, Task};

/// Words that are put, and elements that are added.
const WORDS: usize = 3000;
const ELEMENTS: usize = 64;
/// Places in each task's part of the slab: the counter, the sums, what is put.
const COUNTER: u32 = 0;
const SUMS: u32 = 64;
const PUT: u32 = SUMS + (ELEMENTS * size_of::<f64>()) as u32;
const BYTES: u32 = PUT + (WORDS * size_of::<u64>()) as u32;
const WORD: usize = size_of::<u64>();
/// What contributions are scaled by.
const SCALE: f64 = 0.5;

/// One task's part.
pub struct Slabs {
    armci: Armci,
    world: Group,
    addresses: &'static [GlobalAddress],
    slab: Shared,
    out: Shared,
    handles: [Option<Handle>; 3],
    /// Rounds so far.
    rounds: u32,
}

fn value(task: u32, round: u32, at: usize) -> u64 {
    (u64::from(task) << 40) ^ (u64::from(round) << 20) ^ at as u64
}

/// What a task adds in a round, before it is scaled: sums of halves of these are exact.
fn share(task: u32, round: u32, at: usize) -> f64 {
    f64::from(task) + f64::from(round) * 3.0 + at as f64
}

impl Slabs {
    pub fn new(task: &'static Task, armci: Armci) -> Result<Self, JobError> {
        let world = armci.world();
        let none = || GlobalAddress { task: 0, offset: 0 };
        let addresses = task.memory().fill(task.tasks() as usize, none)?;
        armci.malloc(&world, BYTES, addresses).map_err(told)?;
        let slab = armci.slab().map_err(told)?;
        let out = task.memory().buffer((WORDS + ELEMENTS) * WORD)?.share();
        let slabs = Self { armci, world, addresses, slab, out, handles: Default::default(), rounds: 0 };
        let mine = slabs.mine();
        for at in (0..BYTES as usize).step_by(WORD) {
            slabs.write(&slabs.slab, mine + at, 0)?;
        }
        slabs.armci.barrier(&slabs.world).map_err(told)?;
        Ok(slabs)
    }

    /// Where this task's part begins in its slab.
    fn mine(&self) -> usize {
        self.addresses[self.armci.task() as usize].offset as usize
    }

    fn write(&self, memory: &Shared, at: usize, word: u64) -> Result<(), JobError> {
        memory.write(at, &word.to_ne_bytes()).map_err(|_| JobError::Other("a word outside its memory"))
    }

    fn read(&self, at: u32) -> Result<u64, JobError> {
        let mut word = [0; WORD];
        let read = self.slab.read(self.mine() + at as usize, &mut word);
        read.map_err(|_| JobError::Other("a word outside its memory"))?;
        Ok(u64::from_ne_bytes(word))
    }

    /// A place in the part of the task that many after this one.
    fn after(&self, distance: u32, at: u32) -> GlobalAddress {
        let there = (self.armci.task() + distance) % self.armci.tasks();
        let GlobalAddress { task, offset } = self.addresses[there as usize];
        GlobalAddress { task, offset: offset + at }
    }

    /// Begins a round: a put to the next task, and to it and the one behind it something to add.
    pub fn begin(&mut self) -> Result<(), JobError> {
        let (task, round) = (self.armci.task(), self.rounds);
        for at in 0..WORDS {
            self.write(&self.out, at * WORD, value(task, round, at))?;
        }
        for at in 0..ELEMENTS {
            self.write(&self.out, (WORDS + at) * WORD, share(task, round, at).to_bits())?;
        }
        let put = Local::new(&self.out, 0);
        let put = self.armci.put_nb(put, self.after(1, PUT), (WORDS * WORD) as u32).map_err(told)?;
        let add = |distance| {
            let from = Local::new(&self.out, WORDS * WORD);
            let bytes = (ELEMENTS * WORD) as u32;
            self.armci.accumulate_nb(Scale::F64(SCALE), from, self.after(distance, SUMS), bytes).map_err(told)
        };
        self.handles = [Some(put), Some(add(1)?), Some(add(2)?)];
        Ok(())
    }

    /// Makes progress; true if this task's memory may be used again.
    pub fn test(&mut self) -> Result<bool, JobError> {
        for handle in self.handles.iter().flatten() {
            if !self.armci.test(handle).map_err(told)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the round when all tasks have, and looks at what has come.
    pub fn finish(&mut self, book: &Book) -> Result<(), JobError> {
        for handle in self.handles.iter_mut().filter_map(Option::take) {
            self.armci.wait(handle).map_err(told)?;
        }
        self.armci.fetch_and_add::<i64>(self.counter(), 1).map_err(told)?;
        self.armci.barrier(&self.world).map_err(told)?;
        let (task, tasks, round) = (self.armci.task(), self.armci.tasks(), self.rounds);
        self.rounds += 1;
        let [previous, one_before] = [1, 2].map(|distance| (task + 2 * tasks - distance) % tasks);
        let mut good = true;
        for at in 0..WORDS {
            good &= self.read(PUT + (at * WORD) as u32)? == value(previous, round, at);
        }
        book.check(good, "what was put is there behind a barrier");
        let mut good = true;
        for at in 0..ELEMENTS {
            let shares = (0..=round).map(|round| share(previous, round, at) + share(one_before, round, at));
            let expected = SCALE * shares.sum::<f64>();
            good &= self.read(SUMS + (at * WORD) as u32)? == expected.to_bits();
        }
        book.check(good, "sums hold what both neighbours added");
        let count = self.armci.fetch_and_add::<i64>(self.counter(), 0).map_err(told)?;
        book.check(count == i64::from(tasks * self.rounds), "every task was counted in every round");
        self.armci.barrier(&self.world).map_err(told)
    }

    fn counter(&self) -> GlobalAddress {
        let GlobalAddress { task, offset } = self.addresses[0];
        GlobalAddress { task, offset: offset + COUNTER }
    }

    /// One round alone.
    pub fn round(&mut self, book: &Book) -> Result<(), JobError> {
        self.begin()?;
        self.finish(book)
    }

    /// Ends ARMCI.
    pub fn end(self) -> Result<(), JobError> {
        self.armci.free(&self.world, self.addresses[self.armci.task() as usize]).map_err(told)?;
        self.armci.finalize().map_err(told)
    }
}
