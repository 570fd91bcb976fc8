//! The types that all others are made of.

use pami::operator::{
    LocatedF32, LocatedF64, LocatedI8, LocatedI16, LocatedI32, LocatedI64, LocatedU8, LocatedU16, LocatedU32,
    LocatedU64,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

macro_rules! basics {
    ($($(#[$doc:meta])* $name:ident $bytes:literal $align:literal),* $(,)?) => {
        /// A basic datatype: what a type signature is made of.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Basic {
            $($(#[$doc])* $name,)*
        }

        impl Basic {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Bytes of a value; of a pair, with the gap inside it.
            pub const fn bytes(self) -> usize {
                match self { $(Self::$name => $bytes,)* }
            }

            /// Bytes that its address is to be a multiple of.
            pub const fn align(self) -> usize {
                match self { $(Self::$name => $align,)* }
            }
        }
    };
}

basics! {
    /// `MPI_INT8_T`, `MPI_SIGNED_CHAR`.
    I8 1 1,
    /// `MPI_INT16_T`, `MPI_SHORT`.
    I16 2 2,
    /// `MPI_INT32_T`, `MPI_INT`.
    I32 4 4,
    /// `MPI_INT64_T`, `MPI_LONG`, `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    I64 8 8,
    /// `MPI_UINT8_T`, `MPI_UNSIGNED_CHAR`.
    U8 1 1,
    /// `MPI_UINT16_T`.
    U16 2 2,
    /// `MPI_UINT32_T`.
    U32 4 4,
    /// `MPI_UINT64_T`.
    U64 8 8,
    /// `MPI_FLOAT`.
    F32 4 4,
    /// `MPI_DOUBLE`.
    F64 8 8,
    /// `MPI_C_FLOAT_COMPLEX`: real part, then imaginary part.
    ComplexF32 8 4,
    /// `MPI_C_DOUBLE_COMPLEX`: real part, then imaginary part.
    ComplexF64 16 8,
    /// `MPI_BYTE`: bits without meaning.
    Byte 1 1,
    /// `MPI_CHAR`: text, nothing to compute with.
    Char 1 1,
    /// `MPI_C_BOOL`: 0 or 1.
    Bool 1 1,
    /// `MPI_PACKED`: what `Data::pack` made.
    Packed 1 1,
    /// An `i8` with an index, [`LocatedI8`].
    LocatedI8 8 4,
    /// `MPI_SHORT_INT`, [`LocatedI16`].
    LocatedI16 8 4,
    /// `MPI_2INT`, [`LocatedI32`].
    LocatedI32 8 4,
    /// `MPI_LONG_INT`, [`LocatedI64`].
    LocatedI64 16 8,
    /// A `u8` with an index, [`LocatedU8`].
    LocatedU8 8 4,
    /// A `u16` with an index, [`LocatedU16`].
    LocatedU16 8 4,
    /// A `u32` with an index, [`LocatedU32`].
    LocatedU32 8 4,
    /// A `u64` with an index, [`LocatedU64`].
    LocatedU64 16 8,
    /// `MPI_FLOAT_INT`, [`LocatedF32`].
    LocatedF32 8 4,
    /// `MPI_DOUBLE_INT`, [`LocatedF64`].
    LocatedF64 16 8,
}

impl Basic {
    /// The type with this number, as `self as u8` gives it.
    pub(super) fn from_number(number: u8) -> Self {
        // Numbers come from `as u8` alone.
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::Byte)
    }
}

/// A type of this language that is a basic datatype, so that slices of it go in and out of [`Data`](crate::Data).
pub trait Native: IntoBytes + FromBytes + Immutable + Copy {
    /// The datatype.
    const BASIC: Basic;
}

macro_rules! natives {
    ($($native:ty, $basic:ident);* $(;)?) => {$(
        impl Native for $native {
            const BASIC: Basic = Basic::$basic;
        }
    )*};
}

natives! {
    i8, I8; i16, I16; i32, I32; i64, I64; u8, U8; u16, U16; u32, U32; u64, U64; f32, F32; f64, F64;
    [f32; 2], ComplexF32; [f64; 2], ComplexF64;
    LocatedI8, LocatedI8; LocatedI16, LocatedI16; LocatedI32, LocatedI32; LocatedI64, LocatedI64;
    LocatedU8, LocatedU8; LocatedU16, LocatedU16; LocatedU32, LocatedU32; LocatedU64, LocatedU64;
    LocatedF32, LocatedF32; LocatedF64, LocatedF64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p10_sizes_are_those_of_the_languages_types() {
        fn check<T: Native>() {
            assert_eq!((T::BASIC.bytes(), T::BASIC.align()), (size_of::<T>(), align_of::<T>()));
        }
        check::<i8>();
        check::<u16>();
        check::<i32>();
        check::<u64>();
        check::<f32>();
        check::<f64>();
        check::<[f32; 2]>();
        check::<[f64; 2]>();
        check::<LocatedI8>();
        check::<LocatedI16>();
        check::<LocatedI32>();
        check::<LocatedI64>();
        check::<LocatedF32>();
        check::<LocatedF64>();
        for &basic in Basic::ALL {
            assert_eq!(Basic::from_number(basic as u8), basic);
        }
    }
}
