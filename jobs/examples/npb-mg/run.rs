//! The benchmark from its start to its verification, and what of it is timed.

use super::class::Class;
use super::cycle::Solver;
use super::npb::machine::Machine;
use super::npb::report::{judge, say_time, start_ns};

/// Runs it. Returns whether its results are the official ones. For a number of tasks that [`suits`](super::cycle::suits).
pub fn run<M: Machine>(machine: &mut M, class: &'static Class) -> Result<bool, M::Error> {
    let mut solver = Solver::new(machine, class)?;
    solver.restart(machine)?;
    solver.cycle(machine)?; // untimed, as the benchmark has it: touches all memory once
    solver.restart(machine)?;
    let start = start_ns(machine)?;
    for _ in 0..class.iterations {
        solver.cycle(machine)?;
    }
    let norm = solver.norm(machine)?;
    say_time(machine, start);
    Ok(judge(machine, class.verifies(norm), format_args!("norm of the residual {norm:.13e}")))
}
