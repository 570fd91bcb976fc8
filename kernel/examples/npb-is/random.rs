//! The benchmarks' generator: x' = a x mod 2^46, in integers, which hold it exactly.

const MASK: u64 = (1 << 46) - 1;
const MULTIPLIER: u64 = 1_220_703_125;
const SEED: u64 = 314_159_265;

/// A place in the sequence.
pub struct Random(u64);

impl Random {
    /// The generator after `steps` steps, in time logarithmic in them.
    pub fn after(mut steps: u64) -> Self {
        let (mut x, mut power) = (SEED, MULTIPLIER);
        while steps > 0 {
            if steps & 1 == 1 {
                x = x.wrapping_mul(power) & MASK;
            }
            power = power.wrapping_mul(power) & MASK;
            steps >>= 1;
        }
        Self(x)
    }

    /// The next number in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(MULTIPLIER) & MASK;
        self.0 as f64 / (1u64 << 46) as f64
    }

    /// The next key below `values`: the mean of four numbers, which heaps the keys up in the middle.
    pub fn key(&mut self, values: u32) -> u32 {
        let sum = self.next() + self.next() + self.next() + self.next();
        (f64::from(values / 4) * sum) as u32
    }
}
