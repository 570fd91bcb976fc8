//! Threads: all harts of the task communicate at the same time.

use crate::check::{Outcome, Suite};

pub fn run(suite: &Suite) -> Outcome {
    suite.that("harts", suite.task.harts() > 0);
    Ok(())
}
