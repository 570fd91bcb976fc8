//! Entries of Sv39 and Sv48 page tables.

use crate::devicetree::Machine;
use crate::paging::{Format, MemoryType, PAGE, SV39_END, SV48_END};
use core::arch::asm;

const VALID: u64 = 1;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
const ACCESSED: u64 = 1 << 6;
const DIRTY: u64 = 1 << 7;
/// An entry holds its page's number from this bit on.
const NUMBER: u32 = 10;
const NUMBER_MASK: u64 = (1 << 44) - 1;
/// The mode field of satp.
const SV39: u64 = 8 << 60;
const SV48: u64 = 9 << 60;

/// Whether memory, or a place for cards, lies beyond what Sv39 reaches, and harts have Sv48.
pub(crate) fn is_wide(machine: &Machine) -> bool {
    machine.sv48 && machine.end() > SV39_END
}

pub(crate) struct PageEntry;

impl Format for PageEntry {
    // The upper half stands for the other end of the 64 bits.
    fn end(wide: bool) -> usize {
        if wide { SV48_END } else { SV39_END }
    }

    fn leaf(address: usize, access: MemoryType, _: usize) -> u64 {
        // What is device memory and what is cached, the platform knows by the address.
        let rights = match access {
            MemoryType::Code => READ | EXECUTE,
            MemoryType::Constant => READ,
            MemoryType::Data | MemoryType::Device => READ | WRITE | DIRTY,
        };
        ((address / PAGE) as u64) << NUMBER | rights | ACCESSED | GLOBAL | VALID
    }

    fn link(table: usize) -> u64 {
        ((table / PAGE) as u64) << NUMBER | VALID
    }

    fn address(entry: u64) -> usize {
        (entry >> NUMBER & NUMBER_MASK) as usize * PAGE
    }

    fn is_link(entry: u64) -> bool {
        entry & (VALID | READ | WRITE | EXECUTE) == VALID
    }
}

/// Makes `root` this hart's translation, and that of the harts to come.
pub(crate) fn install(root: usize, wide: bool) {
    let satp = if wide { SV48 } else { SV39 } | (root / PAGE) as u64;
    boot::set_translation(satp);
    // SAFETY: the translation maps all that this hart uses where it is.
    unsafe {
        asm!("sfence.vma", "csrw satp, {}", "sfence.vma", in(reg) satp, options(nostack, preserves_flags))
    }
}
