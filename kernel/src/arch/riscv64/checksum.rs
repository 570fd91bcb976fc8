//! CRC-32C by carry-less multiplication, the extension Zbc.

use crate::arch::machine;
use core::arch::asm;
use drivers::link;

/// What it is made with.
pub(crate) const NAME: &str = "clmul";

/// Whether all harts have it, as the tree says.
pub(crate) fn is_there() -> bool {
    machine().is_some_and(|machine| machine.carryless)
}

/// A function of two words that is one instruction of Zbc.
macro_rules! instruction {
    ($name:literal) => {
        |a: u64, b: u64| {
            let result;
            // SAFETY: arithmetic that the hart has, says the caller of `crc32c`.
            unsafe {
                asm!(
                    ".option push", ".option arch, +zbc", concat!($name, " {}, {}, {}"), ".option pop",
                    out(reg) result, in(reg) a, in(reg) b, options(pure, nomem, nostack, preserves_flags)
                );
            }
            result
        }
    };
}

/// The state behind `bytes`.
///
/// # Safety
/// [`is_there`] says so.
pub(crate) unsafe fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    link::crc32c_by_products(state, bytes, instruction!("clmul"), instruction!("clmulh"))
}
