//! Updates of single integers, which say what they were (SPEC P-7).

use crate::address::GlobalAddress;
use crate::error::Error;
use crate::library::Library;
use crate::requests::RequestKind;
use pami::{Node, RegionHandle, RmwOp, Update, Width};

/// An integer that can be updated: `i32` or `i64`.
pub trait Integer: Copy + private::Sealed {
    /// Its size.
    const WIDTH: Width;
    /// Its bits, in the lower ones.
    fn to_bits(self) -> u64;
    /// The integer of these bits.
    fn from_bits(bits: u64) -> Self;
}

mod private {
    pub trait Sealed {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

impl Integer for i32 {
    const WIDTH: Width = Width::Four;
    fn to_bits(self) -> u64 {
        u64::from(self as u32)
    }
    fn from_bits(bits: u64) -> Self {
        bits as u32 as i32
    }
}

impl Integer for i64 {
    const WIDTH: Width = Width::Eight;
    fn to_bits(self) -> u64 {
        self as u64
    }
    fn from_bits(bits: u64) -> Self {
        bits as i64
    }
}

impl<N: Node> Library<N> {
    /// Adds `value`, wrapping, to the integer at `address`. Returns what it was.
    ///
    /// # Errors
    /// [`Error::Outside`], [`Error::Unaligned`], [`Error::Task`], [`Error::Send`], [`Error::Operation`]
    pub fn fetch_and_add<T: Integer>(&self, address: GlobalAddress, value: T) -> Result<T, Error> {
        self.update(address, Update::Add(value.to_bits()))
    }

    /// Replaces the integer at `address` by `value`. Returns what it was.
    ///
    /// # Errors
    /// As [`fetch_and_add`](Self::fetch_and_add).
    pub fn swap<T: Integer>(&self, address: GlobalAddress, value: T) -> Result<T, Error> {
        self.update(address, Update::Swap(value.to_bits()))
    }

    /// Replaces the integer at `address` by `new` if it is `expected`. Returns what it was.
    ///
    /// # Errors
    /// As [`fetch_and_add`](Self::fetch_and_add).
    pub fn compare_and_swap<T: Integer>(
        &self,
        address: GlobalAddress,
        expected: T,
        new: T,
    ) -> Result<T, Error> {
        self.update(address, Update::CompareSwap { expected: expected.to_bits(), new: new.to_bits() })
    }

    fn update<T: Integer>(&self, address: GlobalAddress, update: Update) -> Result<T, Error> {
        let region = self.check_word(address, T::WIDTH)?;
        self.follow_accumulates(address.task)?;
        let slot = self.begin(RequestKind::Own, address.task)?;
        let begun = self.begin_update(address, region, RmwOp { width: T::WIDTH, update }, slot);
        self.finish(slot, begun).map(T::from_bits)
    }

    /// Sets an integer behind what the call has begun before.
    pub(crate) fn set<T: Integer>(&self, address: GlobalAddress, value: T, slot: usize) -> Result<(), Error> {
        let region = self.check_word(address, T::WIDTH)?;
        let op = RmwOp { width: T::WIDTH, update: Update::Swap(value.to_bits()) };
        self.begin_update(address, region, op, slot)
    }

    fn begin_update(
        &self,
        address: GlobalAddress,
        region: RegionHandle,
        op: RmwOp,
        slot: usize,
    ) -> Result<(), Error> {
        let word = (self.endpoint(address.task)?, region, address.offset);
        self.operate(slot, |active| self.inner.protocols.update(active, word, op, slot))
    }

    pub(crate) fn check_word(&self, address: GlobalAddress, width: Width) -> Result<RegionHandle, Error> {
        let size = if width == Width::Four { 4 } else { 8 };
        let region = self.check_remote(address, size.into())?;
        if address.offset.is_multiple_of(size) { Ok(region) } else { Err(Error::Unaligned { size }) }
    }
}
