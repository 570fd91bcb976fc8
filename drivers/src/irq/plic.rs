//! The RISC-V platform-level interrupt controller.

use core::ptr::NonNull;

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

/// The controller. The registers of one context are one hart's: a hart claims with its own context only.
#[derive(Clone, Copy)]
pub struct Plic {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: every register access is a single load or store, and the registers of different contexts and interrupts are
// independent but for the enable words, which only `enable` changes, with exclusive access.
unsafe impl Send for Plic {}
// SAFETY: as above; `&self` methods touch only claim registers and thresholds, which are a context's own.
unsafe impl Sync for Plic {}

impl Plic {
    /// The controller with `bytes` of registers at `base`.
    ///
    /// # Safety
    /// The registers of a PLIC lie there, mapped as device memory, and nobody else uses them.
    pub unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        Self { base, bytes }
    }

    fn register(&self, offset: usize) -> Option<*mut u32> {
        if offset.checked_add(4)? > self.bytes {
            return None;
        }
        // SAFETY: inside the region that `new` was promised.
        Some(unsafe { self.base.as_ptr().add(offset) }.cast())
    }

    fn read(&self, offset: usize) -> u32 {
        // SAFETY: a register of the controller, by `register`.
        self.register(offset).map_or(0, |register| unsafe { register.read_volatile() })
    }

    fn write(&self, offset: usize, value: u32) {
        if let Some(register) = self.register(offset) {
            // SAFETY: a register of the controller, by `register`.
            unsafe { register.write_volatile(value) }
        }
    }

    /// Lets every interrupt of a priority above 0 reach `context`, and turns all of its interrupts off.
    pub fn start_context(&mut self, context: u32) {
        if context >= CONTEXTS {
            return;
        }
        for word in 0..(INTERRUPTS as usize / 32) {
            self.write(ENABLE + context as usize * ENABLE_STRIDE + word * 4, 0);
        }
        self.set_threshold(context, 0);
    }

    /// Lets only interrupts of a priority above `threshold` reach `context`.
    pub fn set_threshold(&self, context: u32, threshold: u32) {
        if context < CONTEXTS {
            self.write(CONTEXT + context as usize * CONTEXT_STRIDE, threshold);
        }
    }

    /// Turns `interrupt`, of this priority, on or off for `context`.
    pub fn enable(&mut self, context: u32, interrupt: u32, priority: u32, on: bool) {
        if context >= CONTEXTS || interrupt >= INTERRUPTS {
            return;
        }
        let offset = ENABLE + context as usize * ENABLE_STRIDE + interrupt as usize / 32 * 4;
        let bit = 1 << (interrupt % 32);
        let word = self.read(offset);
        self.write(offset, if on { word | bit } else { word & !bit });
        // Last: QEMU's PLIC looks for pending interrupts when a priority is written, not when one is enabled.
        self.write(interrupt as usize * 4, priority);
    }

    /// Takes the pending interrupt of the highest priority, if `context` has one.
    pub fn claim(&self, context: u32) -> Option<u32> {
        let interrupt = self.read(CONTEXT + context as usize * CONTEXT_STRIDE + CLAIM);
        (interrupt != 0).then_some(interrupt)
    }

    /// Ends what [`claim`](Self::claim) started: the interrupt may come again.
    pub fn complete(&self, context: u32, interrupt: u32) {
        self.write(CONTEXT + context as usize * CONTEXT_STRIDE + CLAIM, interrupt);
    }
}
