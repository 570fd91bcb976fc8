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

/// CRC-32C by tables: whether there are instructions, the host does not tell in the same way everywhere.
pub(crate) mod checksum {
    /// What it would be made with.
    pub(crate) const NAME: &str = "none";

    /// Never.
    pub(crate) fn is_there() -> bool {
        false
    }

    /// As tables have it.
    ///
    /// # Safety
    /// None is needed.
    pub(crate) unsafe fn crc32c(state: u32, bytes: &[u8]) -> u32 {
        drivers::link::crc32c(state, bytes)
    }
}
