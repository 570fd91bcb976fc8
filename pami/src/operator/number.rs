//! Arithmetic and order of each type of number.

use super::{Bytes, Element};
use core::ops::{BitAnd, BitOr, BitXor};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub(super) trait Number: Bytes {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

/// A number with an order that is total but for NaNs.
pub(super) trait Ordered: Bytes {
    fn is_less(self, other: Self) -> bool;
    /// The NaN that stands for all, if this is one.
    fn nan(self) -> Option<Self>;
}

pub(super) trait Integer:
    Number + Ordered + PartialEq + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self>
{
    const ELEMENT: Element;
    const FALSE: Self;
    fn from_bool(value: bool) -> Self;
}

/// The value, with the NaN that stands for all if it is one.
fn canonical<T: Ordered>(value: T) -> T {
    value.nan().unwrap_or(value)
}

pub(super) fn least<T: Ordered>(a: T, b: T) -> T {
    a.nan().or(b.nan()).unwrap_or(if b.is_less(a) { b } else { a })
}

pub(super) fn greatest<T: Ordered>(a: T, b: T) -> T {
    a.nan().or(b.nan()).unwrap_or(if a.is_less(b) { b } else { a })
}

macro_rules! integers {
    ($($int:ident $element:ident),*) => {$(
        impl Number for $int {
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }

        impl Ordered for $int {
            fn is_less(self, other: Self) -> bool {
                self < other
            }

            fn nan(self) -> Option<Self> {
                None
            }
        }

        impl Integer for $int {
            const ELEMENT: Element = Element::$element;
            const FALSE: Self = 0;

            fn from_bool(value: bool) -> Self {
                value.into()
            }
        }
    )*};
}

integers!(i8 I8, i16 I16, i32 I32, i64 I64, u8 U8, u16 U16, u32 U32, u64 U64);

macro_rules! floats {
    ($($float:ident $nan:literal $complex:ident),*) => {$(
        impl Number for $float {
            fn sum(self, other: Self) -> Self {
                canonical(self + other)
            }

            fn product(self, other: Self) -> Self {
                canonical(self * other)
            }
        }

        impl Ordered for $float {
            fn is_less(self, other: Self) -> bool {
                self < other || self == other && self.is_sign_negative() && other.is_sign_positive()
            }

            fn nan(self) -> Option<Self> {
                self.is_nan().then(|| Self::from_bits($nan))
            }
        }

        #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub(super) struct $complex {
            re: $float,
            im: $float,
        }

        impl Number for $complex {
            fn sum(self, other: Self) -> Self {
                Self { re: self.re.sum(other.re), im: self.im.sum(other.im) }
            }

            fn product(self, other: Self) -> Self {
                Self {
                    re: canonical(self.re * other.re - self.im * other.im),
                    im: canonical(self.re * other.im + self.im * other.re),
                }
            }
        }
    )*};
}

floats!(f32 0x7fc0_0000 ComplexF32, f64 0x7ff8_0000_0000_0000 ComplexF64);
