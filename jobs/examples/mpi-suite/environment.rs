//! The environment: levels of threads, settings, clocks.

use super::check::{Outcome, Suite};
use mpi::{Setting, Threads};

pub fn run(suite: &Suite) -> Outcome {
    suite.equal("threads", suite.mpi.query_thread(), Threads::Multiple);
    suite.that("not finalized", !suite.mpi.finalized());
    let before = suite.mpi.settings();
    suite.mpi.set(Setting::EagerLimit(100));
    suite.equal("a changed setting", suite.mpi.settings().eager_limit, 100);
    suite.mpi.set(Setting::EagerLimit(before.eager_limit));
    suite.equal("changed back", suite.mpi.settings(), before);
    let (start, tick) = (suite.mpi.wtime()?, suite.mpi.wtick());
    suite.that("time goes on", suite.mpi.wtime()? >= start && tick > 0.0);
    suite.that("a name", !suite.mpi.processor_name().is_empty());
    suite.equal("all nodes live", suite.world.dead_node()?, None);
    Ok(())
}
