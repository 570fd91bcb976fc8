//! The share of recent time that was spent on something, kept in a sliding window (SPEC L-2).

/// Length of the window, in nanoseconds.
pub const WINDOW_NS: u64 = 10_000_000;
/// Time is kept in slots of so many nanoseconds.
const SLOT_NS: u64 = 1_000_000;
/// Those that the window meets, whole or in part.
const SLOTS: usize = (WINDOW_NS / SLOT_NS + 1) as usize;

/// Time spent, of the last [`WINDOW_NS`]. To note a span costs a few instructions for each millisecond of it, ten at most.
#[derive(Clone, Copy, Debug)]
pub struct RecentShare {
    /// Which slot of all time, and nanoseconds in it.
    slots: [(u64, u32); SLOTS],
    /// Start of the span that has begun and not ended.
    began: Option<u64>,
}

impl RecentShare {
    /// Nothing spent.
    pub const fn new() -> Self {
        Self { slots: [(0, 0); SLOTS], began: None }
    }

    /// A span begins at `now`.
    pub fn begin(&mut self, now: u64) {
        self.began = Some(now);
    }

    /// The span that had begun ends at `now`.
    pub fn end(&mut self, now: u64) {
        if let Some(from) = self.began.take() {
            self.note(from, now);
        }
    }

    /// Notes that the time from `from` to `to` was spent; spans come in order and do not meet.
    pub fn note(&mut self, from: u64, to: u64) {
        let mut from = from.max(to.saturating_sub(WINDOW_NS));
        while from < to {
            let number = from / SLOT_NS;
            let until = to.min((number + 1) * SLOT_NS);
            let slot = &mut self.slots[(number % SLOTS as u64) as usize];
            if slot.0 != number {
                *slot = (number, 0);
            }
            slot.1 += (until - from) as u32;
            from = until;
        }
    }

    /// The share of the window up to `now` that was spent, of 1000; before its length has passed, of the time since the start.
    /// A span that has not ended counts up to `now`, time in the oldest slot in proportion.
    pub fn share(&self, now: u64) -> u16 {
        let newest = now / SLOT_NS;
        let mut all = *self;
        all.end(now);
        let spent: u64 = all
            .slots
            .iter()
            .filter(|slot| slot.0 <= newest && slot.0 + SLOTS as u64 > newest)
            .map(|&(number, spent)| {
                let oldest = number + SLOTS as u64 == newest + 1;
                let part = if oldest { SLOT_NS - now % SLOT_NS } else { SLOT_NS };
                u64::from(spent) * part / SLOT_NS
            })
            .sum();
        (spent * 1000 / now.clamp(1, WINDOW_NS)).min(1000) as u16
    }
}

impl Default for RecentShare {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const MS: u64 = 1_000_000;

    #[test]
    fn l2_a_window_knows_the_share_of_the_last_ten_milliseconds() {
        let mut window = RecentShare::new();
        assert_eq!(window.share(0), 0);
        window.note(0, MS);
        assert_eq!((window.share(MS), window.share(2 * MS), window.share(10 * MS)), (1000, 500, 100));
        assert_eq!((window.share(21 * MS / 2), window.share(11 * MS)), (50, 0));
        window.note(20 * MS, 25 * MS);
        assert_eq!((window.share(25 * MS), window.share(30 * MS), window.share(34 * MS)), (500, 500, 100));
        assert_eq!(window.share(1000 * MS), 0);
        // Longer than the window.
        window.note(1000 * MS, 2000 * MS);
        assert_eq!((window.share(2000 * MS), window.share(2005 * MS)), (1000, 500));
    }

    #[test]
    fn l2_a_span_that_has_not_ended_counts_so_far() {
        let mut window = RecentShare::new();
        window.begin(20 * MS);
        assert_eq!((window.share(20 * MS), window.share(25 * MS), window.share(90 * MS)), (0, 500, 1000));
        window.end(26 * MS);
        assert_eq!((window.share(30 * MS), window.share(36 * MS)), (600, 0));
        window.end(40 * MS);
        assert_eq!(window.share(40 * MS), 0, "there is one end to a span");
    }

    proptest! {
        #[test]
        fn l2_a_window_is_right_to_a_slot(spans in proptest::collection::vec((0u64..3 * MS, 0u64..3 * MS), 1..40)) {
            let (mut window, mut now, mut all) = (RecentShare::new(), 20 * MS, Vec::new());
            for (busy, spent) in spans {
                window.note(now + busy, now + busy + spent);
                all.push((now + busy, now + busy + spent));
                now += busy + spent;
                let start = now - WINDOW_NS;
                let exact: u64 = all.iter().map(|&(from, to)| to.saturating_sub(from.max(start))).sum();
                let off = u64::from(window.share(now)).abs_diff(exact * 1000 / WINDOW_NS);
                // What lies in the oldest slot may lie at its other end.
                prop_assert!(off <= 100, "{off}");
            }
        }
    }
}
