//! From reset to Rust, per architecture (SPEC N-1). The only assembly of the project that is more than one instruction.
//!
//! The first hart enters at `_start`: it clears `.bss`, takes number 0 and calls `kernel_primary(tree, id, level)`; `tree`
//! is 0 if there is none, `level` the exception level that the firmware left it at, where there are such.
//! It may do so [again](begin_again), for the next job. The others enter at [`secondary_entry`] with the number that the kernel gave them ([`set_hart_id`]), on stacks that it found
//! for them ([`set_stacks`]): they turn on the MMU with the table of [`set_translation`] and call `kernel_secondary(hart)`. A fault on any hart calls
//! `kernel_fault(&`[`Fault`]`)` on that hart's emergency stack, an interrupt `kernel_interrupt()`. The kernel provides these
//! four symbols; only the last one returns. Interrupts are masked at first.
#![no_std]

mod stacks;

pub use stacks::{
    EMERGENCY_BYTES, GUARD_BYTES, HARTS, STACK_BYTES, STACKS_BYTES, Stack, emergency_stack, guard_pages,
    set_stacks, stack,
};

use core::sync::atomic::{AtomicU64, Ordering};

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod aarch64;
#[cfg(hosted)]
mod linux;
#[cfg(all(hosted, target_arch = "aarch64"))]
#[path = "linux/aarch64.rs"]
mod native;
#[cfg(all(hosted, target_arch = "x86_64"))]
#[path = "linux/x86_64.rs"]
mod native;
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
mod riscv64;

#[cfg(hosted)]
pub use linux::{hart, leave, prefer_numa, start_hart, words};

/// What the vectors save of a hart that faulted. There is no way back, so this is all that a report needs.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Fault {
    /// Address of the instruction.
    pub pc: usize,
    /// Stack pointer of the kernel thread.
    pub sp: usize,
    /// Frame pointer.
    pub fp: usize,
    /// Return address register.
    pub ra: usize,
    /// The architecture's cause register: ESR_EL1 or scause.
    pub cause: usize,
    /// The architecture's address register: FAR_EL1 or stval.
    pub address: usize,
    /// The architecture's status at the fault: SPSR_EL1 or sstatus.
    pub status: usize,
    reserved: usize,
}

/// The level at which firmware runs: no kernel is entered there.
pub const FIRMWARE_LEVEL: usize = 3;

/// What secondary harts load into TTBR0_EL1 or satp; they read it before their MMU and caches are on.
#[unsafe(no_mangle)]
static BOOT_TRANSLATION: AtomicU64 = AtomicU64::new(0);

/// Sets the value of TTBR0_EL1 or satp that secondary harts start with. Returns where it lies: a hart without
/// caches reads it there.
pub fn set_translation(register: u64) -> usize {
    BOOT_TRANSLATION.store(register, Ordering::Release);
    BOOT_TRANSLATION.as_ptr() as usize
}

/// The ids that the firmware has for the harts, by number.
#[unsafe(no_mangle)]
static BOOT_HART_IDS: [AtomicU64; HARTS] = [const { AtomicU64::new(u64::MAX) }; HARTS];

/// The hart with this number has this id. To be said before it is started; `hart` is below [`HARTS`].
pub fn set_hart_id(hart: usize, id: u64) {
    BOOT_HART_IDS[hart].store(id, Ordering::Release);
}

/// Where a hart does nothing for ever.
#[cfg(all(target_os = "none", target_arch = "riscv64"))]
pub fn stop_entry() -> usize {
    unsafe extern "C" {
        fn boot_stop();
    }
    boot_stop as *const () as usize
}

/// The ids that [`set_hart_id`] set, where harts without caches read them.
pub fn hart_ids() -> &'static [AtomicU64] {
    &BOOT_HART_IDS
}

/// Where harts go from a spin table: each finds its number by its id. To be said of all before any goes.
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
pub fn released_entry() -> usize {
    unsafe extern "C" {
        fn boot_released();
    }
    boot_released as *const () as usize
}

/// This hart, whose id is `id`, begins again as the first one, with the device tree at `tree`: `.data` is as when it first began,
/// `.bss` cleared.
///
/// # Safety
/// No other hart runs, and no device writes to memory. The device tree is where it was when it first began.
#[cfg(target_os = "none")]
pub unsafe fn begin_again(tree: usize, id: u64) -> ! {
    unsafe extern "C" {
        fn boot_again(tree: usize, id: u64) -> !;
    }
    // SAFETY: the caller's promise; it uses no memory of the hart's before it has its stack anew.
    unsafe { boot_again(tree, id) }
}

/// Where the firmware is to start the other harts, with their number, 1 or more, as context.
#[cfg(target_os = "none")]
pub fn secondary_entry() -> usize {
    unsafe extern "C" {
        fn boot_secondary();
    }
    boot_secondary as *const () as usize
}
