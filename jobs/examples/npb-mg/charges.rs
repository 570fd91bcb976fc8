//! The right side of the equation: +1 at the ten points where a random field is largest, -1 where it is smallest.

use super::grid::{Block, TaskBox};
use super::npb::machine::{Machine, Tasks};
use super::npb::random::{Random, SEED};

const CHARGES: usize = 10;

/// The ten largest values seen, as pairs of value and place, the largest first.
#[derive(Clone, Copy)]
struct Largest([[f64; 2]; CHARGES]);

impl Largest {
    fn offer(&mut self, value: f64, place: f64) {
        // Most are not even larger than the last.
        if value <= self.0[CHARGES - 1][0] {
            return;
        }
        let rank = self.0.partition_point(|[larger, _]| *larger >= value);
        self.0.copy_within(rank..CHARGES - 1, rank + 1);
        self.0[rank] = [value, place];
    }
}

/// Sets `right` to the charges. The grid has `extent` points in each dimension, this task's block starts at its place
/// in the box of tasks.
pub fn place<M: Machine>(
    machine: &mut M,
    extent: usize,
    tasks: TaskBox,
    block: Block,
    right: &mut [f64],
) -> Result<(), M::Error> {
    let first = [0, 1, 2].map(|dimension| tasks.place[dimension] * block.points[dimension]);
    // Largest values, and largest of the negated ones.
    let mut extremes = [Largest([[f64::NEG_INFINITY, 0.0]; CHARGES]); 2];
    for z in 0..block.points[2] {
        for y in 0..block.points[1] {
            let row = first[0] + extent * ((first[1] + y) + extent * (first[2] + z));
            let mut random = Random::after(SEED, row as u64);
            for x in 0..block.points[0] {
                let value = random.next();
                // Places are far below 2^53: exact as reals.
                let place = (row + x) as f64;
                extremes[0].offer(value, place);
                extremes[1].offer(-value, place);
            }
        }
    }
    right.fill(0.0);
    let count = machine.tasks();
    let group = machine.group(Tasks::all(count))?;
    let all = machine.reals(2 * CHARGES * count)?;
    for (mine, charge) in extremes.iter_mut().zip([1.0, -1.0]) {
        machine.all_gather(&group, mine.0.as_flattened_mut(), all)?;
        let mut overall = Largest([[f64::NEG_INFINITY, 0.0]; CHARGES]);
        for pair in all.chunks_exact(2) {
            overall.offer(pair[0], pair[1]);
        }
        for [_, place] in overall.0 {
            let place = place as usize;
            let here = [place % extent, place / extent % extent, place / (extent * extent)];
            let inside = |dimension: usize| {
                here[dimension].checked_sub(first[dimension]).filter(|&at| at < block.points[dimension])
            };
            if let (Some(x), Some(y), Some(z)) = (inside(0), inside(1), inside(2)) {
                right[block.at([x + 1, y + 1, z + 1])] = charge;
            }
        }
    }
    Ok(())
}
