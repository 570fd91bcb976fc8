//! What sub-operations cost, measured on the hart that does them (SPEC L-2).

use super::passes::{BLOCK, Pair, combine, round, scale, swap};
use super::recipe::Combination;
use crate::addends::Addends;
use core::hint::black_box;
use core::sync::atomic::AtomicU64;

/// What it takes, each for a word of elements, in nanoseconds of a thousand; only what they are to each other counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StepCosts {
    pub(crate) copy: u64,
    pub(crate) swap: u64,
    pub(crate) combine: u64,
    pub(crate) scale: u64,
    pub(crate) narrow: u64,
    pub(crate) add: u64,
}

/// Blocks that are gone over for a measurement, and how often that is tried: the least counts, as others use the hart too.
const BLOCKS: usize = 16;
const TRIES: usize = 4;

impl StepCosts {
    /// Instructions of portable code: for a clock that does not go on.
    const USUAL: Self =
        Self { copy: 2048, swap: 2048, combine: 3072, scale: 2048, narrow: 3072, add: 15_360 };

    /// Measured by a clock in nanoseconds; `add` is what adds numbers here.
    pub(crate) fn measure(mut now: impl FnMut() -> u64, add: impl Fn(&[AtomicU64], Addends<'_>)) -> Self {
        let (mut block, operand) = ([Pair([1; 2]); BLOCK], [Pair([3; 2]); BLOCK]);
        let (memory, numbers) = ([const { AtomicU64::new(0) }; 2 * BLOCK], [1.0; 2 * BLOCK]);
        let mut time = |pass: &mut dyn FnMut(&mut [Pair])| {
            let one = |_| {
                let start = now();
                for _ in 0..BLOCKS {
                    pass(black_box(&mut block));
                }
                now().saturating_sub(start)
            };
            (0..TRIES).map(one).min().unwrap_or(0)
        };
        let copy = time(&mut |block| block.copy_from_slice(black_box(&operand)));
        let swap = time(&mut |block| swap(block, 8));
        let combine = time(&mut |block| combine::<f64>(block, black_box(&operand), Combination::Sum));
        let scale = time(&mut |block| scale::<f64>(block, black_box(0)));
        let narrow = time(&mut |block| round(block));
        let add = time(&mut |_| add(black_box(&memory), Addends::Doubles(black_box(&numbers))));
        if add == 0 {
            return Self::USUAL;
        }
        let [copy, swap, combine, scale, narrow] =
            [copy, swap, combine, scale, narrow].map(|cost| cost.max(1));
        Self { copy, swap, combine, scale, narrow, add }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l2_costs_are_the_least_times_of_a_few_and_the_usual_ones_without_a_clock() {
        let add = |words: &[AtomicU64], addends: Addends<'_>| addends.add_to(words);
        // Two looks to a try: the first tries of each kind take longer, as on a hart that others use.
        let (mut now, mut looks) = (0, 0);
        let costs = StepCosts::measure(
            || {
                let (kind, attempt) = (looks / (2 * TRIES), looks / 2 % TRIES);
                now += if looks % 2 == 1 { (10 * (kind + 1) + TRIES - 1 - attempt) as u64 } else { 1000 };
                looks += 1;
                now
            },
            add,
        );
        assert_eq!(looks, 6 * 2 * TRIES);
        assert_eq!(costs, StepCosts { copy: 10, swap: 20, combine: 30, scale: 40, narrow: 50, add: 60 });
        assert_eq!(StepCosts::measure(|| 7, add), StepCosts::USUAL);
    }
}
