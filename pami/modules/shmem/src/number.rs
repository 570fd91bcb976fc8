//! What symmetric objects are arrays of.

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
    ($($type:ty => $element:ident),*) => {$(
        impl private::Sealed for $type {}
        impl Number for $type {
            const ELEMENT: Element = Element::$element;
        }
    )*};
}
numbers!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64);

macro_rules! words {
    ($($type:ty, $width:ident, |$word:ident| $to:expr, |$bits:ident| $from:expr;)*) => {$(
        impl Word for $type {
            const WIDTH: Width = Width::$width;
            fn to_bits(self) -> u64 {
                let $word = self;
                $to
            }
            fn from_bits($bits: u64) -> Self {
                $from
            }
        }
    )*};
}
words! {
    i32, Four, |word| u64::from(word as u32), |bits| bits as u32 as i32;
    u32, Four, |word| u64::from(word), |bits| bits as u32;
    i64, Eight, |word| word as u64, |bits| bits as i64;
    u64, Eight, |word| word, |bits| bits;
    f32, Four, |word| u64::from(f32::to_bits(word)), |bits| f32::from_bits(bits as u32);
    f64, Eight, |word| f64::to_bits(word), |bits| f64::from_bits(bits);
}

impl Integer for i32 {}
impl Integer for u32 {}
impl Integer for i64 {}
impl Integer for u64 {}
