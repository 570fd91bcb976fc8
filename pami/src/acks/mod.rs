//! What is owed to origins: acknowledgements of messages whose senders want one (SPEC P-5), refusals of messages to be
//! processed (SPEC L-3), answers to fences (SPEC F-2), calls to send again what was refused ([`crate::admission`]).
//!
//! An answer waits for room in the injection FIFO, and never stops arrivals meanwhile (SPEC R-1): what is in front of it in
//! the FIFO may wait for a peer that does the same. An origin has at most
//! [`OPERATIONS`](crate::send::OPERATIONS) under way, each of which is answered once. So a bit for each is all that can be owed
//! to one, and it has a record for that. Those of one origin that are owed at once go in one packet. Records are found by who
//! the origin is, so they do not lie in a [`SlotTable`](rings::slot_table::SlotTable); and are in a list by hand, as what a
//! [`List`](rings::list::List) needs to find their links is longer than it.
//!
//! # More endpoints than records
//!
//! There are places for so many peers at a time (SPEC R-9). In a job of no more endpoints each is sure of a record. A larger
//! one is *crowded*, at all tasks alike, and there a place is for whoever something is owed to now:
//!
//! ```text
//! origin                              target
//!   message, fence, chunk ----------->  no place: the answer is forgotten; what may be refused is not looked at
//!   ... no answer comes ...
//!   QUERY: operations, number ------->  something of them is still to be told: nothing. Else, if there is a place now:
//!          <--------------------------  UNKNOWN: operations, number
//!   plain message: it has ended. One that asks: again. A fence: again. Processing: one more last chunk, of no elements
//! ```
//!
//! A put with signal has ended as well, unless the target has ever forgotten that it refused one: then it says so with all that
//! it knows nothing of, and the origin that it is not known ([`OperationError::Forgotten`](crate::OperationError::Forgotten)).
//!
//! Packets of a pair keep their order, so with a question all that it is about has come, and with its answer all that was told
//! before. Of what was taken in the target so knows something (a record's bit, a receive request, an unexpected message, half a
//! message), or it has told; of what it neither knows nor has told only the answer is lost, or it was never looked at. An
//! answer counts if it is to the operation's last question, and the operation has not gone again since: nothing goes again
//! twice.
//!
//! A message that asks ([`crate::admission`]) needs a record before it is looked at, which it keeps while it is half-way in:
//! only so has a target that knows nothing of it not taken it in. Such messages go to each target one at a time, with the
//! fences behind them: so one that is dropped is overtaken by none, and the target remembers nothing of it.
//!
//! **No circle of waits.** No place is kept by anything that the application does: bits of a record go when the injection FIFO
//! moves; half messages, which have at most half of the places and may have all that one origin's record can lie in, end by
//! themselves; and a record that has only refused a message makes room, for its origin will ask. A question that finds no place
//! is asked again, ever more seldom up to a bound: who is busy with something else has his FIFO not filled by it. A context that
//! has forgotten something has not told all for a while ([`QUESTIONS_NS`]): it stays for the question, but not for one who never
//! asks.

mod owed;

pub(crate) use owed::{Owed, Owing, bit_of};

use crate::admission::Doorway;
use crate::endpoint::Endpoint;
use rings::open_addressing as table;

/// Bits that name a [`RegionFault`].
const FAULT_BITS: usize = 3;
/// Rounds of an advance between a refusal and the call to send again, at first; they double each time.
pub(crate) const LEAST_PAUSE: u32 = 32;
/// And at most.
pub(crate) const MOST_PAUSE: u32 = 4096;
/// Longest sleep of a context that has refused something: what its handlers say may have changed.
pub(crate) const PAUSE_NS: u64 = 1_000_000;

/// How long a context that has forgotten an answer waits for its origin to ask, which may have died, or never asks. It is twice
/// the longest pause between two questions.
pub const QUESTIONS_NS: u64 = 64_000_000_000;

/// In a crowded job an origin's record lies in one of so many places: a packet of one that has none looks through no more,
/// whatever the table's length.
const WAYS: usize = 16;

/// One place for a record.
pub(crate) type AckSlot = Option<Record>;

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
    /// Operations of which nothing is known, and the question that this answers.
    unknown: (u64, u32),
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
            unknown: (0, 0),
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

    /// Whether anything is to be told that nobody else knows.
    fn owes_answers(&self) -> bool {
        self.owed.any() || self.unknown.0 != 0
    }

    pub(crate) fn owes(&self) -> bool {
        self.owes_answers() || self.door.is_shut()
    }

    /// Which of these operations of the origin something is to be told of.
    pub(crate) fn known(&self, among: u64) -> u64 {
        let refused = self.door.refused().and_then(bit_of).unwrap_or(0);
        among & (self.owed.all() | refused)
    }

    /// Question `number` was of operations of which nothing is known. Its origin goes by the answer to its last one alone.
    /// Returns of how many it was the first.
    pub(crate) fn does_not_know(&mut self, operations: u64, number: u32) -> u32 {
        let first = operations & !self.unknown.0;
        self.unknown = (operations, number);
        first.count_ones()
    }

    /// What is to be answered of operations of which nothing is known.
    pub(crate) fn unknown(&self) -> (u64, u32) {
        self.unknown
    }

    /// It was.
    pub(crate) fn told_unknown(&mut self) {
        self.unknown.0 = 0;
    }

    /// Fences that are answered in another way.
    pub(crate) fn take_fences(&mut self) -> u64 {
        let fences = self.owed.of(Owing::Fences);
        self.owed.told(Owing::Fences, fences);
        fences
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

    /// One round more: the message that the origin is to send again, if any, what there has to be for it, and whether it goes
    /// only then.
    pub(crate) fn next_call(&mut self) -> Option<(u32, Lack, bool)> {
        let message = self.door.to_call()?;
        self.rounds = self.rounds.saturating_sub(1);
        Some((message, self.lack, self.rounds > 0))
    }

    /// The origin was called; one that asks for one message at a time may as well have no record now.
    pub(crate) fn called(&mut self, crowded: bool) {
        if crowded { self.door = Doorway::default() } else { self.door.called() }
    }
}

/// The records of a context's origins. Where there are twice as many places as endpoints an origin that once has a record keeps
/// it; else the table is *crowded*, and a record that owes nothing makes room for another.
pub(crate) struct Acks {
    places: &'static mut [AckSlot],
    crowded: bool,
    /// Places that a record may lie in.
    ways: usize,
    /// The origin of what is being taken in keeps its record meanwhile.
    pinned: Option<Endpoint>,
    /// Answers that found no place, of which nobody has asked yet.
    forgotten: u32,
    /// Among all that ever were are refusals of puts with signal.
    forgot_refusals: bool,
    /// After this nobody is waited for to ask of them.
    asked_until: u64,
    /// Ends of the list of those that something is owed to.
    first: Option<u32>,
    last: Option<u32>,
    /// How many they are, and one more in a crowded job: each round looks after its questions.
    turns: usize,
    /// A place has become free that something refused may have lacked.
    freed: bool,
    /// An origin that was to be called for that could not be.
    waits: bool,
}

impl Acks {
    /// Takes a table whose length is a power of two; `endpoints` may send.
    pub(crate) fn new(places: &'static mut [AckSlot], endpoints: usize) -> Self {
        let crowded = 2 * endpoints > places.len();
        Self {
            crowded,
            ways: if crowded { WAYS.min(places.len()) } else { places.len() },
            places,
            pinned: None,
            forgotten: 0,
            forgot_refusals: false,
            asked_until: 0,
            first: None,
            last: None,
            turns: usize::from(crowded),
            freed: false,
            waits: false,
        }
    }

    /// Whether there are more endpoints than each is sure of a record for.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Lets nobody else have the record of the origin of what is being taken in.
    #[inline]
    pub(crate) fn pin(&mut self, origin: Endpoint) {
        self.pinned = Some(origin);
    }

    /// An answer found no place: its origin will ask.
    #[cold]
    pub(crate) fn forget_answer(&mut self) {
        self.forgotten = self.forgotten.saturating_add(1);
        self.asked_until = u64::MAX;
    }

    /// The answer that found no place was that a put with signal was refused.
    #[cold]
    pub(crate) fn forget_refusal(&mut self) {
        self.forgot_refusals = true;
    }

    /// Whether one was: of no put with signal is it known now that it was not refused.
    pub(crate) fn has_forgotten_refusals(&self) -> bool {
        self.forgot_refusals
    }

    /// Waits for questions after what was forgotten, from now on if that was since the last call.
    pub(crate) fn wait_for_questions(&mut self, now: impl FnOnce() -> u64) {
        if self.asked_until == u64::MAX {
            self.asked_until = now().saturating_add(QUESTIONS_NS);
        }
    }

    /// An origin has asked after so many.
    pub(crate) fn note_question(&mut self, operations: u32) {
        self.forgotten = self.forgotten.saturating_sub(operations);
    }

    pub(crate) fn into_places(self) -> &'static mut [AckSlot] {
        self.places.fill_with(|| None);
        self.places
    }

    /// Whether nothing is owed to anybody, and nothing is refused.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.places.iter().flatten().filter(|record| record.listed)
    }

    /// Whether no answer is owed to anybody at `now`.
    pub(crate) fn has_told_all(&self, now: u64) -> bool {
        let asked = self.forgotten == 0 || now >= self.asked_until;
        asked && (self.is_empty() || !self.records().any(Record::owes_answers))
    }

    /// Whether nothing is refused that has not come again.
    pub(crate) fn has_let_all_in(&self) -> bool {
        self.is_empty() || !self.records().any(|record| record.door.is_shut())
    }

    /// The places that an origin's record may lie in.
    #[inline]
    fn ways(&self, origin: Endpoint) -> impl Iterator<Item = usize> + use<> {
        table::ways(self.places.len(), origin.home()).take(self.ways)
    }

    /// The place of an origin's record, or the free one where it belongs.
    #[inline]
    fn find(&self, origin: Endpoint) -> Option<usize> {
        table::find(self.places, self.ways(origin), |record| record.origin == origin)
    }

    fn get(&mut self, origin: Endpoint) -> Option<&mut Record> {
        let at = self.find(origin)?;
        self.places[at].as_mut()
    }

    /// It stands in line, behind all others if it did not.
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
        self.turns += 1;
    }

    /// The place of the record whose turn it is, which stands in no line now.
    pub(crate) fn take_turn(&mut self) -> Option<usize> {
        let at = self.first? as usize;
        let record = self.places.get_mut(at)?.as_mut()?;
        (self.first, record.listed) = (record.next.take(), false);
        if self.first.is_none() {
            self.last = None;
        }
        self.turns -= 1;
        Some(at)
    }

    /// The record of an origin, which something is owed to now; `None` if the job does not have that endpoint, or there is no
    /// place. Only an origin without a record is asked for. One that `is_half` in the middle of a message keeps its own.
    #[inline]
    pub(crate) fn owe(
        &mut self,
        origin: Endpoint,
        is_there: impl FnOnce() -> bool,
        is_half: impl Fn(Endpoint) -> bool,
    ) -> Option<&mut Record> {
        let at = match self.find(origin) {
            Some(at) if self.places[at].is_some() => at,
            free => self.place(free, origin, is_there, is_half)?,
        };
        self.list(at);
        self.places[at].as_mut()
    }

    /// Makes a record for an origin that has none, in a place that is free or becomes so.
    #[cold]
    #[inline(never)]
    fn place(
        &mut self,
        free: Option<usize>,
        origin: Endpoint,
        is_there: impl FnOnce() -> bool,
        is_half: impl Fn(Endpoint) -> bool,
    ) -> Option<usize> {
        if !is_there() {
            return None;
        }
        let Some(at) = free else { return self.replace(origin, is_half) };
        self.places[at] = Some(Record::new(origin));
        Some(at)
    }

    /// Gives an origin the place of a record that owes nothing; else of one that has only refused a message, whose origin will
    /// ask.
    fn replace(&mut self, origin: Endpoint, is_half: impl Fn(Endpoint) -> bool) -> Option<usize> {
        let pinned = self.pinned;
        let is_free = |record: &Record| {
            !record.owes_answers() && Some(record.origin) != pinned && !is_half(record.origin)
        };
        let position = |shut: bool| {
            self.ways(origin).find(|&at| {
                let record = self.places[at].as_ref();
                record.is_some_and(|record| record.door.is_shut() == shut && is_free(record))
            })
        };
        let (at, refused) = match position(false) {
            Some(at) => (at, false),
            None => (position(true)?, true),
        };
        if refused {
            self.forget_answer();
        }
        let record = self.places[at].as_mut()?;
        // In the line it stays where it is.
        *record = Record { next: record.next, listed: record.listed, ..Record::new(origin) };
        Some(at)
    }

    /// What is to be told to an origin, if it has a record.
    pub(crate) fn record(&self, origin: Endpoint) -> Option<&Record> {
        self.places[self.find(origin)?].as_ref()
    }

    /// How many turns there are in a round; 0 if there is nothing to do.
    #[inline]
    pub(crate) fn turns(&self) -> usize {
        self.turns
    }

    /// The record at a place.
    #[inline]
    pub(crate) fn at(&mut self, at: usize) -> Option<&mut Record> {
        self.places.get_mut(at)?.as_mut()
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
        self.record(origin).is_some_and(|record| record.door.is_shut())
    }

    /// Whether a fence of `origin` is behind a message that was refused.
    pub(crate) fn hides(&self, origin: Endpoint, fence: u32) -> bool {
        self.record(origin).is_some_and(|record| record.door.hides(fence))
    }

    /// It was let in: the next one that is refused is called soon.
    pub(crate) fn let_in(&mut self, origin: Endpoint) {
        if let Some(record) = self.get(origin) {
            record.pause = LEAST_PAUSE;
        }
    }

    /// A place has become free.
    pub(crate) fn note_room(&mut self) {
        self.freed = !self.is_empty();
    }

    /// Time has passed: whoever was refused is called.
    pub(crate) fn end_pauses(&mut self) {
        if !self.is_empty() {
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
mod tests;
