//! The RISC-V advanced platform-level interrupt controller (Advanced Interrupt Architecture 1.0, chapter 4): wires of devices,
//! given to harts here, or turned into messages for [`imsic`](super::imsic). By hand: the crate `riscv-aia`, at 0.0.0, names
//! registers and no more.

use super::registers::Registers;
use super::{Accept, Controller, Delivery, IrqError};
use core::ptr::NonNull;
use spin::Mutex;

/// Registers of a domain.
const CONFIGURATION: usize = 0;
const SOURCE: usize = 0x0004;
pub(super) const INPUT: usize = 0x1d00;
pub(super) const SET_PENDING: usize = 0x1cdc;
pub(super) const SET_ENABLE: usize = 0x1edc;
const CLEAR_ENABLE_WORDS: usize = 0x1f00;
pub(super) const CLEAR_ENABLE: usize = 0x1fdc;
pub(super) const TARGET: usize = 0x3004;
/// Where each hart's own registers lie, and which they are.
const HARTS: usize = 0x4000;
const HART_BYTES: usize = 32;
const DELIVERY: usize = 0x00;
const FORCE: usize = 0x04;
const THRESHOLD: usize = 0x08;
const CLAIM: usize = 0x1c;

/// In the configuration: interrupts are on, and are sent as messages.
const ON: u32 = 1 << 8;
const BY_MESSAGE: u32 = 1 << 2;
/// How a source comes.
const RISING: u32 = 4;
const HIGH: u32 = 6;
/// A target's hart begins at this bit.
pub(super) const TARGET_HART: u32 = 18;
/// Harts are numbered below this.
const MOST_HARTS: u64 = 1 << 14;
/// Sources are numbered below this, from 1 on.
const MOST_SOURCES: u32 = 1024;

/// Priorities; a threshold lets what is below it through, 0 lets all.
const PLAIN: u32 = 2;
const URGENT: u32 = 1;

/// An interrupt domain. What registers of the same source are set to is ordered by whoever holds it.
pub(super) struct Domain {
    registers: Registers,
    sources: u32,
}

impl Domain {
    /// The domain with `bytes` of registers at `base` and sources up to `sources`.
    ///
    /// # Safety
    /// The registers of an APLIC's domain for supervisors lie there, mapped as device memory; nobody else uses them.
    pub(super) unsafe fn new(base: NonNull<u8>, bytes: usize, sources: u32) -> Self {
        // SAFETY: the caller's promise.
        Self { registers: unsafe { Registers::new(base, bytes) }, sources: sources.min(MOST_SOURCES - 1) }
    }

    /// Takes it over, every source off. False if it cannot give interrupts in the way that is asked for.
    pub(super) fn start(&self, by_message: bool) -> bool {
        self.registers.write(CONFIGURATION, 0);
        for word in 0..=self.sources as usize / 32 {
            self.registers.write(CLEAR_ENABLE_WORDS + word * 4, u32::MAX);
        }
        let way = if by_message { BY_MESSAGE } else { 0 };
        self.registers.write(CONFIGURATION, ON | way);
        self.registers.read(CONFIGURATION) & (ON | BY_MESSAGE) == ON | way
    }

    /// Sets how a source comes.
    pub(super) fn configure(&self, source: u32, edge: bool) -> Result<(), IrqError> {
        if source == 0 || source > self.sources {
            return Err(IrqError::NoInterrupt);
        }
        let (register, mode) = (SOURCE + (source as usize - 1) * 4, if edge { RISING } else { HIGH });
        self.registers.write(register, mode);
        // A source that the level above keeps stays off.
        if self.registers.read(register) == mode { Ok(()) } else { Err(IrqError::NotOurs) }
    }

    pub(super) fn target(&self, source: u32) -> u32 {
        self.registers.read(TARGET + (source as usize).saturating_sub(1) * 4)
    }

    pub(super) fn set_target(&self, source: u32, target: u32) {
        self.registers.write(TARGET + (source as usize).saturating_sub(1) * 4, target);
    }

    pub(super) fn enable(&self, source: u32, on: bool) {
        self.registers.write(if on { SET_ENABLE } else { CLEAR_ENABLE }, source);
    }

    /// Whether the source's wire says that its device wants something.
    pub(super) fn wants(&self, source: u32) -> bool {
        self.registers.read(INPUT + source as usize / 32 * 4) & 1 << (source % 32) != 0
    }

    pub(super) fn set_pending(&self, source: u32) {
        self.registers.write(SET_PENDING, source);
    }
}

/// A domain that gives interrupts to harts itself. A hart's name is the number of its registers here, which are its alone.
pub struct Aplic {
    domain: Domain,
    routing: Mutex<()>,
}

impl Aplic {
    /// Takes the controller over, with `bytes` of registers at `base` and sources up to `sources`.
    ///
    /// # Errors
    /// [`IrqError::NotOurs`] if it sends messages, and nothing else.
    ///
    /// # Safety
    /// The registers of an APLIC's domain for supervisors lie there, mapped as device memory; nobody else uses them.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize, sources: u32) -> Result<Self, IrqError> {
        // SAFETY: the caller's promise.
        let domain = unsafe { Domain::new(base, bytes, sources) };
        if domain.start(false) {
            Ok(Self { domain, routing: Mutex::new(()) })
        } else {
            Err(IrqError::NotOurs)
        }
    }

    /// Where a hart's registers lie.
    fn own(&self, hart: u64) -> Option<usize> {
        let hart = usize::try_from(hart).ok().filter(|&hart| (hart as u64) < MOST_HARTS)?;
        let own = HARTS + hart * HART_BYTES;
        (own + HART_BYTES <= self.domain.registers.bytes()).then_some(own)
    }
}

impl Controller for Aplic {
    /// Harts have no private interrupts here.
    fn start_hart(&self, here: u64, _: &[u32]) -> Result<(), IrqError> {
        let own = self.own(here).ok_or(IrqError::NoHart)?;
        self.domain.registers.write(own + FORCE, 0);
        self.domain.registers.write(own + THRESHOLD, 0);
        self.domain.registers.write(own + DELIVERY, 1);
        Ok(())
    }

    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError> {
        self.domain.configure(interrupt, kind.edge)?;
        self.domain.set_target(interrupt, if kind.urgent { URGENT } else { PLAIN });
        Ok(())
    }

    fn route(&self, _: u64, interrupts: &[u32], _: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let hart = to.map(|to| self.own(to).map(|_| to as u32).ok_or(IrqError::NoHart)).transpose()?;
        let _one = self.routing.lock();
        for &interrupt in interrupts {
            self.domain.enable(interrupt, false);
            if let Some(hart) = hart {
                let priority = self.domain.target(interrupt) & 0xff;
                self.domain.set_target(interrupt, hart << TARGET_HART | priority);
                self.domain.enable(interrupt, true);
            }
        }
        Ok(())
    }

    fn accept(&self, here: u64, what: Accept) {
        if let Some(own) = self.own(here) {
            let threshold = match what {
                Accept::All => 0,
                Accept::Urgent => PLAIN,
            };
            self.domain.registers.write(own + THRESHOLD, threshold);
        }
    }

    fn claim(&self, here: u64) -> Option<u32> {
        let number = self.domain.registers.read(self.own(here)? + CLAIM) >> 16;
        (number != 0).then_some(number)
    }

    /// A claim is all: a level that is still there interrupts again.
    fn complete(&self, _: u64, _: u32) {}

    /// Harts call each other through the firmware: what a hart is made to take here, it takes whatever it accepts.
    fn call(&self, _: u64) -> bool {
        false
    }
}

/// Registers are volatile to the driver and plain memory to these tests, which Miri takes for what it is not.
#[cfg(all(test, not(miri)))]
pub(super) mod tests {
    use super::*;
    use std::boxed::Box;

    /// A domain of 2 harts whose registers are mere memory.
    pub(in crate::irq) const BYTES: usize = HARTS + 2 * HART_BYTES;
    pub(in crate::irq) const SOURCES: u32 = 40;

    pub(in crate::irq) fn memory(bytes: usize) -> NonNull<u32> {
        let memory = std::vec![0u32; bytes / 4].into_boxed_slice();
        NonNull::from(Box::leak(memory)).cast()
    }

    pub(in crate::irq) fn word(base: NonNull<u32>, offset: usize) -> u32 {
        // SAFETY: inside of `memory`.
        unsafe { base.byte_add(offset).read_volatile() }
    }

    pub(in crate::irq) fn set(base: NonNull<u32>, offset: usize, value: u32) {
        // SAFETY: inside of `memory`.
        unsafe { base.byte_add(offset).write_volatile(value) }
    }

    #[test]
    fn b1_aplic_gives_a_source_to_the_hart_that_it_is_routed_to() {
        let base = memory(BYTES);
        // SAFETY: as large as the registers, never freed.
        let aplic = unsafe { Aplic::new(base.cast(), BYTES, SOURCES) }.unwrap();
        assert_eq!(word(base, CONFIGURATION), ON);
        assert_eq!(
            (word(base, CLEAR_ENABLE_WORDS), word(base, CLEAR_ENABLE_WORDS + 4)),
            (u32::MAX, u32::MAX)
        );
        assert_eq!(aplic.start_hart(2, &[]), Err(IrqError::NoHart));
        set(base, HARTS + HART_BYTES + THRESHOLD, 9);
        aplic.start_hart(1, &[]).unwrap();
        let own = HARTS + HART_BYTES;
        assert_eq!((word(base, own + DELIVERY), word(base, own + THRESHOLD)), (1, 0));

        for source in [0, SOURCES + 1] {
            let plain = Delivery { edge: false, urgent: false };
            assert_eq!(aplic.configure(source, plain), Err(IrqError::NoInterrupt));
        }
        aplic.configure(8, Delivery { edge: false, urgent: false }).unwrap();
        aplic.configure(10, Delivery { edge: true, urgent: true }).unwrap();
        assert_eq!((word(base, SOURCE + 7 * 4), word(base, SOURCE + 9 * 4)), (HIGH, RISING));
        assert_eq!(aplic.route(2, &[8], None, Some(2)), Err(IrqError::NoHart));
        aplic.route(1, &[8, 10], None, Some(1)).unwrap();
        assert_eq!(word(base, TARGET + 7 * 4), 1 << TARGET_HART | PLAIN);
        assert_eq!(word(base, TARGET + 9 * 4), 1 << TARGET_HART | URGENT);
        assert_eq!((word(base, CLEAR_ENABLE), word(base, SET_ENABLE)), (10, 10));
        set(base, SET_ENABLE, 0);
        aplic.route(1, &[8], Some(1), None).unwrap();
        assert_eq!((word(base, CLEAR_ENABLE), word(base, SET_ENABLE)), (8, 0));

        aplic.accept(1, Accept::Urgent);
        // What is less than the threshold comes.
        assert!(URGENT < word(base, own + THRESHOLD) && PLAIN >= word(base, own + THRESHOLD));
        assert_eq!(aplic.claim(1), None);
        set(base, own + CLAIM, 10 << 16 | URGENT);
        assert_eq!((aplic.claim(1), aplic.claim(0)), (Some(10), None));
    }
}
