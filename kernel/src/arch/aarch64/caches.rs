//! Caches, for devices that do not see them (SPEC B-4): lines are cleaned and invalidated to where memory is one for all (Arm ARM
//! D7, "Cache maintenance instructions").

use core::arch::asm;
use core::ops::Range;

/// Whether pages can be mapped without caches.
pub(crate) const UNCACHED: bool = true;

/// What the core says of its caches.
fn told() -> u64 {
    let told: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) told, options(nomem, nostack, preserves_flags)) }
    told
}

/// Bytes of the smallest line of all data caches, of what a core `told`: the step from one line to the next.
const fn smallest_line(told: u64) -> usize {
    4 << (told >> 16 & 15)
}

/// Most bytes that any cache writes back at once. One that does not say so writes up to 2 KiB (Arm ARM D17, CTR_EL0.CWG).
const fn granule(told: u64) -> usize {
    let words = told >> 24 & 15;
    if words == 0 { 2048 } else { 4 << words }
}

// Cortex-A72; a core with a system cache of longer lines; one that does not say.
const _: () = assert!(smallest_line(0x8444_c004) == 64 && granule(0x8444_c004) == 64);
const _: () = assert!(smallest_line(0x8644_c004) == 64 && granule(0x8644_c004) == 256);
const _: () = assert!(smallest_line(0x8043_c004) == 32 && granule(0x8043_c004) == 2048);

/// Bytes that memory for devices is aligned to, which so shares no line of any cache with what harts write.
pub(crate) fn cache_line() -> usize {
    granule(told())
}

fn lines(bytes: Range<*const u8>) -> impl Iterator<Item = usize> {
    let line = smallest_line(told());
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
    let step = smallest_line(told());
    for line in lines(whole.clone()) {
        if line < whole.start.addr() || line + step > whole.end.addr() {
            // SAFETY: the line is mapped, as part of it is borrowed.
            unsafe { clean_and_forget(line) }
        } else {
            // SAFETY: all of the line is borrowed for writing; bytes that are older are bytes too.
            unsafe { asm!("dc ivac, {}", in(reg) line, options(nostack, preserves_flags)) }
        }
    }
    super::io_barrier();
}
