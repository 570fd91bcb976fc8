//! What the members of a geometry show each other on their bulletins (SPEC H-5, A-4): those of the world, where all reach each other's
//! memory.
//!
//! A collective has the number that it has in its geometry, and its members show and read in the order of their collectives: one
//! begins on the bulletins when those before it are over here. So whoever has shown something has read all that was shown before.

use super::wire::{GATE, Key};
use crate::collective::need::MOST_SHOWING;
use crate::endpoint::Endpoint;
use crate::geometry::Members;
use heapless::Vec;
use rings::bulletin::{Bulletin, is_later, number};

/// What a member is waited for.
#[derive(Clone, Copy)]
pub(super) struct Awaited {
    pub(super) bulletin: &'static Bulletin,
    pub(super) of: Endpoint,
    /// The number there, and the stage that it is to come to; 0 if it is to be shown.
    pub(super) number: u64,
    pub(super) stage: u8,
}

impl Awaited {
    /// Whether it is there.
    #[inline]
    pub(super) fn is_there(&self) -> bool {
        match self.stage {
            0 => self.bulletin.find(self.number).is_some(),
            stage => self.bulletin.has_reached(self.number, stage),
        }
    }
}

/// What becomes of a collective on bulletins.
#[derive(Clone, Copy)]
pub(super) enum OnBulletins {
    /// It does not wait there.
    Nothing,
    /// It waits for this.
    Awaits(Awaited),
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
    /// The last that failed here while others may have waited for a stage of it: none is reached of a later one before all have
    /// begun one.
    spoiled: u64,
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
        Some(Self { all, rank, epoch, begun_by_all: 0, seen: (0, 0), spoiled: 0 })
    }

    /// The number of a collective, or of the barrier in front of it.
    #[inline]
    pub(super) fn number(&self, key: Key) -> u64 {
        number(self.epoch, key.sequence.wrapping_mul(2) | u32::from(key.part != GATE))
    }

    /// The own bulletin, if nobody reads any more what is on it in the place of what is shown under this number.
    #[inline]
    pub(super) fn free(&mut self, number: u64) -> Option<&'static Bulletin> {
        let own = *self.all.get(self.rank as usize)?;
        let replaced = own.replaces(number);
        let free = replaced == 0 || is_later(self.begun_by_all, replaced) || self.are_done_with(replaced);
        free.then_some(own)
    }

    /// Whether no other reads what was shown under this number.
    #[cold]
    fn are_done_with(&mut self, number: u64) -> bool {
        let first = self
            .others()
            .map(Bulletin::latest)
            .reduce(|one, other| if is_later(one, other) { other } else { one });
        // Holds for as many more as there are pages.
        self.begun_by_all =
            first.filter(|&first| is_later(first, self.begun_by_all)).unwrap_or(self.begun_by_all);
        self.others().all(|other| other.is_done_with(number))
    }

    /// The own bulletin.
    #[inline]
    pub(super) fn own(&self) -> Option<&'static Bulletin> {
        self.all.get(self.rank as usize).copied()
    }

    /// The own bulletin, if a stage of what has this number may be reached.
    pub(super) fn stages(&mut self, number: u64) -> Option<&'static Bulletin> {
        if self.spoiled != 0 && self.spoiled != number {
            if !self.others().all(|other| is_later(other.latest(), self.spoiled)) {
                return None;
            }
            self.spoiled = 0;
        }
        self.own()
    }

    /// What has this number failed here.
    pub(super) fn spoil(&mut self, number: u64) {
        self.spoiled = number;
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
