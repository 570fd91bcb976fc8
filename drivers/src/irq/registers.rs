//! Registers of a controller, 32 bits each, somewhere in a region of device memory.

use core::ptr::NonNull;

/// A region of them. What lies outside reads as 0 and is not written.
pub(super) struct Registers {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: every access is a single load or store of a register; what several of them mean together is ordered by whoever has the
// region.
unsafe impl Send for Registers {}
// SAFETY: as above.
unsafe impl Sync for Registers {}

impl Registers {
    /// `bytes` of registers at `base`.
    ///
    /// # Safety
    /// They lie there, mapped as device memory, as long as this is used; nobody else uses them.
    pub(super) unsafe fn new(base: NonNull<u8>, bytes: usize) -> Self {
        Self { base, bytes }
    }

    /// How many bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn register(&self, offset: usize) -> Option<*mut u32> {
        if offset.checked_add(4)? > self.bytes {
            return None;
        }
        // SAFETY: inside the region that `new` was promised.
        Some(unsafe { self.base.as_ptr().add(offset) }.cast())
    }

    pub(super) fn read(&self, offset: usize) -> u32 {
        // SAFETY: a register, by `register`.
        self.register(offset).map_or(0, |register| unsafe { register.read_volatile() })
    }

    pub(super) fn write(&self, offset: usize, value: u32) {
        if let Some(register) = self.register(offset) {
            // SAFETY: a register, by `register`.
            unsafe { register.write_volatile(value) }
        }
    }
}
