//! Counting: one measurement, one row of them.

use kernel::{Instructions, JobError, Task};

/// Measurements of a row, and of one that takes long.
const REPEATS: u32 = 64;
const SLOW_REPEATS: u32 = 16;

/// Two readings with nothing between them.
#[inline(never)]
fn twice(instructions: Instructions) -> (u32, u32) {
    (instructions.now(), instructions.now())
}

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
        let row = Row::of(REPEATS, || {
            let (first, second) = twice(instructions);
            Ok(second.wrapping_sub(first))
        })?;
        // Where a clock stands in for the counter it does not go up by one instruction.
        if (row.least(), row.most()) != (1, 1) {
            return Err(INEXACT);
        }
        Ok(Self { instructions, own: row.least() })
    }

    #[inline(always)]
    pub fn now(self) -> u32 {
        self.instructions.now()
    }

    /// Instructions between two readings.
    #[inline(always)]
    pub fn between(self, (from, to): (u32, u32)) -> u32 {
        to.wrapping_sub(from).wrapping_sub(self.own)
    }

    /// The readings before and after `what`, if it went well. Their difference is left to the caller: its arithmetic
    /// is not to be counted.
    #[inline(always)]
    pub fn around<E>(self, what: impl FnOnce() -> Result<(), E>) -> Result<(u32, u32), E> {
        let from = self.now();
        what()?;
        Ok((from, self.now()))
    }
}

/// A row's measurements.
struct Row {
    counted: heapless::Vec<u32, { REPEATS as usize }>,
}

impl Row {
    /// Counts, after a quarter as many measurements that do not count, and sorts.
    fn of(repeats: u32, mut once: impl FnMut() -> Result<u32, JobError>) -> Result<Self, JobError> {
        let mut counted = heapless::Vec::new();
        for _ in 0..repeats / 4 {
            once()?;
        }
        for _ in 0..repeats.min(REPEATS) {
            let _ = counted.push(once()?);
        }
        counted.sort_unstable();
        Ok(Self { counted })
    }

    fn least(&self) -> u32 {
        self.counted.first().copied().unwrap_or(0)
    }

    fn most(&self) -> u32 {
        self.counted.last().copied().unwrap_or(0)
    }

    /// Says the row, as the host wants it.
    fn print(&self, name: &str) {
        let (usual, least, most) = (self.usual(), self.least(), self.most());
        defmt::println!("{=str}: {=u32} instructions, {=u32} to {=u32}", name, usual, least, most);
    }

    /// The median: on a slow host the odd one is of another kind, dearer or cheaper, and no kind of less than half decides.
    fn usual(&self) -> u32 {
        self.counted.get(self.counted.len() / 2).copied().unwrap_or(0)
    }
}

/// Counts and prints a row: `once` does everything for one measurement and returns it.
pub fn row(name: &str, once: impl FnMut() -> Result<u32, JobError>) -> Result<(), JobError> {
    Row::of(REPEATS, once).map(|row| row.print(name))
}

/// The same with fewer repeats.
pub fn slow_row(name: &str, once: impl FnMut() -> Result<u32, JobError>) -> Result<(), JobError> {
    Row::of(SLOW_REPEATS, once).map(|row| row.print(name))
}

/// Counts `once` many times and prints by how much that differs.
pub fn noise(name: &str, mut once: impl FnMut() -> u32) -> Result<(), JobError> {
    let row = Row::of(REPEATS, || Ok(once()))?;
    let difference = row.most() - row.least();
    defmt::println!("{=str}: {=u32} instructions, 0 to {=u32}", name, difference, difference);
    Ok(())
}
