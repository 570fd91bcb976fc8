//! Caches, for devices that do not see them (SPEC B-4): lines are cleaned and invalidated to where memory is one for all (Arm ARM
//! D7, "Cache maintenance instructions").

use core::arch::asm;
use core::ops::Range;

/// Whether pages can be mapped without caches.
pub(crate) const UNCACHED: bool = true;

/// Bytes of the smallest line of all data caches.
pub(crate) fn cache_line() -> usize {
    let told: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) told, options(nomem, nostack, preserves_flags)) }
    4 << (told >> 16 & 15)
}

fn lines(bytes: Range<*const u8>) -> impl Iterator<Item = usize> {
    let line = cache_line();
    (bytes.start.addr() & !(line - 1)..bytes.end.addr()).step_by(line)
}

/// Brings what harts wrote there to memory.
pub(crate) fn clean(bytes: &[u8]) {
    for line in lines(bytes.as_ptr_range()) {
        // SAFETY: the line is mapped, as part of it is borrowed; what is read there stays what it is.
        unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) }
    }
    super::io_barrier();
}

/// Writes back what caches hold of a line, and forgets it.
///
/// # Safety
/// The line is mapped.
unsafe fn clean_and_forget(line: usize) {
    // SAFETY: promised by the caller; what is read there stays what it is.
    unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) }
}

/// Writes back what caches hold of these words, and forgets it.
pub(crate) fn flush<T>(words: &[T]) {
    let whole = words.as_ptr_range();
    for line in lines(whole.start.cast()..whole.end.cast()) {
        // SAFETY: the line is mapped, as part of it is borrowed.
        unsafe { clean_and_forget(line) }
    }
    super::io_barrier();
}

/// Forgets what caches hold of these bytes; lines that others have a part of are cleaned first.
pub(crate) fn invalidate(bytes: &mut [u8]) {
    let whole = bytes.as_ptr_range();
    super::io_barrier();
    for line in lines(whole.clone()) {
        if line < whole.start.addr() || line + cache_line() > whole.end.addr() {
            // SAFETY: the line is mapped, as part of it is borrowed.
            unsafe { clean_and_forget(line) }
        } else {
            // SAFETY: all of the line is borrowed for writing; bytes that are older are bytes too.
            unsafe { asm!("dc ivac, {}", in(reg) line, options(nostack, preserves_flags)) }
        }
    }
    super::io_barrier();
}
