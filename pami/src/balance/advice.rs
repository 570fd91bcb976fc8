//! Advice: what a target says of itself when it is asked, and for how long that is believed (SPEC L-2).

use super::recipe::{Element, SubOperations};
use super::window::WINDOW_NS;
use crate::context::Active;
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::packet::{Envelope, Kind};
use crate::reception::Stage;
use heapless::Vec;

/// How long advice is believed, in nanoseconds: when it is as old, it says nothing of the present window.
pub const ADVICE_NS: u64 = WINDOW_NS;
/// How long an operation waits for advice before it does without.
const PATIENCE_NS: u64 = WINDOW_NS;
/// Targets that a context remembers the advice of.
const TARGETS: usize = 8;

/// What a target said of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    /// The sub-operations that it has.
    pub available: SubOperations,
    /// Share of its last [`WINDOW_NS`] that was idle, of 1000.
    pub idle: u16,
}

/// One line of a rule set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// It is for messages of such elements; of any, if `None`.
    pub element: Option<Element>,
    /// It is for messages of at least so many bytes.
    pub from_bytes: u32,
    /// What the origin does: the first sub-operations of the recipe, as long as they are among these.
    pub origin: SubOperations,
    /// With how many of the chunks, of 1000; the others are left to the target.
    pub chunks: u16,
}

/// What is known of a target.
#[derive(Clone, Copy)]
struct Entry {
    target: Endpoint,
    /// When it was asked last.
    asked: u64,
    /// What it answered, and when.
    answer: Option<(u64, Advice)>,
    waits: bool,
}

/// The advice that a context remembers.
pub(crate) struct Advices {
    entries: Vec<Entry, TARGETS>,
}

/// What is to be done for advice.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Wanted {
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

    pub(super) fn look(&mut self, target: Endpoint, now: u64) -> Wanted {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.target == target) else {
            return Wanted::Ask;
        };
        match entry.answer {
            Some((at, advice)) if now.saturating_sub(at) <= ADVICE_NS => Wanted::Known(advice),
            _ if !entry.waits => Wanted::Ask,
            _ if now.saturating_sub(entry.asked) <= PATIENCE_NS => Wanted::Wait,
            _ => {
                entry.waits = false;
                Wanted::None
            }
        }
    }

    /// Notes that `target` was asked, in the place of the one that was asked longest ago if there is no other.
    pub(super) fn asked(&mut self, target: Endpoint, now: u64) {
        let known = self.entries.iter().position(|entry| entry.target == target);
        let answer = known.and_then(|at| self.entries.swap_remove(at).answer);
        if self.entries.is_full()
            && let Some((oldest, _)) = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.asked)
        {
            self.entries.swap_remove(oldest);
        }
        let _ = self.entries.push(Entry { target, asked: now, answer, waits: true });
    }

    /// Returns whether that target had been asked.
    fn answered(&mut self, target: Endpoint, now: u64, advice: Advice) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.target == target && entry.waits);
        entry.is_some_and(|entry| {
            (entry.answer, entry.waits) = (Some((now, advice)), false);
            true
        })
    }
}

impl<P: Port> Active<P> {
    /// What this context says when it is asked: its sub-operations and its idle share. Time that it spent on others' messages
    /// counts as idle: it would be theirs again.
    pub fn advice(&self) -> Advice {
        let idle = self.port.idle_share() + self.processing.spent.share(self.port.now_ns());
        Advice { available: self.processing.available, idle: idle.min(super::limit::ALL_TIME) }
    }

    /// Asks `target` for advice.
    pub(super) fn ask_advice(&mut self, path: Path, target: Endpoint) -> bool {
        let origin = self.me;
        let envelope =
            Envelope { kind: Kind::AskAdvice, dispatch: 0, origin, target, message: 0, offset: 0, total: 0 };
        let asked = self.port.push_copy(path, &envelope, &[], &[]).is_ok();
        if asked {
            let now = self.port.now_ns();
            self.processing.advices.asked(target, now);
        }
        asked
    }

    /// Somebody asks. Returns `false` if no place is free for the answer.
    pub(crate) fn advice_asked(&mut self, envelope: &Envelope) -> bool {
        if self.port.node_of(envelope.origin.task()).is_none() {
            self.counters.strays += 1;
            return true;
        }
        let Advice { available, idle } = self.advice();
        self.answer_with(envelope, Kind::Advice, available.bits(), idle.into())
    }

    /// Owes `envelope`'s origin an answer of `kind`. Returns `false` if no place is free for it.
    pub(super) fn answer_with(&mut self, envelope: &Envelope, kind: Kind, dispatch: u8, offset: u32) -> bool {
        let Some(number) = self.receptions.free_place() else { return false };
        let order = self.next_order();
        self.receive_at(number, envelope, order, Some(kind), Stage::Tell(dispatch, offset));
        true
    }

    /// A target's answer.
    pub(crate) fn advice_arrived(&mut self, envelope: &Envelope) {
        let available = SubOperations::from_bits_truncate(envelope.dispatch);
        let idle = envelope.offset.min(super::limit::ALL_TIME.into()) as u16;
        let now = self.port.now_ns();
        let known = self.processing.advices.answered(envelope.origin, now, Advice { available, idle });
        self.counters.strays += u64::from(!known);
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
        assert_eq!(advices.look(target, late + PATIENCE_NS), Wanted::Wait);
        assert_eq!(advices.look(target, late + PATIENCE_NS + 1), Wanted::None);
        assert_eq!(advices.look(target, late + PATIENCE_NS + 1), Wanted::Ask);
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
