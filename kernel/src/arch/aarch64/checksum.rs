//! CRC-32C by the instructions of FEAT_CRC32.

use aarch64_cpu::registers::{ID_AA64ISAR0_EL1, Readable};
use core::arch::asm;

/// What it is made with.
pub(crate) const NAME: &str = "crc32cx";

/// Whether the core has them.
pub(crate) fn is_there() -> bool {
    // Bits 16 to 19: CRC32.
    ID_AA64ISAR0_EL1.get() >> 16 & 0xf != 0
}

/// The state behind `bytes`.
///
/// # Safety
/// [`is_there`] says so.
#[target_feature(enable = "crc")]
pub(crate) unsafe fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    let mut state = state;
    // SAFETY: reads `bytes`, all of it and nothing else. It is normal memory, from which words are read wherever they lie:
    // alignment is not checked (SCTLR_EL1.A is 0).
    unsafe {
        asm!(
            "subs   {left}, {left}, #32",
            "b.lo   3f",
            "2:",
            "ldp    {word}, {next}, [{at}], #16",
            "crc32cx {state:w}, {state:w}, {word}",
            "crc32cx {state:w}, {state:w}, {next}",
            "ldp    {word}, {next}, [{at}], #16",
            "crc32cx {state:w}, {state:w}, {word}",
            "crc32cx {state:w}, {state:w}, {next}",
            "subs   {left}, {left}, #32",
            "b.hs   2b",
            // The lower bits of what is left are right.
            "3:",
            "tbz    {left:w}, #4, 3f",
            "ldp    {word}, {next}, [{at}], #16",
            "crc32cx {state:w}, {state:w}, {word}",
            "crc32cx {state:w}, {state:w}, {next}",
            "3:",
            "tbz    {left:w}, #3, 3f",
            "ldr    {word}, [{at}], #8",
            "crc32cx {state:w}, {state:w}, {word}",
            "3:",
            "tbz    {left:w}, #2, 4f",
            "ldr    {word:w}, [{at}], #4",
            "crc32cw {state:w}, {state:w}, {word:w}",
            "4:",
            "tbz    {left:w}, #1, 5f",
            "ldrh   {word:w}, [{at}], #2",
            "crc32ch {state:w}, {state:w}, {word:w}",
            "5:",
            "tbz    {left:w}, #0, 6f",
            "ldrb   {word:w}, [{at}]",
            "crc32cb {state:w}, {state:w}, {word:w}",
            "6:",
            at = inout(reg) bytes.as_ptr() => _,
            left = inout(reg) bytes.len() => _,
            word = out(reg) _,
            next = out(reg) _,
            state = inout(reg) state,
            options(readonly, nostack),
        );
    }
    state
}
