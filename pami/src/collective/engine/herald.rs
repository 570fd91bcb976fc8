//! Who tells the members of a collective that it failed (SPEC R-4): in some messages for each member, however many of them
//! see it fail.
//!
//! A member that sees it does not tell the others but *reports* it to the first one that lives, the herald, and waits to be
//! told. If the herald has the collective in flight it tells all. If not, it has the first that reports tell all, which has
//! memory for that: the collective's slot. Whoever reports later hears that it was told. So it takes a report and an answer of
//! each member, and one announcement to each.
//!
//! Nothing depends on the herald: a member that hears nothing for [`PROBE_NS`](super::PROBE_NS) tells all itself. So
//! does one that did not name the same members in a geometry's creation: the herald's list is not its.

use super::wire::{CALLED, Key, Label, Stop, Wire, Word};
use crate::device::Port;
use crate::endpoint::Endpoint;
use heapless::{HistoryBuf, Vec};

/// Collectives of which it is known that all members are told.
const TOLD: usize = 16;
/// Answers that wait for room. What is beyond is not answered.
const ANSWERS: usize = 16;

/// What of an abort's key says which members hear of it: of a creation, the digest of those as well.
fn named(key: Key) -> Key {
    if key.is_creation() { key } else { Key { part: key.part & CALLED, ..key } }
}

/// What one member knows as a herald.
#[derive(Default)]
pub(crate) struct Herald {
    told: HistoryBuf<Key, TOLD>,
    answers: Vec<(Endpoint, Word, Label), ANSWERS>,
}

impl Herald {
    /// Nothing is known any more.
    pub(super) fn clear(&mut self) {
        self.told.clear();
        self.answers.clear();
    }

    /// All members of the collective that an abort names are told, or will be.
    pub(super) fn note(&mut self, key: Key) {
        if !self.knows(key) {
            self.told.write(named(key));
        }
    }

    /// Forgets a geometry: its number may be that of another one.
    pub(super) fn forget(&mut self, geometry: u32) {
        let told: Vec<Key, TOLD> =
            self.told.oldest_ordered().copied().filter(|key| key.geometry != geometry).collect();
        self.told.clear();
        self.told.extend(told);
        self.answers.retain(|(_, _, label)| label.key.geometry != geometry);
    }

    /// Whether it is one of the last that are known to have failed.
    pub(super) fn knows(&self, key: Key) -> bool {
        self.told.iter().any(|&told| told == named(key))
    }

    /// A report of a collective that is not in flight here, or of other members.
    pub(super) fn answer(&mut self, origin: Endpoint, label: Label) {
        let known = self.knows(label.key);
        // It was told, and its number may be used again: an abort would be one of the next call.
        if known && label.key.part & CALLED != 0 {
            return;
        }
        let word = if known { Word::Abort } else { Word::Tell };
        if self.answers.push((origin, word, label)).is_ok() {
            self.note(label.key);
        }
    }

    /// Whether nobody waits for an answer.
    #[inline]
    pub(super) fn has_answered(&self) -> bool {
        self.answers.is_empty()
    }

    /// Sends what has room. Returns the number of answers that went.
    pub(super) fn send_answers<P: Port>(&mut self, wire: &mut Wire<'_, P>) -> usize {
        let waiting = self.answers.len();
        self.answers.retain(|&(origin, word, ref label)| {
            // Who is gone needs none.
            wire.push(origin, word, label, (0, 0, 0), |_| {}) == Err(Stop::Full)
        });
        waiting - self.answers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::CREATION;
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};
    use crate::error::OperationError;
    use std::vec::Vec;

    fn label(sequence: u32) -> Label {
        Label::abort(Key { geometry: 1, sequence, part: 0 }, OperationError::Differs)
    }

    #[test]
    fn r4_the_first_that_reports_tells_and_the_others_hear_that_it_was_told() {
        let mut herald = Herald::default();
        let origin = |task| Endpoint::from_parts(ClientId(0), task, ContextOffset(0));
        herald.note(label(7).key);
        for (task, sequence) in [(1, 5), (2, 5), (1, 6), (3, 7), (1, 5)] {
            herald.answer(origin(task), label(sequence));
        }
        // Creations, of members with these digests; and a call, whose number may come again.
        for (task, members) in [(4, 50), (5, 60), (6, 50)] {
            herald.answer(origin(task), label(CREATION).of_members(Some(members)));
        }
        let call = Label::abort(Key { part: CALLED, ..label(8).key }, OperationError::Differs);
        (7..9).for_each(|task| herald.answer(origin(task), call));
        let words: Vec<_> = herald.answers.iter().map(|&(origin, word, _)| (origin.task(), word)).collect();
        let (tell, told) = (Word::Tell, Word::Abort);
        let counted = [(1, tell), (2, told), (1, tell), (3, told), (1, told)];
        let others = [(4, tell), (5, tell), (6, told), (7, tell)];
        assert_eq!(words, [&counted[..], &others[..]].concat());
    }

    #[test]
    fn r4_what_was_told_of_a_geometry_is_not_of_the_next_one_with_its_number() {
        let mut herald = Herald::default();
        let other = Key { geometry: 2, ..label(5).key };
        herald.note(label(5).key);
        herald.note(other);
        herald.forget(1);
        assert!(!herald.knows(label(5).key) && herald.knows(other));
    }

    #[test]
    fn r4_who_finds_no_place_for_its_answer_was_not_chosen() {
        let mut herald = Herald::default();
        let origin = Endpoint::from_parts(ClientId(0), 1, ContextOffset(0));
        (1..=1 + ANSWERS as u32).for_each(|sequence| herald.answer(origin, label(sequence)));
        assert!(herald.knows(label(1).key) && !herald.knows(label(1 + ANSWERS as u32).key));
    }
}
