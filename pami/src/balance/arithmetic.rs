//! Sub-operations on blocks of elements (SPEC L-1, L-5).
//!
//! A block is loaded from where a message lies, each sub-operation goes over it once, and it is sent on or added. Between two
//! sub-operations an element is just its bits, so it makes no difference where each of them runs. What is added is by compare and
//! swap of each word: what others add to the same word meanwhile is not lost.
//!
//! A side of the other byte order computes in that. Here it is played by this machine, which turns the elements round before and
//! after; what is counted as a swap, and done by whichever side has it to do, is a pass of its own.

use super::functions::{ElementFunction, Functions};
use super::recipe::{Combination, Foreign, Recipe, RecipeElement, SubOperations};
use core::sync::atomic::{AtomicU64, Ordering};
use rings::shared::{Misplaced, Shared};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute};

const WORD: usize = size_of::<u64>();
/// Where elements are.
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

/// A message, and its operand where it has one: as long, and of the same elements.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) message: Source<'a>,
    pub(crate) operand: Option<Source<'a>>,
}

/// Two words, as long as a vector register, and aligned as such: where accesses have to be aligned, no less is loaded as one.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub(super) struct Pair(pub(super) [u64; 2]);

/// A block, or a part of one.
pub(super) const BLOCK: usize = 32;
const BLOCK_BYTES: usize = BLOCK * size_of::<Pair>();

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

fn zip<N: Number>(block: &mut [Pair], operand: &[Pair], join: impl Fn(N, N) -> N) {
    block.iter_mut().zip(operand).for_each(|(pair, other)| *pair = N::zip(*pair, *other, &join));
}

pub(super) fn combine<N: Number>(block: &mut [Pair], operand: &[Pair], combine: Combination) {
    match combine {
        Combination::Product => zip::<N>(block, operand, N::times),
        Combination::Min => zip::<N>(block, operand, |a, b| if b < a { b } else { a }),
        Combination::Max => zip::<N>(block, operand, |a, b| if b > a { b } else { a }),
        Combination::Sum | Combination::Own(_) | Combination::OwnAlone(_) => {
            zip::<N>(block, operand, N::plus)
        }
    }
}

/// Calls a function with the first elements, which are so many bytes: what else is in the last pair is none.
fn call(block: &mut [Pair], operand: &[Pair], function: ElementFunction, bytes: usize) {
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
fn narrow(block: &mut [Pair]) {
    for at in 0..block.len() / 2 {
        block[at] = Pair([rounded(block[2 * at]), rounded(block[2 * at + 1])]);
    }
    if !block.len().is_multiple_of(2) {
        block[block.len() / 2].0[0] = rounded(block[block.len() - 1]);
    }
}

/// The other way, from the first half.
fn widen(block: &mut [Pair]) {
    if !block.len().is_multiple_of(2) {
        block[block.len() - 1] = widened(block[block.len() / 2].0[0]);
    }
    for at in (0..block.len() / 2).rev() {
        let Pair([first, second]) = block[at];
        (block[2 * at], block[2 * at + 1]) = (widened(first), widened(second));
    }
}

/// How a recipe's steps go over blocks.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    pub(crate) recipe: &'a Recipe,
    /// Those to be done.
    pub(crate) steps: SubOperations,
    pub(crate) functions: &'a Functions,
}

impl Steps<'_> {
    fn has(&self, step: SubOperations) -> bool {
        self.steps.contains(step)
    }

    /// All but swap and addition, in this machine's order, with elements of so many bytes.
    fn compute(&self, block: &mut [Pair], operand: &[Pair], bytes: usize) {
        let element = self.recipe.element();
        if self.has(SubOperations::COMBINE)
            && let Some(function) = self.recipe.combine()
        {
            match function.own().and_then(|number| self.functions.get(number)) {
                Some(own) => call(block, operand, own.function, bytes),
                None => by_element!(element, combine(block, operand, function)),
            }
        }
        if self.has(SubOperations::SCALE) {
            by_element!(element, scale(block, self.recipe.factor()));
        }
    }

    /// Whether there is anything but swap and addition.
    fn computes(&self) -> bool {
        !self.steps.difference(SubOperations::SWAP | SubOperations::ADD).is_empty()
    }

    /// At the origin, which computes in the message's order and swaps what is to go.
    fn prepare(&self, block: &mut [Pair], operand: &mut [Pair], len: usize) {
        let size = self.recipe.element().bytes();
        let plays = self.recipe.foreign() == Foreign::Message && self.computes();
        if plays {
            swap(block, size);
            swap(operand, size);
        }
        self.compute(block, operand, len);
        let (mut pairs, mut bytes) = (block.len(), size);
        if self.has(SubOperations::NARROW) {
            narrow(block);
            (pairs, bytes) = (pairs.div_ceil(2), size / 2);
        }
        if plays {
            swap(&mut block[..pairs], bytes);
        }
        if self.has(SubOperations::SWAP) {
            swap(&mut block[..pairs], bytes);
            if !self.has(SubOperations::COMBINE) {
                swap(operand, bytes);
            }
        }
    }

    /// At the target, which swaps what came, if that is left to it, and computes in the order of its memory.
    fn finish(&self, block: &mut [Pair], operand: &mut [Pair], len: usize, narrow: bool) {
        let size = self.recipe.element().bytes();
        let (pairs, bytes) = if narrow { (block.len().div_ceil(2), size / 2) } else { (block.len(), size) };
        for _ in 0..usize::from(self.has(SubOperations::SWAP))
            + usize::from(self.recipe.foreign() == Foreign::Target)
        {
            swap(&mut block[..pairs], bytes);
            swap(operand, bytes);
        }
        if narrow {
            widen(block);
        }
        self.compute(block, operand, len);
        if self.has(SubOperations::NARROW) {
            round(block);
        }
    }
}

/// Room for a block of a message, and of its operand.
struct Blocks {
    message: [Pair; BLOCK],
    operand: [Pair; BLOCK],
}

impl Blocks {
    const EMPTY: Self = Self { message: [Pair([0; 2]); BLOCK], operand: [Pair([0; 2]); BLOCK] };

    /// Loads `bytes` of elements from `at` on, at most a block; of what has come narrow, the message alone, half of each. The last
    /// may be less than a pair. The operand's are none without one.
    fn load(
        &mut self,
        sources: &Sources<'_>,
        (at, bytes): (usize, usize),
        narrow: bool,
    ) -> Result<(&mut [Pair], &mut [Pair]), Misplaced> {
        let pairs = bytes.div_ceil(size_of::<Pair>());
        let (message, operand) = (&mut self.message[..pairs], &mut self.operand[..pairs]);
        sources.message.read(wire(at, narrow), &mut message.as_mut_bytes()[..wire(bytes, narrow)])?;
        match sources.operand {
            Some(source) => source.read(at, &mut operand.as_mut_bytes()[..bytes])?,
            None => return Ok((message, &mut [])),
        }
        Ok((message, operand))
    }
}

/// Bytes that so many of elements take on their way.
fn wire(bytes: usize, narrow: bool) -> usize {
    if narrow { bytes / 2 } else { bytes }
}

/// Makes a word what it is to be.
#[inline(always)]
fn update(word: &AtomicU64, change: impl Fn(u64) -> u64) {
    let mut old = word.load(Ordering::Relaxed);
    while let Err(now) = word.compare_exchange(old, change(old), Ordering::Relaxed, Ordering::Relaxed) {
        old = now;
    }
}

/// Both elements of a word, or the one.
#[inline(always)]
fn join<N: Number>(old: u64, new: u64, swaps: bool) -> u64 {
    let one = |old: u64, new: u64| {
        let old = N::from_bits(old);
        let sum =
            if swaps { old.swapped().plus(N::from_bits(new)).swapped() } else { old.plus(N::from_bits(new)) };
        sum.to_bits()
    };
    if size_of::<N>() == WORD {
        return one(old, new);
    }
    one(old >> 32, new >> 32) << 32 | one(old, new)
}

pub(super) fn add_words<N: Number>(into: &[AtomicU64], block: &[Pair], swaps: bool) {
    let words = into.iter().zip(<[u64]>::ref_from_bytes(block.as_bytes()).unwrap_or_default());
    if swaps {
        words.for_each(|(word, &new)| update(word, |old| join::<N>(old, new, true)));
    } else {
        words.for_each(|(word, &new)| update(word, |old| join::<N>(old, new, false)));
    }
}

/// Adds the one element that `new` begins with to half a word.
fn add_half<N: Number>(word: &AtomicU64, new: u64, upper: bool, swaps: bool) {
    let (new, mask) = if upper { (new << 32, !0 << 32) } else { (new, !0 >> 32) };
    update(word, |old| old & !mask | join::<N>(old, new, swaps) & mask);
}

/// Does `steps`, the last ones of a recipe, with what `sources` have for `len` bytes of elements, and adds it to those from
/// `offset` on in `memory`.
///
/// # Errors
/// [`Misplaced`]; nothing was changed. Elements are aligned to their size, and in whole words.
pub(crate) fn add(
    steps: Steps<'_>,
    sources: Sources<'_>,
    len: usize,
    (memory, offset): (&Shared, usize),
) -> Result<(), Misplaced> {
    let recipe = steps.recipe;
    let (element, size) = (recipe.element(), recipe.element().bytes());
    let end = offset.checked_add(len).ok_or(Misplaced::Bounds)?;
    if !offset.is_multiple_of(size) || !len.is_multiple_of(size) {
        return Err(Misplaced::Unaligned);
    }
    let start = offset - offset % WORD;
    memory.words(start, (end - start).div_ceil(WORD))?;
    // Numbers came narrow if the origin has rounded them.
    let narrow = !steps.has(SubOperations::NARROW) && recipe.sub_operations().contains(SubOperations::NARROW);
    if let Source::Bytes(bytes) = sources.message
        && bytes.len() < wire(len, narrow)
    {
        return Err(Misplaced::Bounds);
    }
    let swaps = recipe.foreign() == Foreign::Target;
    let mut blocks = Blocks::EMPTY;
    let mut at = 0;
    while at < len {
        let place = offset + at;
        // A half that begins a word, or ends the message, is by itself.
        let bytes = match (place % WORD, len - at) {
            (0, rest) if rest >= WORD => (rest - rest % WORD).min(BLOCK_BYTES),
            _ => WORD / 2,
        };
        let (block, operand) = blocks.load(&sources, (at, bytes), narrow)?;
        steps.finish(block, operand, bytes, narrow);
        let into = memory.words(place - place % WORD, bytes.div_ceil(WORD))?;
        match (into, &*block) {
            ([word], &[Pair([new, _])]) if bytes < WORD => {
                by_element!(element, add_half(word, new, !place.is_multiple_of(WORD), swaps));
            }
            _ => by_element!(element, add_words(into, block, swaps)),
        }
        at += bytes;
    }
    Ok(())
}

/// Does `steps`, the first ones of a recipe and not its addition, with the elements that `sources` have from the first on; `into`
/// gets what is to go to the target: [`Recipe::wire_bytes`] of `len` bytes of elements, the message's in front of the operand's.
///
/// # Errors
/// [`Misplaced::Bounds`].
pub(crate) fn prepare(
    steps: Steps<'_>,
    sources: Sources<'_>,
    len: usize,
    into: &mut [u8],
) -> Result<(), Misplaced> {
    let both = sources.operand.filter(|_| !steps.has(SubOperations::COMBINE));
    let (first, second) = into.split_at_mut(into.len() / (1 + usize::from(both.is_some())));
    if steps.steps.is_empty() {
        sources.message.read(0, first)?;
        return both.map_or(Ok(()), |operand| operand.read(0, second));
    }
    let narrow = steps.has(SubOperations::NARROW);
    let mut blocks = Blocks::EMPTY;
    for at in (0..len).step_by(BLOCK_BYTES) {
        let bytes = (len - at).min(BLOCK_BYTES);
        let (block, operand) = blocks.load(&sources, (at, bytes), false)?;
        steps.prepare(block, operand, bytes);
        let run = wire(at, narrow)..wire(at + bytes, narrow);
        let from = block.as_bytes().get(..run.len());
        let (Some(first), Some(from)) = (first.get_mut(run.clone()), from) else {
            return Err(Misplaced::Bounds);
        };
        first.copy_from_slice(from);
        if both.is_some() {
            let second = second.get_mut(run).ok_or(Misplaced::Bounds)?;
            second.copy_from_slice(&operand.as_bytes()[..bytes]);
        }
    }
    Ok(())
}
