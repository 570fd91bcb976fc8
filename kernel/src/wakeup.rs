//! The wake-up unit: a hart with nothing to do waits for an interrupt and costs the host nothing (SPEC N-8).
//!
//! Interrupts are not taken, but for the service node's question: a pending one ends the wait, and the hart then claims and
//! completes it. An interrupt that comes between the last look for work and the wait is pending at the wait, so none is
//! lost. No timer runs but for a deadline. Each hart keeps the share of recent time in which it was idle; a task tells the
//! mean of its harts' to those that would give it work (SPEC L-2).

use crate::arch;
use crate::board::{self, Claim};
use crate::idle::Idle;
use crate::interrupt_routing::{Reroute, Routing};
use crate::status::Exit;
use crate::{clock, console, links, question, report, trace};
use drivers::nic::Told;
use pami::trace::Event;
use spin::Mutex;

/// When each hart was idle.
static IDLE: Idle<{ boot::HARTS }> = Idle::new();

static ROUTING: Mutex<Routing> = Mutex::new(Routing::new());

/// Changes the routing and the controller together.
fn reroute(change: impl FnOnce(&mut Routing) -> Option<Reroute>) {
    let mut routing = ROUTING.lock();
    let routed = change(&mut routing).map_or(Ok(()), |Reroute(hart)| board::route_adapters(hart));
    drop(routing);
    routed.unwrap_or_else(|unrouted| report::broken(Exit::Machine, unrouted));
}

/// Says how many harts each task has.
pub(crate) fn start(harts_per_task: usize) {
    IDLE.divide(harts_per_task);
}

/// Sleeps until an interrupt is pending, at the deadline at the latest; this is idle time.
fn sleep(hart: usize, deadline_ns: Option<u64>) {
    let deadline_ns = console::fall_asleep().into_iter().chain(deadline_ns).min();
    if let Some(deadline_ns) = deadline_ns {
        arch::set_timer(Some(clock::counter_at(deadline_ns)));
    }
    IDLE.fall_asleep(hart, clock::now_ns());
    trace::note(Event::Sleep);
    if !board::is_pending() {
        arch::wait_for_interrupt();
    }
    trace::note(Event::Slept);
    IDLE.wake_up(hart, clock::now_ns());
    if deadline_ns.is_some() {
        // One that stays on would be pending again after every claim.
        arch::set_timer(None);
    }
    console::wake_up();
}

/// How often hart `hart` has slept and been woken; wraps.
pub(crate) fn sleeps(hart: usize) -> u32 {
    IDLE.sleeps(hart)
}

fn claim_all(mut acknowledge: impl FnMut()) {
    while let Some(claim) = board::claim() {
        if matches!(claim, Claim::Adapter(_)) {
            match links::serve() {
                Told::Frames => {}
                Told::Changed => tell_if(links::look()),
                Told::Broken => {
                    report::broken(Exit::Machine, "a network card has broken down: it wants to be reset")
                }
            }
            acknowledge();
        }
        complete(claim);
    }
}

/// Tells the service node, if a link has `changed`.
fn tell_if(changed: bool) {
    if changed {
        console::answer();
    }
}

fn complete(claim: Claim) {
    match claim {
        Claim::Line(_) => question::asked(|| board::complete(claim)),
        Claim::Adapter(_) | Claim::Wakeup(_) | Claim::Own => board::complete(claim),
    }
}

/// This hart takes an interrupt, whatever it was doing.
pub(crate) fn interrupted() {
    if let Some(claim) = board::taken() {
        complete(claim);
    }
}

/// Does `what` while no interrupt is taken and any ends a sleep: the controller's locks are held only so.
fn masked(what: impl FnOnce()) {
    let taking = board::mask();
    what();
    if taking {
        board::unmask();
    }
}

/// Waits with a port, until an interrupt or the deadline, and calls `acknowledge` for each interrupt of an adapter's.
pub(crate) fn wait(deadline_ns: Option<u64>, acknowledge: impl FnMut()) {
    let hart = arch::hart();
    masked(|| {
        reroute(|routing| routing.sleep(hart));
        tell_if(links::look_again(clock::now_ns()));
        sleep(hart, deadline_ns);
        claim_all(acknowledge);
        reroute(|routing| routing.wake(hart));
    });
}

/// The share of recent time in which the harts of this hart's task were idle; of 1000.
pub(crate) fn idle_share() -> u16 {
    IDLE.share(arch::hart(), clock::now_ns())
}

/// This hart was idle, though it did not sleep.
pub(crate) fn note_idle(from_ns: u64, to_ns: u64) {
    IDLE.with(arch::hart(), |idle| idle.note(from_ns, to_ns));
}

/// Waits without a port, until another hart interrupts this one; may return early.
pub(crate) fn idle() {
    idle_until(None);
}

/// As [`idle`], until the clock reads so many nanoseconds at most.
pub(crate) fn idle_until(deadline_ns: Option<u64>) {
    let hart = arch::hart();
    masked(|| {
        reroute(|routing| routing.retire(hart));
        sleep(hart, deadline_ns);
        claim_all(|| {});
    });
}

/// As [`idle`], for so many nanoseconds at most.
pub(crate) fn idle_for(ns: u64) {
    idle_until(Some(clock::now_ns().saturating_add(ns)));
}
