//! Latency and bandwidth of puts, gets and updates for each path and size, or of eager beside rendezvous sends.
//!
//! Task 0 measures, everyone else answers. Times are of the host that emulates the nodes: compare the rows and columns of one
//! run, not runs. All data is checked, outside of what is timed. `--rounds N` sets the operations per row.
#![no_std]
#![no_main]

#[path = "../meeting/mod.rs"]
mod meeting;
mod switch_over;
mod table;
#[path = "../ways/mod.rs"]
mod ways;

use core::fmt::{self, Write};
use kernel::{JobError, Task};

kernel::entry!(main, jobs::USAGE);

/// Bytes of the pattern that all data is from; each row starts at another of the first places.
const SPAN: usize = LONGEST + 256;
const LONGEST: usize = 1 << 20;

fn main(task: &'static Task) -> Result<(), JobError> {
    let arguments = task.arguments();
    let rounds = arguments.get("--rounds")?;
    if arguments.has("--switch-over") { switch_over::run(task, rounds) } else { table::run(task, rounds) }
}

/// Byte `at` of the pattern.
fn byte(at: usize) -> u8 {
    (at.wrapping_mul(7) ^ (at >> 9)) as u8
}

fn pattern(task: &'static Task) -> Result<&'static [u8], JobError> {
    let mut at = 0..;
    Ok(task.memory().fill(SPAN, || at.next().map_or(0, byte))?)
}

/// Prints one line of at most 160 characters.
fn say(words: fmt::Arguments) {
    let mut line = heapless::String::<160>::new();
    let _ = line.write_fmt(words);
    defmt::println!("{=str}", line.as_str());
}
