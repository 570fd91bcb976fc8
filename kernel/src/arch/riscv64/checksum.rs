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

/// The state behind `bytes`.
///
/// # Safety
/// [`is_there`] says so.
pub(crate) unsafe fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    let product = |a: u64, b: u64| {
        let low;
        // SAFETY: arithmetic that the hart has.
        unsafe {
            asm!(
                ".option push", ".option arch, +zbc", "clmul {}, {}, {}", ".option pop",
                out(reg) low, in(reg) a, in(reg) b, options(pure, nomem, nostack, preserves_flags)
            );
        }
        low
    };
    let upper = |a: u64, b: u64| {
        let high;
        // SAFETY: as above.
        unsafe {
            asm!(
                ".option push", ".option arch, +zbc", "clmulh {}, {}, {}", ".option pop",
                out(reg) high, in(reg) a, in(reg) b, options(pure, nomem, nostack, preserves_flags)
            );
        }
        high
    };
    link::crc32c_by_products(state, bytes, product, upper)
}
