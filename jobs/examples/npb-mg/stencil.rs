//! The four operators, on blocks whose ghosts are filled. Each weighs the 27 points around one by their distance:
//! the point itself, 6 across faces, 12 across edges, 8 across corners.

use super::grid::{Block, Triple};

/// The discrete Laplacian.
const LAPLACIAN: [f64; 4] = [-8.0 / 3.0, 0.0, 1.0 / 6.0, 1.0 / 12.0];
/// The smoother, which approximates the Laplacian's inverse.
const SMOOTHER: [f64; 4] = [-3.0 / 8.0, 1.0 / 32.0, -1.0 / 64.0, 0.0];
/// Full weighting to the next coarser grid.
const RESTRICTION: [f64; 4] = [1.0 / 2.0, 1.0 / 4.0, 1.0 / 8.0, 1.0 / 16.0];

/// Weighs the surroundings of `points` points along x, the first at `start`, and hands each sum to `put`.
fn weigh_row(
    field: &[f64],
    [_, y, z]: Triple,
    start: usize,
    points: usize,
    weights: [f64; 4],
    mut put: impl FnMut(usize, f64),
) {
    // Sums in the plane across x: the point, its 4 nearest, its 4 next.
    let plane = |at: usize| {
        let near = field[at - y] + field[at + y] + field[at - z] + field[at + z];
        let far = field[at - y - z] + field[at + y - z] + field[at - y + z] + field[at + y + z];
        [field[at], near, far]
    };
    let mut before = plane(start - 1);
    let mut here = plane(start);
    for at in start..start + points {
        let after = plane(at + 1);
        let sides = [0, 1, 2].map(|distance| before[distance] + after[distance]);
        let sum = weights[0] * here[0]
            + weights[1] * (here[1] + sides[0])
            + weights[2] * (here[2] + sides[1])
            + weights[3] * sides[2];
        put(at, sum);
        (before, here) = (here, after);
    }
}

/// `residual` becomes `right` minus the Laplacian of `u`.
pub fn residual(block: Block, u: &[f64], right: &[f64], residual: &mut [f64]) {
    block.rows(|start| {
        weigh_row(u, block.strides(), start, block.points[0], LAPLACIAN, |at, sum| {
            residual[at] = right[at] - sum;
        });
    });
}

/// As [`residual`], of a right side that it replaces.
pub fn residual_in_place(block: Block, u: &[f64], right: &mut [f64]) {
    block.rows(|start| {
        weigh_row(u, block.strides(), start, block.points[0], LAPLACIAN, |at, sum| right[at] -= sum);
    });
}

/// Adds to `u` what the smoother makes of the residual.
pub fn smooth(block: Block, residual: &[f64], u: &mut [f64]) {
    block.rows(|start| {
        weigh_row(residual, block.strides(), start, block.points[0], SMOOTHER, |at, sum| u[at] += sum);
    });
}

/// Weighs `fine` at every second point of each dimension, the last included. The sums fill `coarse`, a block of half
/// the extents with or without ghosts, whose point (0, 0, 0) is at `origin` and whose strides are given.
pub fn restrict(block: Block, fine: &[f64], coarse: &mut [f64], origin: usize, strides: Triple) {
    for z in 0..block.points[2] / 2 {
        for y in 0..block.points[1] / 2 {
            let first = block.at([1, 2 * y + 2, 2 * z + 2]);
            let row = origin + y * strides[1] + z * strides[2];
            weigh_row(fine, block.strides(), first, block.points[0], RESTRICTION, |at, sum| {
                let x = at - first;
                if x % 2 == 1 {
                    coarse[row + x / 2] = sum;
                }
            });
        }
    }
}

/// Adds to `fine` the trilinear interpolation of `coarse`. The fine block covers the coarse one from the coarse
/// point `origin` (counted without ghosts) on.
pub fn interpolate(coarse: Block, values: &[f64], origin: Triple, block: Block, fine: &mut [f64]) {
    // Fine point f is coarse point (f - 1) / 2 if f is odd, else lies midway between the two around it. Either way it
    // is the mean of two, which may be the same.
    let around = |dimension: usize, f: usize| {
        let upper = origin[dimension] + f / 2 + 1;
        [if f % 2 == 1 { upper } else { upper - 1 }, upper]
    };
    for z in 0..block.points[2] {
        for y in 0..block.points[1] {
            let start = block.at([1, y + 1, z + 1]);
            let [low_z, high_z] = around(2, z);
            let [low_y, high_y] = around(1, y);
            let rows = [(low_y, low_z), (high_y, low_z), (low_y, high_z), (high_y, high_z)]
                .map(|(y, z)| coarse.at([origin[0], y, z]));
            let mean = |x: usize| 0.25 * rows.iter().map(|row| values[row + x]).sum::<f64>();
            let mut low = mean(0);
            for x in 0..block.points[0] / 2 {
                let high = mean(x + 1);
                fine[start + 2 * x] += 0.5 * (low + high);
                fine[start + 2 * x + 1] += high;
                low = high;
            }
        }
    }
}
