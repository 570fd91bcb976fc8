//! PLIC for devices, SBI for wake-ups and the timer.

use crate::arch::{self, ADAPTERS, Claim};
use crate::devicetree::{Controller, Interrupt, Machine};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use drivers::irq::plic::Plic;
use riscv::interrupt::{Interrupt as Cause, supervisor};
use riscv::register::{sie, sip, sstatus};
use spin::{Mutex, Once};

/// The controller and the context that the adapters' interrupts are on for.
static PLIC: Once<Plic> = Once::new();
static ROUTED: Mutex<Option<u32>> = Mutex::new(None);
/// The adapters' interrupts; 0 is none.
static NUMBERS: [AtomicU32; ADAPTERS] = [const { AtomicU32::new(0) }; ADAPTERS];
/// The console line's interrupt, 0 for none, and the hart whose context it is on for.
static LINE: AtomicU32 = AtomicU32::new(0);
static LINE_HART: AtomicUsize = AtomicUsize::new(0);
/// The priorities of adapters' interrupts and of the console line's. A threshold lets what is above it through.
const PRIORITY: u32 = 1;
const URGENT: u32 = 2;
/// Stands for what is not the PLIC's: wake-ups by other harts.
const SOFTWARE: u32 = 0;

/// This hart's context.
fn here() -> Option<u32> {
    arch::machine()?.harts.get(arch::hart())?.plic_context
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
        // SAFETY: interrupts are masked as a whole, so none of these is taken; `unmask` turns them off before.
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
    let target = hart.and_then(|hart| arch::machine()?.harts.get(hart)?.plic_context);
    let mut routed = ROUTED.lock();
    if let Some(old) = routed.filter(|&old| Some(old) != target) {
        numbers().for_each(|number| plic.enable(old, number, PRIORITY, false));
    }
    if let Some(new) = target {
        numbers().for_each(|number| plic.enable(new, number, PRIORITY, true));
    }
    *routed = target;
}

/// The console line's interrupt is the one that is taken from now on, by the hart that it is [routed](route_line) to.
pub(crate) fn take_line(interrupt: Interrupt) -> Result<(), &'static str> {
    LINE.store(interrupt.number, Ordering::Relaxed);
    Ok(())
}

/// Routes the console line's interrupt to `hart`.
pub(crate) fn route_line(hart: usize) {
    let Some(mut plic) = PLIC.get().copied() else { return };
    let context = |hart: usize| arch::machine()?.harts.get(hart)?.plic_context;
    let line = LINE.load(Ordering::Relaxed);
    // The lock is that of all the enable words.
    let _routed = ROUTED.lock();
    let old = LINE_HART.swap(hart, Ordering::Relaxed);
    if let Some(old) = context(old) {
        plic.enable(old, line, URGENT, false);
    }
    if let Some(new) = context(hart) {
        plic.enable(new, line, URGENT, true);
    }
}

/// What ends a sleep and is never taken. (An external one is taken, if it is urgent.)
const NEVER_TAKEN: [Cause; 2] = [Cause::SupervisorSoft, Cause::SupervisorTimer];

/// This hart takes no interrupt, and any ends its sleep. Returns whether it took one.
pub(crate) fn mask() -> bool {
    let taken = sstatus::read().sie();
    supervisor::disable();
    for cause in NEVER_TAKEN {
        // SAFETY: interrupts are masked as a whole.
        unsafe { sie::enable(cause) }
    }
    set_threshold(0);
    taken
}

/// This hart takes the console line's interrupt, and no other.
pub(crate) fn unmask() {
    set_threshold(PRIORITY);
    for cause in NEVER_TAKEN {
        sie::disable(cause);
    }
    // SAFETY: the vector for interrupts saves all that it changes, and those that nobody serves there are off.
    unsafe { supervisor::enable() }
}

fn set_threshold(threshold: u32) {
    if let Some((plic, context)) = PLIC.get().zip(here()) {
        plic.set_threshold(context, threshold);
        // It counts from here on.
        super::io_barrier();
    }
}

/// The interrupt that this hart is to take. What is pending but not taken stays so: it is to end the next sleep.
pub(crate) fn taken() -> Option<Claim> {
    let number = PLIC.get()?.claim(here()?)?;
    super::io_barrier();
    Some(claim_of(number))
}

fn claim_of(number: u32) -> Claim {
    if NUMBERS.iter().any(|adapter| adapter.load(Ordering::Relaxed) == number) {
        Claim::Adapter(number)
    } else if number == LINE.load(Ordering::Relaxed) {
        Claim::Line(number)
    } else {
        Claim::Wakeup(number)
    }
}

/// Interrupts `hart`.
pub(crate) fn interrupt_hart(hart: usize) {
    let Some(hart) = arch::machine().and_then(|machine| machine.harts.get(hart)) else { return };
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
    // The interrupt is claimed before its device is served.
    taken()
}

/// Ends what [`claim`] began.
pub(crate) fn complete(claim: Claim) {
    let (Claim::Adapter(number) | Claim::Line(number) | Claim::Wakeup(number)) = claim;
    if let Some((plic, context)) = PLIC.get().zip(here()).filter(|_| number != SOFTWARE) {
        // The device has taken its line back before it may interrupt again.
        super::io_barrier();
        plic.complete(context, number);
    }
}
