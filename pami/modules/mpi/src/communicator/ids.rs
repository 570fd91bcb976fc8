//! Numbers of communicators (the standard's context ids): members of a new one agree on a number that none of them uses.
//!
//! Each process brings the numbers that are free at it, all combine them, and the lowest that is left is taken. Of several
//! threads that make communicators at the same time only one has the free numbers, the one with the lowest parent; the
//! others bring none and try again, so all processes serve the same parent first in the end.

use heapless::Vec;

/// Numbers that there are.
pub(crate) const IDS: usize = 256;
/// Words of a proposal: free numbers, whether they were to be had, whether there is room for a communicator.
pub(crate) const WORDS: usize = IDS / 64 + 2;
const HAD: usize = IDS / 64;
const ROOM: usize = HAD + 1;
/// Threads that make communicators at the same time.
const SEEKERS: usize = 16;

/// What a process brings to an agreement, and what comes out.
pub(crate) type Proposal = [u64; WORDS];

/// What an agreement came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agreed {
    Id(u32),
    /// Another thread had the numbers somewhere: again.
    Again,
    /// No number is free at all members, or one has no room.
    Full,
}

/// The numbers that are in use here.
#[derive(Default)]
pub(crate) struct Ids {
    used: [u64; IDS / 64],
    /// Parents of communicators that are being made.
    seekers: Vec<u32, SEEKERS>,
    held: bool,
}

impl Ids {
    pub(crate) fn take(&mut self, id: u32) {
        if let Some(word) = self.used.get_mut(id as usize / 64) {
            *word |= 1 << (id % 64);
        }
    }

    pub(crate) fn release(&mut self, id: u32) {
        if let Some(word) = self.used.get_mut(id as usize / 64) {
            *word &= !(1 << (id % 64));
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

    /// What is brought for a child of `parent`.
    pub(crate) fn propose(&mut self, parent: u32, room: bool) -> Proposal {
        let mut proposal = [0; WORDS];
        proposal[ROOM] = if room { u64::MAX } else { 0 };
        if !self.held && self.seekers.iter().all(|&other| other >= parent) {
            self.held = true;
            proposal[HAD] = u64::MAX;
            for (word, used) in proposal.iter_mut().zip(self.used) {
                *word = !used;
            }
        }
        proposal
    }

    /// What all proposals together come to. A number that is agreed on is in use from now on.
    pub(crate) fn agree(&mut self, mine: &Proposal, all: &Proposal) -> Agreed {
        if mine[HAD] != 0 {
            self.held = false;
        }
        if all[ROOM] == 0 {
            return Agreed::Full;
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
        let mine = [a.propose(0, true), b.propose(0, true)];
        let all = all(&mine);
        assert_eq!([a.agree(&mine[0], &all), b.agree(&mine[1], &all)], [Agreed::Id(71); 2]);
        a.release(3);
        let mine = [a.propose(0, true), b.propose(0, false)];
        let none = all_of(&mine);
        assert_eq!(a.agree(&mine[0], &none), Agreed::Full);
    }

    fn all_of(proposals: &[Proposal]) -> Proposal {
        all(proposals)
    }

    #[test]
    fn of_two_that_are_made_at_once_the_one_with_the_lower_parent_is_first_everywhere() {
        let (mut a, mut b) = (Ids::default(), Ids::default());
        assert!(a.seek(5) && a.seek(2) && b.seek(5));
        // At b only the higher parent has come so far.
        let five = [a.propose(5, true), b.propose(5, true)];
        let two = a.propose(2, true);
        let both = all(&five);
        assert_eq!([a.agree(&five[0], &both), b.agree(&five[1], &both)], [Agreed::Again; 2]);
        assert!(b.seek(2));
        let other = b.propose(2, true);
        let both = all(&[two, other]);
        assert_eq!([a.agree(&two, &both), b.agree(&other, &both)], [Agreed::Id(0); 2]);
        a.found(2);
        b.found(2);
        let five = [a.propose(5, true), b.propose(5, true)];
        let both = all(&five);
        assert_eq!([a.agree(&five[0], &both), b.agree(&five[1], &both)], [Agreed::Id(1); 2]);
    }
}
