//! Messages that came before their collective, or before its round, and how many of them a member may send eagerly.
//!
//! Every member has *credit* for as many short messages to each other one as that is sure to have places for: its share of
//! the places, the same at all members as they are set up alike. A place that is used is credit that is owed, and goes back
//! once the message has been taken. Who has no credit asks instead, and is cleared when the receive is there. Of what is kept
//! besides, clears can be forgotten, as they are asked for; requests, as they are repeated.

use super::wire::{Key, Label, Word};
use crate::collective::cost::SHORT_LIMIT;
use crate::endpoint::Endpoint;
use heapless::Vec;
use rings::open_addressing as table;
use rings::slot_table::{self, SlotTable};

/// One in so many places is for other than short messages, unless there are too few.
const OTHERS: usize = 2;

/// A short message, a clear or a request.
#[derive(Clone, Copy)]
pub(crate) struct Early {
    pub(super) origin: Endpoint,
    pub(super) word: Word,
    pub(super) label: Label,
    pub(super) total: u32,
}

/// A place for one.
pub(crate) type EarlySlot = slot_table::Slot<Early>;

/// And for its data, which stays where it is.
pub(crate) type EarlyData = Vec<u8, SHORT_LIMIT>;

/// Memory for so many messages, and what is known of so many members.
pub(crate) struct EarlyMemory {
    pub(crate) slots: &'static mut [EarlySlot],
    pub(crate) data: &'static mut [EarlyData],
    pub(crate) peer_states: &'static mut [PeerStatePlace],
}

/// What is known of another member, of whatever geometry.
#[derive(Clone, Copy)]
pub(crate) struct PeerState {
    peer: Endpoint,
    /// Short messages that went there eagerly, and have not been heard of.
    used: u16,
    /// Those of its own that were taken, and it has not heard of.
    owed: u16,
    /// It has asked for something whose receive was not there.
    asked: bool,
}

/// Where what is known of a member lies, for good.
#[derive(Clone, Copy)]
pub(super) struct PeerNumber(u32);

/// A place for that.
pub(crate) type PeerStatePlace = Option<PeerState>;

/// What comes early, and the credit for it.
pub(crate) struct EarlyMessages {
    messages: SlotTable<Early>,
    /// The data of each, by number.
    data: &'static mut [EarlyData],
    /// A table with more places than endpoints.
    peer_states: &'static mut [PeerStatePlace],
    /// Short messages that each member may have on the way to each.
    credit: u16,
    /// Endpoints that have it.
    peers: usize,
    /// Credit is owed to somebody.
    credit_due: bool,
    /// A clear was forgotten: what waits for one asks.
    forgot: bool,
}

/// Credit for a short message to a member.
pub(super) struct Credit<'a>(&'a mut PeerState);

impl Credit<'_> {
    /// The message went out.
    pub(super) fn spend(self) {
        self.0.used += 1;
    }
}

/// Credit of a member towards each of `peers`, of so many places.
pub(super) fn credit(places: usize, peers: usize) -> u16 {
    let share = (places - places / OTHERS) / peers.max(1);
    let share = if share == 0 && places >= peers { 1 } else { share };
    u16::try_from(share).unwrap_or(u16::MAX)
}

impl EarlyMessages {
    /// For a client that has `peers` endpoints.
    pub(super) fn new(EarlyMemory { slots, data, peer_states }: EarlyMemory, peers: usize) -> Self {
        let credit = credit(slots.len(), peers);
        Self {
            messages: SlotTable::new(slots),
            data,
            peer_states,
            credit,
            peers,
            credit_due: false,
            forgot: false,
        }
    }

    pub(super) fn into_memory(self) -> EarlyMemory {
        let Self { messages, data, peer_states, .. } = self;
        peer_states.fill(None);
        EarlyMemory { slots: messages.into_slots(), data, peer_states }
    }

    /// Whether nothing is kept.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Early> {
        self.messages.values()
    }

    /// The place of one that is wanted.
    fn find(&self, wanted: impl Fn(&Early) -> bool) -> Option<u32> {
        self.messages.iter().find(|(_, early)| wanted(early)).map(|(at, _)| at)
    }

    /// Empties a place; its data stays until it is taken again.
    fn clear(&mut self, at: u32) -> Option<Early> {
        let early = self.messages.remove(at)?;
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

    /// What is known of `peer`, of whom something is known from now on.
    #[inline]
    fn state_of(&mut self, peer: Endpoint) -> Option<&mut PeerState> {
        let number = self.number(peer)?;
        self.numbered(number)
    }

    #[inline]
    fn numbered(&mut self, PeerNumber(at): PeerNumber) -> Option<&mut PeerState> {
        self.peer_states.get_mut(at as usize)?.as_mut()
    }

    /// Where that lies; `None` if nobody has credit.
    #[inline]
    pub(super) fn number(&mut self, peer: Endpoint) -> Option<PeerNumber> {
        let ways = table::ways(self.peer_states.len(), peer.home());
        let at = table::find(self.peer_states, ways, |state| state.peer == peer)?;
        self.peer_states[at].get_or_insert(PeerState { peer, used: 0, owed: 0, asked: false });
        Some(PeerNumber(at as u32))
    }

    /// Credit for a short message to a member, if there is any. It is used when the message has gone.
    #[inline]
    pub(super) fn credit(&mut self, number: PeerNumber) -> Option<Credit<'_>> {
        let credit = self.credit;
        self.numbered(number).filter(|state| state.used < credit).map(Credit)
    }

    /// `peer` has taken so many.
    pub(super) fn regain(&mut self, peer: Endpoint, taken: u32) {
        if let Some(state) = self.state_of(peer) {
            state.used = state.used.saturating_sub(u16::try_from(taken).unwrap_or(u16::MAX));
        }
    }

    /// A short message of `peer`, a member of a geometry, was taken or dropped.
    pub(super) fn took(&mut self, peer: Endpoint) {
        let credit = self.credit;
        let Some(state) = self.state_of(peer) else { return };
        state.owed = state.owed.saturating_add(1);
        self.credit_due |= state.owed >= (credit / 2).max(1);
    }

    /// Whether anybody is to hear of credit now.
    #[inline]
    pub(super) fn owes_credit(&self) -> bool {
        self.credit_due
    }

    /// Has those hear of credit that is worth it: `tell` says whether it did. Returns how many heard.
    pub(super) fn give_back(&mut self, mut tell: impl FnMut(Endpoint, u16) -> bool) -> usize {
        let worth = (self.credit / 2).max(1);
        let mut told = 0;
        self.credit_due = false;
        for state in self.peer_states.iter_mut().flatten().filter(|state| state.owed >= worth) {
            if tell(state.peer, state.owed) {
                state.owed = 0;
                told += 1;
            } else {
                self.credit_due = true;
            }
        }
        told
    }

    /// `peer` asked for a clear whose receive is not there. Receives of messages from there clear them from now on.
    pub(super) fn note_asked(&mut self, peer: Endpoint) {
        if let Some(state) = self.state_of(peer) {
            state.asked = true;
        }
    }

    /// Whether a receive of a short message from a member has to clear it.
    #[inline]
    pub(super) fn must_clear(&mut self, number: Option<PeerNumber>) -> bool {
        self.is_strict() || number.and_then(|number| self.numbered(number)).is_some_and(|state| state.asked)
    }

    /// Takes the message for a receive out, with its data, or for a send: the clear.
    #[inline]
    pub(super) fn take(
        &mut self,
        key: Key,
        (origin, tag): (Endpoint, u32),
        sends: bool,
    ) -> Option<(Early, &[u8])> {
        if self.messages.is_empty() { None } else { self.take_out(key, (origin, tag), sends) }
    }

    #[inline(never)]
    fn take_out(&mut self, key: Key, (origin, tag): (Endpoint, u32), sends: bool) -> Option<(Early, &[u8])> {
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
        Some((early, self.data.get(at as usize)?))
    }

    /// Takes out what says that a collective cannot end well: a message of one who called something else.
    #[inline]
    pub(super) fn take_objection(&mut self, key: Key, digest: u32) -> Option<Early> {
        if self.messages.is_empty() { None } else { self.take_out_objection(key, digest) }
    }

    #[inline(never)]
    fn take_out_objection(&mut self, key: Key, digest: u32) -> Option<Early> {
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
        if !self.has_room_for(word) {
            // A clear is asked for again, so it can be forgotten, and a request has its place.
            let clear = self.find(|early| word == Word::Request && early.word == Word::Clear);
            self.forgot |= word == Word::Clear || clear.is_some();
            let Some(at) = clear else { return false };
            self.clear(at);
        }
        let Ok(key) = self.messages.insert(Early { origin, word, label, total }) else { return false };
        let kept = &mut self.data[key.index as usize];
        kept.clear();
        // What is longer than a place is refused before.
        let _ = kept.extend_from_slice(data);
        true
    }

    /// Whether there is a place for a message of this kind: those that are due to short messages are for them.
    fn has_room_for(&self, word: Word) -> bool {
        let free = self.messages.capacity() - self.messages.len();
        if word == Word::Short {
            return free > 0;
        }
        let shorts = self.iter().filter(|early| early.word == Word::Short).count();
        free > (usize::from(self.credit) * self.peers).saturating_sub(shorts)
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
        let slots = Box::leak(Box::new([const { EarlySlot::new() }; 16]));
        let data = Box::leak(Box::new([const { EarlyData::new() }; 16]));
        EarlyMessages::new(EarlyMemory { slots, data, peer_states: Box::leak(Box::new([None; 4])) }, 2)
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
        assert!(
            !early.is_strict()
                && EarlyMessages::new(EarlyMemory { slots: &mut [], data: &mut [], peer_states: &mut [] }, 2)
                    .is_strict()
        );
        let [lane0, lane1] = [0, 1].map(|task| early.number(peer(task)).unwrap());
        for _ in 0..4 {
            assert!(early.credit(lane1).is_some(), "it is not used before it is spent");
            early.credit(lane1).unwrap().spend();
        }
        assert!(early.credit(lane1).is_none() && early.credit(lane0).is_some());
        early.regain(peer(1), 1);
        early.credit(lane1).unwrap().spend();
        assert!(early.credit(lane1).is_none());
    }

    #[test]
    fn r1_credit_goes_back_when_it_is_worth_it_and_until_it_could_be_told() {
        let mut early = messages();
        early.took(peer(0));
        early.took(peer(1));
        assert!(!early.owes_credit());
        early.took(peer(1));
        assert!(early.owes_credit());
        early.took(peer(0));
        assert_eq!((early.give_back(|whom, _| whom == peer(0)), early.owes_credit()), (1, true));
        let mut told = std::vec::Vec::new();
        for count in [1, 0] {
            let heard = early.give_back(|whom, owed| {
                told.push((whom, owed));
                true
            });
            assert_eq!((heard, early.owes_credit()), (count, false));
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
                assert_eq!(early.owes_credit(), word == Word::Short);
            }
        }
        let mut early = messages();
        assert!(keep(&mut early, Word::Clear, 0) && early.take(KEY, from, false).is_none());
        assert!(early.take(KEY, from, true).is_some() && !early.owes_credit());
    }
}
