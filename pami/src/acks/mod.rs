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
use crate::context::Active;
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::operation::Blocked;
use crate::packet::{Envelope, Kind};
use crate::reception::{Answer, Stage};
use crate::region::RegionFault;

/// Bits that name a [`RegionFault`].
const FAULT_BITS: usize = 3;
/// Rounds of an advance between a refusal and the call to send again, at first; they double each time.
const LEAST_PAUSE: u32 = 32;
/// And at most.
const MOST_PAUSE: u32 = 4096;
/// Longest sleep of a context that has refused something: what its handlers say may have changed.
const PAUSE_NS: u64 = 1_000_000;

/// One place for a record.
pub(crate) type Place = Option<Record>;

/// What a refused message lacked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    Reception,
    /// A kept place of so many bytes.
    Kept(u32),
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
            lack: Lack::Reception,
            rounds: 0,
            pause: LEAST_PAUSE,
            next: None,
            listed: false,
        }
    }

    fn owes(&self) -> bool {
        self.owed.any() || self.door.is_shut()
    }

    fn forget(&mut self) {
        let (next, listed) = (self.next, self.listed);
        *self = Self { next, listed, ..Self::new(self.origin) };
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

impl<P: Port> Active<P> {
    /// The record of an origin, which something is owed to now; `None` if the job does not have that endpoint.
    #[inline]
    fn owe(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let at = self.acks.find(origin)?;
        if self.acks.places[at].is_none() {
            if self.transport.locate(origin) == Err(crate::device::Unreachable::NoSuchEndpoint) {
                return None;
            }
            self.acks.places[at] = Some(Record::new(origin));
        }
        self.acks.list(at);
        self.stir();
        self.acks.places[at].as_mut()
    }

    /// As [`owe`](Self::owe), for an operation of the origin.
    fn owe_for(&mut self, origin: Endpoint, message: u32, note: impl FnOnce(&mut Owed, u64)) {
        if let Some(bit) = bit_of(message)
            && let Some(record) = self.owe(origin)
        {
            note(&mut record.owed, bit);
        } else {
            self.transport.stray();
        }
    }

    /// Notes that `origin` is to hear of `message`.
    pub(crate) fn owe_ack(&mut self, origin: Endpoint, message: u32) {
        self.owe_for(origin, message, Owed::acknowledge);
    }

    /// Notes that `origin` is to hear that its `message` is kept.
    pub(crate) fn owe_admission(&mut self, origin: Endpoint, message: u32) {
        self.owe_for(origin, message, Owed::admit);
    }

    /// Notes that `origin` is to hear that its `message` was not processed.
    pub(crate) fn owe_refusal(&mut self, origin: Endpoint, message: u32, fault: RegionFault) {
        self.owe_for(origin, message, |owed, bit| owed.refuse(bit, fault));
    }

    /// Notes that fences of `origin` are to be answered once the callbacks of what came before `order` have been called.
    pub(crate) fn owe_fences(&mut self, origin: Endpoint, fences: u64, order: u64) {
        if let Some(record) = self.owe(origin) {
            record.owed.fence(fences, order);
        } else {
            self.transport.stray();
        }
    }

    /// Leaves a message with its origin until there is a place for it.
    pub(crate) fn refuse(&mut self, envelope: &Envelope, lack: Lack) {
        let Some(record) = self.owe(envelope.origin) else {
            self.transport.stray();
            return;
        };
        record.door.refuse(envelope.message);
        record.lack = lack;
        record.rounds = record.pause;
        record.pause = (record.pause * 2).min(MOST_PAUSE);
    }

    /// Once round those that something is owed to. Returns the number of packets that went out.
    pub(crate) fn send_answers(&mut self, blocked: &mut Blocked) -> usize {
        if self.acks.is_empty() { 0 } else { self.send_all_answers(blocked) }
    }

    #[inline(never)]
    fn send_all_answers(&mut self, blocked: &mut Blocked) -> usize {
        let mut events = 0;
        for _ in 0..self.acks.listed {
            let Some(at) = self.acks.unlist() else { break };
            let Some(mut record) = self.acks.places[at].take() else { break };
            events += self.answer(&mut record, blocked);
            let owes = record.owes();
            self.acks.places[at] = Some(record);
            if owes {
                self.acks.list(at);
            }
        }
        self.acks.freed &= core::mem::take(&mut self.acks.waits);
        events
    }

    fn answer(&mut self, record: &mut Record, blocked: &mut Blocked) -> usize {
        let Ok(path) = self.transport.locate(record.origin) else {
            // The origin died.
            record.forget();
            return 0;
        };
        let origin = record.origin;
        let mut told = 0;
        told += self.tell_set((path, origin), (Kind::Ack, 0), &mut record.owed.acks, blocked);
        told += self.tell_set((path, origin), (Kind::Admitted, 0), &mut record.owed.admitted, blocked);
        if record.owed.refusals != 0 {
            for fault in RegionFault::ALL {
                let mut set = record.owed.refused_for(fault);
                let all = set;
                told += self.tell_set((path, origin), (Kind::Refused, fault as u8), &mut set, blocked);
                record.owed.refusals &= !(all & !set);
            }
        }
        if record.owed.fences != 0 && !self.receptions.delivers_older(origin, record.owed.fence_order) {
            match path {
                Path::Local(_) => {
                    told +=
                        self.tell_set((path, origin), (Kind::FenceAck, 0), &mut record.owed.fences, blocked);
                }
                Path::Torus(_) => told += self.ask_for_fences(record),
            }
        }
        told + self.call(path, record, blocked)
    }

    /// Begins the second step of fences, if there is a place for it. Returns how many receptions that takes.
    fn ask_for_fences(&mut self, record: &mut Record) -> usize {
        let Some(number) = self.receptions.free_place() else { return 0 };
        let answer = Answer::Fences(core::mem::take(&mut record.owed.fences));
        let order = self.transport.next_order();
        self.receive_at(number, record.origin, order, Some(answer), Stage::FenceAsks);
        1
    }

    /// Has an origin send again what was refused, if it is time. Returns the number of packets that went out.
    fn call(&mut self, path: Path, record: &mut Record, blocked: &mut Blocked) -> usize {
        let Some(message) = record.door.to_call() else { return 0 };
        record.rounds = record.rounds.saturating_sub(1);
        let room = match record.lack {
            Lack::Reception => self.receptions.has_much_room_for(record.origin),
            Lack::Kept(len) => self.kept.has_free(len as usize),
        };
        let freed = self.acks.freed && room;
        if !freed && record.rounds > 0 {
            return 0;
        }
        let told = self.tell_origin((path, record.origin), (Kind::Retry, 0, message), &[], blocked);
        if told {
            record.door.called();
            self.acks.freed &= !freed;
        } else {
            self.acks.waits |= freed;
        }
        usize::from(told)
    }

    /// Has an origin know of the operations in a set, if there are any. Returns the number of packets that went out.
    fn tell_set(
        &mut self,
        whom: (Path, Endpoint),
        (kind, dispatch): (Kind, u8),
        set: &mut u64,
        blocked: &mut Blocked,
    ) -> usize {
        if *set == 0 || !self.tell_origin(whom, (kind, dispatch, 0), &set.to_le_bytes(), blocked) {
            return 0;
        }
        *set = 0;
        1
    }

    /// Whether an answer went out. Notes its path if that has no room.
    fn tell_origin(
        &mut self,
        (path, target): (Path, Endpoint),
        (kind, dispatch, message): (Kind, u8, u32),
        data: &[u8],
        blocked: &mut Blocked,
    ) -> bool {
        if blocked.contains(&path) {
            return false;
        }
        let envelope =
            Envelope { kind, dispatch, origin: self.transport.me, target, message, offset: 0, total: 0 };
        let sent = self.transport.port.push_copy(path, &envelope, &[], data).is_ok();
        if !sent {
            let _ = blocked.push(path);
        }
        sent
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
    fn r1_n8_a_context_that_owes_sleeps_as_long_as_it_likes_and_one_that_has_refused_does_not() {
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
