//! The retransmission timeout (RTO): how long a peer takes to answer, estimated as TCP does (RFC 6298) by a smoothed time and
//! its deviation.
//!
//! Of a packet that was sent again nobody knows which sending was answered. It counts from the first, but for no more
//! than three times the timeout: an estimate that is too short grows, where without such packets it would stay for ever; a
//! packet that was lost makes it no longer than that, and the next answers mend it.
//!
//! The bounds suit nodes that share a few cores of a host: an answer may well take a time slice of each.

/// Before anything was measured, in nanoseconds.
const FIRST_NS: u64 = 20_000_000;
/// Bounds of the time after which a packet is sent again.
pub(super) const LEAST_NS: u64 = 5_000_000;
pub(super) const MOST_NS: u64 = 1_000_000_000;
/// The deviation counts as no less than this quarter.
const LEAST_DEVIATION_NS: u64 = 250_000;

/// The estimate for one peer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rto {
    /// 0 before anything was measured.
    smoothed: u64,
    deviation: u64,
    /// What follows from both.
    timeout: u64,
}

impl Default for Rto {
    fn default() -> Self {
        Self { smoothed: 0, deviation: 0, timeout: FIRST_NS }
    }
}

impl Rto {
    /// Of a peer that was not measured: if the others mostly take longer than would be waited for it, then as if it had
    /// answered once and taken as long as they do.
    pub(super) fn guess(others: impl Iterator<Item = Self>) -> Self {
        let (mut sum, mut count) = (0u64, 0);
        for other in others.filter(|other| other.smoothed > 0) {
            (sum, count) = (sum + other.smoothed, count + 1);
        }
        let mut guess = Self::default();
        guess.measured(sum.checked_div(count).unwrap_or_default());
        if guess.timeout(0) > FIRST_NS { guess } else { Self::default() }
    }

    /// Takes a measured time into account.
    pub(super) fn measured(&mut self, ns: u64) {
        let ns = ns.clamp(1, MOST_NS);
        if self.smoothed == 0 {
            (self.smoothed, self.deviation) = (ns, ns / 2);
        } else {
            self.deviation = (3 * self.deviation + self.smoothed.abs_diff(ns)) / 4;
            self.smoothed = (7 * self.smoothed + ns) / 8;
        }
        self.timeout = (self.smoothed + 4 * self.deviation.max(LEAST_DEVIATION_NS)).clamp(LEAST_NS, MOST_NS);
    }

    /// What counts as measured by a packet that was sent again and was answered so long after its first sending.
    pub(super) fn at_most(&self, ns: u64) -> u64 {
        ns.min(3 * self.timeout(0))
    }

    /// Nanoseconds without an answer after which a packet is sent again, doubled `times` times.
    #[inline]
    pub(super) fn timeout(&self, times: u32) -> u64 {
        (self.timeout << times.min(8)).min(MOST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn d8_steady_answers_bring_the_timeout_near_their_time() {
        let mut estimate = Rto::default();
        assert_eq!(estimate.timeout(0), FIRST_NS);
        (0..50).for_each(|_| estimate.measured(10_000_000));
        assert!((10_000_000..12_000_000).contains(&estimate.timeout(0)), "{estimate:?}");
        (0..50).for_each(|_| estimate.measured(10_000));
        assert_eq!(estimate.timeout(0), LEAST_NS);
    }

    proptest! {
        #[test]
        fn d8_the_timeout_stays_in_its_bounds_and_grows_with_each_try(
            samples in proptest::collection::vec(any::<u64>(), 0..20), times in 0u32..70
        ) {
            let mut estimate = Rto::default();
            samples.iter().for_each(|&ns| estimate.measured(ns));
            prop_assert!((LEAST_NS..=MOST_NS).contains(&estimate.timeout(times)));
            prop_assert!(estimate.timeout(times) <= estimate.timeout(times + 1));
        }
    }
}
