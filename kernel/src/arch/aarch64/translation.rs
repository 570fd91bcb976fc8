//! Entries of AArch64 translation tables, 4 KiB granule.

use crate::devicetree::Machine;
use crate::paging::{AARCH64_END, Format, MemoryType};
use core::arch::asm;

const VALID: u64 = 1;
/// A link, or a page on the last level.
const TABLE: u64 = 1 << 1;
/// Memory attributes 1: normal; 0 is device (`boot` sets MAIR_EL1).
const NORMAL: u64 = 1 << 2;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const NO_EXECUTE_PRIVILEGED: u64 = 1 << 53;
const NO_EXECUTE_USER: u64 = 1 << 54;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// As every hart can, all do (`boot` sets TCR_EL1).
pub(crate) fn is_wide(_: &Machine) -> bool {
    true
}

pub(crate) struct PageEntry;

impl Format for PageEntry {
    fn end(_: bool) -> usize {
        AARCH64_END
    }

    fn leaf(address: usize, access: MemoryType, level: usize) -> u64 {
        let rights = match access {
            MemoryType::Code => NORMAL | INNER_SHAREABLE | READ_ONLY,
            MemoryType::Constant => NORMAL | INNER_SHAREABLE | READ_ONLY | NO_EXECUTE_PRIVILEGED,
            MemoryType::Data => NORMAL | INNER_SHAREABLE | NO_EXECUTE_PRIVILEGED,
            MemoryType::Device => NO_EXECUTE_PRIVILEGED,
        };
        let page = if level == 3 { TABLE } else { 0 };
        address as u64 | rights | NO_EXECUTE_USER | ACCESSED | page | VALID
    }

    fn link(table: usize) -> u64 {
        table as u64 | TABLE | VALID
    }

    fn address(entry: u64) -> usize {
        (entry & ADDRESS) as usize
    }

    fn is_link(entry: u64) -> bool {
        entry & (TABLE | VALID) == TABLE | VALID
    }
}

/// Makes `root` this hart's translation, and that of the harts to come.
pub(crate) fn install(root: usize, _: bool) {
    let told = boot::set_translation(root as u64);
    // SAFETY: cleans a line of the image. Secondary harts read it before their caches are on.
    unsafe { asm!("dc cvac, {}", "dsb sy", in(reg) told, options(nostack, preserves_flags)) }
    // Old and new translation map the same addresses in pages of other sizes, so they must not meet in a TLB: the change is
    // made while the MMU is off (Arm ARM D8, "Using break-before-make").
    // SAFETY: the new translation maps all that this hart uses as it was. This code lies where it is mapped, and accesses
    // no memory while the MMU is off.
    unsafe {
        asm!(
            "dsb ish",
            "mrs {on}, sctlr_el1",
            "bic {off}, {on}, #1",
            "msr sctlr_el1, {off}",
            "isb",
            "msr ttbr0_el1, {root}",
            "isb",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            "msr sctlr_el1, {on}",
            "isb",
            on = out(reg) _, off = out(reg) _, root = in(reg) root,
            options(nostack, preserves_flags)
        );
    }
}
