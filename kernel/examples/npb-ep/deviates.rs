//! Pairs of Gaussian deviates by Marsaglia's polar method, counted in square annuli.

use super::class::Class;
use crate::npb::machine::{Machine, Tasks};
use crate::npb::random::Random;

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

/// The tally of all pairs of a class, each task's share of them counted there. Any number of tasks.
pub fn tally<M: Machine>(machine: &mut M, class: &Class) -> Result<Tally, M::Error> {
    let (task, tasks) = (machine.task() as u64, machine.tasks() as u64);
    let share = class.pairs() * task / tasks..class.pairs() * (task + 1) / tasks;
    let mine = tally_of(share);
    // Counts are far below 2^53: exact as reals.
    let mut words = [0.0; 2 + ANNULI];
    words[..2].copy_from_slice(&mine.sums);
    for (word, count) in words[2..].iter_mut().zip(mine.counts) {
        *word = count as f64;
    }
    let group = machine.group(Tasks::all(tasks as usize))?;
    machine.sum(&group, &mut words)?;
    let mut all = Tally { sums: [words[0], words[1]], counts: [0; ANNULI] };
    for (count, word) in all.counts.iter_mut().zip(&words[2..]) {
        *count = *word as u64;
    }
    Ok(all)
}

fn tally_of(pairs: core::ops::Range<u64>) -> Tally {
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
