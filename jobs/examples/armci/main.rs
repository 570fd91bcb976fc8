//! One-sided communication by the `armci` module: every kind of it, from every thread to every task, with checks.
//!
//! In SMP mode each hart of a task has a context of the library's own; in virtual-node mode a task is one hart.
#![no_std]
#![no_main]

mod exercise;

use armci::{Error, GlobalAddress, Library, Local, Scale, Settings};
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use exercise::{AREA, Exercise, Tally};
use kernel::{JobError, Task};
use spin::Mutex;

kernel::entry!(main, jobs::USAGE);

/// Most tasks that the job has places for.
const TASKS: usize = 64;

fn main(task: &'static Task) -> Result<(), JobError> {
    match run(task) {
        Ok(true) => Ok(()),
        Ok(false) => Err(JobError::Other("something came out wrong")),
        Err(Failure::Job(error)) => Err(error),
        Err(Failure::Library(error)) => {
            defmt::error!("task {=u32}: {}", task.number(), defmt::Display2Format(&error));
            Err(JobError::Other("the library refused a call"))
        }
    }
}

enum Failure {
    Job(JobError),
    Library(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Self::Job(error)
    }
}

/// What a task's other threads do, and how it went.
struct Threads {
    left: AtomicU32,
    outcome: Mutex<Result<Tally, Error>>,
}

/// Whether everything came out right, at all tasks.
fn run(task: &'static Task) -> Result<bool, Failure> {
    let (tasks, harts) = (task.tasks() as usize, task.harts().min(task.contexts().into()));
    if tasks > TASKS {
        return Err(JobError::Other("armci runs on at most 64 tasks").into());
    }
    let areas = AREA * (tasks * harts) as u32;
    let settings = Settings { contexts: harts as u8, slab: areas + (1 << 16), ..Settings::default() };
    let library = Library::init(task, settings)?;
    let mut addresses = [GlobalAddress::default(); TASKS];
    library.malloc(&library.world(), areas, &mut addresses[..tasks])?;
    library.create_mutexes(1)?;
    let slab = library.slab()?;
    let own = addresses[task.number() as usize].offset as usize;
    for at in (0..areas as usize).step_by(64) {
        let _ = slab.write(own + at, &[0; 64]);
    }
    library.barrier(&library.world())?;
    let threads: &'static Threads = task
        .memory()
        .place(Threads { left: AtomicU32::new(harts as u32 - 1), outcome: Mutex::new(Ok(Tally::default())) })
        .map_err(JobError::from)?;
    for hart in 1..harts {
        let work = task.memory().place(move |task: &'static Task| {
            let tally = exercise(library, task, &addresses, hart, harts);
            let mut outcome = threads.outcome.lock();
            *outcome = match (*outcome, tally) {
                (Ok(sum), Ok(tally)) => Ok(sum.and(tally)),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
            drop(outcome);
            threads.left.fetch_sub(1, SeqCst);
        });
        task.spawn(hart, work.map_err(JobError::from)?).map_err(JobError::from)?;
    }
    let first = exercise(library, task, &addresses, 0, harts);
    while threads.left.load(SeqCst) > 0 {
        library.progress();
    }
    let mut tally = first?.and((*threads.outcome.lock())?);
    library.barrier(&library.world())?;
    tally = tally.and(exercise::check_area(&library, &addresses[..tasks], harts)?);
    let sums = sum(&library, tally)?;
    if task.number() == 0 {
        let mut line = heapless::String::<160>::new();
        let Tally { checks, wrong } = sums;
        let _ = write!(line, "armci: {checks} checks by {tasks} tasks of {harts} threads, {wrong} wrong");
        defmt::println!("{=str}", line.as_str());
    }
    library.destroy_mutexes()?;
    library.free(&library.world(), addresses[task.number() as usize])?;
    library.finalize()?;
    Ok(sums.wrong == 0)
}

fn exercise(
    library: Library<Task>,
    task: &'static Task,
    addresses: &[GlobalAddress; TASKS],
    hart: usize,
    harts: usize,
) -> Result<Tally, Error> {
    let library = library.on_context(hart as u8)?;
    Exercise::new(library, task, &addresses[..task.tasks() as usize], hart, harts)?.run()
}

/// The sum over all tasks, at all tasks.
fn sum(library: &Library<Task>, tally: Tally) -> Result<Tally, Error> {
    let mut sums = [GlobalAddress::default(); TASKS];
    let sums = &mut sums[..library.tasks() as usize];
    library.malloc(&library.world(), 64, sums)?;
    let (slab, own) = (library.slab()?, library.malloc_local(64)?);
    let mine = sums[library.task() as usize].offset as usize;
    let _ = slab.write(mine, &[0; 16]);
    let _ = slab.write(own.offset as usize, &tally.checks.to_le_bytes());
    let _ = slab.write(own.offset as usize + 8, &tally.wrong.to_le_bytes());
    library.barrier(&library.world())?;
    for to in sums.iter() {
        library.accumulate(Scale::I64(1), Local::new(&slab, own.offset as usize), *to, 16)?;
    }
    library.barrier(&library.world())?;
    let mut words = [[0; 8]; 2];
    for (word, at) in words.iter_mut().zip([0, 8]) {
        let _ = slab.read(mine + at, word);
    }
    let [checks, wrong] = words.map(i64::from_le_bytes);
    Ok(Tally { checks, wrong })
}
