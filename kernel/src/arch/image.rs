//! Where the parts of the image lie, by the symbols of `linker.ld`.

use super::machine::machine;
use crate::layout::Region;
use crate::paging::PAGE;

unsafe extern "C" {
    static __image_start: u8;
    static __text_end: u8;
    static __rodata_end: u8;
    static __data_end: u8;
    static __bss_start: u8;
    static __image_end: u8;
}

macro_rules! between {
    ($start:ident, $end:ident) => {
        Region::between((&raw const $start).addr(), (&raw const $end).addr())
    };
}

/// All of it.
pub(crate) fn image() -> Region {
    between!(__image_start, __image_end)
}

/// Code.
pub(super) fn text() -> Region {
    between!(__image_start, __text_end)
}

/// Constants.
pub(super) fn rodata() -> Region {
    between!(__text_end, __rodata_end)
}

/// Variables: those with and those without a value in the image.
#[cfg(target_os = "none")]
pub(super) fn data() -> [Region; 2] {
    [between!(__rodata_end, __data_end), between!(__bss_start, __image_end)]
}

/// Whether code lies at `address`.
pub(crate) fn is_code(address: usize) -> bool {
    text().contains(address)
}

/// Whether `address` is mapped read-only.
pub(crate) fn is_constant(address: usize) -> bool {
    let in_tree = machine().is_some_and(|machine| machine.tree.contains(address));
    is_code(address) || rodata().contains(address) || in_tree
}

/// Whether `address` is RAM.
pub(crate) fn is_memory(address: usize) -> bool {
    machine().is_some_and(|machine| machine.banks.iter().any(|bank| bank.region.contains(address)))
}

/// Whether `address` lies in the page below a stack of `hart`.
pub(crate) fn in_guard(hart: usize, address: usize) -> bool {
    let number = super::numbers::boot_number(hart);
    let mut pages = boot::guard_pages(number).into_iter().flatten();
    pages.any(|page| (page..page + PAGE).contains(&address))
}
