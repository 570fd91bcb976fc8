//! Collectives of a geometry that were given up before they were begun here (SPEC ).
//!
//! A member that gives up may be far ahead: nobody waits for it, so nothing holds it back. What it says is kept as runs of
//! collectives with one reason, so any number of them has room. Should there be more runs than places, the last one before
//! grows up to the new one, over what lies between: those end here too, and all members are told, as of any failure.

use super::run::before;
use crate::error::OperationError;
use heapless::Vec;

/// Runs of a geometry that are told apart.
const RUNS: usize = 4;

/// Collectives with numbers in sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: u32,
    count: u32,
    error: OperationError,
    /// All members were told of all of them.
    told: bool,
}

impl Run {
    fn end(&self) -> u32 {
        self.first.wrapping_add(self.count)
    }

    fn contains(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.first) < self.count
    }

    fn reach(&mut self, sequence: u32) {
        if before(sequence, self.first) {
            self.count = self.count.wrapping_add(self.first.wrapping_sub(sequence));
            self.first = sequence;
        } else {
            self.count = sequence.wrapping_sub(self.first).wrapping_add(1);
        }
    }
}

/// What is known of a geometry's collectives to come. In order; no two runs have a collective in common.
#[derive(Clone, Default, Debug)]
pub(super) struct Doomed {
    runs: Vec<Run, RUNS>,
}

impl Doomed {
    /// A collective that has not begun here was given up, and all members were told.
    pub(super) fn add(&mut self, sequence: u32, error: OperationError) {
        if self.runs.iter().any(|run| run.contains(sequence)) {
            return;
        }
        let at = self.runs.iter().position(|run| before(sequence, run.first)).unwrap_or(self.runs.len());
        if let Some(last) = at.checked_sub(1).and_then(|at| self.runs.get_mut(at))
            && (last.end(), last.error) == (sequence, error)
        {
            return last.reach(sequence);
        }
        let new = Run { first: sequence, count: 1, error, told: true };
        if self.runs.insert(at, new).is_err()
            && let Some(near) = self.runs.get_mut(at.saturating_sub(1))
        {
            near.reach(sequence);
            near.told = false;
        }
    }

    /// A collective begins: how it ends, if it was given up, and whether all members were told. Those before it have begun.
    pub(super) fn take(&mut self, sequence: u32) -> Option<(OperationError, bool)> {
        while let Some(run) = self.runs.first_mut() {
            if run.contains(sequence) {
                let (end, found) = (run.end(), (run.error, run.told));
                run.first = sequence.wrapping_add(1);
                run.count = end.wrapping_sub(run.first);
                return Some(found);
            }
            if before(sequence, run.first) {
                return None;
            }
            self.runs.remove(0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn given_up(reason: u16) -> OperationError {
        OperationError::Abandoned { rank: 1, reason }
    }

    proptest! {
        #[test]
        fn r1_whatever_was_given_up_early_ends_and_few_runs_end_as_they_should(
            from in any::<u32>(), steps in proptest::collection::vec((0u32..3, 0u16..2), 0..60)
        ) {
            let (mut doomed, mut at, mut all) = (Doomed::default(), from, std::vec::Vec::new());
            for (gap, reason) in steps {
                at = at.wrapping_add(gap + u32::from(!all.is_empty()));
                doomed.add(at, given_up(reason));
                all.push((at, given_up(reason)));
            }
            let runs = all.chunk_by(|a, b| a.0.wrapping_add(1) == b.0 && a.1 == b.1).count();
            for sequence in 0..300u32 {
                let sequence = from.wrapping_add(sequence);
                let due = all.iter().find(|(at, _)| *at == sequence);
                let found = doomed.take(sequence);
                if let Some((_, error)) = due {
                    prop_assert!(found.is_some());
                    prop_assert!(runs > RUNS || found == Some((*error, true)));
                } else {
                    // Of what was not given up everybody is told.
                    prop_assert!(found.is_none() || runs > RUNS && found.is_some_and(|found| !found.1));
                }
            }
        }
    }

    #[test]
    fn r1_of_any_order_nothing_is_forgotten() {
        let mut doomed = Doomed::default();
        for sequence in [40, 20, 60, 10, 50, 30, 41, 21] {
            doomed.add(sequence, given_up(sequence as u16));
        }
        let ended: std::vec::Vec<u32> = (0..70).filter(|&sequence| doomed.take(sequence).is_some()).collect();
        assert!(
            [10, 20, 21, 30, 40, 41, 50, 60].iter().all(|sequence| ended.contains(sequence)),
            "{ended:?}"
        );
    }
}
