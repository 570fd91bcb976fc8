//! What the members of a geometry show each other on their bulletins (SPEC H-5, A-4): those of the world, where all reach each other's
//! memory.
//!
//! A collective has the number that it has in its geometry, and its members show and read in the order of their collectives: one
//! begins on the bulletins when those before it are over here. So whoever has shown something has read all that was shown before.

use crate::collective::need::MOST_SHOWING;
use crate::endpoint::Endpoint;
use crate::geometry::Members;
use heapless::Vec;
use rings::bulletin::{Bulletin, is_later, number};

/// Something on a bulletin: which bulletin, and the number there.
#[derive(Clone, Copy)]
pub(super) struct At(pub(super) &'static Bulletin, pub(super) u64);

impl PartialEq for At {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0) && self.1 == other.1
    }
}

/// What becomes of a collective on bulletins.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum OnBulletins {
    /// It does not wait there.
    Nothing,
    /// It waits for this.
    Awaits(At),
    /// It has all, and is to be ended.
    Over,
}

/// The bulletins of all members, by rank.
pub(super) struct Bulletins {
    all: Vec<&'static Bulletin, { MOST_SHOWING as usize }>,
    rank: u32,
    /// The generation of the client: what was shown before it began is older.
    epoch: u16,
    /// All have begun the collective with this number.
    begun_by_all: u64,
    /// Of the one that is under way: its number, and a bit for each rank that has begun it.
    seen: (u64, u32),
}

impl Bulletins {
    /// Those of the members of which this is `rank`, if `bulletin` finds them all.
    pub(super) fn of(
        members: &Members<'_>,
        rank: u32,
        bulletin: impl Fn(Endpoint) -> Option<&'static Bulletin>,
    ) -> Option<Self> {
        let size = members.size();
        let epoch = members.endpoint(rank)?.client().generation();
        if !(2..=MOST_SHOWING).contains(&size) {
            return None;
        }
        // A context that is made anew counts from the start again, as all others do then.
        if rings::bulletin::epoch(bulletin(members.endpoint(rank)?)?.latest()) == Some(epoch) {
            return None;
        }
        let mut all = Vec::new();
        for rank in 0..size {
            all.push(bulletin(members.endpoint(rank)?)?).ok()?;
        }
        Some(Self { all, rank, epoch, begun_by_all: 0, seen: (0, 0) })
    }

    /// The number of this collective of the geometry.
    #[inline]
    pub(super) fn number(&self, sequence: u32) -> u64 {
        number(self.epoch, sequence)
    }

    /// The own bulletin, if nobody reads any more what is on it in the place of what is shown next.
    #[inline]
    pub(super) fn free(&self) -> Option<&'static Bulletin> {
        let own = *self.all.get(self.rank as usize)?;
        let replaced = own.replaces();
        let has_read = |bulletin: &&Bulletin| is_later(bulletin.latest(), replaced);
        let free = replaced == 0 || is_later(self.begun_by_all, replaced) || self.all.iter().all(has_read);
        free.then_some(own)
    }

    /// All bulletins but the own one.
    #[inline]
    pub(super) fn others(&self) -> impl Iterator<Item = &'static Bulletin> + '_ {
        let own = self.rank as usize;
        self.all.iter().enumerate().filter(move |&(rank, _)| rank != own).map(|(_, bulletin)| *bulletin)
    }

    /// What a member shows.
    #[inline]
    pub(super) fn of_rank(&self, rank: u32) -> Option<&'static Bulletin> {
        self.all.get(rank as usize).copied()
    }

    /// A member has begun the collective with this number, as this one has.
    #[inline]
    pub(super) fn note_begun(&mut self, number: u64, rank: u32) {
        if self.seen.0 != number {
            self.seen = (number, 1 << self.rank);
        }
        self.seen.1 |= 1 << rank;
        if self.seen.1 == (1 << self.all.len()) - 1 {
            self.begun_by_all = number;
        }
    }
}
