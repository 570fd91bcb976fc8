//! A task's block of the field, with one layer of points around it.

use super::grid::{Blocks, FACES};
use core::f64::consts::PI;
use core::ops::Range;
use kernel::{OutOfMemory, Task};

/// The analytic solution: a harmonic polynomial. Its fourth derivatives are 24, 72 and 48.
pub fn exact([x, y, z]: [f64; 3]) -> f64 {
    let [x, y, z] = [x * x, y * y, z * z];
    x * x - 6.0 * x * y + 3.0 * y * y - 12.0 * y * z + 2.0 * z * z
}

/// The sum of the fourth derivatives of [`exact`] along the axes. The stencil of seven points applied to it gives `h^2/12`
/// of this, and nothing more, as sixth derivatives are 0.
pub const FOURTH_DERIVATIVES: f64 = 144.0;

/// Two states of a block: that after the last step and the one before it.
pub struct Field {
    /// Points along each dimension, all around included.
    sizes: [usize; 3],
    /// The first point's place in the cube along each dimension.
    first: [usize; 3],
    spacing: f64,
    /// Of the next step: how far it goes from the state before last towards the mean.
    weight: f64,
    steps: u32,
    now: &'static mut [f64],
    /// What a step leaves of it is the state that the step started from.
    other: &'static mut [f64],
}

impl Field {
    /// The block of `task` in a cube with `points` inner points along each dimension: 0 inside, exact at the border.
    pub fn new(task: &'static Task, blocks: &Blocks, points: usize) -> Result<Self, OutOfMemory> {
        let parts = [0, 1, 2].map(|d| blocks.part(d, points));
        let sizes = parts.each_ref().map(|part| part.len() + 2);
        let places = sizes.iter().product();
        let memory = task.memory();
        let (now, other) = (memory.slice(places)?, memory.slice(places)?);
        let first = parts.map(|part| part.start);
        let spacing = 1.0 / (points + 1) as f64;
        let field = Self { sizes, first, spacing, weight: 1.0, steps: 0, now, other };
        let [x, y, z] = sizes;
        for (i, j, k) in (0..z).flat_map(|k| (0..y).flat_map(move |j| (0..x).map(move |i| (i, j, k)))) {
            let place = [i, j, k];
            // The rest of the layer around is filled by the neighbours.
            if (0..3).any(|d| [0, points + 1].contains(&(field.first[d] + place[d]))) {
                let at = field.index(place);
                let value = exact(field.point(place));
                (field.now[at], field.other[at]) = (value, value);
            }
        }
        Ok(field)
    }

    fn index(&self, [i, j, k]: [usize; 3]) -> usize {
        (k * self.sizes[1] + j) * self.sizes[0] + i
    }

    fn point(&self, place: [usize; 3]) -> [f64; 3] {
        [0, 1, 2].map(|d| (self.first[d] + place[d]) as f64 * self.spacing)
    }

    /// Places of the plane next to a face: the layer around, or the outermost of the block's own.
    fn plane(&self, face: usize, around: bool) -> [Range<usize>; 3] {
        debug_assert!(face < FACES);
        [0, 1, 2].map(|d| {
            let size = self.sizes[d];
            let at = match (face % 2 == 1, around) {
                (false, true) => 0,
                (false, false) => 1,
                (true, false) => size - 2,
                (true, true) => size - 1,
            };
            if d == face / 2 { at..at + 1 } else { 1..size - 1 }
        })
    }

    fn places(planes: [Range<usize>; 3]) -> impl Iterator<Item = [usize; 3]> {
        let [x, y, z] = planes;
        z.flat_map(move |k| {
            let x = x.clone();
            y.clone().flat_map(move |j| x.clone().map(move |i| [i, j, k]))
        })
    }

    /// Values of a face that a neighbour needs.
    pub fn face(&self, face: usize) -> impl Iterator<Item = f64> + '_ {
        Self::places(self.plane(face, false)).map(|place| self.now[self.index(place)])
    }

    /// Takes a neighbour's values.
    pub fn set_around(&mut self, face: usize, mut value: impl FnMut() -> f64) {
        for place in Self::places(self.plane(face, true)) {
            let at = self.index(place);
            self.now[at] = value();
        }
    }

    /// One step of Jacobi with Chebyshev's weights, which save most of the steps: every point goes from where it was a
    /// step ago towards, and beyond, the mean of its six neighbours. Returns the largest difference of a point from that mean,
    /// before the step.
    pub fn step(&mut self) -> f64 {
        let [x, y, z] = self.sizes;
        let mut largest: f64 = 0.0;
        for k in 1..z - 1 {
            for j in 1..y - 1 {
                for i in 1..x - 1 {
                    let at = self.index([i, j, k]);
                    let now = &self.now;
                    let sum = now[at - 1]
                        + now[at + 1]
                        + now[at - x]
                        + now[at + x]
                        + now[at - x * y]
                        + now[at + x * y];
                    let mean = sum / 6.0;
                    largest = largest.max((mean - now[at]).abs());
                    self.other[at] += self.weight * (mean - self.other[at]);
                }
            }
        }
        core::mem::swap(&mut self.now, &mut self.other);
        self.steps += 1;
        self.weight = self.next_weight();
        largest
    }

    /// Chebyshev's weights for a spectral radius of cos(pi h).
    fn next_weight(&self) -> f64 {
        let angle_squared = PI * PI * self.spacing * self.spacing;
        // The cosine's series; a little too large is safe.
        let radius = 1.0 - angle_squared / 2.0 + angle_squared * angle_squared / 24.0;
        let halves = if self.steps == 1 { 2.0 } else { self.weight };
        1.0 / (1.0 - radius * radius * halves / 4.0)
    }

    /// The largest difference from the analytic solution, before the last step.
    pub fn error(&self) -> f64 {
        let inside = self.sizes.map(|size| 1..size - 1);
        let differences = Self::places(inside)
            .map(|place| (self.other[self.index(place)] - exact(self.point(place))).abs());
        differences.fold(0.0, f64::max)
    }
}
