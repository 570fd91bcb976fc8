//! Advice: what a target says of itself when it is asked, and for how long that is believed (SPEC L-2).

use super::recent_share::WINDOW_NS;
use super::recipe::{RecipeElement, SubOperations};
use crate::endpoint::Endpoint;
use heapless::Vec;

/// How long advice is believed, in nanoseconds: a few windows, as it takes up to one to ask on a host that has more to do.
pub const ADVICE_NS: u64 = 5 * WINDOW_NS;
/// How long an operation waits for advice before it does without.
pub(crate) const ADVICE_TIMEOUT_NS: u64 = 5 * WINDOW_NS;
/// Targets that a context remembers the advice of, or waits for that of.
const TARGETS: usize = 8;
/// Contexts that a context may owe advice to; more questions at once are not answered.
const ASKERS: usize = 32;

/// What a target said of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    /// The sub-operations that it has.
    pub available: SubOperations,
    /// Share of the last [`WINDOW_NS`] of its task's harts that was idle, of 1000.
    pub idle: u16,
}

/// One line of a rule set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// It is for messages of such elements; of any, if `None`.
    pub element: Option<RecipeElement>,
    /// It is for messages of at least so many bytes.
    pub from_bytes: u32,
    /// What the origin does: the first sub-operations of the recipe, as long as they are among these.
    pub origin: SubOperations,
    /// With how many of the chunks, of 1000.
    pub chunks: u16,
    /// What it does with the others, in the same way, but never the addition: some may be combined where the rest is converted.
    pub others: SubOperations,
}

/// What is known of a target.
#[derive(Clone, Copy)]
struct CachedAdvice {
    target: Endpoint,
    /// When it was asked last.
    asked: u64,
    /// What it answered, and when.
    answer: Option<(u64, Advice)>,
    waits: bool,
}

/// The advice that a context remembers.
pub(crate) struct Advices {
    entries: Vec<CachedAdvice, TARGETS>,
}

/// What is to be done for advice.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    Known(Advice),
    Ask,
    Wait,
    /// It does not come.
    None,
}

impl Advices {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    pub(crate) fn look(&mut self, target: Endpoint, now: u64) -> Wanted {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.target == target) else {
            return if self.vacant(now).is_some() { Wanted::Ask } else { Wanted::Wait };
        };
        match entry.answer {
            Some((at, advice)) if now.saturating_sub(at) <= ADVICE_NS => Wanted::Known(advice),
            _ if !entry.waits => Wanted::Ask,
            _ if now.saturating_sub(entry.asked) <= ADVICE_TIMEOUT_NS => Wanted::Wait,
            _ => {
                entry.waits = false;
                Wanted::None
            }
        }
    }

    /// The place of the next target that is not known: the end, or that of the one that was asked longest ago. An answer that
    /// is still to come keeps its place, or operations to many targets would take it from each other and ask again for ever.
    pub(crate) fn vacant(&self, now: u64) -> Option<usize> {
        if !self.entries.is_full() {
            return Some(self.entries.len());
        }
        let over = |entry: &CachedAdvice| !entry.waits || now.saturating_sub(entry.asked) > ADVICE_TIMEOUT_NS;
        let entries = self.entries.iter().enumerate().filter(|(_, entry)| over(entry));
        entries.min_by_key(|(_, entry)| entry.asked).map(|(at, _)| at)
    }

    /// Notes that `target` was asked.
    pub(crate) fn asked(&mut self, target: Endpoint, now: u64) {
        let known = self.entries.iter().position(|entry| entry.target == target);
        let answer = known.and_then(|at| self.entries.swap_remove(at).answer);
        let Some(at) = self.vacant(now) else { return };
        if at < self.entries.len() {
            self.entries.swap_remove(at);
        }
        let _ = self.entries.push(CachedAdvice { target, asked: now, answer, waits: true });
    }

    /// Returns whether that target had been asked.
    pub(crate) fn answered(&mut self, target: Endpoint, now: u64, advice: Advice) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.target == target && entry.waits);
        entry.is_some_and(|entry| {
            (entry.answer, entry.waits) = (Some((now, advice)), false);
            true
        })
    }
}

/// Contexts that wait for advice, in the order in which they asked.
pub(crate) struct Askers {
    waiting: Vec<Endpoint, ASKERS>,
}

impl Askers {
    pub(crate) const fn new() -> Self {
        Self { waiting: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Has `tell` tell them, in order, those for whom it returns true. Returns how many.
    pub(crate) fn tell(&mut self, mut tell: impl FnMut(Endpoint) -> bool) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|&asker| !tell(asker));
        before - self.waiting.len()
    }

    /// Notes one, unless it is known or there are too many.
    pub(crate) fn note(&mut self, asker: Endpoint) {
        if !self.waiting.contains(&asker) {
            // One that is not answered does without.
            let _ = self.waiting.push(asker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};

    fn endpoint(task: u32) -> Endpoint {
        Endpoint::from_parts(ClientId(0), task, ContextOffset(0))
    }

    #[test]
    fn l2_advice_is_asked_once_believed_for_a_while_and_done_without_if_it_does_not_come() {
        let advice = Advice { available: SubOperations::all(), idle: 300 };
        let mut advices = Advices::new();
        let target = endpoint(1);
        assert_eq!(advices.look(target, 5), Wanted::Ask);
        assert!(!advices.answered(target, 5, advice));
        advices.asked(target, 5);
        assert_eq!(advices.look(target, 6), Wanted::Wait);
        assert!(advices.answered(target, 7, advice));
        assert!(!advices.answered(target, 8, Advice { idle: 0, ..advice }));
        assert_eq!(advices.look(target, 7 + ADVICE_NS), Wanted::Known(advice));
        let late = 8 + ADVICE_NS;
        assert_eq!(advices.look(target, late), Wanted::Ask);
        advices.asked(target, late);
        assert_eq!(advices.look(target, late + ADVICE_TIMEOUT_NS), Wanted::Wait);
        assert_eq!(advices.look(target, late + ADVICE_TIMEOUT_NS + 1), Wanted::None);
        assert_eq!(advices.look(target, late + ADVICE_TIMEOUT_NS + 1), Wanted::Ask);
    }

    #[test]
    fn l2_more_targets_than_places_do_not_take_them_from_each_other() {
        let mut advices = Advices::new();
        let mut asked = 0;
        for round in 0..100 {
            for target in (0..=TARGETS as u32).map(endpoint) {
                if advices.look(target, round) == Wanted::Ask {
                    advices.asked(target, round);
                    asked += 1;
                }
            }
        }
        assert_eq!(asked, TARGETS);
        let last = endpoint(TARGETS as u32);
        assert_eq!(advices.look(last, 100), Wanted::Wait);
        assert!(advices.answered(endpoint(3), 100, Advice { available: SubOperations::all(), idle: 0 }));
        assert_eq!(advices.look(last, 100), Wanted::Ask);
    }

    #[test]
    fn l2_the_advice_that_was_asked_for_longest_ago_is_forgotten() {
        let advice = Advice { available: SubOperations::all(), idle: 0 };
        let mut advices = Advices::new();
        for task in 0..=TARGETS as u32 {
            advices.asked(endpoint(task), task.into());
            assert!(advices.answered(endpoint(task), task.into(), advice));
        }
        assert_eq!(advices.look(endpoint(0), 20), Wanted::Ask);
        assert_eq!(advices.look(endpoint(1), 20), Wanted::Known(advice));
        // Asking again does not take another place.
        advices.asked(endpoint(8), 21);
        assert_eq!(advices.look(endpoint(1), 22), Wanted::Known(advice));
        assert_eq!(advices.entries.len(), TARGETS);
    }
}
