//! Whose interrupt it is, and which hart it goes to, at any controller (SPEC D-10, N-8).
//!
//! Harts are called here by the kernel's numbers; the controller has names of its own for them (`Hart::at_controller`).

use super::ADAPTERS;
use crate::arch;
use crate::devicetree::{Controller as Found, Interrupt, Machine};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
#[cfg(target_os = "none")]
use drivers::irq::Sender;
use drivers::irq::{Accept, CALL, Controller, Delivery, IrqError, its};
use heapless::Vec;
use spin::Once;

/// An interrupt that was claimed and is to be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Another hart's call or the timer's, which the hart itself has done with.
    Own,
    /// The same at the controller.
    Wakeup(u32),
    /// A network adapter's.
    Adapter(u32),
    /// The console line's.
    Line(u32),
}

static CONTROLLER: Once<&'static dyn Controller> = Once::new();
/// The adapters' interrupts; 0 is none.
static NUMBERS: [AtomicU32; ADAPTERS] = [const { AtomicU32::new(0) }; ADAPTERS];
/// The console line's interrupt; 0 is none.
static LINE: AtomicU32 = AtomicU32::new(0);
/// The harts that they go to, or [`NOBODY`]. One hart at a time changes each.
static ADAPTERS_TO: AtomicUsize = AtomicUsize::new(NOBODY);
static LINE_TO: AtomicUsize = AtomicUsize::new(NOBODY);
const NOBODY: usize = usize::MAX;

/// What the controller calls a hart.
fn name(hart: usize) -> Option<u64> {
    arch::machine()?.harts.get(hart)?.at_controller
}

/// The controller, and what it calls this hart.
fn here() -> Option<(&'static dyn Controller, u64)> {
    Some((*CONTROLLER.get()?, name(arch::hart())?))
}

/// How many bytes of heap the controller takes at most.
pub(crate) fn heap_bytes(machine: &Machine) -> usize {
    match machine.controller {
        Some(Found::GicV3 { its: Some(_), .. }) => its::heap_bytes(machine.harts.len()),
        _ => 0,
    }
}

/// Takes the controller over and starts this hart's part of it.
pub(crate) fn start_interrupts(machine: &'static Machine) -> Result<(), &'static str> {
    let found = machine.controller.ok_or("there is none")?;
    let controller = arch::controller(found)?;
    CONTROLLER.call_once(|| controller);
    start_interrupts_here(machine)
}

/// Lets wake-ups, the timer and devices through to this hart.
pub(crate) fn start_interrupts_here(machine: &'static Machine) -> Result<(), &'static str> {
    let (controller, here) = here().ok_or("it knows nothing of a hart")?;
    let private = [Some(CALL), machine.timer_interrupt];
    let private: Vec<u32, 2> = private.into_iter().flatten().collect();
    controller.start_hart(here, &private).map_err(IrqError::words)?;
    arch::start_own_interrupts();
    Ok(())
}

/// Has the controller use no memory any more. False if it goes on.
pub(super) fn rest() -> bool {
    CONTROLLER.get().is_none_or(|controller| controller.rest())
}

/// Takes a device that sends messages, and is called `device` where they go. Its interrupt goes nowhere yet.
#[cfg(target_os = "none")]
pub(super) fn add_sender(sender: &'static dyn Sender, device: u32) -> Result<Interrupt, IrqError> {
    let controller = CONTROLLER.get().ok_or(IrqError::NoHart)?;
    Ok(Interrupt { number: controller.add_sender(sender, device)?, edge: true })
}

fn configure(interrupt: Interrupt, urgent: bool) -> Result<(), &'static str> {
    let controller = CONTROLLER.get().ok_or("the controller is not started")?;
    controller.configure(interrupt.number, Delivery { edge: interrupt.edge, urgent }).map_err(IrqError::words)
}

/// `interrupt` is an adapter's from now on. It goes nowhere yet.
pub(crate) fn add_adapter_interrupt(interrupt: Interrupt) -> Result<(), &'static str> {
    let free = NUMBERS.iter().find(|number| number.load(Ordering::Relaxed) == 0);
    let free = free.ok_or("one adapter too many")?;
    configure(interrupt, false)?;
    free.store(interrupt.number, Ordering::Relaxed);
    Ok(())
}

/// The console line's interrupt is the one that is taken from now on, by the hart that it is [routed](route_line) to.
pub(crate) fn take_line(interrupt: Interrupt) -> Result<(), &'static str> {
    configure(interrupt, true)?;
    LINE.store(interrupt.number, Ordering::Relaxed);
    Ok(())
}

/// The controller has not sent interrupts where they are to go: nobody is woken by them any more, and the node cannot go on.
#[must_use]
#[derive(Debug)]
pub(crate) struct Unrouted(IrqError);

impl fmt::Display for Unrouted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the interrupt controller has broken down: {}", self.0.words())
    }
}

fn route(interrupts: &[u32], place: &AtomicUsize, hart: Option<usize>) -> Result<(), Unrouted> {
    let Some((controller, here)) = here() else { return Ok(()) };
    let from = place.swap(hart.unwrap_or(NOBODY), Ordering::Relaxed);
    controller.route(here, interrupts, name(from), hart.and_then(name)).map_err(Unrouted)
}

/// Routes the adapters' interrupts to `hart`, or to none.
pub(crate) fn route_adapters(hart: Option<usize>) -> Result<(), Unrouted> {
    let numbers = NUMBERS.each_ref().map(|number| number.load(Ordering::Relaxed));
    let known = numbers.iter().position(|&number| number == 0).unwrap_or(ADAPTERS);
    route(&numbers[..known], &ADAPTERS_TO, hart)
}

/// Routes the console line's interrupt to `hart`.
pub(crate) fn route_line(hart: usize) {
    // `configure` has shown that it is there, and `start_hart` the harts; only messages can get stuck, which it is not.
    let _ = route(&[LINE.load(Ordering::Relaxed)], &LINE_TO, Some(hart));
}

/// This hart takes no interrupt, and any ends its sleep. Returns whether it took one.
pub(crate) fn mask() -> bool {
    let taking = arch::mask_interrupts();
    accept(Accept::All);
    taking
}

/// This hart takes the console line's interrupt, and no other.
pub(crate) fn unmask() {
    accept(Accept::Urgent);
    arch::unmask_interrupts();
}

fn accept(what: Accept) {
    if let Some((controller, here)) = here() {
        controller.accept(here, what);
        // It counts from here on.
        arch::io_barrier();
    }
}

/// Interrupts `hart`. Apart from its callers: where nobody sleeps, they are not to hold what this looks up.
#[cold]
#[inline(never)]
pub(crate) fn interrupt_hart(hart: usize) {
    let Some(hart) = arch::machine().and_then(|machine| machine.harts.get(hart)) else { return };
    // What was published before the interrupt is seen after it.
    arch::io_barrier();
    let called =
        CONTROLLER.get().zip(hart.at_controller).is_some_and(|(controller, name)| controller.call(name));
    if !called {
        arch::call_hart(hart.id);
    }
}

/// Whether an interrupt waits for this hart that may not end its sleep.
pub(crate) fn is_pending() -> bool {
    here().is_some_and(|(controller, here)| controller.is_pending(here))
}

/// Takes the next pending interrupt of this hart.
pub(crate) fn claim() -> Option<Claim> {
    if arch::claim_own_interrupt() {
        return Some(Claim::Own);
    }
    if arch::device_interrupts() || is_pending() { taken() } else { None }
}

/// The interrupt that this hart is to take. What is pending but not taken stays so: it is to end the next sleep.
pub(crate) fn taken() -> Option<Claim> {
    let (controller, here) = here()?;
    let number = controller.claim(here)?;
    // The interrupt is acknowledged before its device is served, and what was published before it is seen.
    arch::io_barrier();
    Some(if NUMBERS.iter().any(|adapter| adapter.load(Ordering::Relaxed) == number) {
        Claim::Adapter(number)
    } else if number == LINE.load(Ordering::Relaxed) {
        Claim::Line(number)
    } else {
        Claim::Wakeup(number)
    })
}

/// Ends what [`claim`] began.
pub(crate) fn complete(claim: Claim) {
    let (Claim::Adapter(number) | Claim::Line(number) | Claim::Wakeup(number)) = claim else { return };
    if let Some((controller, here)) = here() {
        // The device has taken its line back before it may interrupt again.
        arch::io_barrier();
        controller.complete(here, number);
    }
}
