//! Sub-operations on words of memory, one loop over the elements whatever they are (SPEC L-1, L-5).
//!
//! A word holds one element or two. Each is loaded, prepared, added and stored before the next, by compare and swap: what
//! others add to the same word meanwhile is not lost. Between two sub-operations an element is just its bits, so it makes no
//! difference where each of them runs.

use super::recipe::{Foreign, Recipe, RecipeElement, SubOperations};
use core::sync::atomic::{AtomicU64, Ordering};
use rings::shared::{Misplaced, Shared};
use zerocopy::{FromBytes, IntoBytes};

const WORD: usize = size_of::<u64>();
/// Words that are copied at a time from where they lie unaligned.
const BLOCK: usize = 32;

/// Where a message's elements are.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    Bytes(&'a [u8]),
    /// From this byte on.
    Shared(&'a Shared, usize),
}

impl Source<'_> {
    /// Copies what lies `at` bytes on.
    fn read(&self, at: usize, into: &mut [u8]) -> Result<(), Misplaced> {
        match self {
            Self::Bytes(bytes) => {
                let run = bytes.get(at..at + into.len()).ok_or(Misplaced::Bounds)?;
                into.copy_from_slice(run);
                Ok(())
            }
            Self::Shared(memory, start) => memory.read(start + at, into),
        }
    }
}

/// Elements in words.
trait Number: Copy {
    fn from_bits(bits: u64) -> Self;
    fn scaled(self, factor: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    /// A word with each of its elements changed.
    fn each(word: u64, change: impl Fn(Self) -> Self) -> u64;
    /// A word of what becomes of each pair of elements.
    fn pairs(first: u64, second: u64, join: impl Fn(Self, Self) -> Self) -> u64;
    /// A word with the bytes of each element in the opposite order.
    fn swapped(word: u64) -> u64;
}

macro_rules! number {
    ($type:ty, $bits:ty, ($from:expr, $into:expr), $scaled:expr, $plus:expr) => {
        impl Number for $type {
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                $from(bits as $bits)
            }
            #[inline(always)]
            fn scaled(self, factor: Self) -> Self {
                $scaled(self, factor)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }
            #[inline(always)]
            fn each(word: u64, change: impl Fn(Self) -> Self) -> u64 {
                Self::pairs(word, word, |element, _| change(element))
            }
            #[inline(always)]
            fn pairs(first: u64, second: u64, join: impl Fn(Self, Self) -> Self) -> u64 {
                let join = |first: u64, second: u64| {
                    u64::from($into(join($from(first as $bits), $from(second as $bits))))
                };
                if size_of::<Self>() == WORD {
                    return join(first, second);
                }
                join(first >> 32, second >> 32) << 32 | join(first, second)
            }
            #[inline(always)]
            fn swapped(word: u64) -> u64 {
                // Two halves change places with each other, and back.
                if size_of::<Self>() == WORD { word.swap_bytes() } else { word.swap_bytes().rotate_left(32) }
            }
        }
    };
}
number!(f32, u32, (f32::from_bits, f32::to_bits), |a, b| a * b, |a, b| a + b);
number!(f64, u64, (f64::from_bits, f64::to_bits), |a, b| a * b, |a, b| a + b);
number!(i32, u32, (u32::cast_signed, i32::cast_unsigned), i32::wrapping_mul, i32::wrapping_add);
number!(i64, u64, (u64::cast_signed, i64::cast_unsigned), i64::wrapping_mul, i64::wrapping_add);

/// Something done to words by a recipe: one instance for each.
trait ElementLoop {
    type Outcome;
    /// `prepare` is the message's words up to the addition, `join` adds them to the target's.
    fn run(self, prepare: impl Fn(u64) -> u64, join: impl Fn(u64, u64) -> u64) -> Self::Outcome;
}

/// Calls `body` with those of the recipe's sub-operations that are among `steps`.
fn by_recipe<P: ElementLoop>(recipe: &Recipe, steps: SubOperations, body: P) -> P::Outcome {
    match recipe.element() {
        RecipeElement::F32 => by_steps::<f32, P>(recipe, steps, body),
        RecipeElement::F64 => by_steps::<f64, P>(recipe, steps, body),
        RecipeElement::I32 => by_steps::<i32, P>(recipe, steps, body),
        RecipeElement::I64 => by_steps::<i64, P>(recipe, steps, body),
    }
}

fn by_steps<N: Number, P: ElementLoop>(recipe: &Recipe, steps: SubOperations, body: P) -> P::Outcome {
    let factor = N::from_bits(recipe.factor());
    let scaled = |word| N::each(word, |element| element.scaled(factor));
    let sum = |old, new| N::pairs(old, new, N::plus);
    let (swap, scale) = (steps.contains(SubOperations::SWAP), steps.contains(SubOperations::SCALE));
    if recipe.foreign() == Foreign::Target {
        let sum = |old, new| N::swapped(sum(N::swapped(old), N::swapped(new)));
        return match (scale, swap) {
            (false, false) => body.run(|word| word, sum),
            (true, false) => body.run(scaled, sum),
            (false, true) => body.run(N::swapped, sum),
            (true, true) => body.run(|word| N::swapped(scaled(word)), sum),
        };
    }
    match (swap, scale) {
        (false, false) => body.run(|word| word, sum),
        (false, true) => body.run(scaled, sum),
        (true, false) => body.run(N::swapped, sum),
        (true, true) => body.run(|word| scaled(N::swapped(word)), sum),
    }
}

/// Into memory, to the end of the recipe.
struct Into<'a> {
    source: Source<'a>,
    len: usize,
    memory: &'a Shared,
    offset: usize,
}

#[inline(always)]
fn update(word: &AtomicU64, change: impl Fn(u64) -> u64) {
    let mut old = word.load(Ordering::Relaxed);
    while let Err(now) = word.compare_exchange_weak(old, change(old), Ordering::Relaxed, Ordering::Relaxed) {
        old = now;
    }
}

impl Into<'_> {
    /// The one element of half a word that lies `at` bytes on.
    fn half(
        &self,
        at: usize,
        prepare: impl Fn(u64) -> u64,
        join: impl Fn(u64, u64) -> u64,
    ) -> Result<(), Misplaced> {
        let skip = (self.offset + at) % WORD;
        let (mut new, mut mask) = ([0; WORD], [0; WORD]);
        self.source.read(at, &mut new[skip..skip + 4])?;
        mask[skip..skip + 4].fill(0xff);
        let (new, mask) = (prepare(u64::from_ne_bytes(new)), u64::from_ne_bytes(mask));
        for word in self.memory.words(self.offset + at - skip, 1)? {
            update(word, |old| old & !mask | join(old, new) & mask);
        }
        Ok(())
    }
}

#[inline(always)]
fn whole(
    into: &[AtomicU64],
    from: impl Iterator<Item = u64>,
    prepare: impl Fn(u64) -> u64,
    join: impl Fn(u64, u64) -> u64,
) {
    for (word, new) in into.iter().zip(from) {
        let new = prepare(new);
        update(word, |old| join(old, new));
    }
}

impl ElementLoop for Into<'_> {
    type Outcome = Result<(), Misplaced>;

    fn run(self, prepare: impl Fn(u64) -> u64, join: impl Fn(u64, u64) -> u64) -> Self::Outcome {
        let Self { source, len, memory, offset } = self;
        let mut at = 0;
        if !offset.is_multiple_of(WORD) && len > 0 {
            self.half(0, &prepare, &join)?;
            at = 4;
        }
        let count = (len - at) / WORD;
        let into = memory.words(offset + at, count)?;
        let bytes = match source {
            Source::Bytes(bytes) => bytes.get(at..at + count * WORD).ok_or(Misplaced::Bounds)?,
            Source::Shared(..) => &[],
        };
        match source {
            Source::Shared(from, start) if let Ok(from) = from.words(start + at, count) => {
                whole(into, from.iter().map(|word| word.load(Ordering::Relaxed)), &prepare, &join);
            }
            Source::Bytes(_) if let Ok(from) = <[u64]>::ref_from_bytes(bytes) => {
                whole(into, from.iter().copied(), &prepare, &join);
            }
            _ => {
                let mut block = [0u64; BLOCK];
                for (into, number) in into.chunks(BLOCK).zip(0..) {
                    let block = &mut block[..into.len()];
                    source.read(at + number * BLOCK * WORD, block.as_mut_bytes())?;
                    whole(into, block.iter().copied(), &prepare, &join);
                }
            }
        }
        if at + count * WORD < len {
            self.half(at + count * WORD, &prepare, &join)?;
        }
        Ok(())
    }
}

/// Does `steps`, the last ones of `recipe`, with `len` bytes from `source` and those from `offset` on in `memory`.
///
/// # Errors
/// [`Misplaced`]; nothing was changed. Elements are aligned to their size, and in whole words.
pub(crate) fn add(
    recipe: &Recipe,
    steps: SubOperations,
    source: Source<'_>,
    len: usize,
    (memory, offset): (&Shared, usize),
) -> Result<(), Misplaced> {
    let size = recipe.element().bytes();
    let end = offset.checked_add(len).ok_or(Misplaced::Bounds)?;
    if !offset.is_multiple_of(size) || !len.is_multiple_of(size) {
        return Err(Misplaced::Unaligned);
    }
    let start = offset - offset % WORD;
    memory.words(start, (end - start).div_ceil(WORD))?;
    if let Source::Bytes(bytes) = source
        && bytes.len() < len
    {
        return Err(Misplaced::Bounds);
    }
    by_recipe(recipe, steps, Into { source, len, memory, offset })
}

/// Into bytes that are sent.
struct Onward<'a> {
    memory: &'a Shared,
    offset: usize,
    into: &'a mut [u8],
}

impl ElementLoop for Onward<'_> {
    type Outcome = Result<(), Misplaced>;

    fn run(self, prepare: impl Fn(u64) -> u64, _: impl Fn(u64, u64) -> u64) -> Self::Outcome {
        let words = self.memory.words(self.offset, self.into.len() / WORD);
        if let (Ok(from), Ok(into)) = (words, <[u64]>::mut_from_bytes(self.into)) {
            for (word, into) in from.iter().zip(into) {
                *into = prepare(word.load(Ordering::Relaxed));
            }
            return Ok(());
        }
        let mut block = [0u64; BLOCK];
        for (into, number) in self.into.chunks_mut(BLOCK * WORD).zip(0..) {
            // The last word may be half one.
            let block = &mut block[..into.len().div_ceil(WORD)];
            let bytes = &mut block.as_mut_bytes()[..into.len()];
            self.memory.read(self.offset + number * BLOCK * WORD, bytes)?;
            for word in &mut *block {
                *word = prepare(*word);
            }
            into.copy_from_slice(&block.as_bytes()[..into.len()]);
        }
        Ok(())
    }
}

/// Does `steps`, the first ones of `recipe` and not its addition, with the elements from `offset` on in `memory`; `into` gets
/// them, whole.
///
/// # Errors
/// [`Misplaced::Bounds`].
pub(crate) fn prepare(
    recipe: &Recipe,
    steps: SubOperations,
    (memory, offset): (&Shared, usize),
    into: &mut [u8],
) -> Result<(), Misplaced> {
    let onward = Onward { memory, offset, into };
    if steps.is_empty() {
        return onward.run(|word| word, |old, _| old);
    }
    by_recipe(recipe, steps, onward)
}
