//! Pairs of Gaussian deviates by Marsaglia's polar method, counted in square annuli.

use super::class::Class;
use super::npb::machine::{Machine, Tasks};
use super::npb::random::Random;
use core::ops::Range;

const SEED: u64 = 271_828_183;

/// Number of annuli; those of 2^28 pairs need the first six.
pub const ANNULI: usize = 10;

/// What the benchmark computes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tally {
    /// Sums of the first and the second deviates.
    pub sums: [f64; 2],
    /// Pairs whose larger magnitude lies in `l..l + 1`, for each `l`.
    pub counts: [u64; ANNULI],
}

/// The tally of all pairs of a class, each task's share of them counted there by its threads. Any number of tasks.
pub fn tally<M: Machine>(machine: &mut M, class: &Class) -> Result<Tally, M::Error> {
    let mine = part(0..class.pairs(), machine.task(), machine.tasks());
    // Counts are far below 2^53: exact as reals.
    let mut words = [0.0; 2 + ANNULI];
    machine.on_threads(
        move |thread, threads| tally_of(part(mine.clone(), thread, threads)),
        |tally| {
            let counts = tally.counts.map(|count| count as f64);
            for (word, more) in words.iter_mut().zip(tally.sums.into_iter().chain(counts)) {
                *word += more;
            }
        },
    )?;
    let group = machine.group(Tasks::all(machine.tasks()))?;
    machine.sum(&group, &mut words)?;
    let mut all = Tally { sums: [words[0], words[1]], counts: [0; ANNULI] };
    for (count, word) in all.counts.iter_mut().zip(&words[2..]) {
        *count = *word as u64;
    }
    Ok(all)
}

/// Share `number` of `count` about equal ones.
fn part(pairs: Range<u64>, number: usize, count: usize) -> Range<u64> {
    let bound = |number: usize| pairs.start + (pairs.end - pairs.start) * number as u64 / count as u64;
    bound(number)..bound(number + 1)
}

fn tally_of(pairs: Range<u64>) -> Tally {
    let mut random = Random::after(SEED, 2 * pairs.start);
    let mut tally = Tally { sums: [0.0; 2], counts: [0; ANNULI] };
    for _ in pairs {
        let x = 2.0 * random.next() - 1.0;
        let y = 2.0 * random.next() - 1.0;
        let square = x * x + y * y;
        if square > 1.0 {
            continue;
        }
        let scale = libm::sqrt(-2.0 * libm::log(square) / square);
        let (x, y) = (x * scale, y * scale);
        tally.sums[0] += x;
        tally.sums[1] += y;
        if let Some(count) = tally.counts.get_mut(x.abs().max(y.abs()) as usize) {
            *count += 1;
        }
    }
    tally
}
