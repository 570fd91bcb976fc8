//! How long to poll before a sleep (SPEC N-8).

/// Most rounds that [`wait`](crate::Context::wait) polls before it sleeps where harts share processors: enough to catch the answer
/// of a neighbour.
const SHARED_POLLS: u32 = 2048;
/// The same where each hart has a processor of its own: enough for the copy of some MiB.
const OWN_POLLS: u32 = 1 << 16;
/// Fewest rounds: what comes while others are at work is worth no more.
const LEAST_POLLS: u32 = 16;
/// A sleep that was so short could have been spent polling; one that was much longer was worth none of it.
const SHORT_SLEEP_NS: u64 = 50_000;

/// How long a context polls before it sleeps. Harts of an emulated node share processors with others that have work to do,
/// and each round of polling that brings nothing is time of theirs; on a processor of its own a hart loses by each sleep.
/// So sleeps decide: short ones have it poll longer, long ones shorter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AdaptiveSpin {
    now: u32,
    most: u32,
}

impl AdaptiveSpin {
    /// Of a hart that [owns its core](crate::device::Sleeping::owns_core), or not.
    pub(crate) fn of_hart(owns_core: bool) -> Self {
        Self::of_at_most(if owns_core { OWN_POLLS } else { SHARED_POLLS })
    }

    /// At most so many rounds.
    pub(crate) fn of_at_most(most: u32) -> Self {
        Self { now: most, most }
    }

    /// Rounds to poll now.
    pub(crate) fn rounds(self) -> u32 {
        self.now
    }

    /// Takes note of a sleep.
    pub(crate) fn learn(&mut self, slept_ns: u64) {
        if slept_ns <= SHORT_SLEEP_NS {
            self.now = (self.now.saturating_mul(2)).min(self.most);
        } else if slept_ns > 4 * SHORT_SLEEP_NS {
            self.now = (self.now / 2).max(LEAST_POLLS.min(self.most));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n8_who_owns_its_core_polls_longer_and_both_learn_to_sleep_at_once() {
        let [mut own, mut shared] = [true, false].map(AdaptiveSpin::of_hart);
        assert!(own.rounds() > shared.rounds());
        for spin in [&mut own, &mut shared] {
            let most = spin.rounds();
            (0..64).for_each(|_| spin.learn(u64::MAX));
            assert_eq!(spin.rounds(), LEAST_POLLS);
            (0..64).for_each(|_| spin.learn(0));
            assert_eq!(spin.rounds(), most);
        }
    }
}
