//! The benchmark from its start to its verification, and what of it is timed.

use super::class::Class;
use super::deviates::tally;
use super::npb::machine::Machine;
use super::npb::report::{judge, say_time, start_ns};

/// Runs it. Returns whether its results are the official ones.
pub fn run<M: Machine>(machine: &mut M, class: &'static Class) -> Result<bool, M::Error> {
    let start = start_ns(machine)?;
    let tally = tally(machine, class)?;
    say_time(machine, start);
    for (annulus, count) in tally.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        machine.say(format_args!("annulus {annulus}: {count} pairs"));
    }
    let [x, y] = tally.sums;
    Ok(judge(machine, class.verifies(tally.sums), format_args!("sums {x:.13e} {y:.13e}")))
}
