//! Discrete Fourier transforms of power-of-two lengths, by Stockham's self-sorting method.

use core::f64::consts::PI;

/// Real and imaginary part.
pub type Complex = [f64; 2];

/// Roots of unity for transforms up to a length.
pub struct Roots {
    /// The first half of the longest length's roots, in the order of their angles.
    roots: &'static mut [Complex],
}

impl Roots {
    /// Computes them into half as many places as the longest transform is long.
    pub fn new(roots: &'static mut [Complex]) -> Self {
        let step = PI / roots.len() as f64;
        for (number, root) in roots.iter_mut().enumerate() {
            let angle = step * number as f64;
            *root = [libm::cos(angle), libm::sin(angle)];
        }
        Self { roots }
    }

    /// Transforms `line`, not scaled: element k becomes the sum over j of `line[j]` exp(-+2 pi i j k / len), minus
    /// unless `inverse`. `room` is as long.
    pub fn transform(&self, line: &mut [Complex], room: &mut [Complex], inverse: bool) {
        let sign = if inverse { 1.0 } else { -1.0 };
        let half = line.len() / 2;
        let (mut from, mut to) = (line, room);
        // Transforms of `len` points each, `count` of them interleaved; each pass halves the one and doubles the other.
        let (mut len, mut count, mut swapped) = (2 * half, 1, false);
        while len > 1 {
            let stride = self.roots.len() / (len / 2);
            for (pair, root) in self.roots.iter().step_by(stride).enumerate() {
                let [cos, sin] = [root[0], sign * root[1]];
                let (low, high) = (&from[pair * count..][..count], &from[pair * count + half..][..count]);
                let (sums, differences) = to[2 * pair * count..][..2 * count].split_at_mut(count);
                for at in 0..count {
                    let (a, b) = (low[at], high[at]);
                    sums[at] = [a[0] + b[0], a[1] + b[1]];
                    let [re, im] = [a[0] - b[0], a[1] - b[1]];
                    differences[at] = [re * cos - im * sin, re * sin + im * cos];
                }
            }
            (from, to) = (to, from);
            (len, count, swapped) = (len / 2, 2 * count, !swapped);
        }
        if swapped {
            to.copy_from_slice(from);
        }
    }
}
