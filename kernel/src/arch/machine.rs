//! The machine under the kernel, once its device tree was read.

use super::numbers;
use crate::devicetree::Machine;
use spin::Once;

static MACHINE: Once<Machine> = Once::new();

/// This is the machine. To be said once, before other harts are started.
pub(crate) fn set_machine(machine: Machine) -> &'static Machine {
    numbers::set_booted(machine.booted);
    MACHINE.call_once(|| machine)
}

/// The machine, once the tree was read.
pub(crate) fn machine() -> Option<&'static Machine> {
    MACHINE.get()
}
