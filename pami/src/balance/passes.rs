//! Sub-operations as passes over blocks of elements (SPEC L-1).

use super::functions::ElementFunction;
use super::recipe::Combination;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute};

const WORD: usize = size_of::<u64>();

/// Two words, as long as a vector register, and aligned as such: where accesses have to be aligned, no less is loaded as one.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub(super) struct Pair(pub(super) [u64; 2]);

/// A block, or a part of one.
pub(super) const BLOCK: usize = 32;
pub(super) const BLOCK_BYTES: usize = BLOCK * size_of::<Pair>();

/// Elements in pairs of words.
pub(super) trait Number: Copy + FromBytes + IntoBytes + Immutable + KnownLayout + PartialOrd {
    fn from_bits(bits: u64) -> Self;
    fn to_bits(self) -> u64;
    fn times(self, factor: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn swapped(self) -> Self;
    /// What becomes of each two elements.
    fn zip(first: Pair, second: Pair, join: impl Fn(Self, Self) -> Self) -> Pair;
}

macro_rules! number {
    ($type:ty, $bits:ty, ($from:expr, $into:expr), $times:expr, $plus:expr) => {
        impl Number for $type {
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                $from(bits as $bits)
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from($into(self))
            }
            #[inline(always)]
            fn times(self, factor: Self) -> Self {
                $times(self, factor)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            #[inline(always)]
            fn swapped(self) -> Self {
                $from($into(self).swap_bytes())
            }
            #[inline(always)]
            fn zip(first: Pair, second: Pair, join: impl Fn(Self, Self) -> Self) -> Pair {
                const LANES: usize = size_of::<Pair>() / size_of::<$type>();
                let (first, second): ([Self; LANES], [Self; LANES]) = (transmute!(first), transmute!(second));
                transmute!(core::array::from_fn::<Self, LANES, _>(|lane| join(first[lane], second[lane])))
            }
        }
    };
}
number!(f32, u32, (f32::from_bits, f32::to_bits), |a, b| a * b, |a, b| a + b);
number!(f64, u64, (f64::from_bits, f64::to_bits), |a, b| a * b, |a, b| a + b);
number!(i32, u32, (u32::cast_signed, i32::cast_unsigned), i32::wrapping_mul, i32::wrapping_add);
number!(i64, u64, (u64::cast_signed, i64::cast_unsigned), i64::wrapping_mul, i64::wrapping_add);

/// Calls a function for the type of a recipe's elements.
macro_rules! by_element {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            RecipeElement::F32 => $function::<f32>($($argument),*),
            RecipeElement::F64 => $function::<f64>($($argument),*),
            RecipeElement::I32 => $function::<i32>($($argument),*),
            RecipeElement::I64 => $function::<i64>($($argument),*),
        }
    };
}

pub(super) use by_element;

/// Turns the bytes of each element round, of four bytes or of eight.
pub(super) fn swap(block: &mut [Pair], bytes: usize) {
    if bytes == WORD {
        block.iter_mut().for_each(|pair| pair.0 = pair.0.map(u64::swap_bytes));
    } else {
        // Two halves change places with each other, and back.
        block.iter_mut().for_each(|pair| pair.0 = pair.0.map(|word| word.swap_bytes().rotate_left(32)));
    }
}

pub(super) fn scale<N: Number>(block: &mut [Pair], factor: u64) {
    let factor = N::from_bits(factor);
    block.iter_mut().for_each(|pair| *pair = N::zip(*pair, *pair, |element, _| element.times(factor)));
}

/// Calls a function, of these arguments and of what a combination makes of two elements; the registered have no such.
macro_rules! by_combination {
    ($combine:expr, $function:ident::<$number:ty>($($argument:expr),*)) => {
        match $combine {
            Combination::Product => $function::<$number>($($argument),*, <$number>::times),
            Combination::Min => $function::<$number>($($argument),*, |a, b| if b < a { b } else { a }),
            Combination::Max => $function::<$number>($($argument),*, |a, b| if b > a { b } else { a }),
            Combination::Sum | Combination::Own(_) | Combination::OwnAlone(_) => {
                $function::<$number>($($argument),*, <$number>::plus)
            }
        }
    };
}

pub(super) use by_combination;

fn zip<N: Number>(block: &mut [Pair], operand: &[Pair], join: impl Fn(N, N) -> N) {
    block.iter_mut().zip(operand).for_each(|(pair, other)| *pair = N::zip(*pair, *other, &join));
}

pub(super) fn combine<N: Number>(block: &mut [Pair], operand: &[Pair], combine: Combination) {
    by_combination!(combine, zip::<N>(block, operand));
}

/// Calls a function with the first elements, which are so many bytes: what else is in the last pair is none.
pub(super) fn call(block: &mut [Pair], operand: &[Pair], function: ElementFunction, bytes: usize) {
    fn both<N: Number>(block: &mut [Pair], operand: &[Pair], bytes: usize, call: fn(&mut [N], &[N])) {
        let message =
            block.as_mut_bytes().get_mut(..bytes).and_then(|bytes| <[N]>::mut_from_bytes(bytes).ok());
        let operand = operand.as_bytes().get(..bytes).and_then(|bytes| <[N]>::ref_from_bytes(bytes).ok());
        call(message.unwrap_or_default(), operand.unwrap_or_default());
    }
    match function {
        ElementFunction::F32(call) => both(block, operand, bytes, call),
        ElementFunction::F64(call) => both(block, operand, bytes, call),
        ElementFunction::I32(call) => both(block, operand, bytes, call),
        ElementFunction::I64(call) => both(block, operand, bytes, call),
    }
}

/// Two numbers of 64 bits, rounded to 32 each.
#[inline(always)]
fn rounded(pair: Pair) -> u64 {
    transmute!(pair.0.map(|bits| f64::from_bits(bits) as f32))
}

#[inline(always)]
fn widened(both: u64) -> Pair {
    let both: [f32; 2] = transmute!(both);
    Pair(both.map(|number| f64::from(number).to_bits()))
}

/// Rounds numbers of 64 bits to 32, in place.
pub(super) fn round(block: &mut [Pair]) {
    block.iter_mut().for_each(|pair| *pair = widened(rounded(*pair)));
}

/// Rounds numbers of 64 bits to 32; they lie in the first half then.
pub(super) fn narrow(block: &mut [Pair]) {
    for at in 0..block.len() / 2 {
        block[at] = Pair([rounded(block[2 * at]), rounded(block[2 * at + 1])]);
    }
    if !block.len().is_multiple_of(2) {
        block[block.len() / 2].0[0] = rounded(block[block.len() - 1]);
    }
}

/// The other way, from the first half.
pub(super) fn widen(block: &mut [Pair]) {
    if !block.len().is_multiple_of(2) {
        block[block.len() - 1] = widened(block[block.len() / 2].0[0]);
    }
    for at in (0..block.len() / 2).rev() {
        let Pair([first, second]) = block[at];
        (block[2 * at], block[2 * at + 1]) = (widened(first), widened(second));
    }
}

/// What becomes of both elements of a word, or of the one.
#[inline(always)]
pub(super) fn by_word<N: Number>(old: u64, new: u64, join: impl Fn(N, N) -> N) -> u64 {
    let one = |old, new| join(N::from_bits(old), N::from_bits(new)).to_bits();
    if size_of::<N>() == WORD {
        return one(old, new);
    }
    one(old >> 32, new >> 32) << 32 | one(old, new)
}
