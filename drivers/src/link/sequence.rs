//! Sequence numbers: 32 bits that wrap, compared within half their range.

/// The number of a packet among those from one node to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seq(u32);

impl Seq {
    /// The number of the first packet: so near the end that every job of any length wraps.
    pub const FIRST: Self = Self(0u32.wrapping_sub(48));

    /// The number with this wire form.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The wire form.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The number `count` packets later.
    #[inline]
    pub const fn plus(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The number before this.
    #[inline]
    pub const fn minus_one(self) -> Self {
        Self(self.0.wrapping_sub(1))
    }

    /// Packets from `earlier` to this one; over 2^31 if `earlier` is in truth the later one.
    #[inline]
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Whether this comes before `other`; they are less than 2^31 apart.
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        (self.since(other) as i32) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn d8_order_and_distance_hold_wherever_the_numbers_wrap(
            start in any::<u32>(), step in 0u32..1 << 31, other in 0u32..1 << 31
        ) {
            let seq = Seq::new(start);
            let (a, b) = (seq.plus(step), seq.plus(other));
            prop_assert_eq!(a.since(seq), step);
            prop_assert_eq!(a.is_before(b), step < other);
            prop_assert_eq!(seq.is_before(a), step > 0);
            prop_assert!(!a.is_before(seq));
            prop_assert_eq!(Seq::new(a.number()), a);
        }

        #[test]
        fn d8_a_window_is_the_numbers_that_are_near_enough(
            start in any::<u32>(), window in 1u32..64, number in any::<u32>()
        ) {
            let (first, seq) = (Seq::new(start), Seq::new(number));
            let inside = (0..window).any(|step| first.plus(step) == seq);
            prop_assert_eq!(seq.since(first) < window, inside);
        }
    }
}
