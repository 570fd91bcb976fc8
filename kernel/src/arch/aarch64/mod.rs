//! AArch64: EL1, generic timer, PSCI, semihosting.
//!
//! Barriers are as the Arm Architecture Reference Manual wants them (B2, "Memory barriers"; D24, "Synchronization
//! requirements for AArch64 System registers"), though no emulator misses one.

pub(crate) mod caches;
pub(crate) mod checksum;
pub(crate) mod doubles;
pub(crate) mod fault;
pub(crate) mod instructions;
pub(crate) mod interrupt;
mod lines;
pub(crate) mod translation;

use crate::arch::{NO_STACKS, machine};
use crate::devicetree::{Firmware, Hart, Machine};
use aarch64_cpu::registers::{
    CNTFRQ_EL0, CNTV_CTL_EL0, CNTV_CVAL_EL0, CNTVCT_EL0, Readable, TPIDR_EL1, Writeable,
};
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};
use rings::shared::CopyLines;
use smccc::psci::{self, AffinityState, LowestAffinityLevel, error::Error};
use smccc::{Hvc, Smc};

/// Where a frame holds the outer frame's address and its return address, from its own address.
pub(crate) const FRAME: isize = 0;
/// See [`FRAME`].
pub(crate) const RETURN: isize = 8;

/// What copies memory in shared use.
pub(crate) const COPY_LINES: Option<CopyLines> = Some(lines::copy_lines);

/// What `boot` calls this hart.
#[inline]
pub(super) fn boot_number() -> usize {
    TPIDR_EL1.get() as usize
}

/// The virtual counter.
#[inline]
pub(crate) fn counter() -> u64 {
    CNTVCT_EL0.get()
}

/// Its rate: the firmware's word, or the tree's where the firmware has none. 0 if nobody tells.
#[inline]
pub(crate) fn counter_hz() -> u64 {
    match CNTFRQ_EL0.get() {
        0 => machine().and_then(|machine| machine.counter_hz).unwrap_or(0),
        hz => hz,
    }
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

/// For each turn of a loop in which a hart waits for another.
///
/// QEMU 7.2 counts instructions in turns of its harts, which end when a timer is due; then the next hart's has no instruction, and the
/// hart that loops has the turn behind. `yield` ends it before.
#[inline]
pub fn relax() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nomem, nostack, preserves_flags)) }
    core::hint::spin_loop();
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

/// Every hart has the kernel's level.
pub(crate) fn rest_monitors(_: &Machine) {}

/// Has the hart that spins at the word at `release` go on in the kernel, as all of `machine` that share the word. The word is
/// mapped past the caches, as the hart may have none.
fn release_hart(machine: &Machine, release: usize) {
    for (hart, Hart { id, .. }) in machine.harts.iter().enumerate() {
        boot::set_hart_id(super::numbers::boot_number(hart), *id);
    }
    caches::flush(boot::hart_ids());
    let word = core::ptr::with_exposed_provenance_mut::<u64>(release);
    // SAFETY: the tree says that the word is for this, it is aligned, kept from all else, and mapped.
    unsafe { word.write_volatile(boot::released_entry() as u64) };
    // SAFETY: a barrier and a hint.
    unsafe { asm!("dsb sy", "sev", options(nostack, preserves_flags)) }
}

/// Starts hart `hart` as its node says: from its spin table, else through PSCI.
pub(crate) fn start_hart(machine: &Machine, hart: usize) -> Result<(), &'static str> {
    let Hart { id: target, release, .. } = *machine.harts.get(hart).ok_or("no such hart")?;
    let entry = boot::secondary_entry() as u64;
    let number = super::numbers::boot_number(hart);
    boot::stack(number).ok_or(NO_STACKS)?;
    // What the hart is to find in memory is there before it runs.
    io_barrier();
    if let Some(release) = release {
        release_hart(machine, release);
        return Ok(());
    }
    let started = match machine.firmware {
        Firmware::PsciHvc => psci::cpu_on::<Hvc>(target, entry, number as u64),
        Firmware::PsciSmc => psci::cpu_on::<Smc>(target, entry, number as u64),
        Firmware::Sbi => return Err("the tree has no psci node, and for the hart no spin-table"),
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

/// Turns this hart off, until it is started. Comes back where the firmware cannot.
pub(crate) fn turn_off() {
    let _ = match machine().map(|machine| machine.firmware) {
        Some(Firmware::PsciHvc) => psci::cpu_off::<Hvc>(),
        Some(Firmware::PsciSmc) => psci::cpu_off::<Smc>(),
        _ => Ok(()),
    };
}

/// Whether hart `hart` is off, as the firmware says.
pub(crate) fn is_off(machine: &Machine, hart: usize) -> bool {
    let Some(Hart { id, release: None, .. }) = machine.harts.get(hart) else { return false };
    let state = match machine.firmware {
        Firmware::PsciHvc => psci::affinity_info::<Hvc>(*id, LowestAffinityLevel::All),
        Firmware::PsciSmc => psci::affinity_info::<Smc>(*id, LowestAffinityLevel::All),
        Firmware::Sbi => return false,
    };
    state == Ok(AffinityState::Off)
}

/// Ends the program by the host of an emulator or a debugger, if there is one. Asked once only: where nobody serves
/// semihosting calls they are illegal instructions, whose report comes back here.
pub(crate) fn exit_by_host(code: u8) {
    const EXIT: u64 = 0x18;
    const APPLICATION_EXIT: u64 = 0x2_0026;
    static ASKED: AtomicBool = AtomicBool::new(false);
    if !ASKED.swap(true, Ordering::Relaxed) {
        semihost(EXIT, [APPLICATION_EXIT, u64::from(code)].as_ptr().addr());
    }
}

/// A call of Arm's semihosting specification, about what lies at `parameter`.
fn semihost(call: u64, parameter: usize) {
    // SAFETY: the calls that are made here read what lies at x1 and give a result in x0.
    unsafe {
        asm!("hlt #0xf000", inout("x0") call => _, in("x1") parameter, options(nostack, preserves_flags));
    }
}

/// Ends the machine by the firmware, if it can. Asked once only, for a fault comes back here.
pub(crate) fn power_off(_failed: bool) {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if ASKED.swap(true, Ordering::Relaxed) {
        return;
    }
    // It comes back only where it cannot.
    let _ = match machine().map(|machine| machine.firmware) {
        Some(Firmware::PsciHvc) => psci::system_off::<Hvc>(),
        Some(Firmware::PsciSmc) => psci::system_off::<Smc>(),
        _ => Ok(()),
    };
}

/// Says `line` to the host of an emulator or a debugger: there is no console. Where nobody listens this is an illegal
/// instruction, whose report ends the machine.
pub(crate) fn last_words(_: [u8; 2], line: &[u8]) {
    const WRITE_CHARACTER: u64 = 3;
    for byte in line.iter().chain(b"\n") {
        semihost(WRITE_CHARACTER, core::ptr::from_ref(byte).addr());
    }
}

/// Runs an instruction that does not exist.
pub(crate) fn illegal_instruction() -> ! {
    // SAFETY: none needed: the exception does not return.
    unsafe { asm!("udf #0", options(noreturn)) }
}
