//! Numbers of communicators (the standard's context ids): members of a new one agree on a number that none of them has
//! used.
//!
//! Each process brings the lowest number that it has not seen in use, and whether it can have a communicator at all; the
//! highest is taken. So no number comes twice at a process, and what is late of a communicator that was freed is of no other.
//! If one process cannot, none makes it, and all hear why. Of several threads that make communicators at the same time only
//! one has the numbers, the one with the lowest parent; the others bring none and try again, so all processes serve the same
//! parent first in the end.

use crate::envelope::INTERNAL;
use crate::error::Class;
use crate::settings::SEEKERS;
use heapless::Vec;
use pami::GeometryId;

/// The geometry of a communicator with only this task.
pub(crate) const SELF: GeometryId = GeometryId(1);

/// Words of a proposal, of each of which the highest counts: the first number, whether it was not to be had, what stands
/// against it, whether its collectives are not to be divided.
pub(crate) const WORDS: usize = 4;
const FIRST: usize = 0;
const NOT_HAD: usize = 1;
/// A class and one; 0 if nothing does.
const AGAINST: usize = 2;
pub(crate) const UNDIVIDED: usize = 3;
/// Numbers that there are, in all the time of a job.
pub(crate) const IDS: u32 = INTERNAL;

/// What a process brings to an agreement, and what comes out.
pub(crate) type Proposal = [u64; WORDS];

/// Bytes that a thread needs to make a communicator: what it brings, and what all bring.
pub(crate) const AGREEMENT_BYTES: usize = 2 * size_of::<Proposal>();

/// What an agreement came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agreed {
    Id(u32),
    /// Another thread had the numbers somewhere: again.
    Again,
    /// All have been used.
    Full,
    /// A member cannot, for a reason of this class.
    Failed(Class),
}

/// The numbers that have not been used.
pub(crate) struct Ids {
    next: u32,
    /// Parents of communicators that are being made.
    seekers: Vec<u32, SEEKERS>,
    held: bool,
}

impl Ids {
    /// Those from `next` on.
    pub(crate) fn from(next: u32) -> Self {
        Self { next, seekers: Vec::new(), held: false }
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
        if let Some(class) = failed {
            return Self::failed(class);
        }
        let had = !self.held && self.seekers.iter().all(|&other| other >= parent);
        self.held |= had;
        [self.next.into(), (!had).into(), 0, 0]
    }

    /// What is brought by who cannot.
    pub(crate) fn failed(class: Class) -> Proposal {
        [0, 1, 1 + class as u64, 0]
    }

    /// What all proposals together come to: the highest of each word.
    pub(crate) fn combine(all: &mut Proposal, one: &Proposal) {
        all.iter_mut().zip(one).for_each(|(all, one)| *all = (*all).max(*one));
    }

    /// What comes of that. A number that is agreed on is used.
    pub(crate) fn agree(&mut self, mine: &Proposal, all: &Proposal) -> Agreed {
        self.give_up(mine);
        if all[AGAINST] != 0 {
            return Agreed::Failed(Class::of_number((all[AGAINST] - 1) as u32));
        }
        if all[NOT_HAD] != 0 {
            return Agreed::Again;
        }
        match u32::try_from(all[FIRST]) {
            Ok(id) if id < IDS => {
                self.next = self.next.max(id + 1);
                Agreed::Id(id)
            }
            _ => Agreed::Full,
        }
    }

    /// There was no agreement.
    pub(crate) fn give_up(&mut self, mine: &Proposal) {
        if mine[NOT_HAD] == 0 {
            self.held = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All make a child of the world.
    fn agree(ids: &mut [&mut Ids], failed: &[Option<Class>]) -> Vec<Agreed, 4> {
        let mine: Vec<_, 4> =
            ids.iter_mut().zip(failed).map(|(ids, failed)| ids.propose(0, *failed)).collect();
        let all = all(&mine);
        ids.iter_mut().zip(&mine).map(|(ids, mine)| ids.agree(mine, &all)).collect()
    }

    fn all(proposals: &[Proposal]) -> Proposal {
        let mut all = proposals[0];
        proposals.iter().for_each(|one| Ids::combine(&mut all, one));
        all
    }

    #[test]
    fn r1_no_number_comes_twice_at_a_process() {
        let (mut a, mut b, mut c) = (Ids::from(2), Ids::from(2), Ids::from(2));
        assert_eq!(agree(&mut [&mut a, &mut b], &[None; 2]), [Agreed::Id(2); 2]);
        assert_eq!(agree(&mut [&mut a, &mut b], &[None; 2]), [Agreed::Id(3); 2]);
        // One that was in neither.
        assert_eq!(agree(&mut [&mut c, &mut b], &[None; 2]), [Agreed::Id(4); 2]);
        assert_eq!(agree(&mut [&mut a, &mut c], &[None; 2]), [Agreed::Id(5); 2]);
        let last = IDS - 1;
        assert_eq!(agree(&mut [&mut a, &mut Ids::from(last)], &[None; 2]), [Agreed::Id(last); 2]);
        assert_eq!(agree(&mut [&mut a, &mut b], &[None; 2]), [Agreed::Full; 2]);
    }

    #[test]
    fn r4_if_one_cannot_all_hear_why_and_the_numbers_are_free_again() {
        let (mut a, mut b) = (Ids::from(2), Ids::from(2));
        let failed = [Agreed::Failed(Class::NoMem); 2];
        assert_eq!(agree(&mut [&mut a, &mut b], &[None, Some(Class::NoMem)]), failed);
        assert_eq!(agree(&mut [&mut a, &mut b], &[Some(Class::NoMem); 2]), failed);
        let both = agree(&mut [&mut a, &mut b], &[Some(Class::NoMem), Some(Class::Group)]);
        assert!(
            both[0] == both[1] && matches!(both[0], Agreed::Failed(Class::NoMem | Class::Group)),
            "{both:?}"
        );
        assert_eq!(agree(&mut [&mut a, &mut b], &[None; 2]), [Agreed::Id(2); 2]);
    }

    #[test]
    fn g1_of_two_that_are_made_at_once_the_one_with_the_lower_parent_is_first_everywhere() {
        let (mut a, mut b) = (Ids::from(0), Ids::from(0));
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
