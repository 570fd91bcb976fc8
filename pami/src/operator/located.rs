//! Values with the index of where they are, for minloc and maxloc.

use super::number::Ordered;
use super::{Bytes, Element, Operator, Pairs as _, ReduceError, Spans};
use core::cmp::Ordering;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A value with an index.
trait Located: Bytes {
    /// How the values stand to each other, NaNs before all numbers. `minimum`: the lesser comes first.
    fn order(self, other: Self, minimum: bool) -> Ordering;
    fn index(self) -> u64;
    /// With the NaN that stands for all, if its value is one.
    fn canonical(self) -> Self;
}

fn choose<T: Located>(a: T, b: T, minimum: bool) -> T {
    let second = a.order(b, minimum).then(a.index().cmp(&b.index())).is_gt();
    if second { b } else { a }.canonical()
}

fn order<T: Ordered>(a: T, b: T, minimum: bool) -> Ordering {
    let (first, second) = if minimum { (a, b) } else { (b, a) };
    match (a.nan().is_some(), b.nan().is_some()) {
        (false, false) => second.is_less(first).cmp(&first.is_less(second)),
        (a, b) => b.cmp(&a),
    }
}

pub(super) fn reduce(operator: Operator, element: Element, spans: Spans) -> Result<(), ReduceError> {
    fn pairs<T: Located>(operator: Operator, spans: Spans) -> Result<(), ReduceError> {
        // Two loops, so that neither asks in every turn.
        match operator {
            Operator::MinLoc => spans.each(|a: T, b| choose(a, b, true)),
            _ => spans.each(|a: T, b| choose(a, b, false)),
        }
    }
    match element {
        Element::I8 => pairs::<LocatedI8>(operator, spans),
        Element::I16 => pairs::<LocatedI16>(operator, spans),
        Element::I32 => pairs::<LocatedI32>(operator, spans),
        Element::I64 => pairs::<LocatedI64>(operator, spans),
        Element::U8 => pairs::<LocatedU8>(operator, spans),
        Element::U16 => pairs::<LocatedU16>(operator, spans),
        Element::U32 => pairs::<LocatedU32>(operator, spans),
        Element::U64 => pairs::<LocatedU64>(operator, spans),
        Element::F32 => pairs::<LocatedF32>(operator, spans),
        Element::F64 => pairs::<LocatedF64>(operator, spans),
        Element::ComplexF32 | Element::ComplexF64 => Err(ReduceError::Unsupported(operator, element)),
    }
}

macro_rules! located {
    ($($name:ident $value:ident $padding:literal $index:ident),*) => {$(
        #[doc = concat!("An `", stringify!($value), "` and where it is.")]
        #[derive(Clone, Copy, PartialEq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name {
            /// The value.
            pub value: $value,
            padding: [u8; $padding],
            /// Where it is.
            pub index: $index,
        }

        impl $name {
            /// A value and where it is.
            pub const fn new(value: $value, index: $index) -> Self {
                Self { value, padding: [0; $padding], index }
            }
        }

        impl Located for $name {
            fn order(self, other: Self, minimum: bool) -> Ordering {
                order(self.value, other.value, minimum)
            }

            fn index(self) -> u64 {
                self.index.into()
            }

            fn canonical(self) -> Self {
                Self { value: self.value.nan().unwrap_or(self.value), ..self }
            }
        }
    )*};
}

located!(
    LocatedI8 i8 3 u32, LocatedI16 i16 2 u32, LocatedI32 i32 0 u32, LocatedI64 i64 0 u64,
    LocatedU8 u8 3 u32, LocatedU16 u16 2 u32, LocatedU32 u32 0 u32, LocatedU64 u64 0 u64,
    LocatedF32 f32 0 u32, LocatedF64 f64 0 u64
);
