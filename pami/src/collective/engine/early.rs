//! Messages that came before their collective, or before its round, and how many of them a member may send unasked.
//!
//! Every member has *credit* for as many short messages to each other one as that is sure to have places for: its share of
//! the places, the same at all members as they are set up alike. A place that is used is credit that is owed, and goes back
//! once the message has been taken. Who has no credit asks instead, and is cleared when the receive is there. Of what is kept
//! besides, clears can be forgotten, as they are asked for; requests, as they are repeated.

use super::wire::{Key, Label, Word};
use crate::collective::cost::SHORT_LIMIT;
use crate::endpoint::Endpoint;
use heapless::Vec;

/// One in so many places is for other than short messages, unless there are too few.
const OTHERS: usize = 2;

/// A short message, a clear or a request.
#[derive(Clone, Copy)]
pub(super) struct Early {
    pub(super) origin: Endpoint,
    pub(super) word: Word,
    pub(super) label: Label,
    pub(super) total: u32,
}

/// A place for one, and for its data, which stays where it is.
pub(crate) struct EarlyPlace {
    early: Option<Early>,
    data: Vec<u8, SHORT_LIMIT>,
}

impl EarlyPlace {
    pub(crate) const fn new() -> Self {
        Self { early: None, data: Vec::new() }
    }
}

/// What is known of another member, of whatever geometry.
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    peer: Endpoint,
    /// Short messages that went there unasked, and have not been heard of.
    used: u16,
    /// Those of its own that were taken, and it has not heard of.
    owed: u16,
    /// It has asked for something whose receive was not there.
    asked: bool,
}

/// A place for that.
pub(crate) type LanePlace = Option<Lane>;

/// What comes early, and the credit for it.
pub(crate) struct EarlyMessages {
    places: &'static mut [EarlyPlace],
    /// How many are taken; the first free one is taken first.
    kept: usize,
    /// An open-addressed table, with more places than endpoints.
    lanes: &'static mut [LanePlace],
    /// Short messages that each member may have on the way to each.
    credit: u16,
    /// Endpoints that have it.
    peers: usize,
    /// Credit is owed to somebody.
    owing: bool,
    /// A clear was forgotten: what waits for one asks.
    forgot: bool,
}

/// Credit of a member towards each of `peers`, of so many places.
pub(super) fn credit(places: usize, peers: usize) -> u16 {
    let share = (places - places / OTHERS) / peers.max(1);
    let share = if share == 0 && places >= peers { 1 } else { share };
    u16::try_from(share).unwrap_or(u16::MAX)
}

impl EarlyMessages {
    /// For a client that has `peers` endpoints.
    pub(super) fn new(
        places: &'static mut [EarlyPlace],
        lanes: &'static mut [LanePlace],
        peers: usize,
    ) -> Self {
        let credit = credit(places.len(), peers);
        Self { places, kept: 0, lanes, credit, peers, owing: false, forgot: false }
    }

    pub(super) fn into_memory(self) -> (&'static mut [EarlyPlace], &'static mut [LanePlace]) {
        self.places.iter_mut().for_each(|place| place.early = None);
        self.lanes.fill(None);
        (self.places, self.lanes)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Early> {
        self.places.iter().filter_map(|place| place.early.as_ref()).take(self.kept)
    }

    /// The place of the first that is wanted.
    fn find(&self, wanted: impl Fn(&Early) -> bool) -> Option<usize> {
        let places = self.places.iter().enumerate();
        let mut taken = places.filter_map(|(at, place)| Some((at, place.early.as_ref()?))).take(self.kept);
        taken.find(|(_, early)| wanted(early)).map(|(at, _)| at)
    }

    /// Empties a place; its data stays until it is taken again.
    fn clear(&mut self, at: usize) -> Option<Early> {
        let early = self.places[at].early.take()?;
        self.kept -= 1;
        if early.word == Word::Short {
            self.took(early.origin);
        }
        Some(early)
    }

    /// Whether nobody has credit: all data is asked for.
    pub(super) fn is_strict(&self) -> bool {
        self.credit == 0
    }

    /// Whether a message that waits for a clear has to ask for it.
    pub(super) fn has_forgotten(&self) -> bool {
        self.forgot
    }

    fn lane(&mut self, peer: Endpoint) -> Option<&mut Lane> {
        let mask = self.lanes.len().checked_sub(1)?;
        let key = peer.task() ^ (u32::from(peer.context().0) << 24);
        let home = (key.wrapping_mul(0x9e37_79b9) >> 7) as usize;
        let at = (0..=mask)
            .map(|step| home.wrapping_add(step) & mask)
            .find(|&at| self.lanes[at].is_none_or(|lane| lane.peer == peer))?;
        Some(self.lanes[at].get_or_insert(Lane { peer, used: 0, owed: 0, asked: false }))
    }

    /// Whether there is credit for a short message to `peer`.
    pub(super) fn has_credit(&mut self, peer: Endpoint) -> bool {
        let credit = self.credit;
        self.lane(peer).is_some_and(|lane| lane.used < credit)
    }

    /// One went out.
    pub(super) fn use_credit(&mut self, peer: Endpoint) {
        if let Some(lane) = self.lane(peer) {
            lane.used += 1;
        }
    }

    /// `peer` has taken so many.
    pub(super) fn regain(&mut self, peer: Endpoint, taken: u32) {
        if let Some(lane) = self.lane(peer) {
            lane.used = lane.used.saturating_sub(u16::try_from(taken).unwrap_or(u16::MAX));
        }
    }

    /// A short message of `peer`, a member of a geometry, was taken or dropped.
    pub(super) fn took(&mut self, peer: Endpoint) {
        let credit = self.credit;
        let Some(lane) = self.lane(peer) else { return };
        lane.owed = lane.owed.saturating_add(1);
        self.owing |= lane.owed >= (credit / 2).max(1);
    }

    /// Whether anybody is to hear of credit now.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.owing
    }

    /// Has those hear of credit that is worth it: `tell` says whether it did. Returns how many heard.
    pub(super) fn give_back(&mut self, mut tell: impl FnMut(Endpoint, u16) -> bool) -> usize {
        let worth = (self.credit / 2).max(1);
        let mut told = 0;
        self.owing = false;
        for lane in self.lanes.iter_mut().flatten().filter(|lane| lane.owed >= worth) {
            if tell(lane.peer, lane.owed) {
                lane.owed = 0;
                told += 1;
            } else {
                self.owing = true;
            }
        }
        told
    }

    /// `peer` asked for a clear whose receive is not there. Receives of messages from there clear them from now on.
    pub(super) fn note_asked(&mut self, peer: Endpoint) {
        if let Some(lane) = self.lane(peer) {
            lane.asked = true;
        }
    }

    /// Whether a receive of a short message from `peer` has to clear it.
    pub(super) fn must_clear(&mut self, peer: Endpoint) -> bool {
        self.is_strict() || self.lane(peer).is_some_and(|lane| lane.asked)
    }

    /// Takes the message for a receive out, with its data, or for a send: the clear.
    pub(super) fn take(
        &mut self,
        key: Key,
        (origin, tag): (Endpoint, u32),
        sends: bool,
    ) -> Option<(Early, &[u8])> {
        let wanted = |early: &Early| {
            let fits = if sends {
                early.word == Word::Clear
            } else {
                matches!(early.word, Word::Short | Word::Request)
            };
            fits && early.label.key == key && early.origin == origin && early.label.tag == tag
        };
        let at = self.find(wanted)?;
        let early = self.clear(at)?;
        Some((early, &self.places[at].data))
    }

    /// Takes out what says that a collective cannot end well: a message of one who called something else.
    pub(super) fn take_objection(&mut self, key: Key, digest: u32) -> Option<Early> {
        let wanted = |early: &Early| early.label.key == key && early.label.digest != digest;
        let at = self.find(wanted)?;
        self.clear(at)
    }

    /// Drops the messages of collectives that nobody will ask for.
    pub(super) fn forget(&mut self, dropped: impl Fn(Key) -> bool) {
        while let Some(at) = self.find(|early| dropped(early.label.key)) {
            self.clear(at);
        }
    }

    /// Keeps a message for later. Returns whether it did; of one that was to be sure of a place and has none its origin has
    /// no credit. Apart from its callers, whose stack would else have room for all of it.
    #[inline(never)]
    pub(super) fn keep(
        &mut self,
        origin: Endpoint,
        word: Word,
        label: Label,
        total: u32,
        data: &[u8],
    ) -> bool {
        let again = |early: &Early| early.origin == origin && early.word == word && early.label == label;
        if word != Word::Short && self.iter().any(again) {
            return true;
        }
        let Some(at) = self.place_for(word) else {
            self.forgot |= word == Word::Clear;
            return false;
        };
        let EarlyPlace { early, data: kept } = &mut self.places[at];
        kept.clear();
        // What is longer than a place is refused before.
        let _ = kept.extend_from_slice(data);
        self.kept += usize::from(early.is_none());
        *early = Some(Early { origin, word, label, total });
        true
    }

    /// A place for a message of this kind: those that are due to short messages are for them.
    fn place_for(&mut self, word: Word) -> Option<usize> {
        let free = self.places.iter().position(|place| place.early.is_none());
        if word == Word::Short {
            return free;
        }
        let shorts = self.iter().filter(|early| early.word == Word::Short).count();
        let due = (usize::from(self.credit) * self.peers).saturating_sub(shorts);
        if self.places.len() - self.kept > due {
            return free;
        }
        if word == Word::Clear {
            return None;
        }
        // A clear is asked for again.
        let at = self.find(|early| early.word == Word::Clear)?;
        self.forgot = true;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};
    use std::boxed::Box;

    const KEY: Key = Key { geometry: 1, sequence: 2, part: 0 };

    fn peer(task: u32) -> Endpoint {
        Endpoint::from_parts(ClientId(0), task, ContextOffset(0))
    }

    /// Sixteen places for two peers: each may send four short messages, and is told of two at once.
    fn messages() -> EarlyMessages {
        let places = Box::leak(Box::new([const { EarlyPlace::new() }; 16]));
        EarlyMessages::new(places, Box::leak(Box::new([None; 4])), 2)
    }

    fn keep(early: &mut EarlyMessages, word: Word, tag: u32) -> bool {
        early.keep(peer(1), word, Label { key: KEY, tag, digest: 5, notice: None }, 0, &[])
    }

    #[test]
    fn r1_every_member_has_credit_for_the_places_that_are_sure_to_be_there() {
        assert_eq!(
            [(16, 2), (15, 2), (2, 2), (1, 2)].map(|(places, peers)| credit(places, peers)),
            [4, 4, 1, 0]
        );
        let mut early = messages();
        assert!(!early.is_strict() && EarlyMessages::new(&mut [], &mut [], 2).is_strict());
        for _ in 0..4 {
            assert!(early.has_credit(peer(1)));
            early.use_credit(peer(1));
        }
        assert!(!early.has_credit(peer(1)) && early.has_credit(peer(0)));
        early.regain(peer(1), 1);
        assert!(early.has_credit(peer(1)));
        early.use_credit(peer(1));
        assert!(!early.has_credit(peer(1)));
    }

    #[test]
    fn r1_credit_goes_back_when_it_is_worth_it_and_until_it_could_be_told() {
        let mut early = messages();
        early.took(peer(0));
        early.took(peer(1));
        assert!(!early.owes());
        early.took(peer(1));
        assert!(early.owes());
        early.took(peer(0));
        assert_eq!((early.give_back(|whom, _| whom == peer(0)), early.owes()), (1, true));
        let mut told = std::vec::Vec::new();
        for count in [1, 0] {
            let heard = early.give_back(|whom, owed| {
                told.push((whom, owed));
                true
            });
            assert_eq!((heard, early.owes()), (count, false));
        }
        assert_eq!(told, [(peer(1), 2)]);
    }

    #[test]
    fn r1_what_can_be_asked_again_leaves_the_places_that_are_due_to_short_messages() {
        for word in [Word::Request, Word::Clear] {
            let mut early = messages();
            assert!((0..8).all(|tag| keep(&mut early, word, tag)));
            // The same again needs no place.
            assert!(keep(&mut early, word, 0) && early.iter().count() == 8);
            assert!(!keep(&mut early, word, 8));
            assert_eq!(early.has_forgotten(), word == Word::Clear);
            // A request takes the place of a clear, which can be asked for.
            assert_eq!(keep(&mut early, Word::Request, 9), word == Word::Clear);
            assert_eq!((early.iter().count(), early.has_forgotten()), (8, word == Word::Clear));
            assert!((0..8).all(|_| keep(&mut early, Word::Short, 0)) && !keep(&mut early, Word::Short, 0));
        }
    }

    #[test]
    fn r1_a_short_message_is_owed_however_it_goes_and_nothing_else_is() {
        let from = (peer(1), 0);
        let takes: [fn(&mut EarlyMessages) -> bool; 3] = [
            |early| early.take(KEY, (peer(1), 0), false).is_some(),
            |early| early.take_objection(KEY, 6).is_some(),
            |early| {
                let before = early.iter().count();
                early.forget(|key| key == KEY);
                early.iter().count() < before
            },
        ];
        for take in takes {
            for word in [Word::Short, Word::Request] {
                let mut early = messages();
                for _ in 0..2 {
                    assert!(keep(&mut early, word, 0) && early.take(KEY, from, true).is_none());
                    assert!(early.take_objection(KEY, 5).is_none());
                    early.forget(|key| key != KEY);
                    assert!(take(&mut early) && early.iter().count() == 0);
                }
                assert_eq!(early.owes(), word == Word::Short);
            }
        }
        let mut early = messages();
        assert!(keep(&mut early, Word::Clear, 0) && early.take(KEY, from, false).is_none());
        assert!(early.take(KEY, from, true).is_some() && !early.owes());
    }
}
