//! Faults on purpose, for the job that tests their reports (SPEC N-10).

use super::image;
use core::ptr;

/// Loads from the null page.
pub fn null_dereference() -> u64 {
    // SAFETY: none: the address is not mapped, and the fault that follows is what the caller wants.
    unsafe { ptr::with_exposed_provenance::<u64>(8).read_volatile() }
}

/// Stores to the kernel's code.
pub fn write_to_code() {
    // SAFETY: none: the page is read-only, and the fault that follows is what the caller wants.
    unsafe { ptr::with_exposed_provenance_mut::<u8>(image::text().start).write_volatile(0) }
}

/// Jumps into a variable.
pub fn execute_data() {
    static RETURN: [u64; 1] = [0];
    // SAFETY: none: the page cannot be executed, and the fault that follows is what the caller wants.
    let code: extern "C" fn() = unsafe { core::mem::transmute(RETURN.as_ptr()) };
    code();
}

/// Counts up what other harts count up too, and tells them nothing: a data race.
pub fn race() {
    static mut COUNT: u64 = 0;
    let count = &raw mut COUNT;
    for _ in 0..1000 {
        // SAFETY: none: no other access is to be at the same time, and one that is, is what the caller wants.
        unsafe { *core::hint::black_box(count) += 1 };
    }
}

/// Runs in a circle, deaf to interrupts.
pub fn hang() -> ! {
    super::mask_interrupts();
    loop {
        core::hint::spin_loop();
    }
}

/// Runs an instruction that does not exist.
pub fn illegal_instruction() -> ! {
    super::this::illegal_instruction()
}
