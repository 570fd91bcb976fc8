//! What a benchmark prints of its results and of its time.

use super::machine::{Machine, Tasks};
use core::fmt::Arguments;

/// Prints what was computed and whether it is right, which it returns.
pub fn judge<M: Machine>(machine: &M, good: bool, computed: Arguments) -> bool {
    machine.say(format_args!("{computed}: {}", if good { "verified" } else { "WRONG" }));
    good
}

/// The time when every task has come here.
pub fn start_ns<M: Machine>(machine: &mut M) -> Result<u64, M::Error> {
    let group = machine.group(Tasks::all(machine.tasks()))?;
    machine.barrier(&group)?;
    Ok(machine.now_ns())
}

/// Prints the time since `start_ns`, in which `cargo xtask bench peers` finds it; on an emulator it is that of the host.
pub fn say_time<M: Machine>(machine: &M, start_ns: u64) {
    machine.say(format_args!("{} us", (machine.now_ns() - start_ns) / 1000));
}
