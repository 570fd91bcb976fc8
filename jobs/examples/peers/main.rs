//! The rows of `cargo xtask bench peers` as measured here: half round trips, a rate, collectives, over PAMI or over MPI.
//!
//! Beside it other messaging libraries measure the same by programs of xtask/peers, whose lines have the same form: `first` once
//! a message has gone to the last task and back, `row NAME VALUE` in nanoseconds, or in messages per microsecond for a
//! rate. `--rows A,B` are those that are wanted, `--over mpi` takes the module `mpi`. Half round trips and rates are of
//! two tasks. What is looked at from outside is done only if it is named: instructions of calls, and what tasks have of memory when
//! the job says `still`.
#![no_std]
#![no_main]

mod mark;
mod over_mpi;
mod over_pami;

use core::fmt::Write;
use heapless::{String, Vec};
use kernel::{JobError, Task};
use pami::collective::Collective;

kernel::entry!(main, jobs::USAGE);

/// Rows of half round trips, and their bytes.
const HALVES: [(&str, usize); 7] = [
    ("half-0", 0),
    ("half-8", 8),
    ("half-64", 64),
    ("half-1k", 1 << 10),
    ("half-64k", 1 << 16),
    ("half-1m", 1 << 20),
    ("half-16m", 1 << 24),
];
/// Rows of collectives with data, and the bytes of a block; in a broadcast each is the root in its turn, so that nobody runs ahead.
const COLLECTIVES: [(&str, Collective, usize); 6] = [
    ("allreduce-8", Collective::Allreduce, 8),
    ("allreduce-64k", Collective::Allreduce, 1 << 16),
    ("broadcast-8", Collective::Broadcast, 8),
    ("broadcast-64k", Collective::Broadcast, 1 << 16),
    ("alltoall-8", Collective::Alltoall, 8),
    ("alltoall-64k", Collective::Alltoall, 1 << 16),
];
/// Bytes and messages of a round of the rate.
const RATE_BYTES: usize = 8;
const WINDOW: u32 = 64;
/// Rounds of a batch are as many as take so long; of so many batches the median counts.
const BATCH_NS: u64 = 8_000_000;
const BATCHES: usize = 7;
const PILOT: u32 = 20;

/// How long tasks stand still, so that it is seen what memory they have.
const STILL_NS: u64 = 1_000_000_000;

/// Rows that are wanted.
#[derive(Clone, Copy)]
struct Wanted(Option<&'static str>);

impl Wanted {
    fn has(self, row: &str) -> bool {
        self.0.is_none_or(|rows| rows.split(',').any(|wanted| wanted == row))
    }

    /// Whether a row is named that somebody outside has to look at.
    fn names(self, row: &str) -> bool {
        self.0.is_some() && self.has(row)
    }

    /// Whether instructions are counted.
    fn steps(self) -> bool {
        mark::ROWS.into_iter().any(|row| self.names(row))
    }

    /// The rows of collectives.
    fn collectives(self) -> impl Iterator<Item = (&'static str, Collective, usize)> {
        COLLECTIVES.into_iter().filter(move |(row, ..)| self.has(row))
    }

    /// Bytes of the longest message between two.
    fn longest(self) -> usize {
        HALVES.into_iter().filter(|(row, _)| self.has(row)).map(|(_, bytes)| bytes).max().unwrap_or(0)
    }
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let arguments = task.arguments();
    let wanted = Wanted(arguments.word("--rows"));
    if task.tasks() < 2 {
        return Err(JobError::Other("messages want two tasks"));
    }
    match arguments.word("--over") {
        Some("mpi") => over_mpi::run(task, wanted),
        _ => over_pami::run(task, wanted),
    }
}

/// Thousandths of a nanosecond of one round. `batch` does so many rounds, and returns the nanoseconds of all of them;
/// `agree` makes task 0's number everyone's.
fn measure<S>(
    side: &mut S,
    mut batch: impl FnMut(&mut S, u32) -> Result<u64, JobError>,
    agree: impl FnOnce(&mut S, u32) -> Result<u32, JobError>,
) -> Result<u64, JobError> {
    batch(side, PILOT)?;
    let each = (batch(side, PILOT)? / u64::from(PILOT)).max(1);
    let rounds = agree(side, (BATCH_NS / each).clamp(3, 1_000_000) as u32)?;
    let mut all = Vec::<u64, BATCHES>::new();
    for _ in 0..BATCHES {
        let _ = all.push(batch(side, rounds)? * 1000 / u64::from(rounds));
    }
    all.sort_unstable();
    Ok(all[BATCHES / 2])
}

fn first() {
    defmt::println!("first");
}

fn tell(row: &str, thousandths: u64) {
    let mut line = String::<64>::new();
    let _ = write!(line, "row {row} {}.{:03}", thousandths / 1000, thousandths % 1000);
    defmt::println!("{=str}", line.as_str());
}

/// Of a round of so many messages: thousandths of a message per microsecond.
fn rate(messages: u32, thousandths: u64) -> u64 {
    u64::from(messages) * 1_000_000_000 / thousandths.max(1)
}

/// Says so, and does nothing. All others wait in a barrier, or will.
fn stand_still(task: &Task) {
    defmt::println!("still");
    mark::pause(task, STILL_NS);
}
