//! Copies of lines by pairs of words.

use core::arch::asm;

/// See [`CopyLines`](rings::shared::CopyLines). No register of floating point is used: not every hart has them on.
///
/// # Safety
/// As there.
pub(crate) unsafe fn copy_lines(source: *const u64, target: *mut u64, lines: usize) {
    // SAFETY: it accesses those words alone. That others access them meanwhile is nothing to the processor, for which a pair is two
    // accesses of a word each.
    unsafe {
        asm!(
            "2:",
            "ldp {a}, {b}, [{source}]",
            "ldp {c}, {d}, [{source}, #16]",
            "ldp {e}, {f}, [{source}, #32]",
            "ldp {g}, {h}, [{source}, #48]",
            "add {source}, {source}, #64",
            "stp {a}, {b}, [{target}]",
            "stp {c}, {d}, [{target}, #16]",
            "stp {e}, {f}, [{target}, #32]",
            "stp {g}, {h}, [{target}, #48]",
            "add {target}, {target}, #64",
            "subs {lines}, {lines}, #1",
            "b.ne 2b",
            source = inout(reg) source => _,
            target = inout(reg) target => _,
            lines = inout(reg) lines => _,
            a = out(reg) _,
            b = out(reg) _,
            c = out(reg) _,
            d = out(reg) _,
            e = out(reg) _,
            f = out(reg) _,
            g = out(reg) _,
            h = out(reg) _,
            options(nostack),
        );
    }
}
