//! RISC-V's incoming message-signalled interrupt controllers (Advanced Interrupt Architecture 1.0, chapter 3), one of each hart,
//! with an [`aplic`](super::aplic) that turns devices' wires into messages for them. By hand, for the same reason.
//!
//! A message is a store of an identity to a hart's page, and stays pending there: the one who routes a source elsewhere cannot
//! take back what was sent. So each identity is written down with the hart that it is for. Another that finds it drops it, and the
//! one that it is for has been sent it again.
//!
//! Devices behind PCI send such messages themselves: an identity of theirs is routed by where its device is told to send it.

use super::aplic::{Domain, TARGET_HART};
use super::{Accept, Controller, Delivery, IrqError, Message, Sender};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use spin::{Mutex, Once};

/// Registers of a hart's file of interrupts, behind its select register.
const DELIVERY: usize = 0x70;
const THRESHOLD: usize = 0x72;
const PENDING: usize = 0x80;
const ENABLE: usize = 0xc0;

/// Identities that are used; every file has these. A threshold lets what is below it through, 0 lets all.
const IDENTITIES: usize = 64;
const FIRST_URGENT: usize = 1;
const CALL: usize = 8;
const FIRST_PLAIN: usize = CALL + 1;
/// What a call is claimed as: no source has that number.
const CALLED: u32 = u32::MAX;
/// What the interrupt of a device that sends messages is claimed as: its identity above this, where no source is numbered.
const SENT: u32 = 1 << 16;
/// Bytes of a file's page.
const PAGE: usize = 4096;
/// Most regions of files.
pub const MOST_REGIONS: usize = 4;

/// The calling hart's file.
pub trait File: Sync {
    /// Writes the register that is selected so.
    fn set(&self, register: usize, value: u64);
    /// Whether an identity is pending.
    fn is_pending(&self, identity: usize) -> bool;
    /// The most urgent identity that is pending and let through; 0 if there is none.
    fn top(&self) -> u32;
    /// The same, which ends to be pending.
    fn claim(&self) -> u32;
    /// Orders accesses of memory and of devices before it to those behind it.
    fn io_barrier(&self);
}

/// Where the harts' files lie.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Regions of pages, one after the other; what is not there has none.
    pub regions: [(NonNull<u8>, usize); MOST_REGIONS],
    /// Each hart's first page of `1 << guest_bits` is its file.
    pub guest_bits: u32,
    /// Bits of an address above those of a hart's pages that number it in its group.
    pub hart_bits: u32,
    /// Bits that number the group, and the place of the first.
    pub group_bits: u32,
    /// See `group_bits`.
    pub group_shift: u32,
    /// Identities that a file has, at least 63.
    pub identities: u32,
}

impl Files {
    /// The page of hart `hart`.
    fn page(&self, hart: u64) -> Option<NonNull<u32>> {
        let mut offset = usize::try_from(hart).ok()?.checked_mul(PAGE << self.guest_bits)?;
        for &(base, bytes) in &self.regions {
            if offset < bytes {
                return NonNull::new(base.as_ptr().wrapping_add(offset).cast());
            }
            offset -= bytes;
        }
        None
    }

    /// What the APLIC calls that hart.
    fn number(&self, page: NonNull<u32>) -> u32 {
        let bits = |from: u32, count: u32| (page.addr().get() >> from & ((1 << count) - 1)) as u32;
        bits(PAGE.ilog2() + self.guest_bits, self.hart_bits)
            | bits(self.group_shift, self.group_bits) << self.hart_bits
    }
}

/// What an identity stands for.
struct Wire {
    /// The source; 0 is none.
    source: AtomicU32,
    edge: AtomicBool,
    /// The name of the hart that it is for, plus 1; 0 is nobody.
    to: AtomicU64,
    /// Its message may have gone to a hart that drops it, and nobody has been sent it again.
    owed: AtomicBool,
    /// The device that sends it, if it is not the APLIC.
    sender: Once<&'static dyn Sender>,
}

impl Wire {
    const fn new() -> Self {
        Self {
            source: AtomicU32::new(0),
            edge: AtomicBool::new(false),
            to: AtomicU64::new(0),
            owed: AtomicBool::new(false),
            sender: Once::new(),
        }
    }

    fn is_free(&self) -> bool {
        self.source.load(Ordering::Relaxed) == 0
    }
}

/// An APLIC and the harts' files. A hart's name is the number of its file.
pub struct Imsic<I> {
    domain: Domain,
    files: Files,
    interface: I,
    wires: [Wire; IDENTITIES],
    routing: Mutex<()>,
}

// SAFETY: the pages of files are stored to alone, each store a message of its own.
unsafe impl<I: Send> Send for Imsic<I> {}
// SAFETY: as above.
unsafe impl<I: Sync> Sync for Imsic<I> {}

impl<I: File> Imsic<I> {
    /// Takes the controllers over: the APLIC with `bytes` of registers at `base` and sources up to `sources`, and the files.
    ///
    /// # Errors
    /// [`IrqError::NotOurs`] if the APLIC does not send messages.
    ///
    /// # Safety
    /// The registers of an APLIC's domain for supervisors lie at `base`, the harts' files for supervisors where `files` says, all
    /// mapped as device memory; nobody else uses them.
    pub unsafe fn new(
        base: NonNull<u8>,
        bytes: usize,
        sources: u32,
        files: Files,
        interface: I,
    ) -> Result<Self, IrqError> {
        // SAFETY: the caller's promise.
        let domain = unsafe { Domain::new(base, bytes, sources) };
        if !domain.start(true) {
            return Err(IrqError::NotOurs);
        }
        let wires = [const { Wire::new() }; IDENTITIES];
        Ok(Self { domain, files, interface, wires, routing: Mutex::new(()) })
    }

    /// The identity of a source that is configured.
    fn find(&self, source: u32) -> Option<usize> {
        self.wires.iter().position(|wire| source != 0 && wire.source.load(Ordering::Relaxed) == source)
    }

    /// Stores an identity to a file.
    fn send(&self, page: NonNull<u32>, identity: usize) {
        // SAFETY: a hart's file lies there, by the promise to `new`, which takes messages from whoever sends them.
        unsafe { page.write_volatile(identity as u32) }
    }

    /// Lets a device send an identity to a file, or to none.
    fn aim(&self, here: u64, identity: usize, sender: &dyn Sender, to: Option<(u64, NonNull<u32>)>) {
        let wire = &self.wires[identity];
        sender.aim(None);
        let before = wire.to.swap(to.map_or(0, |(hart, _)| hart + 1), Ordering::Relaxed);
        self.interface.io_barrier();
        // What was sent to the hart before is dropped by that. Whether there is such a thing, that hart alone can see.
        let left = before != 0 && (before != here + 1 || self.interface.is_pending(identity));
        let Some((_, page)) = to else {
            wire.owed.fetch_or(left, Ordering::Relaxed);
            return;
        };
        let address = page.as_ptr().expose_provenance() as u64;
        sender.aim(Some(Message { address, data: identity as u32 }));
        if wire.owed.swap(false, Ordering::Relaxed) || left {
            self.send(page, identity);
        }
    }

    /// Lets a source go to a file, or to none.
    fn send_to(&self, here: u64, identity: usize, to: Option<(u64, NonNull<u32>)>) {
        let wire = &self.wires[identity];
        let source = wire.source.load(Ordering::Relaxed);
        let name = to.map_or(0, |(hart, _)| hart + 1);
        if wire.to.load(Ordering::Relaxed) == name {
            return;
        }
        if let Some(&sender) = wire.sender.get() {
            return self.aim(here, identity, sender, to);
        }
        self.domain.enable(source, false);
        wire.to.store(name, Ordering::Relaxed);
        // Who finds the message finds that it is his.
        self.interface.io_barrier();
        let Some((_, page)) = to else { return };
        self.domain.set_target(source, self.files.number(page) << TARGET_HART | identity as u32);
        self.domain.enable(source, true);
        // It may have been sent to the hart before, which drops it from now on. An edge leaves no trace of that.
        if wire.edge.load(Ordering::Relaxed) || self.domain.wants(source) {
            self.domain.set_pending(source);
        }
    }
}

impl<I: File> Controller for Imsic<I> {
    /// Harts have no private interrupts here but calls, which are always let through.
    fn start_hart(&self, here: u64, _: &[u32]) -> Result<(), IrqError> {
        self.files.page(here).ok_or(IrqError::NoHart)?;
        // Each register holds 64 identities, under the number of the first half.
        for half in (0..=self.files.identities as usize / 32).step_by(2) {
            self.interface.set(ENABLE + half, if half == 0 { !1 } else { 0 });
            self.interface.set(PENDING + half, 0);
        }
        self.interface.set(THRESHOLD, 0);
        self.interface.set(DELIVERY, 1);
        Ok(())
    }

    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError> {
        if interrupt > SENT {
            let known = self.find(interrupt).filter(|_| kind.edge && !kind.urgent);
            return known.map(|_| ()).ok_or(IrqError::NoInterrupt);
        }
        self.domain.configure(interrupt, kind.edge)?;
        let _one = self.routing.lock();
        let mut places = if kind.urgent { FIRST_URGENT..CALL } else { FIRST_PLAIN..IDENTITIES };
        let known = self.find(interrupt).filter(|identity| places.contains(identity));
        let free = || places.find(|&identity| self.wires[identity].is_free());
        let identity = known.or_else(free).ok_or(IrqError::NoInterrupt)?;
        self.wires[identity].edge.store(kind.edge, Ordering::Relaxed);
        self.wires[identity].source.store(interrupt, Ordering::Relaxed);
        Ok(())
    }

    fn add_sender(&self, sender: &'static dyn Sender, _: u32) -> Result<u32, IrqError> {
        let _one = self.routing.lock();
        let free = (FIRST_PLAIN..IDENTITIES).find(|&identity| self.wires[identity].is_free());
        let identity = free.ok_or(IrqError::NoInterrupt)?;
        sender.aim(None);
        self.wires[identity].sender.call_once(|| sender);
        self.wires[identity].edge.store(true, Ordering::Relaxed);
        let number = SENT | identity as u32;
        self.wires[identity].source.store(number, Ordering::Relaxed);
        Ok(number)
    }

    fn route(&self, here: u64, interrupts: &[u32], _: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let page = |hart| self.files.page(hart).map(|page| (hart, page)).ok_or(IrqError::NoHart);
        let to = to.map(page).transpose()?;
        let _one = self.routing.lock();
        for &interrupt in interrupts {
            self.send_to(here, self.find(interrupt).ok_or(IrqError::NoInterrupt)?, to);
        }
        Ok(())
    }

    fn accept(&self, _: u64, what: Accept) {
        let threshold = match what {
            Accept::All => 0,
            Accept::Urgent => CALL,
        };
        self.interface.set(THRESHOLD, threshold as u64);
    }

    /// A claim or a change of what is let through takes the hart's line back, in QEMU before 9.2 even if a message has come since it
    /// looked: that one stays pending, and ends no sleep.
    fn is_pending(&self, _: u64) -> bool {
        self.interface.top() != 0
    }

    fn claim(&self, here: u64) -> Option<u32> {
        loop {
            let claimed = self.interface.claim() as usize;
            self.interface.io_barrier();
            match claimed {
                0 => return None,
                CALL => return Some(CALLED),
                identity => {
                    // Sent before it was routed elsewhere, or by nobody.
                    let wire = self.wires.get(identity);
                    let wire = wire.filter(|wire| wire.to.load(Ordering::Relaxed) == here + 1);
                    if let Some(wire) = wire {
                        return Some(wire.source.load(Ordering::Relaxed));
                    }
                }
            }
        }
    }

    /// A level that is still there is sent again: the APLIC sends it when it comes, and no more.
    fn complete(&self, _: u64, claimed: u32) {
        let wire = self.find(claimed).map(|identity| &self.wires[identity]);
        if wire.is_some_and(|wire| !wire.edge.load(Ordering::Relaxed)) && self.domain.wants(claimed) {
            self.domain.set_pending(claimed);
        }
    }

    fn call(&self, hart: u64) -> bool {
        let Some(page) = self.files.page(hart) else { return false };
        self.send(page, CALL);
        true
    }
}

/// Registers are volatile to the driver and plain memory to these tests, which Miri takes for what it is not.
#[cfg(all(test, not(miri)))]
mod tests;
