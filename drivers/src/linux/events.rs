//! Interrupts of a process: harts are threads, which call each other by words in memory and sleep on descriptors
//! (SPEC H-1, N-8).
//!
//! A hart that has nothing to do waits for its own descriptor and for those of the cards whose interrupts are routed to it.
//! Who calls it sets a bit first and looks then whether it sleeps; who falls asleep says so first and looks then for bits:
//! one of the two sees the other. A hart that is awake is called without the kernel of the host. A card's interrupt is a
//! level: as long as there is something to read, every sleep ends at once.

use super::Signal;
use crate::irq::{Accept, Controller, Delivery, IrqError};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::time::{ClockId, clock_gettime};
use spin::Once;

/// The number of the interrupt by which harts call each other; 0 is nobody's.
const CALLED: u32 = 1;
/// Devices whose interrupts there may be. They have the numbers behind [`CALLED`].
pub const DEVICES: usize = 3;
/// A deadline that never comes.
const NEVER: u64 = u64::MAX;
/// What [`now_ns`] counts in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// The interrupt controller. A hart's name is its number.
pub struct Events {
    harts: Box<[Hart]>,
    /// By number, from [`CALLED`] on.
    devices: [Once<&'static Signal>; DEVICES],
}

#[repr(align(64))]
struct Hart {
    event: &'static OwnedFd,
    /// It waits for its descriptors, or is about to.
    asleep: AtomicBool,
    /// Interrupts by number.
    pending: AtomicU32,
    /// Devices whose interrupts are its, by number.
    routed: AtomicU32,
    /// Its timer, by the host's monotonic clock.
    deadline: AtomicU64,
}

const fn bit(interrupt: u32) -> u32 {
    1 << interrupt
}

impl Hart {
    fn new(event: &'static OwnedFd) -> Self {
        Self {
            event,
            asleep: AtomicBool::new(false),
            pending: AtomicU32::new(0),
            routed: AtomicU32::new(0),
            deadline: AtomicU64::new(NEVER),
        }
    }

    /// Ends its sleep, if it sleeps.
    fn rouse(&self) {
        self.rouse_by(self.event);
    }

    /// The same by its bell, as the caller's process has it.
    fn rouse_by(&self, bell: &OwnedFd) {
        if self.asleep.load(Ordering::SeqCst) {
            // It fails only if it is roused already.
            let _ = rustix::io::write(bell, &1u64.to_ne_bytes());
        }
    }

    /// Waits for one of its descriptors or its timer. Returns whether there is something for it.
    fn poll(&self, devices: &[Once<&'static Signal>]) -> bool {
        let routed = self.routed.load(Ordering::SeqCst);
        let mut all = heapless::Vec::<PollFd<'_>, { DEVICES + 1 }>::new();
        let mut numbers = heapless::Vec::<u32, DEVICES>::new();
        // There is room for all of them.
        let _ = all.push(PollFd::new(self.event, PollFlags::IN));
        for (number, line) in (CALLED + 1..).zip(devices) {
            let Some(line) = line.get().filter(|_| routed & bit(number) != 0) else { continue };
            let _ = all.push(PollFd::new(line.ready(), PollFlags::IN));
            let _ = numbers.push(number);
        }
        let timeout = match self.deadline.load(Ordering::Relaxed) {
            NEVER => None,
            deadline => Some(deadline.saturating_sub(now_ns())),
        };
        let timeout = timeout.map(|ns| Timespec {
            tv_sec: i64::try_from(ns / NS_PER_S).unwrap_or(i64::MAX),
            tv_nsec: (ns % NS_PER_S) as _,
        });
        match poll(&mut all, timeout.as_ref()) {
            Ok(0) => return true,
            // A signal: the caller looks again.
            Err(_) => return true,
            Ok(_) => {}
        }
        let Some((own, others)) = all.split_first() else { return true };
        if !own.revents().is_empty() {
            // Whoever writes sets a bit first.
            let _ = rustix::io::read(self.event, &mut [0u8; 8]);
        }
        let ready = others.iter().zip(&numbers).filter(|(poll, _)| !poll.revents().is_empty());
        let ready = ready.fold(0, |bits, (_, &number)| bits | bit(number));
        self.pending.fetch_or(ready, Ordering::SeqCst) | ready != 0
    }
}

/// The host's monotonic clock, by which timers are set.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

impl Events {
    /// The controller of as many harts as there are bells: eventfds that do not block.
    pub fn new(bells: &'static [OwnedFd]) -> Self {
        Self { harts: bells.iter().map(Hart::new).collect(), devices: [const { Once::new() }; DEVICES] }
    }

    /// Calls a hart of another process, whose bell is this one's descriptor `bell`.
    pub(super) fn call_by(&self, hart: usize, bell: &OwnedFd) {
        if let Some(hart) = self.harts.get(hart) {
            hart.pending.fetch_or(bit(CALLED), Ordering::SeqCst);
            hart.rouse_by(bell);
        }
    }

    /// A device's interrupt comes by this descriptor from now on. Returns its number, if there is one left.
    pub fn attach(&self, line: &'static Signal) -> Option<u32> {
        let place = self.devices.iter().position(|device| !device.is_completed())?;
        self.devices[place].call_once(|| line);
        Some(CALLED + 1 + place as u32)
    }

    fn hart(&self, name: u64) -> Option<&Hart> {
        self.harts.get(usize::try_from(name).ok()?)
    }

    fn is_device(&self, interrupt: u32) -> bool {
        (CALLED + 1..).zip(&self.devices).any(|(number, line)| number == interrupt && line.is_completed())
    }

    /// Ends sleeps of the hart `here`, which calls, from this time of the host's monotonic clock on, in ns; or no more.
    pub fn set_timer(&self, here: usize, at: Option<u64>) {
        if let Some(hart) = self.harts.get(here) {
            hart.deadline.store(at.unwrap_or(NEVER), Ordering::Relaxed);
        }
    }

    /// The hart `here`, which calls, sleeps until an interrupt is pending for it, or its timer is. May return early.
    pub fn wait(&self, here: usize) {
        let Some(hart) = self.harts.get(here) else { return };
        loop {
            hart.asleep.store(true, Ordering::SeqCst);
            if hart.pending.load(Ordering::SeqCst) != 0 || hart.poll(&self.devices) {
                break;
            }
        }
        hart.asleep.store(false, Ordering::SeqCst);
    }
}

impl Controller for Events {
    fn start_hart(&self, here: u64, _: &[u32]) -> Result<(), IrqError> {
        self.hart(here).map(|_| ()).ok_or(IrqError::NoHart)
    }

    fn configure(&self, interrupt: u32, _: Delivery) -> Result<(), IrqError> {
        self.is_device(interrupt).then_some(()).ok_or(IrqError::NoInterrupt)
    }

    fn route(&self, _: u64, interrupts: &[u32], from: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let bits = interrupts.iter().fold(0, |bits, &number| bits | bit(number));
        if let Some(from) = from.and_then(|from| self.hart(from)) {
            from.routed.fetch_and(!bits, Ordering::AcqRel);
            from.pending.fetch_and(!bits, Ordering::SeqCst);
        }
        if let Some(to) = to {
            let to = self.hart(to).ok_or(IrqError::NoHart)?;
            to.routed.fetch_or(bits, Ordering::SeqCst);
            // It waits for these as well.
            to.rouse();
        }
        Ok(())
    }

    fn accept(&self, _: u64, _: Accept) {}

    fn claim(&self, here: u64) -> Option<u32> {
        let pending = &self.hart(here)?.pending;
        let lowest = |bits: u32| (bits != 0).then(|| bits & (bits - 1));
        let before = pending.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lowest).ok()?;
        Some(before.trailing_zeros())
    }

    fn complete(&self, _: u64, _: u32) {}

    fn call(&self, hart: u64) -> bool {
        let Some(hart) = self.hart(hart) else { return false };
        hart.pending.fetch_or(bit(CALLED), Ordering::SeqCst);
        hart.rouse();
        true
    }
}

#[cfg(test)]
mod tests;
