//! What is owed to origins: acknowledgements of messages whose senders want one (SPEC P-5), refusals of messages to be
//! processed (SPEC L-3), answers to fences (SPEC F-2), calls to send again what was refused ([`crate::admission`]).
//!
//! An answer waits for room in the injection FIFO, and never stops arrivals meanwhile (SPEC R-1): what is in front of it in
//! the FIFO may wait for a peer that does the same. An origin has at most
//! [`OPERATIONS`](crate::send::OPERATIONS) under way, each of which is answered once. So a bit for each is all that can be owed
//! to one, and it has a record for that. Those of one origin that are owed at once go in one packet.

mod owed;

pub(crate) use owed::{Owed, bit_of};

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
    pub(crate) origin: Endpoint,
    pub(crate) owed: Owed,
    pub(crate) door: Doorway,
    pub(crate) lack: Lack,
    /// Rounds until the origin is called.
    pub(crate) rounds: u32,
    pub(crate) pause: u32,
    /// Next in the list of those that something is owed to.
    next: Option<u32>,
    pub(crate) listed: bool,
}

impl Record {
    pub(crate) fn new(origin: Endpoint) -> Self {
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

    pub(crate) fn owes(&self) -> bool {
        self.owed.any() || self.door.is_shut()
    }

    pub(crate) fn forget(&mut self) {
        let (next, listed) = (self.next, self.listed);
        *self = Self { next, listed, ..Self::new(self.origin) };
    }
}

/// The records of a context's origins: an open-addressed table, with twice as many places as endpoints. An origin that once
/// has a record keeps it.
pub(crate) struct Acks {
    pub(crate) places: &'static mut [Place],
    /// Ends of the list of those that something is owed to.
    first: Option<u32>,
    last: Option<u32>,
    pub(crate) listed: usize,
    /// A place has become free that something refused may have lacked.
    pub(crate) freed: bool,
    /// An origin that was to be called for that could not be.
    pub(crate) waits: bool,
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

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
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
    pub(crate) fn find(&self, origin: Endpoint) -> Option<usize> {
        let mask = self.places.len().wrapping_sub(1);
        let key = origin.task() ^ (u32::from(origin.context().0) << 24);
        let home = (key.wrapping_mul(0x9e37_79b9) >> 7) as usize;
        (0..self.places.len())
            .map(|step| home.wrapping_add(step) & mask)
            .find(|&at| self.places[at].as_ref().is_none_or(|record| record.origin == origin))
    }

    pub(crate) fn get(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let at = self.find(origin)?;
        self.places[at].as_mut()
    }

    pub(crate) fn list(&mut self, at: usize) {
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

    pub(crate) fn unlist(&mut self) -> Option<usize> {
        let at = self.first? as usize;
        let record = self.places.get_mut(at)?.as_mut()?;
        (self.first, record.listed) = (record.next.take(), false);
        if self.first.is_none() {
            self.last = None;
        }
        self.listed -= 1;
        Some(at)
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
        let at = acks.find(origin).unwrap();
        acks.places[at] = Some(Record::new(origin));
        acks.list(at);
        let record = acks.get(origin).unwrap();
        record.owed.acknowledge(1);
        assert_eq!(told(&acks), (false, true, None));
        let record = acks.get(origin).unwrap();
        record.owed.acks = 0;
        record.door.refuse(0);
        assert_eq!(told(&acks), (true, false, Some(PAUSE_NS)));
    }
}
