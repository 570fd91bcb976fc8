//! Numbers of communicators (the standard's context ids): members of a new one agree on a number that none of them
//! uses.
//!
//! Each process brings the numbers that are free at it, and whether it can have a communicator at all; all combine what
//! they brought, and the lowest number that is left is taken. If one cannot, none makes it, and all hear why. Of several
//! threads that make communicators at the same time only one has the free numbers, the one with the lowest parent; the
//! others bring none and try again, so all processes serve the same parent first in the end.

use crate::error::Class;
use heapless::Vec;

/// Numbers that there are: communicators of all contexts of a process, with those that were freed but whose messages are
/// under way.
pub(crate) const IDS: usize = 4096;
/// Words of a proposal: free numbers, whether they were to be had, what stands against it.
pub(crate) const WORDS: usize = IDS / 64 + 2;
const HAD: usize = IDS / 64;
/// A bit for each error class; those that nobody reports are set.
const CLASSES: usize = HAD + 1;
/// Threads that make communicators at the same time.
pub(crate) const SEEKERS: usize = 16;

/// What a process brings to an agreement, and what comes out.
pub(crate) type Proposal = [u64; WORDS];

/// What an agreement came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agreed {
    Id(u32),
    /// Another thread had the numbers somewhere: again.
    Again,
    /// No number is free at all members.
    Full,
    /// A member cannot, for a reason of this class.
    Failed(Class),
}

/// The numbers that are in use here.
pub(crate) struct Ids {
    used: [u64; IDS / 64],
    /// Of communicators that were freed while requests of them were under way.
    leaving: [u64; IDS / 64],
    /// Parents of communicators that are being made.
    seekers: Vec<u32, SEEKERS>,
    held: bool,
}

impl Default for Ids {
    fn default() -> Self {
        Self { used: [0; IDS / 64], leaving: [0; IDS / 64], seekers: Vec::new(), held: false }
    }
}

fn set(words: &mut [u64], id: u32, to: bool) {
    if let Some(word) = words.get_mut(id as usize / 64) {
        let bit = 1 << (id % 64);
        *word = if to { *word | bit } else { *word & !bit };
    }
}

impl Ids {
    pub(crate) fn take(&mut self, id: u32) {
        set(&mut self.used, id, true);
    }

    pub(crate) fn release(&mut self, id: u32) {
        set(&mut self.used, id, false);
    }

    /// It is released once nothing of it is under way.
    pub(crate) fn leave(&mut self, id: u32) {
        set(&mut self.leaving, id, true);
    }

    /// Releases those that left of which nothing is under way.
    pub(crate) fn release_left(&mut self, is_under_way: impl Fn(u32) -> bool) {
        for at in 0..self.leaving.len() {
            let mut word = self.leaving[at];
            while word != 0 {
                let id = at as u32 * 64 + word.trailing_zeros();
                word &= word - 1;
                if !is_under_way(id) {
                    set(&mut self.leaving, id, false);
                    self.release(id);
                }
            }
        }
    }

    /// A child of `parent` is to be made. Returns whether so many can be made at a time.
    pub(crate) fn seek(&mut self, parent: u32) -> bool {
        self.seekers.push(parent).is_ok()
    }

    /// It is made, or not to be.
    pub(crate) fn found(&mut self, parent: u32) {
        if let Some(place) = self.seekers.iter().position(|&other| other == parent) {
            self.seekers.swap_remove(place);
        }
    }

    /// What is brought for a child of `parent`, or why there is to be none.
    pub(crate) fn propose(&mut self, parent: u32, failed: Option<Class>) -> Proposal {
        let mut proposal = failed.map_or([0; WORDS], Self::failed);
        if failed.is_some() {
            return proposal;
        }
        proposal[CLASSES] = u64::MAX;
        if !self.held && self.seekers.iter().all(|&other| other >= parent) {
            self.held = true;
            proposal[HAD] = u64::MAX;
            for (word, used) in proposal.iter_mut().zip(self.used) {
                *word = !used;
            }
        }
        proposal
    }

    /// What is brought by who cannot.
    pub(crate) fn failed(class: Class) -> Proposal {
        let mut proposal = [0; WORDS];
        proposal[CLASSES] = !(1 << (class as u32).min(63));
        proposal
    }

    /// What all proposals together come to. A number that is agreed on is in use from now on.
    pub(crate) fn agree(&mut self, mine: &Proposal, all: &Proposal) -> Agreed {
        if mine[HAD] != 0 {
            self.held = false;
        }
        if all[CLASSES] != u64::MAX {
            return Agreed::Failed(Class::of_number((!all[CLASSES]).trailing_zeros()));
        }
        if all[HAD] == 0 {
            return Agreed::Again;
        }
        let words = all[..HAD].iter().zip(0..);
        let id =
            words.filter(|(word, _)| **word != 0).map(|(word, at)| at * 64 + word.trailing_zeros()).next();
        match id {
            Some(id) => {
                self.take(id);
                Agreed::Id(id)
            }
            None => Agreed::Full,
        }
    }

    /// There was no agreement.
    pub(crate) fn give_up(&mut self, mine: &Proposal) {
        if mine[HAD] != 0 {
            self.held = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(proposals: &[Proposal]) -> Proposal {
        core::array::from_fn(|at| proposals.iter().fold(u64::MAX, |all, proposal| all & proposal[at]))
    }

    #[test]
    fn the_lowest_number_that_is_free_at_all_is_taken() {
        let (mut a, mut b) = (Ids::default(), Ids::default());
        (0..70).for_each(|id| a.take(id));
        b.take(70);
        assert!(a.seek(0) && b.seek(0));
        let mine = [a.propose(0, None), b.propose(0, None)];
        let both = all(&mine);
        assert_eq!([a.agree(&mine[0], &both), b.agree(&mine[1], &both)], [Agreed::Id(71); 2]);
        a.release(3);
        let mine = [a.propose(0, None), b.propose(0, Some(Class::NoMem))];
        let none = all(&mine);
        let failed = Agreed::Failed(Class::NoMem);
        assert_eq!([a.agree(&mine[0], &none), b.agree(&mine[1], &none)], [failed; 2]);
        let mine = [a.propose(0, Some(Class::NoMem)), b.propose(0, Some(Class::Group))];
        let none = all(&mine);
        assert_eq!([a.agree(&mine[0], &none), b.agree(&mine[1], &none)], [Agreed::Failed(Class::Group); 2]);
        (0..IDS as u32).for_each(|id| a.take(id));
        let mine = [a.propose(0, None), b.propose(0, None)];
        let none = all(&mine);
        assert_eq!([a.agree(&mine[0], &none), b.agree(&mine[1], &none)], [Agreed::Full; 2]);
    }

    #[test]
    fn a_number_that_leaves_is_free_once_nothing_of_it_is_under_way() {
        let mut ids = Ids::default();
        [5, 70, 4095].into_iter().for_each(|id| {
            ids.take(id);
            ids.leave(id);
        });
        ids.release_left(|id| id == 70);
        let is_free = |ids: &Ids, id: u32| ids.used[id as usize / 64] >> (id % 64) & 1 == 0;
        assert_eq!([5, 70, 4095].map(|id| is_free(&ids, id)), [true, false, true]);
        ids.take(5);
        ids.release_left(|_| false);
        assert_eq!([5, 70, 4095].map(|id| is_free(&ids, id)), [false, true, true]);
    }

    #[test]
    fn of_two_that_are_made_at_once_the_one_with_the_lower_parent_is_first_everywhere() {
        let (mut a, mut b) = (Ids::default(), Ids::default());
        assert!(a.seek(5) && a.seek(2) && b.seek(5));
        // At b only the higher parent has come so far.
        let five = [a.propose(5, None), b.propose(5, None)];
        let two = a.propose(2, None);
        let both = all(&five);
        assert_eq!([a.agree(&five[0], &both), b.agree(&five[1], &both)], [Agreed::Again; 2]);
        assert!(b.seek(2));
        let other = b.propose(2, None);
        let both = all(&[two, other]);
        assert_eq!([a.agree(&two, &both), b.agree(&other, &both)], [Agreed::Id(0); 2]);
        a.found(2);
        b.found(2);
        let five = [a.propose(5, None), b.propose(5, None)];
        let both = all(&five);
        assert_eq!([a.agree(&five[0], &both), b.agree(&five[1], &both)], [Agreed::Id(1); 2]);
    }
}
