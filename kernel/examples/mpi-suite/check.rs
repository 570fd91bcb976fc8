//! Counts what holds and names what does not.

use kernel::Task;

/// The checks of one task.
pub struct Check {
    task: &'static Task,
    chapter: &'static str,
    held: u32,
    failed: u32,
}

impl Check {
    pub fn new(task: &'static Task) -> Self {
        Self { task, chapter: "", held: 0, failed: 0 }
    }

    pub fn chapter(&mut self, chapter: &'static str) {
        self.chapter = chapter;
    }

    /// A claim, and whether it holds.
    pub fn that(&mut self, claim: &'static str, holds: bool) {
        if holds {
            self.held += 1;
        } else {
            self.failed += 1;
            defmt::println!("task {=u32}: {=str}: not so: {=str}", self.task.number(), self.chapter, claim);
        }
    }

    /// How many held and how many did not.
    pub fn counts(&self) -> (u32, u32) {
        (self.held, self.failed)
    }
}
