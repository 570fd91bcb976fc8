//! A partitioned global address space by the `shmem` module: everything that it can do, with checks.
//!
//! In SMP mode each hart of a task has a context of the library's own; in virtual-node mode a task is one hart.
#![no_std]
#![no_main]

mod exercise;

use core::fmt::Write;
use exercise::Tally;
use kernel::{JobError, Task};
use shmem::{Error, Settings, Shmem, Sym};
use spin::Mutex;

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let harts = task.harts().min(task.contexts().into());
    let shmem = Shmem::init(task, Settings { contexts: harts as u8, ..Settings::default() })?;
    let mut tally = exercise::exercise(&shmem)?;
    let (words, counter) = (shmem.calloc::<u64>(2 * harts)?, shmem.calloc::<u64>(1)?);
    let others: &'static Mutex<Result<Tally, Error>> =
        task.memory().place(Mutex::new(Ok(Tally::default())))?;
    for hart in 1..harts {
        let work = task.memory().place(move |_: &'static Task| {
            let done = on_hart(shmem, words, counter, hart);
            let mut sum = others.lock();
            *sum = (*sum).and_then(|sum| Ok(sum.and(done?)));
        })?;
        task.spawn(hart, work)?;
    }
    let first = on_hart(shmem, words, counter, 0);
    (1..harts).for_each(|hart| task.join(hart));
    tally = tally.and(first?).and((*others.lock())?);
    shmem.barrier_all()?;
    let mut count = [0];
    shmem.read(counter, &mut count)?;
    tally = tally.and(Tally { checks: 1, wrong: u64::from(count != [shmem.n_pes() as u64 * harts as u64]) });
    let sums = shmem.calloc::<u64>(2)?;
    shmem.write(sums, &[tally.checks, tally.wrong])?;
    shmem.sum_reduce(&shmem.team_world(), sums, sums)?;
    let mut all = [0; 2];
    shmem.read(sums, &mut all)?;
    let [checks, wrong] = all;
    if shmem.my_pe() == 0 {
        let mut line = heapless::String::<160>::new();
        let pes = shmem.n_pes();
        let _ = write!(line, "shmem: {checks} checks by {pes} PEs of {harts} threads, {wrong} wrong");
        defmt::println!("{=str}", line.as_str());
    }
    shmem.finalize()?;
    if wrong == 0 { Ok(()) } else { Err(JobError::Other("something came out wrong")) }
}

/// What each hart does on its own context.
fn on_hart(shmem: Shmem<Task>, words: Sym<u64>, counter: Sym<u64>, hart: usize) -> Result<Tally, Error> {
    let short = Error::Short { has: words.len(), wanted: 2 * hart + 2 };
    let (mine, room) = (words.at(2 * hart).ok_or(short)?, words.at(2 * hart + 1).ok_or(short)?);
    exercise::on_context(&shmem.on_context(hart as u8)?, mine, room, counter)
}
