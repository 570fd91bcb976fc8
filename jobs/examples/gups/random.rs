//! The stream of random numbers of HPC Challenge RandomAccess: powers of x in GF(2)[x] modulo a polynomial.

/// What x^64 is, modulo x^64 + x^2 + x + 1.
const REDUCED: u64 = 0b111;

/// The stream from some place on.
pub struct Stream(u64);

impl Stream {
    /// The stream behind its first `count` numbers.
    pub fn after(count: u64) -> Self {
        // x^count by squares.
        let (mut power, mut base, mut rest) = (1, 2, count);
        while rest > 0 {
            if rest & 1 == 1 {
                power = product(power, base);
            }
            base = product(base, base);
            rest >>= 1;
        }
        Self(power)
    }
}

impl Iterator for Stream {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.0 = times_x(self.0);
        Some(self.0)
    }
}

fn times_x(polynomial: u64) -> u64 {
    let carry = if polynomial >> 63 == 1 { REDUCED } else { 0 };
    polynomial << 1 ^ carry
}

fn product(left: u64, right: u64) -> u64 {
    (0..u64::BITS).rev().fold(0, |sum, bit| times_x(sum) ^ if right >> bit & 1 == 1 { left } else { 0 })
}
