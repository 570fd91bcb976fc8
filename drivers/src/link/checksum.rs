//! CRC-32C (Castagnoli) of frames, in four ways that agree: by tables, by carry-less multiplication, by shifts, and by
//! instructions of the core, among which the [platform](crate::Platform::crc32c) chooses at boot.
//!
//! A *state* is the register of the reflected algorithm, without the inversions at begin and end.

use crc::{CRC_32_ISCSI, Crc, Table};
use zerocopy::{FromBytes, IntoBytes};

static TABLES: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// The state behind `bytes`, by tables: on any core.
pub fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    let mut digest = TABLES.digest_with_initial(state.reverse_bits());
    digest.update(bytes);
    !digest.finalize()
}

/// The polynomial without its highest term: bit `63 - j` stands for `x^j`.
const POLYNOMIAL: u64 = 0x82f6_3b78 << 32;

/// `x^96` over the polynomial, without its highest term and times `x`, in the same form; bit 0 has the operand itself added.
const QUOTIENT: u64 = {
    let polynomial = (1u128 << 32) | (POLYNOMIAL.reverse_bits() as u128);
    let (mut rest, mut quotient, mut degree) = (1u128 << 96, 0u128, 96);
    while degree >= 32 {
        if rest >> degree & 1 == 1 {
            rest ^= polynomial << (degree - 32);
            quotient |= 1 << (degree - 32);
        }
        degree -= 1;
    }
    ((quotient as u64).reverse_bits() << 1) | 1
};

/// The state behind the `8 * len` upper bits of `word`, which begin with the state before: Barrett's reduction, exact for
/// polynomials. `product` is the lower half of a carry-less product, `upper` the upper one.
#[inline(always)]
fn reduce(word: u64, product: impl Fn(u64, u64) -> u64, upper: impl Fn(u64, u64) -> u64) -> u32 {
    (upper(product(word, QUOTIENT), POLYNOMIAL) >> 31) as u32
}

/// The state behind fewer than eight bytes.
#[inline(always)]
fn few(
    state: u32,
    bytes: &[u8],
    product: &impl Fn(u64, u64) -> u64,
    upper: &impl Fn(u64, u64) -> u64,
) -> u32 {
    let bits = 8 * bytes.len() as u32;
    if bits == 0 {
        return state;
    }
    // Half a word, as a header that begins with its checksum leaves: read at once if it is aligned.
    let half = u32::ref_from_bytes(bytes).map(|half| u64::from(u32::from_le(*half)));
    let word = half.unwrap_or_else(|_| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)));
    // Of a state that is longer than the bytes, the rest is left.
    let rest = u64::from(state) >> bits;
    reduce((word ^ u64::from(state)) << (64 - bits), product, upper) ^ rest as u32
}

/// The state behind `bytes`, by carry-less products of two words: their lower halves, and their upper ones.
#[inline(always)]
pub fn crc32c_by_products(
    state: u32,
    bytes: &[u8],
    product: impl Fn(u64, u64) -> u64,
    upper: impl Fn(u64, u64) -> u64,
) -> u32 {
    // Words where they are aligned: a core may do others slowly, or not at all.
    let (head, rest) = bytes.split_at(bytes.as_ptr().align_offset(size_of::<u64>()).min(bytes.len()));
    let state = few(state, head, &product, &upper);
    let (words, tail) = rest.split_at(rest.len() - rest.len() % size_of::<u64>());
    let words = <[u64]>::ref_from_bytes(words).unwrap_or_default();
    let (fours, words) = words.as_chunks::<4>();
    let next = |state, word: &u64| reduce(u64::from_le(*word) ^ u64::from(state), &product, &upper);
    let state = fours.iter().fold(state, |state, four| four.iter().fold(state, next));
    let state = words.iter().fold(state, next);
    few(state, tail, &product, &upper)
}

/// What a word leaves to the four behind it, and what those before it left to it: `x^209 + x^144 + x^54 + x^39 + x^14 + 1` is a
/// multiple of the polynomial, so a bit may as well stand 65, 155, 170, 195 and 209 bits further on.
#[inline(always)]
fn shift([first, second, third, fourth]: [u64; 4], word: &u64) -> [u64; 4] {
    let word = u64::from_le(*word) ^ first;
    [
        second ^ word << 1,
        third ^ word >> 63 ^ word << 27 ^ word << 42,
        fourth ^ word >> 37 ^ word >> 22 ^ word << 3 ^ word << 17,
        word >> 61 ^ word >> 47,
    ]
}

/// The state behind `bytes`, by shifts alone but for a few bytes at both ends, which go `short`, a way that agrees with the
/// others. What it is good for are hundreds of bytes.
#[inline(always)]
pub fn crc32c_by_shifts(state: u32, bytes: &[u8], short: impl Fn(u32, &[u8]) -> u32) -> u32 {
    let (head, rest) = bytes.split_at(bytes.as_ptr().align_offset(size_of::<u64>()).min(bytes.len()));
    let state = if head.is_empty() { state } else { short(state, head) };
    let (words, tail) = rest.split_at(rest.len() - rest.len() % size_of::<u64>());
    let words = <[u64]>::ref_from_bytes(words).unwrap_or_default();
    let Some((words, last)) = words.split_last_chunk::<4>() else { return short(state, rest) };
    let (fours, words) = words.as_chunks::<4>();
    // A state before the bytes is as good as bytes that begin with it.
    let left = fours.iter().fold([u64::from(state), 0, 0, 0], |left, four| four.iter().fold(left, shift));
    let left = words.iter().fold(left, shift);
    let last: [u64; 4] = core::array::from_fn(|at| last[at] ^ left[at].to_le());
    let state = short(0, last.as_bytes());
    if tail.is_empty() { state } else { short(state, tail) }
}

/// Whether `way` agrees with the tables, wherever bytes begin and end in their words.
pub fn agrees(way: impl Fn(u32, &[u8]) -> u32) -> bool {
    let bytes: [u8; 32] = core::array::from_fn(|at| (at as u8).wrapping_mul(151) ^ 0x5c);
    let mut parts = (0..8).flat_map(|start| (start..=bytes.len()).map(move |end| (start, end)));
    parts.all(|(start, end)| {
        let (state, part) = (!(end as u32), &bytes[start..end]);
        way(state, part) == crc32c(state, part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn carryless(a: u64, b: u64) -> u128 {
        (0..64).filter(|bit| b >> bit & 1 == 1).fold(0, |sum, bit| sum ^ u128::from(a) << bit)
    }

    fn by_shifts(state: u32, bytes: &[u8]) -> u32 {
        crc32c_by_shifts(state, bytes, crc32c)
    }

    fn by_products(state: u32, bytes: &[u8]) -> u32 {
        crc32c_by_products(state, bytes, |a, b| carryless(a, b) as u64, |a, b| (carryless(a, b) >> 64) as u64)
    }

    #[test]
    fn d8_the_checksum_is_crc_32c_by_tables_and_by_products() {
        // The check value of the CRC catalogue.
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
        assert_eq!(!by_products(!0, b"123456789"), 0xe306_9283);
        assert!(agrees(by_products) && agrees(by_shifts) && agrees(crc32c));
        assert!(!agrees(|state, bytes| by_products(state, bytes) ^ u32::from(bytes.len() == 31)));
    }

    const LONG: usize = if cfg!(miri) { 100 } else { 2000 };

    proptest! {
        #[test]
        fn d8_a_state_goes_on_wherever_its_bytes_are_cut(
            state in any::<u32>(), bytes in proptest::collection::vec(any::<u8>(), 0..100), cut in any::<prop::sample::Index>()
        ) {
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            let whole = crc32c(state, &bytes);
            prop_assert_eq!(crc32c(crc32c(state, front), back), whole);
            prop_assert_eq!(by_products(by_products(state, front), back), whole);
        }

        #[test]
        fn d8_shifts_agree_with_tables_on_long_pieces_wherever_they_begin(
            state in any::<u32>(), bytes in proptest::collection::vec(any::<u8>(), 0..LONG), start in 0usize..8
        ) {
            let piece = &bytes[start.min(bytes.len())..];
            prop_assert_eq!(by_shifts(state, piece), crc32c(state, piece));
        }
    }
}
