//! The benchmark from its start to its verification, and what of it is timed.

use super::class::{Class, ITERATIONS};
use super::npb::machine::Machine;
use super::npb::report::{judge, say_time, start_ns};
use super::ranker::Ranker;

/// Runs it. Returns whether its results are the official ones. For at most [`TASKS`](super::ranker::TASKS) tasks.
pub fn run<M: Machine>(machine: &mut M, class: &'static Class) -> Result<bool, M::Error> {
    let mut ranker = Ranker::new(machine, class)?;
    ranker.rank(machine, 1)?; // untimed, as the benchmark has it: touches all memory once
    let mut good = true;
    let start = start_ns(machine)?;
    for iteration in 1..=ITERATIONS {
        let ranks = ranker.rank(machine, iteration)?;
        let right = class.verifies(iteration, ranks);
        good &=
            judge(machine, right, format_args!("iteration {iteration}: ranks of the test keys {ranks:?}"));
    }
    say_time(machine, start);
    let sorted = ranker.sort(machine)?;
    good &= judge(machine, sorted, format_args!("full verification: all {} keys in order", class.keys()));
    Ok(good)
}
