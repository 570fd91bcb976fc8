//! Retired instructions: the first event counter of the performance monitor unit.

use aarch64_cpu::registers::{ID_AA64DFR0_EL1, Readable};
use core::arch::asm;

/// Instructions that were architecturally executed.
const INST_RETIRED: u64 = 0x08;
const ENABLE: u64 = 1;
/// Number of event counters, in the control register.
const COUNTERS: u64 = 0x1f << 11;

/// Starts this hart's counter. False if it has none for the event: an emulator has it only while it counts
/// instructions itself.
pub(crate) fn start() -> bool {
    // 0: the core has no such unit; 15: one of another kind.
    if matches!(ID_AA64DFR0_EL1.read(ID_AA64DFR0_EL1::PMUVer), 0 | 15) {
        return false;
    }
    let (events, control): (u64, u64);
    // SAFETY: reads identification registers of the unit, which the core has.
    unsafe {
        asm!("mrs {}, pmceid0_el0", "mrs {}, pmcr_el0", out(reg) events, out(reg) control,
            options(nomem, nostack, preserves_flags));
    }
    if events & 1 << INST_RETIRED == 0 || control & COUNTERS == 0 {
        return false;
    }
    // SAFETY: the counter is there, and nobody else uses it.
    unsafe {
        asm!("msr pmevtyper0_el0, {event}", "msr pmcntenset_el0, {first}", "msr pmcr_el0, {control}", "isb",
            event = in(reg) INST_RETIRED, first = in(reg) 1u64, control = in(reg) control | ENABLE,
            options(nomem, nostack, preserves_flags));
    }
    true
}

/// The counter of this hart, modulo 2^32.
#[inline(always)]
pub(crate) fn retired() -> u32 {
    let count: u64;
    // SAFETY: reads a counter. Without `nomem`, so that the accesses between two reads stay there.
    unsafe { asm!("mrs {}, pmevcntr0_el0", out(reg) count, options(nostack, preserves_flags)) }
    count as u32
}
