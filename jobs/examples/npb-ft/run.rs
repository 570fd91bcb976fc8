//! The benchmark from its start to its verification, and what of it is timed.

use super::class::{Class, STEPS};
use super::npb::machine::{Grid, Machine};
use super::npb::report::{judge, say_time, start_ns};
use super::solver::Solver;

/// Runs it. Returns whether its results are the official ones. For a grid of tasks that [`suits`](super::pencils::suits).
pub fn run<M: Machine>(machine: &mut M, class: &'static Class, grid: Grid) -> Result<bool, M::Error> {
    let mut solver = Solver::new(machine, class, grid)?;
    let mut good = true;
    let start = start_ns(machine)?;
    solver.restart(machine)?;
    for step in 0..STEPS {
        let checksum = solver.step(machine)?;
        let [re, im] = checksum;
        let right = class.verifies(step, checksum);
        good &= judge(machine, right, format_args!("step {}: checksum {re:.12e} {im:.12e}", step + 1));
    }
    say_time(machine, start);
    Ok(good)
}
