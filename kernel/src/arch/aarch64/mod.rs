//! AArch64: EL1, generic timer, PSCI, semihosting.

pub(crate) mod fault;
pub(crate) mod instructions;
pub(crate) mod interrupt;
pub(crate) mod translation;

use super::image;
use crate::tree::{Firmware, Machine};
use aarch64_cpu::registers::{
    CNTFRQ_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTVCT_EL0, Readable, TPIDR_EL1, Writeable,
};
use core::arch::asm;
use qemu_exit::QEMUExit;
use smccc::psci::{self, error::Error};
use smccc::{Hvc, Smc};

/// Where a frame holds the outer frame's address and its return address, from its own address.
pub(crate) const FRAME: isize = 0;
/// See [`FRAME`].
pub(crate) const RETURN: isize = 8;

/// What `boot` calls this hart.
#[inline]
pub(super) fn boot_number() -> usize {
    TPIDR_EL1.get() as usize
}

/// The tree's address, if the firmware told; else where the emulator puts it for an image of this kind: at the start
/// of RAM, which is the gigabyte that holds the image.
pub(crate) fn tree_address(told: usize) -> usize {
    if told != 0 { told } else { image().start & !((1 << 30) - 1) }
}

/// The virtual counter.
#[inline]
pub(crate) fn counter() -> u64 {
    CNTVCT_EL0.get()
}

/// Its rate.
#[inline]
pub(crate) fn counter_hz() -> u64 {
    CNTFRQ_EL0.get()
}

/// Makes the timer pending when the counter reaches a value, or never.
pub(crate) fn set_timer(at: Option<u64>) {
    const ENABLE: u64 = 1;
    if let Some(at) = at {
        CNTV_CVAL_EL0.set(at);
    }
    CNTV_CTL_EL0.set(if at.is_some() { ENABLE } else { 0 });
    // The interrupt goes away before anyone looks.
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) }
}

/// Sleeps until an interrupt is pending.
pub(crate) fn wait_for_interrupt() {
    // SAFETY: a barrier and a hint.
    unsafe { asm!("dsb sy", "wfi", options(nostack, preserves_flags)) }
}

/// Orders accesses to memory and devices.
#[inline]
pub(crate) fn io_barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Stops this hart for good.
pub(crate) fn park() -> ! {
    loop {
        // SAFETY: a hint.
        unsafe { asm!("wfi", options(nomem, nostack, preserves_flags)) }
    }
}

/// This function's frame pointer.
#[inline(always)]
pub(crate) fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, x29", out(reg) frame, options(nomem, nostack, preserves_flags)) }
    frame
}

/// Starts hart `hart` through PSCI.
pub(crate) fn start_hart(machine: &Machine, hart: usize) -> Result<(), &'static str> {
    let target = machine.harts.get(hart).ok_or("no such hart")?.id;
    let entry = boot::secondary_entry() as u64;
    let number = super::numbers::boot_number(hart) as u64;
    let started = match machine.firmware {
        Firmware::PsciHvc => psci::cpu_on::<Hvc>(target, entry, number),
        Firmware::PsciSmc => psci::cpu_on::<Smc>(target, entry, number),
        Firmware::Sbi => return Err("the tree has no psci node"),
    };
    started.map_err(|error| match error {
        Error::NotSupported => "PSCI: not supported",
        Error::InvalidParameters => "PSCI: invalid parameters",
        Error::Denied => "PSCI: denied",
        Error::AlreadyOn => "PSCI: it is on already",
        Error::OnPending => "PSCI: it is starting already",
        Error::InternalFailure => "PSCI: internal failure",
        Error::InvalidAddress => "PSCI: invalid address",
        _ => "PSCI: unknown error",
    })
}

/// Leaves the emulator.
pub(crate) fn exit(code: u8) -> ! {
    qemu_exit::AArch64::new().exit(u32::from(code))
}

/// Runs an instruction that does not exist.
pub(crate) fn illegal_instruction() -> ! {
    // SAFETY: none needed: the exception does not return.
    unsafe { asm!("udf #0", options(noreturn)) }
}
