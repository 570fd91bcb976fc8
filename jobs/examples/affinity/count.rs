//! Counting instructions.

use kernel::{Instructions, JobError, Task};

/// Readings that must agree before the counter is believed.
const READINGS: u32 = 16;

/// A counter of instructions that is exact.
#[derive(Clone, Copy)]
pub struct Count(Instructions);

impl Count {
    /// Fails where counts are not exact.
    pub fn new(task: &Task) -> Result<Self, JobError> {
        const INEXACT: JobError =
            JobError::Argument("--path", "wants exact counts: --qemu-option -icount --qemu-option shift=0");
        let count = task.instructions().map(Self).ok_or(INEXACT)?;
        // Where a clock stands in for the counter it does not go up by one instruction.
        let exact = (0..READINGS).all(|_| twice(count) == 1);
        if exact { Ok(count) } else { Err(INEXACT) }
    }

    #[inline(always)]
    pub fn now(self) -> u32 {
        self.0.now()
    }

    /// Instructions between two readings.
    pub fn between(self, (from, to): (u32, u32)) -> u64 {
        // The second reading is one itself.
        u64::from(to.wrapping_sub(from).wrapping_sub(1))
    }
}

#[inline(never)]
fn twice(count: Count) -> u32 {
    let (first, second) = (count.now(), count.now());
    second.wrapping_sub(first)
}
