//! The frame of registers by which devices behind PCI raise shared interrupts of a GICv2 (Arm's Server Base System Architecture 2.3,
//! appendix E, "GICv2m"): each message is the number of one. By hand: `arm-gic` does not know it.

use super::registers::Registers;
use super::{IrqError, Message, Sender};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

/// Registers: which interrupts it raises, and where the number of one is stored.
pub(super) const TYPE: usize = 0x008;
const RAISE: usize = 0x040;
/// Bits of a number.
const NUMBER: u32 = 0x3ff;

/// A frame. Its interrupts are given to devices one by one.
pub struct MessageFrame {
    registers: Registers,
    address: u64,
    given: AtomicU32,
}

impl MessageFrame {
    /// The frame with `bytes` of registers at `base`.
    ///
    /// # Safety
    /// The registers of such a frame lie there, mapped as device memory, and at this address for devices too; nobody else uses them.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        let address = base.as_ptr().expose_provenance() as u64;
        // SAFETY: the caller's promise.
        Self { registers: unsafe { Registers::new(base, bytes) }, address, given: AtomicU32::new(0) }
    }

    /// Gives a device the next interrupt, one that is less than `end`.
    pub(super) fn add_sender(&self, sender: &dyn Sender, end: u32) -> Result<u32, IrqError> {
        let kind = self.registers.read(TYPE);
        let (first, count) = (kind >> 16 & NUMBER, kind & NUMBER);
        let next = self.given.fetch_add(1, Ordering::Relaxed);
        let number = Some(first + next).filter(|&number| next < count && number < end);
        let number = number.ok_or(IrqError::NoInterrupt)?;
        sender.aim(Some(Message { address: self.address + RAISE as u64, data: number }));
        Ok(number)
    }
}
