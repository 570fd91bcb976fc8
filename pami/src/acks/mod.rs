//! What is owed to origins: acknowledgements of messages whose senders want one (SPEC P-5), refusals of messages to be
//! processed (SPEC L-3), answers to fences (SPEC F-2), calls to send again what was refused ([`crate::admission`]).
//!
//! An answer waits for room in the injection FIFO, and never stops arrivals meanwhile (SPEC R-1): what is in front of it in
//! the FIFO may wait for a peer that does the same. An origin has at most
//! [`OPERATIONS`](crate::send::OPERATIONS) under way, each of which is answered once. So a bit for each is all that can be owed
//! to one, and it has a record for that. Those of one origin that are owed at once go in one packet. Records are found by who
//! the origin is, so they lie in a hashed table and not in a [`SlotTable`](rings::slot_table::SlotTable).

mod owed;

pub(crate) use owed::{Owed, Owing, bit_of};

use crate::admission::Doorway;
use crate::endpoint::Endpoint;

/// Bits that name a [`RegionFault`].
const FAULT_BITS: usize = 3;
/// Rounds of an advance between a refusal and the call to send again, at first; they double each time.
pub(crate) const LEAST_PAUSE: u32 = 32;
/// And at most.
pub(crate) const MOST_PAUSE: u32 = 4096;
/// Longest sleep of a context that has refused something: what its handlers say may have changed.
pub(crate) const PAUSE_NS: u64 = 1_000_000;

/// One place for a record.
pub(crate) type Place = Option<Record>;

/// What a refused message lacked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    ReceiveRequest,
    /// A place of the unexpected queue of so many bytes.
    Unexpected(u32),
    /// A place for half a message.
    Half,
}

/// What is owed to one origin.
pub(crate) struct Record {
    origin: Endpoint,
    owed: Owed,
    door: Doorway,
    lack: Lack,
    /// Rounds until the origin is called.
    rounds: u32,
    pause: u32,
    /// Next in the list of those that something is owed to.
    next: Option<u32>,
    listed: bool,
}

impl Record {
    fn new(origin: Endpoint) -> Self {
        Self {
            origin,
            owed: Owed::default(),
            door: Doorway::default(),
            lack: Lack::ReceiveRequest,
            rounds: 0,
            pause: LEAST_PAUSE,
            next: None,
            listed: false,
        }
    }

    /// To whom it is owed.
    pub(crate) fn origin(&self) -> Endpoint {
        self.origin
    }

    /// The answers.
    pub(crate) fn owed(&mut self) -> &mut Owed {
        &mut self.owed
    }

    fn owes(&self) -> bool {
        self.owed.any() || self.door.is_shut()
    }

    /// Nobody is left to whom it could be told.
    pub(crate) fn forget(&mut self) {
        let (next, listed) = (self.next, self.listed);
        *self = Self { next, listed, ..Self::new(self.origin) };
    }

    /// Leaves a message with its origin, which is called after a pause that doubles each time.
    pub(crate) fn refuse(&mut self, message: u32, lack: Lack) {
        self.door.refuse(message);
        self.lack = lack;
        self.rounds = self.pause;
        self.pause = (self.pause * 2).min(MOST_PAUSE);
    }

    /// One round more: the message that the origin is to send again, if any, and what there has to be for it.
    pub(crate) fn next_call(&mut self) -> Option<(u32, Lack)> {
        let message = self.door.to_call()?;
        self.rounds = self.rounds.saturating_sub(1);
        Some((message, self.lack))
    }

    /// Whether it is to be called only if there is room.
    pub(crate) fn pauses(&self) -> bool {
        self.rounds > 0
    }

    /// The origin was called.
    pub(crate) fn called(&mut self) {
        self.door.called();
    }
}

/// The records of a context's origins: an open-addressed table, with twice as many places as endpoints. An origin that once
/// has a record keeps it.
pub(crate) struct Acks {
    places: &'static mut [Place],
    /// Ends of the list of those that something is owed to.
    first: Option<u32>,
    last: Option<u32>,
    listed: usize,
    /// A place has become free that something refused may have lacked.
    freed: bool,
    /// An origin that was to be called for that could not be.
    waits: bool,
}

impl Acks {
    /// Takes a table whose length is a power of two over the number of endpoints that may send.
    pub(crate) fn new(places: &'static mut [Place]) -> Self {
        Self { places, first: None, last: None, listed: 0, freed: false, waits: false }
    }

    pub(crate) fn into_places(self) -> &'static mut [Place] {
        self.places.fill_with(|| None);
        self.places
    }

    /// Whether nothing is owed to anybody, and nothing is refused.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.listed == 0
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.places.iter().flatten().filter(|record| record.listed)
    }

    /// Whether no answer is owed to anybody.
    pub(crate) fn has_told_all(&self) -> bool {
        self.is_empty() || !self.records().any(|record| record.owed.any())
    }

    /// Whether nothing is refused that has not come again.
    pub(crate) fn has_let_all_in(&self) -> bool {
        self.is_empty() || !self.records().any(|record| record.door.is_shut())
    }

    /// The place of an origin's record, or the free one where it belongs.
    #[inline]
    fn find(&self, origin: Endpoint) -> Option<usize> {
        let mask = self.places.len().wrapping_sub(1);
        let key = origin.task() ^ (u32::from(origin.context().0) << 24);
        let home = (key.wrapping_mul(0x9e37_79b9) >> 7) as usize;
        (0..self.places.len())
            .map(|step| home.wrapping_add(step) & mask)
            .find(|&at| self.places[at].as_ref().is_none_or(|record| record.origin == origin))
    }

    fn get(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let at = self.find(origin)?;
        self.places[at].as_mut()
    }

    fn list(&mut self, at: usize) {
        let Some(Some(record)) = self.places.get_mut(at) else { return };
        if record.listed {
            return;
        }
        (record.listed, record.next) = (true, None);
        let number = Some(at as u32);
        match self.last.and_then(|last| self.places[last as usize].as_mut()) {
            Some(last) => last.next = number,
            None => self.first = number,
        }
        self.last = number;
        self.listed += 1;
    }

    fn unlist(&mut self) -> Option<usize> {
        let at = self.first? as usize;
        let record = self.places.get_mut(at)?.as_mut()?;
        (self.first, record.listed) = (record.next.take(), false);
        if self.first.is_none() {
            self.last = None;
        }
        self.listed -= 1;
        Some(at)
    }

    /// The record of an origin, which something is owed to now; `None` if the job does not have that endpoint. Only an origin
    /// without a record is asked for.
    #[inline]
    pub(crate) fn owe(&mut self, origin: Endpoint, is_there: impl FnOnce() -> bool) -> Option<&mut Record> {
        let at = self.find(origin)?;
        if self.places[at].is_none() {
            if !is_there() {
                return None;
            }
            self.places[at] = Some(Record::new(origin));
        }
        self.list(at);
        self.places[at].as_mut()
    }

    /// Number of origins that something is owed to.
    pub(crate) fn len(&self) -> usize {
        self.listed
    }

    /// Takes out the record of the origin whose turn it is.
    pub(crate) fn take_next(&mut self) -> Option<(usize, Record)> {
        let at = self.unlist()?;
        Some((at, self.places[at].take()?))
    }

    /// Puts it back. If something is owed on, it is the last now.
    pub(crate) fn put_back(&mut self, at: usize, record: Record) {
        let owes = record.owes();
        self.places[at] = Some(record);
        if owes {
            self.list(at);
        }
    }

    /// Whether a place has become free since the last call for one.
    pub(crate) fn has_freed(&self) -> bool {
        self.freed
    }

    /// An origin was called, or could not be, for a place that has become free if `freed`.
    pub(crate) fn note_call(&mut self, called: bool, freed: bool) {
        if called {
            self.freed &= !freed;
        } else {
            self.waits |= freed;
        }
    }

    /// All had their turn: a place that is free is nobody's matter any more but of those that could not be called.
    pub(crate) fn end_round(&mut self) {
        self.freed &= core::mem::take(&mut self.waits);
    }

    /// Whether a message that asks to be let in is to be looked at.
    pub(crate) fn opens_for(&mut self, origin: Endpoint, message: u32) -> bool {
        let Some(record) = self.get(origin) else { return true };
        let shut = record.door.is_shut();
        let opens = record.door.opens_for(message);
        // Another may find room as well.
        self.freed |= shut && opens;
        opens
    }

    /// Whether a message of `origin` was refused and has not come again.
    pub(crate) fn is_shut(&self, origin: Endpoint) -> bool {
        let record = self.find(origin).and_then(|at| self.places[at].as_ref());
        record.is_some_and(|record| record.door.is_shut())
    }

    /// Whether a fence of `origin` is behind a message that was refused.
    pub(crate) fn hides(&self, origin: Endpoint, fence: u32) -> bool {
        let record = self.find(origin).and_then(|at| self.places[at].as_ref());
        record.is_some_and(|record| record.door.hides(fence))
    }

    /// It was let in: the next one that is refused is called soon.
    pub(crate) fn let_in(&mut self, origin: Endpoint) {
        if let Some(record) = self.get(origin) {
            record.pause = LEAST_PAUSE;
        }
    }

    /// A place has become free.
    pub(crate) fn note_room(&mut self) {
        self.freed = self.listed > 0;
    }

    /// Time has passed: whoever was refused is called.
    pub(crate) fn end_pauses(&mut self) {
        if self.listed > 0 {
            self.places.iter_mut().flatten().for_each(|record| record.rounds = 0);
        }
    }

    /// How long a context may sleep.
    pub(crate) fn most_sleep_ns(&self) -> Option<u64> {
        (!self.has_let_all_in()).then_some(PAUSE_NS)
    }
}

/// The operations that the data of an answer names.
pub(crate) fn named(data: &[u8]) -> Option<u64> {
    data.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{ClientId, ContextOffset};
    use std::boxed::Box;

    #[test]
    pub(crate) fn r1_n8_a_context_that_owes_sleeps_as_long_as_it_likes_and_one_that_has_refused_does_not() {
        let origin = Endpoint::from_parts(ClientId(0), 1, ContextOffset(0));
        let mut acks = Acks::new(Box::leak(Box::new([const { None }; 4])));
        let told = |acks: &Acks| (acks.has_told_all(), acks.has_let_all_in(), acks.most_sleep_ns());
        assert_eq!(told(&acks), (true, true, None));
        assert!(acks.owe(origin, || false).is_none() && acks.is_empty());
        acks.owe(origin, || true).unwrap().owed().acknowledge(1);
        assert_eq!(told(&acks), (false, true, None));
        let record = acks.owe(origin, || false).unwrap();
        record.owed().told(Owing::Acks, 1);
        record.refuse(0, Lack::Half);
        assert_eq!(told(&acks), (true, false, Some(PAUSE_NS)));
    }
}
