//! Numbers that are added to words of memory in shared use, each at once (SPEC L-1, L-5).

use core::sync::atomic::{AtomicU64, Ordering};

/// Numbers to be added to floating-point numbers of 64 bits.
#[derive(Clone, Copy, Debug)]
pub enum Addends<'a> {
    /// As long as those.
    Doubles(&'a [f64]),
    /// Of 32 bits, which are extended first.
    Singles(&'a [f32]),
}

impl<'a> Addends<'a> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::Doubles(numbers) => numbers.len(),
            Self::Singles(numbers) => numbers.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Those in front of the one at `at`, and the others; all are in front of one that is not there.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        match self {
            Self::Doubles(numbers) => {
                let (front, rest) = numbers.split_at(at.min(numbers.len()));
                (Self::Doubles(front), Self::Doubles(rest))
            }
            Self::Singles(numbers) => {
                let (front, rest) = numbers.split_at(at.min(numbers.len()));
                (Self::Singles(front), Self::Singles(rest))
            }
        }
    }

    /// Adds each to the number in the word at its place, as far as both reach. What others make of a word meanwhile is not lost.
    pub fn add_to(self, words: &[AtomicU64]) {
        match self {
            Self::Doubles(numbers) => update_each(words, numbers, |old, &new| sum(old, new)),
            Self::Singles(numbers) => update_each(words, numbers, |old, &new| sum(old, new.into())),
        }
    }
}

#[inline(always)]
fn sum(old: u64, new: f64) -> u64 {
    (f64::from_bits(old) + new).to_bits()
}

/// Makes a word what it is to be.
#[inline(always)]
pub(crate) fn update(word: &AtomicU64, change: impl Fn(u64) -> u64) {
    let mut old = word.load(Ordering::Relaxed);
    while let Err(now) = word.compare_exchange_weak(old, change(old), Ordering::Relaxed, Ordering::Relaxed) {
        old = now;
    }
}

/// Changes words, each by its own of `by`. Four to a turn: the loop costs as much as half an addition.
#[inline(always)]
pub(crate) fn update_each<T>(words: &[AtomicU64], by: &[T], change: impl Fn(u64, &T) -> u64) {
    let (words, by) = (words.get(..by.len()).unwrap_or(words), by.get(..words.len()).unwrap_or(by));
    let ((fours, words), (by_fours, by)) = (words.as_chunks::<4>(), by.as_chunks::<4>());
    for ([first, second, third, fourth], [one, two, three, four]) in fours.iter().zip(by_fours) {
        update(first, |old| change(old, one));
        update(second, |old| change(old, two));
        update(third, |old| change(old, three));
        update(fourth, |old| change(old, four));
    }
    words.iter().zip(by).for_each(|(word, by)| update(word, |old| change(old, by)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn l5_each_number_is_added_to_the_word_at_its_place_as_far_as_both_reach(
            words in proptest::collection::vec(any::<u64>(), 0..20), numbers in proptest::collection::vec(any::<f32>(), 0..20),
            cut in 0usize..25, narrow in any::<bool>()
        ) {
            let long: Vec<f64> = numbers.iter().map(|&number| number.into()).collect();
            let into: Vec<AtomicU64> = words.iter().copied().map(AtomicU64::new).collect();
            let all = if narrow { Addends::Singles(&numbers) } else { Addends::Doubles(&long) };
            let (front, rest) = all.split_at(cut);
            prop_assert_eq!((front.len(), rest.is_empty()), (cut.min(long.len()), cut >= long.len()));
            front.add_to(&into);
            rest.add_to(into.get(cut..).unwrap_or_default());
            for (at, (old, new)) in words.iter().zip(&into).enumerate() {
                let (old, new) = (f64::from_bits(*old), f64::from_bits(new.load(Ordering::Relaxed)));
                let expected = long.get(at).map_or(old, |number| old + number);
                prop_assert!(expected.to_bits() == new.to_bits() || expected.is_nan() && new.is_nan());
            }
        }
    }

    #[test]
    fn l1_no_number_is_lost_that_others_add_meanwhile() {
        const TIMES: usize = if cfg!(miri) { 20 } else { 2000 };
        let words: Vec<AtomicU64> = (0..9).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..TIMES).for_each(|_| Addends::Doubles(&[1.0; 9]).add_to(&words)));
                scope.spawn(|| (0..TIMES).for_each(|_| Addends::Singles(&[2.0; 9]).add_to(&words)));
            }
        });
        let sums = words.iter().map(|word| f64::from_bits(word.load(Ordering::Relaxed)));
        assert!(sums.into_iter().all(|sum| sum == (9 * TIMES) as f64));
    }
}
