//! The benchmark from its start to its verification, and what of it is timed.

use super::class::Class;
use super::npb::machine::Machine;
use super::npb::report::{judge, say_time, start_ns};
use super::solver::{Solver, Step};

/// Runs it. Returns whether its results are the official ones.
pub fn run<M: Machine>(machine: &mut M, class: &'static Class) -> Result<bool, M::Error> {
    let mut solver = Solver::new(machine, class)?;
    solver.restart();
    solver.step(machine)?; // untimed, as the benchmark has it: touches all memory once
    solver.restart();
    let start = start_ns(machine)?;
    let mut zeta = 0.0;
    for iteration in 1..=class.iterations {
        let Step { residual, zeta: estimate } = solver.step(machine)?;
        machine.say(format_args!("iteration {iteration}: residual {residual:.6e}, zeta {estimate:.13}"));
        zeta = estimate;
    }
    say_time(machine, start);
    Ok(judge(machine, class.verifies(zeta), format_args!("zeta {zeta:.13}")))
}
