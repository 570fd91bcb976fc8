//! PLIC for devices, SBI for wake-ups and the timer.

use crate::arch::{self, ADAPTERS, Claim};
use crate::node;
use crate::tree::{Controller, Interrupt, Machine};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use drivers::irq::plic::Plic;
use riscv::interrupt::Interrupt as Cause;
use riscv::register::{sie, sip};
use spin::{Mutex, Once};

/// The controller and the context that the adapters' interrupts are on for.
static PLIC: Once<Plic> = Once::new();
static ROUTED: Mutex<Option<u32>> = Mutex::new(None);
/// The adapters' interrupts; 0 is none.
static NUMBERS: [AtomicU32; ADAPTERS] = [const { AtomicU32::new(0) }; ADAPTERS];
/// Stands for what is not the PLIC's: wake-ups by other harts.
const SOFTWARE: u32 = 0;

/// This hart's context.
fn here() -> Option<u32> {
    node::machine()?.harts.get(arch::hart())?.plic_context
}

/// Takes the controller over and starts this hart's part of it.
pub(crate) fn start_interrupts(machine: &'static Machine) -> Result<(), &'static str> {
    let Some(Controller::Plic { registers }) = machine.controller else { return Err("it is no PLIC") };
    let base =
        NonNull::new(ptr::with_exposed_provenance_mut(registers.start)).ok_or("its registers are at 0")?;
    // SAFETY: the tree says so, and translation maps it as device memory. Called once.
    PLIC.call_once(|| unsafe { Plic::new(base, registers.bytes) });
    start_interrupts_here(machine)
}

/// Lets wake-ups, the timer and devices through to this hart.
pub(crate) fn start_interrupts_here(machine: &'static Machine) -> Result<(), &'static str> {
    let hart = machine.harts.get(arch::hart()).ok_or("no such hart")?;
    let mut plic = *PLIC.get().ok_or("it is not started")?;
    // Each hart for itself: OpenSBI raises the threshold of a hart's context when it starts the hart.
    plic.start_context(hart.plic_context.ok_or("a hart has no context at the PLIC")?);
    super::set_timer(None);
    for cause in [Cause::SupervisorSoft, Cause::SupervisorTimer, Cause::SupervisorExternal] {
        // SAFETY: interrupts stay masked as a whole, so none of these is ever taken.
        unsafe { sie::enable(cause) }
    }
    Ok(())
}

/// `interrupt` is an adapter's from now on. It goes nowhere yet.
pub(crate) fn add_adapter_interrupt(interrupt: Interrupt) -> Result<(), &'static str> {
    let free =
        NUMBERS.iter().find(|number| number.load(Ordering::Relaxed) == 0).ok_or("one adapter too many")?;
    free.store(interrupt.number, Ordering::Relaxed);
    Ok(())
}

/// Routes the adapters' interrupts to `hart`, or to none.
pub(crate) fn route_adapters(hart: Option<usize>) {
    let Some(mut plic) = PLIC.get().copied() else { return };
    let numbers =
        || NUMBERS.iter().map(|number| number.load(Ordering::Relaxed)).filter(|&number| number != 0);
    let target = hart.and_then(|hart| node::machine()?.harts.get(hart)?.plic_context);
    let mut routed = ROUTED.lock();
    if let Some(old) = routed.filter(|&old| Some(old) != target) {
        numbers().for_each(|number| plic.enable(old, number, false));
    }
    if let Some(new) = target {
        numbers().for_each(|number| plic.enable(new, number, true));
    }
    *routed = target;
}

/// Interrupts `hart`.
pub(crate) fn interrupt_hart(hart: usize) {
    let Some(hart) = node::machine().and_then(|machine| machine.harts.get(hart)) else { return };
    // What was published before the interrupt is seen after it.
    super::io_barrier();
    // It fails only for harts that are not there.
    let _ = sbi_rt::send_ipi(sbi_rt::HartMask::from_mask_base(1, hart.id as usize));
}

/// Takes the next pending interrupt of this hart.
pub(crate) fn claim() -> Option<Claim> {
    let pending = sip::read();
    if pending.ssoft() {
        // SAFETY: clears the one bit that says that another hart called.
        unsafe { sip::clear_pending(Cause::SupervisorSoft) };
        // What was published before the interrupt is seen from here on.
        super::io_barrier();
        return Some(Claim::Wakeup(SOFTWARE));
    }
    if !pending.sext() {
        return None;
    }
    let number = PLIC.get()?.claim(here()?)?;
    // The interrupt is claimed before its device is served.
    super::io_barrier();
    Some(if NUMBERS.iter().any(|adapter| adapter.load(Ordering::Relaxed) == number) {
        Claim::Adapter(number)
    } else {
        Claim::Wakeup(number)
    })
}

/// Ends what [`claim`] began.
pub(crate) fn complete(claim: Claim) {
    let (Claim::Adapter(number) | Claim::Wakeup(number)) = claim;
    if let Some((plic, context)) = PLIC.get().zip(here()).filter(|_| number != SOFTWARE) {
        // The device has taken its line back before it may interrupt again.
        super::io_barrier();
        plic.complete(context, number);
    }
}
