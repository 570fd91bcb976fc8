//! Retired instructions: the counter that every hart has.

use core::arch::asm;

/// Starts this hart's counter: it always runs, and the firmware lets supervisor mode read it.
pub(crate) fn start() -> bool {
    true
}

/// The counter of this hart, modulo 2^32.
#[inline(always)]
pub(crate) fn retired() -> u32 {
    let count: u64;
    // SAFETY: reads a counter. Without `nomem`, so that the accesses between two reads stay there.
    unsafe { asm!("rdinstret {}", out(reg) count, options(nostack, preserves_flags)) }
    count as u32
}
