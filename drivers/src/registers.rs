//! Registers of 32 bits in a block of device memory, and the way to them: of a card, or of what a test has in its
//! place.

use core::marker::PhantomData;
use core::ptr::NonNull;
use volatile::VolatilePtr;

/// The registers of one kind of device.
pub trait Block: Copy + 'static {
    /// Bytes of the block: a power of two, at least 4.
    const BYTES: usize;

    /// Where this register is in the block, in bytes.
    fn offset(self) -> usize;
}

/// The way to the registers `R` of one card. Any hart may read and write; what that does is for the driver to know.
pub trait Bus<R>: Copy + Send + Sync + 'static {
    /// Reads a register.
    fn read(&self, register: R) -> u32;
    /// Writes a register.
    fn write(&self, register: R, value: u32);
}

/// Registers in memory.
pub struct Mmio<R> {
    base: NonNull<u8>,
    registers: PhantomData<fn(R)>,
}

impl<R> Clone for Mmio<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Mmio<R> {}

// SAFETY: registers are read and written by single aligned accesses, which the device takes from any hart; the memory
// is never ordinary memory and never goes away.
unsafe impl<R> Send for Mmio<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Mmio<R> {}

impl<R: Block> Mmio<R> {
    /// The registers that begin at `base`.
    ///
    /// # Safety
    /// `base` is the device address of such a register block, of [`Block::BYTES`] at least and aligned to 4, mapped as
    /// device memory for ever, and nothing else uses it.
    pub const unsafe fn new(base: NonNull<u8>) -> Self {
        Self { base, registers: PhantomData }
    }

    fn at(&self, register: R) -> VolatilePtr<'_, u32> {
        // A multiple of 4 below the block's end, whatever the table says.
        let offset = register.offset() & (R::BYTES - 4);
        let pointer = self.base.as_ptr().wrapping_add(offset).cast();
        // SAFETY: the block is what `new` was promised.
        unsafe { VolatilePtr::new(NonNull::new_unchecked(pointer)) }
    }
}

impl<R: Block> Bus<R> for Mmio<R> {
    #[inline]
    fn read(&self, register: R) -> u32 {
        self.at(register).read()
    }

    #[inline]
    fn write(&self, register: R, value: u32) {
        self.at(register).write(value);
    }
}
