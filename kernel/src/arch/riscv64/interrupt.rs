//! Interrupts of RISC-V harts: those of their own, for the timer and of other harts through the SBI, and the controller that can
//! reach them, a PLIC.

use crate::devicetree::Controller as Found;
use alloc::boxed::Box;
use core::ptr::{self, NonNull};
use drivers::irq::Controller;
use drivers::irq::plic::Plic;
use riscv::interrupt::{Interrupt as Cause, supervisor};
use riscv::register::{sie, sip, sstatus};

/// The controller that the tree names, taken over. To be asked once.
pub(crate) fn controller(found: Found) -> Result<&'static dyn Controller, &'static str> {
    let Found::Plic { registers } = found else { return Err("it is no PLIC") };
    let base =
        NonNull::new(ptr::with_exposed_provenance_mut(registers.start)).ok_or("its registers are at 0")?;
    // SAFETY: the tree says so, and translation maps it as device memory. Called once.
    Ok(Box::leak(Box::new(unsafe { Plic::new(base, registers.bytes) })))
}

/// What ends a sleep and is never taken. (An external one is taken, if it is urgent.)
const NEVER_TAKEN: [Cause; 2] = [Cause::SupervisorSoft, Cause::SupervisorTimer];

/// Lets all interrupts end a sleep of this hart.
pub(crate) fn start_own() {
    super::set_timer(None);
    for cause in [Cause::SupervisorSoft, Cause::SupervisorTimer, Cause::SupervisorExternal] {
        // SAFETY: interrupts are masked as a whole, so none of these is taken; `unmask` turns them off before.
        unsafe { sie::enable(cause) }
    }
}

/// This hart takes no interrupt, and any ends its sleep. Returns whether it took one.
pub(crate) fn mask() -> bool {
    let taken = sstatus::read().sie();
    supervisor::disable();
    for cause in NEVER_TAKEN {
        // SAFETY: interrupts are masked as a whole.
        unsafe { sie::enable(cause) }
    }
    taken
}

/// This hart takes interrupts of devices.
pub(crate) fn unmask() {
    for cause in NEVER_TAKEN {
        sie::disable(cause);
    }
    // SAFETY: the vector for interrupts saves all that it changes, and those that nobody serves there are off.
    unsafe { supervisor::enable() }
}

/// Whether another hart called; it is done with.
pub(crate) fn claim_own() -> bool {
    let called = sip::read().ssoft();
    if called {
        // SAFETY: clears the one bit that says that another hart called.
        unsafe { sip::clear_pending(Cause::SupervisorSoft) };
        // What was published before the interrupt is seen from here on.
        super::io_barrier();
    }
    called
}

/// Whether the controller is to be asked.
pub(crate) fn has_devices() -> bool {
    sip::read().sext()
}

/// Interrupts the hart with this id.
pub(crate) fn call_hart(id: u64) {
    // It fails only for harts that are not there.
    let _ = sbi_rt::send_ipi(sbi_rt::HartMask::from_mask_base(1, id as usize));
}
