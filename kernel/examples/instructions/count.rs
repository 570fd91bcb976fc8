//! Counting: one measurement, one row of them.

use kernel::{Instructions, JobError, Task};

/// Measurements of a row, and those before them that count for nothing.
const REPEATS: u32 = 64;
const WARM_UP: u32 = 16;

/// The counter, with what reading it costs.
#[derive(Clone, Copy)]
pub struct Count {
    instructions: Instructions,
    /// Instructions from one reading to the next with nothing between them.
    own: u32,
}

impl Count {
    /// Calibrates. Fails where counts are not exact.
    pub fn new(task: &Task) -> Result<Self, JobError> {
        const INEXACT: JobError =
            JobError::Other("instructions are counted under -icount only: `cargo xtask bench instructions`");
        let instructions = task.instructions().ok_or(INEXACT)?;
        let mut row = Row::new("own");
        for _ in 0..REPEATS {
            let before = instructions.now();
            row.add(instructions.now().wrapping_sub(before));
        }
        // A clock in the counter's place steps now and then, or by more.
        if (row.least, row.most) != (1, 1) {
            return Err(INEXACT);
        }
        Ok(Self { instructions, own: row.least })
    }

    #[inline(always)]
    pub fn now(self) -> u32 {
        self.instructions.now()
    }

    /// Instructions between two readings.
    #[inline(always)]
    pub fn between(self, from: u32, to: u32) -> u32 {
        to.wrapping_sub(from).wrapping_sub(self.own)
    }

    /// Instructions of `what`, and its result.
    #[inline(always)]
    pub fn of<T>(self, what: impl FnOnce() -> T) -> (u32, T) {
        let from = self.now();
        let result = what();
        (self.between(from, self.now()), result)
    }
}

/// A row: its name, and the least and most that was counted.
pub struct Row {
    name: &'static str,
    least: u32,
    most: u32,
}

impl Row {
    fn new(name: &'static str) -> Self {
        Self { name, least: u32::MAX, most: 0 }
    }

    fn add(&mut self, instructions: u32) {
        self.least = self.least.min(instructions);
        self.most = self.most.max(instructions);
    }

    /// Says the row, as the host wants it.
    fn print(&self) {
        defmt::println!("{=str}: {=u32} to {=u32} instructions", self.name, self.least, self.most);
    }
}

/// Counts and prints a row: `once` does everything for one measurement and returns it.
pub fn row(name: &'static str, mut once: impl FnMut() -> Result<u32, JobError>) -> Result<(), JobError> {
    let mut row = Row::new(name);
    for repeat in 0..WARM_UP + REPEATS {
        let instructions = once()?;
        if repeat >= WARM_UP {
            row.add(instructions);
        }
    }
    row.print();
    Ok(())
}

/// Counts `once` many times and prints by how much that differs.
pub fn noise(name: &'static str, mut once: impl FnMut() -> u32) {
    let mut row = Row::new(name);
    for _ in 0..4 * REPEATS {
        row.add(once());
    }
    let difference = row.most - row.least;
    Row { name, least: difference, most: difference }.print();
}
