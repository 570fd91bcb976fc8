//! What an AArch64 processor does for a process that is a node.

use core::arch::asm;

/// This function's frame pointer.
#[inline(always)]
pub(crate) fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) }
    frame
}

/// Runs an instruction that does not exist.
pub(crate) fn illegal_instruction() -> ! {
    // SAFETY: none needed: the exception does not return.
    unsafe { asm!("udf #0", options(noreturn)) }
}

// As on bare metal: Linux lets a process read what the core has.
pub(crate) use super::crc32 as checksum;
pub(crate) use super::lines::copy_lines;
