//! RISC-V: supervisor mode under the SBI, sifive_test.

pub(crate) mod caches;
pub(crate) mod checksum;
pub(crate) mod doubles;
pub(crate) mod fault;
pub(crate) mod instructions;
pub(crate) mod interrupt;
pub(crate) mod translation;

use crate::arch::{NO_STACKS, machine};
use crate::devicetree::Machine;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};
use rings::shared::CopyLines;

/// Where a frame holds the outer frame's address and its return address, from its own address.
pub(crate) const FRAME: isize = -16;
/// See [`FRAME`].
pub(crate) const RETURN: isize = -8;

/// What copies memory in shared use: nothing takes fewer instructions than word by word.
pub(crate) const COPY_LINES: Option<CopyLines> = None;

/// What `boot` calls this hart.
#[inline]
pub(super) fn boot_number() -> usize {
    let number;
    // SAFETY: reads a register that compiled code leaves alone.
    unsafe { asm!("mv {}, tp", out(reg) number, options(nomem, nostack, preserves_flags)) }
    number
}

/// The counter.
#[inline]
pub(crate) fn counter() -> u64 {
    riscv::register::time::read64()
}

/// Its rate; 0 if the tree does not tell.
#[inline]
pub(crate) fn counter_hz() -> u64 {
    machine().and_then(|machine| machine.counter_hz).unwrap_or(0)
}

/// Makes the timer pending when the counter reaches a value, or never.
pub(crate) fn set_timer(at: Option<u64>) {
    // The largest value is never.
    let at = at.unwrap_or(u64::MAX);
    if machine().is_some_and(|machine| machine.sstc) {
        // SAFETY: writes stimecmp, which does nothing but compare, and which all harts have, as the tree says (Sstc).
        unsafe { asm!("csrw 0x14d, {}", in(reg) at, options(nostack, preserves_flags)) }
    } else {
        // The firmware always has timers.
        let _ = sbi_rt::set_timer(at);
    }
}

/// Sleeps until an interrupt is pending.
pub(crate) fn wait_for_interrupt() {
    // SAFETY: a fence and a hint.
    unsafe { asm!("fence iorw, iorw", "wfi", options(nostack, preserves_flags)) }
}

/// For each turn of a loop in which a hart waits for another.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// Orders accesses to memory and devices.
#[inline]
pub(crate) fn io_barrier() {
    // SAFETY: a fence.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) }
}

/// Stops this hart for good.
pub(crate) fn park() -> ! {
    loop {
        riscv::asm::wfi();
    }
}

/// This function's frame pointer.
#[inline(always)]
pub(crate) fn frame_pointer() -> usize {
    let frame: usize;
    // SAFETY: reads a register.
    unsafe { asm!("mv {}, s0", out(reg) frame, options(nomem, nostack, preserves_flags)) }
    frame
}

/// Starts hart `hart` through the SBI.
pub(crate) fn start_hart(machine: &Machine, hart: usize) -> Result<(), &'static str> {
    let id = machine.harts.get(hart).ok_or("no such hart")?.id;
    let number = super::numbers::boot_number(hart);
    boot::stack(number).ok_or(NO_STACKS)?;
    boot::set_hart_id(number, id);
    // What the hart is to find in memory is there before it runs.
    io_barrier();
    let started = sbi_rt::hart_start(id as usize, boot::secondary_entry(), number);
    if started.is_ok() { Ok(()) } else { Err("SBI: the hart is not there or running already") }
}

/// Turns this hart off, until it is started. Comes back where the firmware cannot.
pub(crate) fn turn_off() {
    let _ = sbi_rt::hart_stop();
}

/// Whether hart `hart` is off, as the firmware says.
pub(crate) fn is_off(machine: &Machine, hart: usize) -> bool {
    const STOPPED: usize = 1;
    let state = machine.harts.get(hart).map(|hart| sbi_rt::hart_get_status(hart.id as usize));
    state.is_some_and(|state| state.is_ok() && state.value == STOPPED)
}

/// Brings the harts without supervisor mode to rest. OpenSBI 1.1 has them wait for their start with the call pending that said that
/// the first hart was ready, and so without sleep; one that is started finds nothing to run, and sleeps for ever.
pub(crate) fn rest_monitors(machine: &Machine) {
    for &id in &machine.monitors {
        // A firmware that keeps them for itself says no.
        let _ = sbi_rt::hart_start(id as usize, boot::stop_entry(), 0);
    }
}

/// Ends the program by the host of an emulator or a debugger, if there is one: the call of the RISC-V semihosting
/// specification. Asked once only: where nobody serves it, it is a breakpoint, whose report comes back here.
pub(crate) fn exit_by_host(code: u8) {
    const EXIT_EXTENDED: usize = 0x20;
    const APPLICATION_EXIT: usize = 0x2_0026;
    static ASKED: AtomicBool = AtomicBool::new(false);
    if ASKED.swap(true, Ordering::Relaxed) {
        return;
    }
    let why = [APPLICATION_EXIT, usize::from(code)];
    // SAFETY: the call reads the two words at a1 and gives a result in a0, if it returns. The three instructions, which
    // must be of four bytes and in one page, are the call.
    unsafe {
        asm!(
            ".option push", ".option norvc", ".balign 16",
            "slli zero, zero, 0x1f", "ebreak", "srai zero, zero, 7",
            ".option pop",
            inout("a0") EXIT_EXTENDED => _, in("a1") why.as_ptr(), options(nostack)
        );
    }
}

/// Ends the machine by the firmware, if it can.
pub(crate) fn power_off(failed: bool) {
    let _ = match failed {
        false => sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::NoReason),
        true => sbi_rt::system_reset(sbi_rt::Shutdown, sbi_rt::SystemFailure),
    };
}

/// Says `line`, as a frame that begins with `head`, through the firmware's console: there is none of our own.
pub(crate) fn last_words(head: [u8; 2], line: &[u8]) {
    const LEGACY_PUTCHAR: usize = 1;
    // What the firmware said before is no part of the frame.
    for &byte in [0].iter().chain(&head).chain(line).chain(&[0]) {
        // SAFETY: a call of the firmware that prints a byte and changes a0 and a1 at most.
        unsafe {
            asm!("ecall", inout("a0") usize::from(byte) => _, lateout("a1") _, in("a7") LEGACY_PUTCHAR,
                options(nomem, nostack));
        }
    }
}

/// Runs an instruction that does not exist.
pub(crate) fn illegal_instruction() -> ! {
    // SAFETY: none needed: the exception does not return.
    unsafe { asm!("unimp", options(noreturn)) }
}
