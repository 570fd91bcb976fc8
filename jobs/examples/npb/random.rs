//! The benchmarks' generator: x' = a x mod 2^46, in integers, which hold it exactly.

const MASK: u64 = (1 << 46) - 1;
const MULTIPLIER: u64 = 1_220_703_125;
const SCALE: f64 = 1.0 / (1u64 << 46) as f64;

/// The seed of all benchmarks but EP.
pub const SEED: u64 = 314_159_265;

/// A place in the sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator `steps` steps after the seed, in time logarithmic in them.
    pub fn after(seed: u64, mut steps: u64) -> Self {
        let (mut x, mut power) = (seed, MULTIPLIER);
        while steps > 0 {
            if steps & 1 == 1 {
                x = x.wrapping_mul(power) & MASK;
            }
            power = power.wrapping_mul(power) & MASK;
            steps >>= 1;
        }
        Self(x)
    }

    /// The next number in (0, 1).
    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER) & MASK;
        self.0 as f64 * SCALE
    }
}
