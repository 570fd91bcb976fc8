//! What an x86-64 processor does for a process that is a node.

use core::arch::asm;

/// This function's frame pointer.
#[inline(always)]
pub(crate) fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) }
    frame
}

/// Runs an instruction that does not exist.
pub(crate) fn illegal_instruction() -> ! {
    // SAFETY: none needed: the exception does not return.
    unsafe { asm!("ud2", options(noreturn)) }
}

/// Copies lines by pairs of words: see [`CopyLines`](rings::shared::CopyLines).
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_lines(source: *const u64, target: *mut u64, lines: usize) {
    // SAFETY: it accesses those words alone. That others access them meanwhile is nothing to the processor, which accesses words at
    // multiples of eight whole.
    unsafe {
        asm!(
            "2:",
            "movups {a}, [{source}]",
            "movups {b}, [{source} + 16]",
            "movups {c}, [{source} + 32]",
            "movups {d}, [{source} + 48]",
            "add {source}, 64",
            "movups [{target}], {a}",
            "movups [{target} + 16], {b}",
            "movups [{target} + 32], {c}",
            "movups [{target} + 48], {d}",
            "add {target}, 64",
            "dec {lines}",
            "jnz 2b",
            source = inout(reg) source => _,
            target = inout(reg) target => _,
            lines = inout(reg) lines => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack),
        );
    }
}

/// CRC-32C by the instructions of SSE 4.2.
pub(crate) mod checksum {
    use core::arch::x86_64::{__cpuid, _mm_crc32_u8, _mm_crc32_u64};

    /// What it is made with.
    pub(crate) const NAME: &str = "crc32";

    /// Whether the core has them.
    pub(crate) fn is_there() -> bool {
        __cpuid(1).ecx >> 20 & 1 != 0
    }

    /// The state behind `bytes`.
    ///
    /// # Safety
    /// [`is_there`] says so.
    #[target_feature(enable = "sse4.2")]
    pub(crate) unsafe fn crc32c(state: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks::<8>();
        let long = words
            .iter()
            .fold(u64::from(state), |state, word| _mm_crc32_u64(state, u64::from_le_bytes(*word)));
        rest.iter().fold(long as u32, |state, &byte| _mm_crc32_u8(state, byte))
    }
}
