//! Symmetric objects, arrays that every PE has at the same place of its heap; and what they can be arrays of.

use crate::error::{Error, Result};
use core::marker::PhantomData;
use core::ops::Range;
use pami::Width;
use pami::operator::Element;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Plain data, which can be moved.
pub trait Data: Copy + FromBytes + IntoBytes + Immutable + 'static {}
impl<T: Copy + FromBytes + IntoBytes + Immutable + 'static> Data for T {}

/// A number, of which there are reductions.
pub trait Number: Data + private::Sealed {
    /// Its type, as PAMI names it.
    const ELEMENT: Element;
}

/// A word that can be fetched, set, swapped and waited for: `i32`, `u32`, `i64`, `u64`, `f32`, `f64`.
pub trait Word: Number + PartialOrd {
    /// Its size.
    const WIDTH: Width;
    /// Its bits, in the lower ones.
    fn to_bits(self) -> u64;
    /// The word of these bits.
    fn from_bits(bits: u64) -> Self;
}

/// A word with all atomics: `i32`, `u32`, `i64`, `u64`.
pub trait Integer: Word {}

mod private {
    pub trait Sealed {}
}

macro_rules! numbers {
    ($($type:ty: $element:ident),*) => {$(
        impl private::Sealed for $type {}
        impl Number for $type {
            const ELEMENT: Element = Element::$element;
        }
    )*};
}
numbers!(i8: I8, i16: I16, i32: I32, i64: I64, u8: U8, u16: U16, u32: U32, u64: U64, f32: F32, f64: F64);

macro_rules! words {
    ($($type:ty: $bits:ty, $width:ident;)*) => {$(
        impl Word for $type {
            const WIDTH: Width = Width::$width;
            fn to_bits(self) -> u64 {
                <$bits>::from_ne_bytes(self.to_ne_bytes()).into()
            }
            fn from_bits(bits: u64) -> Self {
                Self::from_ne_bytes((bits as $bits).to_ne_bytes())
            }
        }
    )*};
}
words!(i32: u32, Four; u32: u32, Four; f32: u32, Four; i64: u64, Eight; u64: u64, Eight; f64: u64, Eight;);

impl Integer for i32 {}
impl Integer for u32 {}
impl Integer for i64 {}
impl Integer for u64 {}

/// An array of the symmetric heap, or a part of one: it names that of any PE. It can be copied, and is of no use once what it
/// lies in is freed, or the library has ended: then it names other bytes of the heap, or is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sym<T> {
    offset: u32,
    len: u32,
    elements: PhantomData<fn() -> T>,
}

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
        let inside = range.start <= range.end && range.end <= self.len();
        inside.then(|| Self::new(self.offset + (range.start * size_of::<T>()) as u32, range.len() as u32))
    }

    /// The first `wanted` elements.
    pub(crate) fn first(&self, wanted: usize) -> Result<Self> {
        self.part(0..wanted).ok_or(Error::Short { has: self.len(), wanted })
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
