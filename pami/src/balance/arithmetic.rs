//! Sub-operations on blocks of elements (SPEC L-1, L-5).
//!
//! A block is loaded from where a message lies, each sub-operation goes over it once, and it is sent on or added. Between two
//! sub-operations an element is just its bits, so it makes no difference where each of them runs. What is added is by compare and
//! swap of each word: what others add to the same word meanwhile is not lost.
//!
//! A side of the other byte order computes in that. Here it is played by this machine, which turns the elements round before and
//! after; what is counted as a swap, and done by whichever side has it to do, is a pass of its own.

use super::functions::Functions;
use super::passes::{
    BLOCK, BLOCK_BYTES, Number, Pair, by_combination, by_element, by_word, call, combine, narrow, round,
    scale, swap, widen,
};
use super::recipe::{Combination, Foreign, Recipe, RecipeElement, SubOperations};
use crate::addends::{Addends, update, update_each};
use crate::device::RemoteMemory;
use core::array;
use core::sync::atomic::{AtomicU64, Ordering};
use rings::shared::{Misplaced, Shared};
use zerocopy::{FromBytes, IntoBytes};

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

    /// Adds `len` bytes of elements from `at` on out of where they came, if nothing is left but that, and they are aligned: a core may
    /// read others slowly, or not at all. Returns whether it did.
    fn add_where_they_lie<P: RemoteMemory>(
        &self,
        into: &[AtomicU64],
        sources: &Sources<'_>,
        (at, len): (usize, usize),
        narrow: bool,
    ) -> bool {
        let Source::Bytes(bytes) = sources.message else { return false };
        if self.steps != SubOperations::ADD || self.recipe.foreign() == Foreign::Target {
            return false;
        }
        let Some(run) = bytes.get(wire(at, narrow)..wire(at + len, narrow)) else { return false };
        if narrow {
            let Ok(numbers) = <[f32]>::ref_from_bytes(run) else { return false };
            P::add_numbers(into, Addends::Singles(numbers));
        } else {
            let Ok(words) = <[u64]>::ref_from_bytes(run) else { return false };
            self.add_words::<P>(into, words);
        }
        true
    }

    /// Adds elements to those in words, at once.
    fn add_words<P: RemoteMemory>(&self, into: &[AtomicU64], words: &[u64]) {
        let (element, swaps) = (self.recipe.element(), self.recipe.foreign() == Foreign::Target);
        if element == RecipeElement::F64 && !swaps {
            let numbers = <[f64]>::ref_from_bytes(words.as_bytes()).unwrap_or_default();
            return P::add_numbers(into, Addends::Doubles(numbers));
        }
        by_element!(element, add_words(into, words, swaps));
    }

    /// At the origin: makes what is to go out of words where they lie, if they are only to be combined by a built-in function, or
    /// rounded, or both: to load them into a block takes as long. `None` if they lie otherwise; nothing is done then.
    fn put_words(&self, sources: &Sources<'_>, into: &mut [u8]) -> Option<()> {
        let (combines, narrows) = (self.has(SubOperations::COMBINE), self.has(SubOperations::NARROW));
        let others = self.steps.difference(SubOperations::COMBINE | SubOperations::NARROW);
        let Source::Shared(memory, start) = sources.message else { return None };
        if !others.is_empty() || self.recipe.foreign() == Foreign::Message {
            return None;
        }
        let count = into.len() / if narrows { WORD / 2 } else { WORD };
        let message = memory.words(start, count).ok()?;
        if !combines {
            let into = <[f32]>::mut_from_bytes(into).ok()?;
            make_each(into, (message, message), |word, _| f64::from_bits(load(word)) as f32);
            return Some(());
        }
        let Some(Source::Shared(memory, start)) = sources.operand else { return None };
        let words = (message, memory.words(start, count).ok()?);
        let function = self.recipe.combine().filter(|function| function.own().is_none())?;
        if narrows {
            let into = <[f32]>::mut_from_bytes(into).ok()?;
            by_combination!(function, put_narrow::<f64>(into, words));
        } else {
            let into = <[u64]>::mut_from_bytes(into).ok()?;
            by_element!(self.recipe.element(), combine_words(into, words, function));
        }
        Some(())
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

/// Their sum.
#[inline(always)]
fn join<N: Number>(old: u64, new: u64, swaps: bool) -> u64 {
    if swaps {
        return by_word(old, new, |old: N, new| old.swapped().plus(new).swapped());
    }
    by_word(old, new, N::plus)
}

/// The words of a block.
fn words(block: &[Pair]) -> &[u64] {
    <[u64]>::ref_from_bytes(block.as_bytes()).unwrap_or_default()
}

fn add_words<N: Number>(into: &[AtomicU64], words: &[u64], swaps: bool) {
    if swaps {
        update_each(into, words, |old, &new| join::<N>(old, new, true));
    } else {
        update_each(into, words, |old, &new| join::<N>(old, new, false));
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
pub(crate) fn add<P: RemoteMemory>(
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
        let rest = if place.is_multiple_of(WORD) { (len - at) / WORD * WORD } else { 0 };
        if rest > 0
            && steps.add_where_they_lie::<P>(memory.words(place, rest / WORD)?, &sources, (at, rest), narrow)
        {
            at += rest;
            continue;
        }
        let bytes = if rest > 0 { rest.min(BLOCK_BYTES) } else { WORD / 2 };
        let (block, operand) = blocks.load(&sources, (at, bytes), narrow)?;
        steps.finish(block, operand, bytes, narrow);
        let into = memory.words(place - place % WORD, bytes.div_ceil(WORD))?;
        match (into, &*block) {
            ([word], &[Pair([new, _])]) if bytes < WORD => {
                by_element!(element, add_half(word, new, !place.is_multiple_of(WORD), swaps));
            }
            _ => steps.add_words::<P>(into, words(block)),
        }
        at += bytes;
    }
    Ok(())
}

/// Makes each of `into` of the words at its place. Four to a turn, as where words are [changed](update_each).
#[inline(always)]
fn make_each<T>(
    into: &mut [T],
    (message, operand): (&[AtomicU64], &[AtomicU64]),
    make: impl Fn(&AtomicU64, &AtomicU64) -> T,
) {
    let (fours, into) = into.as_chunks_mut::<4>();
    let ((messages, message), (operands, operand)) = (message.as_chunks::<4>(), operand.as_chunks::<4>());
    for ((into, words), others) in fours.iter_mut().zip(messages).zip(operands) {
        *into = array::from_fn(|at| make(&words[at], &others[at]));
    }
    for ((into, word), other) in into.iter_mut().zip(message).zip(operand) {
        *into = make(word, other);
    }
}

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn put_combined<N: Number>(into: &mut [u64], words: (&[AtomicU64], &[AtomicU64]), join: impl Fn(N, N) -> N) {
    make_each(into, words, |word, other| by_word(load(word), load(other), &join));
}

fn put_narrow<N: Number>(into: &mut [f32], words: (&[AtomicU64], &[AtomicU64]), join: impl Fn(N, N) -> N) {
    make_each(into, words, |word, other| f64::from_bits(by_word(load(word), load(other), &join)) as f32);
}

fn combine_words<N: Number>(into: &mut [u64], words: (&[AtomicU64], &[AtomicU64]), combine: Combination) {
    by_combination!(combine, put_combined::<N>(into, words));
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
    if both.is_none() && steps.put_words(&sources, first).is_some() {
        return Ok(());
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
