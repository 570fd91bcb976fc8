//! The wake-up unit: a hart with nothing to do waits for an interrupt and costs the host nothing (SPEC N-8).
//!
//! Interrupts stay masked: a pending one ends the wait, and the hart then claims and completes it. An interrupt that
//! comes between the last look for work and the wait is pending at the wait, so none is lost. No timer runs but for a
//! deadline.

use crate::arch::{self, Claim};
use crate::routing::{Reroute, Routing};
use drivers::Platform;
use spin::Mutex;

/// This node's hardware, for the drivers.
#[derive(Clone, Copy, Debug)]
pub struct Hardware;

static ROUTING: Mutex<Routing> = Mutex::new(Routing::new());

/// Changes the routing and the controller together.
fn reroute(change: impl FnOnce(&mut Routing) -> Option<Reroute>) {
    let mut routing = ROUTING.lock();
    if let Some(Reroute(hart)) = change(&mut routing) {
        arch::route_adapter(hart);
    }
}

fn claim_all(mut acknowledge: impl FnMut()) {
    while let Some(claim) = arch::claim() {
        if matches!(claim, Claim::Adapter(_)) {
            acknowledge();
        }
        arch::complete(claim);
    }
}

impl Platform for Hardware {
    fn hart() -> usize {
        arch::hart()
    }

    fn now_ns() -> u64 {
        crate::clock::now_ns()
    }

    fn wake(hart: usize) {
        arch::interrupt_hart(hart);
    }

    fn wait(deadline_ns: Option<u64>, acknowledge: impl FnMut()) {
        let hart = arch::hart();
        reroute(|routing| routing.sleep(hart));
        if let Some(deadline) = deadline_ns {
            arch::set_timer(Some(crate::clock::counter_at(deadline)));
        }
        arch::wait_for_interrupt();
        if deadline_ns.is_some() {
            arch::set_timer(None);
        }
        claim_all(acknowledge);
        reroute(|routing| routing.wake(hart));
    }

    fn io_barrier() {
        arch::io_barrier();
    }
}

/// Waits without a port, until another hart interrupts this one; may return early.
pub fn idle() {
    let hart = arch::hart();
    reroute(|routing| routing.retire(hart));
    arch::wait_for_interrupt();
    // A timer that stays on would be pending again after every claim.
    arch::set_timer(None);
    claim_all(|| {});
}
