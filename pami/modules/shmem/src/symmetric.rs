//! Symmetric objects: arrays that every PE has at the same place of its heap.

use core::marker::PhantomData;
use core::ops::Range;

/// An array of the symmetric heap, or a part of one: it names that of any PE. It can be copied, and is of no use once what it
/// lies in is freed, or the library has ended: then it names other bytes of the heap, or is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Sym<T> {
    offset: u32,
    len: u32,
    elements: PhantomData<fn() -> T>,
}

impl<T> Clone for Sym<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Sym<T> {}

impl<T> Sym<T> {
    /// `offset` is a multiple of an element's size, and all bytes lie in the heap.
    pub(crate) fn new(offset: u32, len: u32) -> Self {
        Self { offset, len, elements: PhantomData }
    }

    /// Bytes from the start of the heap.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Element `index` alone, if there is one.
    pub fn at(&self, index: usize) -> Option<Self> {
        self.part(index..index.checked_add(1)?)
    }

    /// The elements of a range, if there are all.
    pub fn part(&self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len() {
            return None;
        }
        Some(Self::new(self.offset + (range.start * size_of::<T>()) as u32, range.len() as u32))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.len() * size_of::<T>()
    }

    /// Where its bytes lie in a PE's heap.
    pub(crate) fn range(&self) -> Range<usize> {
        let start = self.offset as usize;
        start..start + self.bytes()
    }
}
