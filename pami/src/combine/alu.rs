//! The arithmetic of the routers: element by element, on little-endian bytes, with the same bits on every machine.
//!
//! - Integers wrap around.
//! - A float result that is no number is the one quiet NaN with a positive sign and nothing else in it.
//! - The minimum and maximum of floats follow the total order of IEEE 754 (-NaN < -inf < -0 < +0 < +inf < NaN), so
//!   they do not depend on the order of combination.
//! - Bitwise operators take floats as their bits.

use zerocopy::FromBytes;
use zerocopy::byteorder::little_endian::{F32, F64, I32, I64, U32, U64};

/// What is done to two elements (SPEC D-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Operator {
    /// The sum.
    #[default]
    Add = 0,
    /// The lesser.
    Min = 1,
    /// The greater.
    Max = 2,
    /// Bits set in both.
    And = 3,
    /// Bits set in any.
    Or = 4,
    /// Bits set in one of the two.
    Xor = 5,
}

impl Operator {
    /// All of them, by their number on the wire.
    pub const ALL: [Self; 6] = [Self::Add, Self::Min, Self::Max, Self::And, Self::Or, Self::Xor];

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// What the bytes of a payload are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Element {
    /// `i32`
    #[default]
    I32 = 0,
    /// `i64`
    I64 = 1,
    /// `u32`
    U32 = 2,
    /// `u64`
    U64 = 3,
    /// `f32`
    F32 = 4,
    /// `f64`
    F64 = 5,
}

impl Element {
    /// All of them, by their number on the wire.
    pub const ALL: [Self; 6] = [Self::I32, Self::I64, Self::U32, Self::U64, Self::F32, Self::F64];

    /// The one with this number.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Bytes of one.
    pub const fn bytes(self) -> usize {
        match self {
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// An operator on a type of element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operation {
    /// What is done.
    pub operator: Operator,
    /// To what.
    pub element: Element,
}

/// The two parts differ in length, or are not whole elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlike;

/// Combines `right` into `left`: each element of `left` becomes `left (operator) right`.
///
/// # Errors
/// [`Unlike`]; `left` is then unchanged.
pub fn combine(operation: Operation, left: &mut [u8], right: &[u8]) -> Result<(), Unlike> {
    let Operation { operator, element } = operation;
    if left.len() != right.len() || !left.len().is_multiple_of(element.bytes()) {
        return Err(Unlike);
    }
    // Bits are bits, and there are only two widths of them.
    let bits = |word32: fn(u32, u32) -> u32, word64: fn(u64, u64) -> u64| match element.bytes() {
        4 => Function::U32(word32),
        _ => Function::U64(word64),
    };
    let function = match (operator, element) {
        (Operator::And, _) => bits(|a, b| a & b, |a, b| a & b),
        (Operator::Or, _) => bits(|a, b| a | b, |a, b| a | b),
        (Operator::Xor, _) => bits(|a, b| a ^ b, |a, b| a ^ b),
        // The sum of two's complements is that of unsigned numbers.
        (Operator::Add, Element::I32 | Element::U32) => Function::U32(u32::wrapping_add),
        (Operator::Add, Element::I64 | Element::U64) => Function::U64(u64::wrapping_add),
        (Operator::Add, Element::F32) => Function::F32(|a, b| one_nan_32(a + b)),
        (Operator::Add, Element::F64) => Function::F64(|a, b| one_nan_64(a + b)),
        (Operator::Min, Element::I32) => Function::I32(i32::min),
        (Operator::Min, Element::I64) => Function::I64(i64::min),
        (Operator::Min, Element::U32) => Function::U32(u32::min),
        (Operator::Min, Element::U64) => Function::U64(u64::min),
        (Operator::Min, Element::F32) => Function::F32(|a, b| if b.total_cmp(&a).is_lt() { b } else { a }),
        (Operator::Min, Element::F64) => Function::F64(|a, b| if b.total_cmp(&a).is_lt() { b } else { a }),
        (Operator::Max, Element::I32) => Function::I32(i32::max),
        (Operator::Max, Element::I64) => Function::I64(i64::max),
        (Operator::Max, Element::U32) => Function::U32(u32::max),
        (Operator::Max, Element::U64) => Function::U64(u64::max),
        (Operator::Max, Element::F32) => Function::F32(|a, b| if b.total_cmp(&a).is_gt() { b } else { a }),
        (Operator::Max, Element::F64) => Function::F64(|a, b| if b.total_cmp(&a).is_gt() { b } else { a }),
    };
    function.apply(left, right);
    Ok(())
}

fn one_nan_32(sum: f32) -> f32 {
    if sum.is_nan() { f32::from_bits(0x7fc0_0000) } else { sum }
}

fn one_nan_64(sum: f64) -> f64 {
    if sum.is_nan() { f64::from_bits(0x7ff8_0000_0000_0000) } else { sum }
}

/// A function of two elements.
enum Function {
    I32(fn(i32, i32) -> i32),
    I64(fn(i64, i64) -> i64),
    U32(fn(u32, u32) -> u32),
    U64(fn(u64, u64) -> u64),
    F32(fn(f32, f32) -> f32),
    F64(fn(f64, f64) -> f64),
}

impl Function {
    /// Applies it to whole elements of two parts of the same length.
    fn apply(&self, left: &mut [u8], right: &[u8]) {
        macro_rules! each {
            ($wire:ty, $function:expr) => {
                // Both are whole elements without alignment, so both casts succeed.
                if let (Ok(left), Ok(right)) =
                    (<[$wire]>::mut_from_bytes(left), <[$wire]>::ref_from_bytes(right))
                {
                    for (left, right) in left.iter_mut().zip(right) {
                        left.set($function(left.get(), right.get()));
                    }
                }
            };
        }
        match self {
            Self::I32(function) => each!(I32, function),
            Self::I64(function) => each!(I64, function),
            Self::U32(function) => each!(U32, function),
            Self::U64(function) => each!(U64, function),
            Self::F32(function) => each!(F32, function),
            Self::F64(function) => each!(F64, function),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn combined(operator: Operator, element: Element, left: &[u8], right: &[u8]) -> Vec<u8> {
        let mut result = left.to_vec();
        combine(Operation { operator, element }, &mut result, right).unwrap();
        result
    }

    macro_rules! against_plain_arithmetic {
        ($name:ident, $type:ident, $element:ident, $add:expr, $min:expr, $max:expr) => {
            proptest! {
                #[test]
                fn $name(pairs in proptest::collection::vec(any::<($type, $type)>(), 0..20)) {
                    let bytes = |side: fn(&($type, $type)) -> $type| -> Vec<u8> {
                        pairs.iter().flat_map(|pair| side(pair).to_le_bytes()).collect()
                    };
                    let (left, right) = (bytes(|pair| pair.0), bytes(|pair| pair.1));
                    for operator in Operator::ALL {
                        let expected: Vec<u8> = pairs.iter().flat_map(|&(a, b)| {
                            let (x, y) = (a.to_le_bytes(), b.to_le_bytes());
                            let bits = |f: fn(u8, u8) -> u8| core::array::from_fn(|i| f(x[i], y[i]));
                            match operator {
                                Operator::Add => $add(a, b).to_le_bytes(),
                                Operator::Min => $min(a, b).to_le_bytes(),
                                Operator::Max => $max(a, b).to_le_bytes(),
                                Operator::And => bits(|a, b| a & b),
                                Operator::Or => bits(|a, b| a | b),
                                Operator::Xor => bits(|a, b| a ^ b),
                            }
                        }).collect();
                        let result = combined(operator, Element::$element, &left, &right);
                        prop_assert_eq!(result, expected, "{:?}", operator);
                    }
                }
            }
        };
    }
    against_plain_arithmetic!(d3_i32_is_combined, i32, I32, i32::wrapping_add, Ord::min, Ord::max);
    against_plain_arithmetic!(d3_i64_is_combined, i64, I64, i64::wrapping_add, Ord::min, Ord::max);
    against_plain_arithmetic!(d3_u32_is_combined, u32, U32, u32::wrapping_add, Ord::min, Ord::max);
    against_plain_arithmetic!(d3_u64_is_combined, u64, U64, u64::wrapping_add, Ord::min, Ord::max);
    // `any` gives no NaN, and a zero has one sign only where the lesser of two zeros is wanted.
    against_plain_arithmetic!(d3_f32_is_combined, f32, F32, |a, b| a + b, least_f32, greatest_f32);
    against_plain_arithmetic!(d3_f64_is_combined, f64, F64, |a, b| a + b, least_f64, greatest_f64);

    macro_rules! by_sign_first {
        ($least:ident, $greatest:ident, $type:ident) => {
            fn $least(a: $type, b: $type) -> $type {
                if a < b || (a == b && a.is_sign_negative()) { a } else { b }
            }
            fn $greatest(a: $type, b: $type) -> $type {
                if a > b || (a == b && a.is_sign_positive()) { a } else { b }
            }
        };
    }
    by_sign_first!(least_f32, greatest_f32, f32);
    by_sign_first!(least_f64, greatest_f64, f64);

    #[test]
    fn g9_sums_that_are_no_number_have_the_same_bits_whatever_went_in() {
        let strange = [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001), f64::INFINITY];
        for a in strange {
            let sum =
                combined(Operator::Add, Element::F64, &a.to_le_bytes(), &f64::NEG_INFINITY.to_le_bytes());
            assert_eq!(sum, 0x7ff8_0000_0000_0000u64.to_le_bytes(), "{a}");
            let (a, b) = ((a as f32).to_le_bytes(), f32::NEG_INFINITY.to_le_bytes());
            assert_eq!(combined(Operator::Add, Element::F32, &a, &b), 0x7fc0_0000u32.to_le_bytes());
        }
    }

    #[test]
    fn g9_minimum_and_maximum_do_not_depend_on_the_order() {
        let values = [f64::NAN, -f64::NAN, 0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY];
        for (a, b) in
            values.iter().flat_map(|a| values.iter().map(move |b| (a.to_le_bytes(), b.to_le_bytes())))
        {
            for operator in [Operator::Min, Operator::Max] {
                assert_eq!(
                    combined(operator, Element::F64, &a, &b),
                    combined(operator, Element::F64, &b, &a)
                );
            }
        }
    }

    #[test]
    fn d9_parts_that_are_unlike_are_refused_and_left_alone() {
        let operation = Operation { operator: Operator::Add, element: Element::I64 };
        let mut left = [1u8; 16];
        for right in [&[1u8; 8][..], &[1; 15], &[]] {
            assert_eq!(combine(operation, &mut left, right), Err(Unlike));
        }
        assert_eq!(combine(operation, &mut left[..12], &[1; 12]), Err(Unlike));
        assert_eq!(left, [1; 16]);
        assert_eq!(combine(operation, &mut [], &[]), Ok(()));
    }
}
