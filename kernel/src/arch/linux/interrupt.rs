//! Interrupts of harts that are threads: they end sleeps, and are never taken.

use crate::arch;
use crate::devicetree::Controller as Found;
use alloc::boxed::Box;
use drivers::MOST_HARTS;
use drivers::irq::Controller;
use drivers::linux::{self, Events};
use spin::Once;

static EVENTS: Once<&'static Events> = Once::new();

/// The controller, once it was started.
pub(crate) fn events() -> Option<&'static Events> {
    EVENTS.get().copied()
}

/// The controller of this process. To be asked once.
pub(crate) fn controller(found: Found) -> Result<&'static dyn Controller, &'static str> {
    let Found::Events = found else { return Err("it is none of a process") };
    let harts = arch::machine().map_or(1, |machine| machine.harts.len());
    let peers = super::machine::peers();
    let bells = match peers {
        Some(peers) => peers.own_bells(),
        None => linux::bells(harts).map_err(|_| "the host gives no descriptors for harts to sleep on")?,
    };
    // In memory that others reach, if they do.
    let events: &'static Events = Box::leak(Box::new(Events::new(bells)));
    if let Some(peers) = peers {
        peers.publish(events);
    }
    Ok(*EVENTS.call_once(|| events))
}

/// What others call this hart by: its number, behind those of the nodes before this one if nodes share memory.
pub(crate) fn name() -> usize {
    let first = super::machine::peers().map_or(0, |peers| MOST_HARTS * (1 + peers.near().node as usize));
    first + arch::hart()
}

/// Calls the hart with this name. The number of one of this node's is returned instead.
pub(crate) fn call_afar(name: usize) -> Option<usize> {
    let (node, hart) = (name / MOST_HARTS, name % MOST_HARTS);
    match super::machine::peers().zip(node.checked_sub(1)) {
        Some((peers, node)) if node != peers.near().node as usize => {
            peers.call(node, hart);
            None
        }
        _ => Some(hart),
    }
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
