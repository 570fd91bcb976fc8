//! Collectives that were given up before they were begun here (SPEC ).
//!
//! A member that gives up may be far ahead: nobody waits for it, so nothing holds it back. What it says is kept as runs of
//! collectives with one reason, so any number of them has room. Should there be more runs than places, the last one before
//! grows up to the new one, over what lies between: those end here too, and all members are told, as of any failure.
//!
//! So it is with geometries that are not made here yet: those beyond [`UNMADE`] of which something was given up end all
//! their collectives, their creation too.

use super::wire::{Label, before};
use crate::error::OperationError;
use heapless::Vec;

/// Runs of a geometry that are told apart.
const RUNS: usize = 4;
/// Geometries to come that are told apart.
const UNMADE: usize = 8;

/// Collectives with numbers in sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: u32,
    /// How many there are besides the first.
    more: u32,
    error: OperationError,
    /// All members were told of all of them.
    told: bool,
}

impl Run {
    fn last(&self) -> u32 {
        self.first.wrapping_add(self.more)
    }

    fn contains(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.first) <= self.more
    }

    /// So many behind its last are in it as well. It may be longer than half of all numbers, of which none is before the other.
    fn grow(&mut self, count: u32) {
        self.more = self.more.saturating_add(count);
    }

    /// It grows up to `sequence`, on the side that is nearer to its first.
    fn reach(&mut self, sequence: u32) {
        if before(sequence, self.first) {
            self.more = self.more.saturating_add(self.first.wrapping_sub(sequence));
            self.first = sequence;
        } else {
            self.more = self.more.max(sequence.wrapping_sub(self.first));
        }
    }

    /// What is left of it before `sequence`, which it has.
    fn until(&self, sequence: u32) -> Option<Self> {
        Some(Self { more: sequence.wrapping_sub(self.first).checked_sub(1)?, ..*self })
    }

    /// What is left of it behind `sequence`, which it has.
    fn behind(&self, sequence: u32) -> Option<Self> {
        let more = self.last().wrapping_sub(sequence).checked_sub(1)?;
        Some(Self { first: sequence.wrapping_add(1), more, ..*self })
    }
}

/// Runs of collectives, in order; no two have one in common.
#[derive(Clone, Default, Debug)]
struct Runs(Vec<Run, RUNS>);

impl Runs {
    /// All there can be.
    fn all(error: OperationError) -> Self {
        let mut runs = Self::default();
        let _ = runs.0.push(Run { first: 0, more: u32::MAX, error, told: false });
        runs
    }

    /// A collective that has not begun here was given up, and all members were told.
    fn add(&mut self, sequence: u32, error: OperationError) {
        let Self(runs) = self;
        if runs.iter().any(|run| run.contains(sequence)) {
            return;
        }
        let at = runs.iter().position(|run| before(sequence, run.first)).unwrap_or(runs.len());
        let next = runs
            .get(at)
            .copied()
            .filter(|next| (next.first, next.error) == (sequence.wrapping_add(1), error));
        if let Some(last) = at.checked_sub(1).and_then(|at| runs.get_mut(at))
            && (last.last().wrapping_add(1), last.error) == (sequence, error)
        {
            last.grow(1);
            // It may have been all that lay between.
            if let Some(next) = next.filter(|next| next.told == last.told) {
                last.grow(next.more.saturating_add(1));
                runs.remove(at);
            }
            return;
        }
        if next.is_some() {
            return runs[at].reach(sequence);
        }
        let new = Run { first: sequence, more: 0, error, told: true };
        if runs.insert(at, new).is_err()
            && let Some(near) = runs.get_mut(at.saturating_sub(1))
        {
            near.reach(sequence);
            near.told = false;
        }
    }

    /// A collective begins: how it ends, if it was given up, and whether all members were told. Those before it have begun.
    fn take(&mut self, sequence: u32) -> Option<(OperationError, bool)> {
        while let Some(&run) = self.0.first() {
            if run.contains(sequence) {
                match run.behind(sequence) {
                    Some(behind) => self.0[0] = behind,
                    None => _ = self.0.remove(0),
                }
                return Some((run.error, run.told));
            }
            if before(sequence, run.first) {
                return None;
            }
            self.0.remove(0);
        }
        None
    }

    /// The same of collectives that begin in any order: of the others in a run, those on one side stay known apart, if there is a
    /// place.
    fn take_any(&mut self, number: u32) -> Option<(OperationError, bool)> {
        let at = self.0.iter().position(|run| run.contains(number))?;
        let run = self.0[at];
        match (run.until(number), run.behind(number)) {
            (None, None) => _ = self.0.remove(at),
            (Some(left), None) | (None, Some(left)) => self.0[at] = left,
            // Without a place it stays one run, with this one in it.
            (Some(until), Some(behind)) => {
                if self.0.insert(at + 1, behind).is_ok() {
                    self.0[at] = until;
                }
            }
        }
        Some((run.error, run.told))
    }
}

/// What is known of a geometry's collectives to come.
#[derive(Clone, Default, Debug)]
pub(super) struct Doomed {
    /// Those that the members count.
    counted: Runs,
    /// Those whose numbers are their callers'.
    called: Runs,
    /// What the members are for those that gave the creation up, if that is known and one thing.
    members: Members,
}

/// What was said of a geometry's members, by the digest.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Members {
    #[default]
    Unknown,
    Are(u32),
    Differ,
}

impl Doomed {
    /// A collective that has not begun here was given up, and all members were told. `called`: its number is the caller's.
    pub(super) fn add(&mut self, sequence: u32, called: bool, error: OperationError) {
        if called { &mut self.called } else { &mut self.counted }.add(sequence, error);
    }

    /// Whether none was given up.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.counted.0.is_empty() && self.called.0.is_empty()
    }

    /// Notes whom one who gave up the creation named, if this is that.
    fn note_members(&mut self, label: &Label) {
        if label.key.is_creation() {
            let members = Members::Are(label.members());
            let known = self.members == Members::Unknown || self.members == members;
            self.members = if known { members } else { Members::Differ };
        }
    }

    /// Whether all who gave the creation up named the members of this digest.
    pub(super) fn agree(&self, digest: u32) -> bool {
        self.members == Members::Are(Label::NONE.of_members(Some(digest)).members())
    }

    /// A collective begins: how it ends, if it was given up, and whether all members were told. Of those that the members count,
    /// the ones before it have begun.
    pub(super) fn take(&mut self, sequence: u32, called: bool) -> Option<(OperationError, bool)> {
        if called { self.called.take_any(sequence) } else { self.counted.take(sequence) }
    }
}

/// What is known of geometries that are not made here yet.
#[derive(Default, Debug)]
pub(crate) struct Unmade {
    geometries: Vec<(u32, Doomed), UNMADE>,
    /// The first and the last of those that found no place, and what was said of one.
    beyond: Option<(u32, u32, OperationError)>,
}

impl Unmade {
    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.geometries.clear();
        self.beyond = None;
    }

    fn beyond(&self, geometry: u32) -> Option<OperationError> {
        self.beyond.filter(|(first, last, _)| (*first..=*last).contains(&geometry)).map(|(.., error)| error)
    }

    /// A collective of a geometry was given up, and all members were told.
    pub(super) fn add(&mut self, label: &Label, called: bool, error: OperationError) {
        let (geometry, sequence) = (label.key.geometry, label.key.sequence);
        if let Some((_, doomed)) = self.geometries.iter_mut().find(|(known, _)| *known == geometry) {
            doomed.add(sequence, called, error);
            return doomed.note_members(label);
        }
        let mut doomed = Doomed::default();
        doomed.add(sequence, called, error);
        doomed.note_members(label);
        if self.geometries.push((geometry, doomed)).is_err() {
            let (first, last) = self.beyond.map_or((geometry, geometry), |(first, last, _)| (first, last));
            self.beyond = Some((first.min(geometry), last.max(geometry), error));
        }
    }

    /// A geometry is made.
    pub(super) fn take(&mut self, geometry: u32) -> Doomed {
        let at = self.geometries.iter().position(|(known, _)| *known == geometry);
        let doomed = at.map(|at| self.geometries.swap_remove(at).1);
        match self.beyond(geometry) {
            Some(error) => {
                Doomed { counted: Runs::all(error), called: Runs::all(error), members: Members::Unknown }
            }
            None => doomed.unwrap_or_default(),
        }
    }

    /// It was not, after all.
    pub(super) fn put_back(&mut self, geometry: u32, doomed: Doomed) {
        let empty = doomed.counted.0.is_empty() && doomed.called.0.is_empty();
        if !empty && self.beyond(geometry).is_none() {
            // There is room: it was taken from here.
            let _ = self.geometries.push((geometry, doomed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Key;
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
                doomed.add(at, false, given_up(reason));
                all.push((at, given_up(reason)));
            }
            let runs = all.chunk_by(|a, b| a.0.wrapping_add(1) == b.0 && a.1 == b.1).count();
            for sequence in 0..300u32 {
                let sequence = from.wrapping_add(sequence);
                let due = all.iter().find(|(at, _)| *at == sequence);
                let found = doomed.take(sequence, false);
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
    fn r1_what_is_heard_of_late_fills_the_gap_and_takes_no_run() {
        let mut doomed = Doomed::default();
        for sequence in [10, 12, 11, 14, 13, 9, 20, 22, 24, 21, 23] {
            doomed.add(sequence, false, given_up(1));
        }
        for sequence in 9..=24 {
            let due = !(15..20).contains(&sequence);
            assert_eq!(doomed.take(sequence, false), due.then_some((given_up(1), true)), "{sequence}");
        }
    }

    #[test]
    fn r1_of_any_order_nothing_is_forgotten() {
        let mut doomed = Doomed::default();
        for sequence in [40, 20, 60, 10, 50, 30, 41, 21] {
            doomed.add(sequence, false, given_up(sequence as u16));
        }
        let ended: std::vec::Vec<u32> =
            (0..70).filter(|&sequence| doomed.take(sequence, false).is_some()).collect();
        assert!(
            [10, 20, 21, 30, 40, 41, 50, 60].iter().all(|sequence| ended.contains(sequence)),
            "{ended:?}"
        );
    }

    #[test]
    fn r1_runs_that_meet_keep_what_both_have_however_long_they_are() {
        let mut doomed = Doomed::default();
        // Four runs; further numbers make the first and the last longer: half of all there are.
        for (number, reason) in
            [(10, 1), (15, 2), (17, 2), (20, 1), (12, 1), (0x7000_0000, 1), (0xb000_0000, 1)]
        {
            doomed.add(number, true, given_up(reason));
        }
        assert!([15, 17].iter().all(|&number| doomed.take(number, true).is_some()));
        (13..20).for_each(|number| doomed.add(number, true, given_up(1)));
        for number in [19, 20, 21, 0x7000_0000, 10, 0xb000_0000] {
            assert!(doomed.take(number, true).is_some(), "{number:#x}");
        }
    }

    proptest! {
        #[test]
        fn r1_whatever_was_given_up_early_of_calls_ends_once_each_in_any_order(
            numbers in proptest::collection::hash_set(any::<u32>().prop_map(|n| n & 0xc000_000f), 0..40),
            begun in proptest::collection::hash_set(any::<u32>().prop_map(|n| n & 0xc000_000f), 0..40),
        ) {
            let mut doomed = Doomed::default();
            for &number in &numbers {
                doomed.add(number, true, given_up(1));
            }
            let few = numbers.len() <= RUNS;
            for &number in &begun {
                let found = doomed.take(number, true);
                prop_assert!(found.is_some() || !numbers.contains(&number));
                prop_assert!(!few || found == numbers.contains(&number).then_some((given_up(1), true)));
                prop_assert!(!few || doomed.take(number, true).is_none(), "its number may be used again");
            }
            prop_assert!(doomed.take(0, false).is_none());
        }

        #[test]
        fn r1_of_geometries_to_come_nothing_is_forgotten(
            said in proptest::collection::vec((1u32..40, 0u32..3), 0..40), made in proptest::sample::subsequence(
                (1..40).collect::<std::vec::Vec<u32>>(), 0..40)
        ) {
            let mut unmade = Unmade::default();
            // Of geometries that were not made, after all, nothing stays.
            for geometry in 50..70 {
                let tried = unmade.take(geometry);
                unmade.put_back(geometry, tried);
            }
            for &(geometry, sequence) in &said {
                let key = Key { geometry, sequence, part: 0 };
                let label = Label::abort(key, given_up(geometry as u16));
                unmade.add(&label, false, given_up(geometry as u16));
            }
            let few = said.iter().map(|said| said.0).collect::<std::collections::HashSet<_>>().len() <= UNMADE;
            for geometry in made {
                let tried = unmade.take(geometry);
                unmade.put_back(geometry, tried);
                let mut doomed = unmade.take(geometry);
                for sequence in 0..3 {
                    let due = said.contains(&(geometry, sequence));
                    let found = doomed.take(sequence, false);
                    prop_assert!(found.is_some() || !due);
                    prop_assert!(!few || found == due.then_some((given_up(geometry as u16), true)));
                }
            }
        }
    }
}
