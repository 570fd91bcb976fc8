//! A digest of who the members are, the same for the same members however they are given (SPEC G-1).
//!
//! Endpoints in the order of ranks are the coefficients of a polynomial modulo a Mersenne prime, taken at a fixed place.
//! Of numbers that rise evenly, as those of ranges and rectangles do, it is worked out in time that grows with the
//! logarithm of how many there are.

/// The modulus, 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;
/// Where the polynomial is taken: any number that is no power of few.
const PLACE: u64 = 0x0b5a_d4ec_eda1_ce2a;

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}

fn plus(a: u64, b: u64) -> u64 {
    // Both are below 2^61.
    (a + b) % PRIME
}

/// A sequence of numbers, as far as its digest is concerned.
#[derive(Clone, Copy)]
pub(super) struct Sequence {
    /// The place to the power of the length.
    power: u64,
    /// The digest of as many ones.
    ones: u64,
    hash: u64,
}

impl Sequence {
    pub(super) const EMPTY: Self = Self { power: 1, ones: 0, hash: 0 };

    pub(super) fn one(number: u64) -> Self {
        Self { power: PLACE, ones: 1, hash: number % PRIME }
    }

    pub(super) fn of(numbers: impl Iterator<Item = u64>) -> Self {
        numbers.fold(Self::EMPTY, |all, number| all.then(Self::one(number)))
    }

    /// This one, then another.
    pub(super) fn then(self, other: Self) -> Self {
        Self {
            power: times(self.power, other.power),
            ones: plus(self.ones, times(self.power, other.ones)),
            hash: plus(self.hash, times(self.power, other.hash)),
        }
    }

    /// With every number greater by so much.
    pub(super) fn raised(self, by: u64) -> Self {
        Self { hash: plus(self.hash, times(by % PRIME, self.ones)), ..self }
    }

    /// So many times one after the other, each time greater by `step`.
    pub(super) fn repeated(self, count: u32, step: u64) -> Self {
        let (mut all, mut done) = (Self::EMPTY, 0);
        for bit in (0..u32::BITS - count.leading_zeros()).rev() {
            all = all.then(all.raised(times(done, step % PRIME)));
            done *= 2;
            if count >> bit & 1 == 1 {
                all = all.then(self.raised(times(done, step % PRIME)));
                done += 1;
            }
        }
        all
    }

    pub(super) fn digest(self) -> u64 {
        self.hash
    }
}
