//! Interrupts of harts that are threads: they end sleeps, and are never taken.

use crate::arch;
use crate::devicetree::Controller as Found;
use drivers::irq::Controller;
use drivers::linux::Events;
use spin::Once;

static EVENTS: Once<Events> = Once::new();

/// The controller, once it was started.
pub(crate) fn events() -> Option<&'static Events> {
    EVENTS.get()
}

/// The controller of this process. To be asked once.
pub(crate) fn controller(found: Found) -> Result<&'static dyn Controller, &'static str> {
    let Found::Events = found else { return Err("it is none of a process") };
    let harts = arch::machine().map_or(1, |machine| machine.harts.len());
    let events = Events::new(harts).map_err(|_| "the host gives no descriptors for harts to sleep on")?;
    Ok(EVENTS.call_once(|| events))
}

/// Ends a hart's sleep when the counter reaches a value, or no more.
pub(crate) fn set_timer(at: Option<u64>) {
    if let Some(events) = events() {
        events.set_timer(arch::hart(), at);
    }
}

/// Sleeps until an interrupt is pending.
pub(crate) fn wait_for_interrupt() {
    if let Some(events) = events() {
        events.wait(arch::hart());
    }
}

/// Forgets what is pending for this hart.
pub(super) fn forget() {
    if let Some(events) = events() {
        while events.claim(arch::hart() as u64).is_some() {}
    }
}

/// A hart's descriptor is there; it goes to its core now.
pub(crate) fn start_own() {
    super::machine::bind(arch::hart());
}

/// No interrupt is taken anyway.
pub(crate) fn mask() -> bool {
    false
}

/// See [`mask`].
pub(crate) fn unmask() {}

/// No interrupt is taken anyway.
pub(crate) fn without<R>(what: impl FnOnce() -> R) -> R {
    what()
}

/// The controller has all.
pub(crate) fn claim_own() -> bool {
    false
}

/// The controller is to be asked.
pub(crate) fn has_devices() -> bool {
    true
}

/// The controller calls every hart; this is for those that it does not know.
pub(crate) fn call_hart(_: u64) {}
