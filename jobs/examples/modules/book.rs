//! Counts checks.

use core::fmt::Display;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{JobError, Task};

/// The checks of one task, by all its harts.
pub struct Book {
    task: &'static Task,
    checks: AtomicU32,
    failed: AtomicU32,
}

/// An error of a library, told in its own words; the job's error has no room for them.
pub fn told(error: impl Display) -> JobError {
    defmt::error!("{}", defmt::Display2Format(&error));
    JobError::Other("a library's call did not end well")
}

impl Book {
    pub fn new(task: &'static Task) -> Self {
        Self { task, checks: AtomicU32::new(0), failed: AtomicU32::new(0) }
    }

    /// One more check, of what `claim` says.
    pub fn check(&self, holds: bool, claim: &str) {
        self.checks.fetch_add(1, Relaxed);
        if !holds {
            self.failed.fetch_add(1, Relaxed);
            defmt::error!("task {=u32}: not so: {=str}", self.task.number(), claim);
        }
    }

    /// Task 0 says that a phase is over.
    pub fn phase(&self, name: &str) {
        if self.task.number() == 0 {
            defmt::println!("{=str}", name);
        }
    }

    /// The end: how many checks there were, and an error if one failed.
    pub fn close(&self) -> Result<(), JobError> {
        let (checks, failed) = (self.checks.load(Relaxed), self.failed.load(Relaxed));
        defmt::println!("task {=u32}: {=u32} checks, {=u32} failed", self.task.number(), checks, failed);
        if failed == 0 { Ok(()) } else { Err(JobError::Other("a check failed")) }
    }
}
