//! The RISC-V platform-level interrupt controller. By hand: `riscv-peripheral` wants to know address and contexts when it is
//! compiled.

use super::registers::Registers;
use super::{Accept, Controller, Delivery, IrqError};
use core::ptr::NonNull;
use spin::Mutex;

/// Bytes of the priority registers, and where each context's enable bits and claim registers lie.
const ENABLE: usize = 0x2000;
const ENABLE_STRIDE: usize = 0x80;
const CONTEXT: usize = 0x20_0000;
const CONTEXT_STRIDE: usize = 0x1000;
const CLAIM: usize = 4;
/// Interrupts are numbered below this.
const INTERRUPTS: u32 = 1024;
/// Contexts are numbered below this.
const CONTEXTS: u32 = 15_872;
/// Priorities; a threshold lets what is above it through.
const PLAIN: u32 = 1;
const URGENT: u32 = 2;

/// The controller. The registers of one context are one hart's: a hart claims with its own context only. Those of different
/// contexts and interrupts are independent but for the enable words, which only change under the lock.
pub struct Plic {
    registers: Registers,
    /// Held while enable words change; in it, the interrupts that are urgent.
    urgent: Mutex<[u32; (INTERRUPTS / 32) as usize]>,
}

impl Plic {
    /// The controller with `bytes` of registers at `base`.
    ///
    /// # Safety
    /// The registers of a PLIC lie there, mapped as device memory, and nobody else uses them.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        let registers = unsafe { Registers::new(base, bytes) };
        Self { registers, urgent: Mutex::new([0; (INTERRUPTS / 32) as usize]) }
    }

    /// Turns `interrupt`, of this priority, on or off for `context`. The lock is held.
    fn enable(&self, context: u32, interrupt: u32, priority: u32, on: bool) {
        let offset = ENABLE + context as usize * ENABLE_STRIDE + interrupt as usize / 32 * 4;
        let bit = 1 << (interrupt % 32);
        let word = self.registers.read(offset);
        self.registers.write(offset, if on { word | bit } else { word & !bit });
        // Last: QEMU's PLIC looks for pending interrupts when a priority is written, not when one is enabled.
        self.registers.write(interrupt as usize * 4, priority);
    }
}

/// The number of a context, which the name of a hart is.
fn context(hart: u64) -> Result<u32, IrqError> {
    u32::try_from(hart).ok().filter(|&context| context < CONTEXTS).ok_or(IrqError::NoHart)
}

/// The word of an interrupt's bit, and the bit.
fn bit(interrupt: u32) -> Result<(usize, u32), IrqError> {
    if interrupt == 0 || interrupt >= INTERRUPTS {
        return Err(IrqError::NoInterrupt);
    }
    Ok((interrupt as usize / 32, 1 << (interrupt % 32)))
}

impl Controller for Plic {
    /// Harts have no private interrupts here.
    fn start_hart(&self, here: u64, _: &[u32]) -> Result<(), IrqError> {
        let context = context(here)?;
        for word in 0..(INTERRUPTS as usize / 32) {
            self.registers.write(ENABLE + context as usize * ENABLE_STRIDE + word * 4, 0);
        }
        // Each hart for itself: OpenSBI raises the threshold of a hart's context when it starts the hart.
        self.accept(here, Accept::All);
        Ok(())
    }

    /// What a device's edge is, its gateway knows.
    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError> {
        let (word, bit) = bit(interrupt)?;
        let mut urgent = self.urgent.lock();
        urgent[word] = urgent[word] & !bit | if kind.urgent { bit } else { 0 };
        Ok(())
    }

    fn route(&self, _: u64, interrupts: &[u32], from: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let urgent = self.urgent.lock();
        let (from, to) = (from.map(context).transpose()?, to.map(context).transpose()?);
        for &interrupt in interrupts {
            let (word, bit) = bit(interrupt)?;
            let priority = if urgent[word] & bit != 0 { URGENT } else { PLAIN };
            if let Some(from) = from.filter(|&from| Some(from) != to) {
                self.enable(from, interrupt, priority, false);
            }
            if let Some(to) = to {
                self.enable(to, interrupt, priority, true);
            }
        }
        Ok(())
    }

    fn accept(&self, here: u64, what: Accept) {
        if let Ok(context) = context(here) {
            let threshold = match what {
                Accept::All => 0,
                Accept::Urgent => PLAIN,
            };
            self.registers.write(CONTEXT + context as usize * CONTEXT_STRIDE, threshold);
        }
    }

    fn claim(&self, here: u64) -> Option<u32> {
        let context = context(here).ok()?;
        let interrupt = self.registers.read(CONTEXT + context as usize * CONTEXT_STRIDE + CLAIM);
        (interrupt != 0).then_some(interrupt)
    }

    fn complete(&self, here: u64, claimed: u32) {
        if let Ok(context) = context(here) {
            self.registers.write(CONTEXT + context as usize * CONTEXT_STRIDE + CLAIM, claimed);
        }
    }

    /// Harts call each other through the firmware.
    fn call(&self, _: u64) -> bool {
        false
    }
}
