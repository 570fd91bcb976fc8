//! What one thread does with all tasks, each in an area that it has in the slab there.

use armci::{Error, GlobalAddress, Library, Local, OutOfMemory, Scale, Shape};
use kernel::{Shared, Task};

/// Bytes of a thread's area: data, sums, words.
pub const AREA: u32 = DATA + 1024 + 64;
const DATA: u32 = 8192;
/// What all threads of all tasks add to.
const SUMS: u32 = DATA;
/// Where among them numbers of 64 bits begin.
const DOUBLES: usize = 512;
/// The words behind: a flag, a counter, one that a mutex guards.
const FLAG: u32 = DATA + 1024;
const COUNTER: u32 = FLAG + 8;
const GUARDED: u32 = FLAG + 16;
/// Times that the mutex is taken by each thread.
const TURNS: u64 = 3;

/// Checks, and how many of them went wrong.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub checks: i64,
    pub wrong: i64,
}

impl Tally {
    pub fn and(self, other: Self) -> Self {
        Self { checks: self.checks + other.checks, wrong: self.wrong + other.wrong }
    }

    fn check(&mut self, good: bool) {
        self.checks += 1;
        self.wrong += i64::from(!good);
    }
}

pub struct Exercise<'a> {
    library: Library<Task>,
    /// By task: the first of the areas there.
    areas: &'a [GlobalAddress],
    /// Number of this thread among all of the job.
    number: usize,
    source: Shared,
    into: Shared,
    tally: Tally,
}

fn byte(at: usize, seed: usize) -> u8 {
    (at.wrapping_mul(7) ^ (at >> 8) ^ seed.wrapping_mul(29)) as u8
}

impl<'a> Exercise<'a> {
    pub fn new(
        library: Library<Task>,
        task: &'static Task,
        areas: &'a [GlobalAddress],
        hart: usize,
        harts: usize,
    ) -> Result<Self, Error> {
        let memory = |what, bytes| {
            let buffer = task.memory().buffer(bytes as usize);
            Ok::<_, Error>(buffer.map_err(|_| OutOfMemory { what, bytes: bytes as usize })?.share())
        };
        let number = task.number() as usize * harts + hart;
        Ok(Self {
            library,
            areas,
            number,
            source: memory("what is put", DATA)?,
            into: memory("what is got", DATA)?,
            tally: Tally::default(),
        })
    }

    /// Goes through everything with each task, the next one first.
    pub fn run(mut self) -> Result<Tally, Error> {
        for step in 1..=self.areas.len() {
            let other = (self.library.task() as usize + step) % self.areas.len();
            let area = self.place(other, self.number * AREA as usize)?;
            self.contiguous(area)?;
            self.strided(area)?;
            self.vector(area)?;
            self.ordered(area)?;
            self.updates(area)?;
            self.add_up(other)?;
            self.guarded(other)?;
        }
        self.implicit()?;
        self.library.all_fence()?;
        Ok(self.tally)
    }

    fn place(&self, task: usize, offset: usize) -> Result<GlobalAddress, Error> {
        self.areas[task].checked_add(offset as u32).ok_or(Error::TooLong)
    }

    fn fill(&self, seed: usize) {
        for at in 0..DATA as usize {
            let _ = self.source.write(at, &[byte(at, seed)]);
        }
    }

    fn clear(&self) {
        for at in (0..DATA as usize).step_by(64) {
            let _ = self.into.write(at, &[0; 64]);
        }
    }

    /// Whether `len` bytes got at `at` are those that lay at `from`.
    fn is_pattern(&self, at: usize, from: usize, len: usize, seed: usize) -> bool {
        (0..len).all(|n| {
            let mut seen = [0];
            self.into.read(at + n, &mut seen).is_ok() && seen[0] == byte(from + n, seed)
        })
    }

    fn contiguous(&mut self, area: GlobalAddress) -> Result<(), Error> {
        let (library, source, into) = (self.library, self.source.clone(), self.into.clone());
        for len in [1, 63, 1000, DATA] {
            self.fill(len as usize);
            self.clear();
            library.put(Local::new(&source, 0), area, len)?;
            library.get(area, Local::new(&into, 0), len)?;
            let good = self.is_pattern(0, 0, len as usize, len as usize);
            self.tally.check(good);
        }
        // Data, then the flag behind it.
        let flag = area.checked_add(FLAG).ok_or(Error::TooLong)?;
        library.put_flag(Local::new(&source, 0), area, 256, flag, 1i64)?;
        let was = library.swap(flag, 0i64)?;
        self.tally.check(was == 1);
        Ok(())
    }

    /// Boxes of 4 x 3 x 2 rows, one after the other in local memory.
    fn strided(&mut self, area: GlobalAddress) -> Result<(), Error> {
        let (library, source, into) = (self.library, self.source.clone(), self.into.clone());
        let (count, dense, spread) = ([12, 4, 3, 2], [12, 48, 144], [20, 200, 1000]);
        self.fill(3);
        self.clear();
        let there = Shape::Strided { count: &count, local: &dense, remote: &spread };
        let put = library.put_nb(Local::new(&source, 0), area, there)?;
        library.wait(put)?;
        library.get(area, Local::new(&into, 0), there)?;
        let good = self.is_pattern(0, 0, 288, 3);
        self.tally.check(good);
        // The same box as it lies there.
        let plain = library.get_nb(area, Local::new(&into, 0), 2000)?;
        library.wait(plain)?;
        for row in 0..24 {
            let (x, y, z) = (row % 4, row / 4 % 3, row / 12);
            let good = self.is_pattern(20 * x + 200 * y + 1000 * z, 12 * row, 12, 3);
            self.tally.check(good);
        }
        Ok(())
    }

    fn vector(&mut self, area: GlobalAddress) -> Result<(), Error> {
        let (library, source, into) = (self.library, self.source.clone(), self.into.clone());
        let places = [(0, 4000), (100, 96), (7, 5000), (1000, 2001)];
        let shape = Shape::Vector { bytes: 50, places: &places };
        self.fill(4);
        self.clear();
        library.put(Local::new(&source, 0), area, shape)?;
        library.get(area, Local::new(&into, 0), shape)?;
        for (at, _) in places {
            let good = self.is_pattern(at as usize, at as usize, 50, 4);
            self.tally.check(good);
        }
        Ok(())
    }

    /// Accumulate, put, accumulate, get: each sees what was before it.
    fn ordered(&mut self, area: GlobalAddress) -> Result<(), Error> {
        let (library, source, into) = (self.library, self.source.clone(), self.into.clone());
        for at in (0..4096).step_by(8) {
            let _ = source.write(at, &2.5f64.to_le_bytes());
        }
        let from = Local::new(&source, 0);
        library.accumulate(Scale::F64(3.0), from, area, 4096)?;
        library.put(from, area, 4096)?;
        let handle = library.accumulate_nb(Scale::F64(-2.0), from, area, 4096)?;
        library.wait(handle)?;
        library.get(area, Local::new(&into, 0), 4096)?;
        let good = (0..4096).step_by(8).all(|at| {
            let mut seen = [0; 8];
            into.read(at, &mut seen).is_ok() && f64::from_le_bytes(seen) == -2.5
        });
        self.tally.check(good);
        Ok(())
    }

    fn updates(&mut self, area: GlobalAddress) -> Result<(), Error> {
        let (library, word) = (self.library, area.checked_add(COUNTER).ok_or(Error::TooLong)?);
        let half = word.checked_add(4).ok_or(Error::TooLong)?;
        let seen = [
            library.swap(word, 5i64)? == 0,
            library.fetch_and_add(word, -7i64)? == 5,
            library.compare_and_swap(word, -2i64, i64::MAX)? == -2,
            library.compare_and_swap(word, -2i64, 1i64)? == i64::MAX,
            library.fetch_and_add(half, 1i32)? == i32::MAX,
            library.swap(half, 9i32)? == i32::MIN,
            library.swap(word, 0i64)? == 9 << 32 | 0xffff_ffff,
        ];
        seen.into_iter().for_each(|good| self.tally.check(good));
        Ok(())
    }

    /// Every thread adds to the sums of every task.
    fn add_up(&mut self, task: usize) -> Result<(), Error> {
        let source = self.source.clone();
        for at in (0..DOUBLES).step_by(4) {
            let _ = source.write(at, &(at as i32).to_le_bytes());
        }
        for at in (DOUBLES..1024).step_by(8) {
            let _ = source.write(at, &(at as f64).to_le_bytes());
        }
        let (sums, doubles) = (self.place(task, SUMS as usize)?, self.place(task, SUMS as usize + DOUBLES)?);
        self.library.accumulate(Scale::I32(2), Local::new(&source, 0), sums, DOUBLES as u32)?;
        self.library.accumulate(Scale::F64(2.0), Local::new(&source, DOUBLES), doubles, 1024 - DOUBLES as u32)
    }

    /// A word that is read and written by one at a time.
    fn guarded(&mut self, task: usize) -> Result<(), Error> {
        let (library, source, into) = (self.library, self.source.clone(), self.into.clone());
        let word = self.place(task, GUARDED as usize)?;
        for _ in 0..TURNS {
            let held = library.lock(0, task as u32)?;
            library.get(word, Local::new(&into, 0), 8)?;
            let mut old = [0; 8];
            let _ = into.read(0, &mut old);
            let _ = source.write(0, &(u64::from_le_bytes(old) + 1).to_le_bytes());
            library.put(Local::new(&source, 0), word, 8)?;
            library.fence(task as u32)?;
            library.unlock(held)?;
        }
        Ok(())
    }

    /// Puts and gets to all tasks at once.
    fn implicit(&mut self) -> Result<(), Error> {
        let (library, source, into) = (self.library, self.source.clone(), self.into.clone());
        let each = (DATA / self.areas.len() as u32) & !7;
        self.fill(6);
        self.clear();
        for gets in [false, true] {
            for task in 0..self.areas.len() {
                let (at, area) = (task * each as usize, self.place(task, self.number * AREA as usize)?);
                if gets {
                    library.get_implicit(area, Local::new(&into, at), each)?;
                } else {
                    library.put_implicit(Local::new(&source, at), area, each)?;
                }
            }
            library.wait_task(0)?;
            library.wait_all()?;
        }
        let good = self.is_pattern(0, 0, self.areas.len() * each as usize, 6);
        self.tally.check(good);
        Ok(())
    }
}

/// What all threads together made of this task's sums and guarded word.
pub fn check_area(library: &Library<Task>, areas: &[GlobalAddress], harts: usize) -> Result<Tally, Error> {
    let (slab, own) = (library.slab()?, areas[library.task() as usize].offset as usize);
    let (threads, mut tally) = ((areas.len() * harts) as i32, Tally::default());
    for at in (0..DOUBLES).step_by(4) {
        let mut sum = [0; 4];
        let _ = slab.read(own + SUMS as usize + at, &mut sum);
        tally.check(i32::from_le_bytes(sum) == 2 * threads * at as i32);
    }
    for at in (DOUBLES..1024).step_by(8) {
        let mut sum = [0; 8];
        let _ = slab.read(own + SUMS as usize + at, &mut sum);
        tally.check(f64::from_le_bytes(sum) == f64::from(2 * threads) * at as f64);
    }
    let mut word = [0; 8];
    let _ = slab.read(own + GUARDED as usize, &mut word);
    tally.check(u64::from_le_bytes(word) == TURNS * threads as u64);
    Ok(tally)
}
