//! Requests: what is under way, by a small name (the standard's chapter on non-blocking communication).
//!
//! Each context has a table of them. Point-to-point operations are carried out by `message`; collectives and
//! windows `open` a request for what they do and `complete` it from their
//! callbacks.

mod awaited;
mod operation;

use crate::error::{Error, Result};
use crate::settings::SEEKERS;
use crate::status::Status;
pub(crate) use awaited::{Awaited, Told};
use core::sync::atomic::{AtomicU32, Ordering};
pub(crate) use operation::{Arrived, Awaits, Mode, PointToPoint, Progress, Receiving, Sending};
use rings::list::{Link, Links, List};
use rings::slot_table::{self, Leaves, SlotTable};
use rings::table::Key;

/// Name of a request. Plain data; [`NULL`](Self::NULL) names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Request(u64);

impl Request {
    /// The null request: waiting for it returns at once, with an empty status.
    pub const NULL: Self = Self::new(u8::MAX, NONE, 0);
    /// A send that was complete when it began: it needs no place in a table.
    pub(crate) const SENT: Self = Self::new(u8::MAX, 0, 0);

    /// The one in a slot of a context's table, of this generation.
    #[inline(always)]
    const fn new(vci: u8, slot: u16, generation: u32) -> Self {
        Self((vci as u64) << 48 | (slot as u64) << 32 | generation as u64)
    }

    /// Whether it is the null request.
    pub fn is_null(&self) -> bool {
        *self == Self::NULL
    }

    /// Whether it is in no table, and waiting for it returns at once: the null request, or one that was [`SENT`](Self::SENT).
    #[inline]
    pub(crate) fn is_nowhere(&self) -> bool {
        self.vci() == usize::from(u8::MAX)
    }

    /// The context whose table has it.
    #[inline]
    pub(crate) fn vci(&self) -> usize {
        (self.0 >> 48) as usize
    }

    /// All of it as a number.
    #[inline]
    pub(crate) fn bits(&self) -> u64 {
        self.0
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline]
    pub(crate) fn slot(&self) -> u16 {
        (self.0 >> 32) as u16
    }

    #[inline]
    fn generation(&self) -> u32 {
        self.0 as u32
    }
}

/// Requests of the library's own in each context, besides the application's: two for each thread that makes a communicator.
pub(crate) const OWN: usize = 2 * SEEKERS;
/// No slot.
pub(crate) const NONE: u16 = u16::MAX;

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Persistent, and not started.
    Inactive,
    Active,
    Complete,
}

/// A place for a request.
pub(crate) type Slot = slot_table::Slot<Entry>;

/// What becomes of a request at its end. Most have none of these: they are waited for once, and are an application's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits(u8);

impl Traits {
    const NONE: Self = Self(0);
    /// Stays after its end, to be started again.
    const PERSISTENT: Self = Self(1);
    /// Nobody waits for it: it is free once it is complete.
    const DETACHED: Self = Self(2);
    /// The library's own.
    const OWN: Self = Self(4);

    #[inline]
    fn of(own: bool) -> Self {
        if own { Self::OWN } else { Self::NONE }
    }

    #[inline]
    fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }
}

/// A request.
pub(crate) struct Entry {
    pub(crate) phase: Phase,
    traits: Traits,
    /// What is told at its end, if it is not [`Status::EMPTY`].
    pub(crate) status: Option<Status>,
    /// What is to be done; `None` for requests of collectives and windows.
    pub(crate) operation: Option<PointToPoint>,
}

/// The generation of the active request in each slot of a context, or of the communicator in each place, 0 where there is
/// none. Who has its name sees there that it is still active, or was not freed, and needs no lock for that.
#[derive(Clone, Copy, Default)]
pub(crate) struct Activity(&'static [AtomicU32]);

/// The requests of one context. Each can be in one list: of those to be sent, of posted receives.
pub(crate) struct Requests {
    vci: u8,
    table: SlotTable<Entry>,
    activity: Activity,
    /// Most that there may be for one more of the application's: the other places are kept for the library's own.
    common: usize,
}

impl Links for Requests {
    fn link(&self, slot: u32) -> Option<&Link> {
        self.table.link(slot)
    }

    fn link_mut(&mut self, slot: u32) -> Option<&mut Link> {
        self.table.link_mut(slot)
    }
}

impl Entry {
    /// What it is doing.
    pub(crate) fn active(&mut self) -> Option<&mut PointToPoint> {
        if self.phase == Phase::Active { self.operation.as_mut() } else { None }
    }

    /// What it was to do is dropped.
    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        self.operation = None;
    }

    /// Nobody waits for it any more: it is free once it is complete, whether it could be started again or not.
    pub(crate) fn detach(&mut self) {
        self.traits = Traits(self.traits.0 & !Traits::PERSISTENT.0 | Traits::DETACHED.0);
    }

    /// It is over, and its status is there. Returns whether its slot is to be free.
    #[inline(always)]
    pub(crate) fn end(&mut self, (index, activity): (u16, Activity)) -> bool {
        self.phase = Phase::Complete;
        activity.set(index, 0);
        if !self.traits.has(Traits::PERSISTENT) {
            self.operation = None;
        }
        self.traits.has(Traits::DETACHED)
    }
}

impl Activity {
    /// Of as many slots.
    pub(crate) fn new(generations: &'static [AtomicU32]) -> Self {
        Self(generations)
    }

    /// Whether a request is seen to be active. Generations of requests are odd.
    #[inline]
    pub(crate) fn has(self, request: &Request) -> bool {
        let active = self.0.get(usize::from(request.slot()));
        active.is_some_and(|active| active.load(Ordering::Relaxed) == request.generation())
    }

    /// As [`has`](Self::has), for the first context: of a request of another one it says no.
    #[inline(always)]
    pub(crate) fn has_of_first(self, request: &Request) -> bool {
        let active = self.0.get((request.0 >> u32::BITS) as usize);
        active.is_some_and(|active| active.load(Ordering::Relaxed) == request.generation())
    }

    /// What is said of a slot, for whoever looks often.
    pub(crate) fn of(self, index: u16) -> Option<&'static AtomicU32> {
        self.0.get(usize::from(index))
    }

    #[inline]
    pub(crate) fn set(self, index: u16, generation: u32) {
        if let Some(active) = self.0.get(usize::from(index)) {
            active.store(generation, Ordering::Relaxed);
        }
    }
}

/// What is said of a request for which there is no room in a table of so many slots, of the library's `own` or not.
#[cold]
fn no_requests(own: bool, slots: usize) -> Error {
    if own {
        Error::NoMem { what: "requests of the library's own", limit: OWN }
    } else {
        Error::NoMem { what: "requests", limit: slots.saturating_sub(OWN) }
    }
}

/// Bits of a generation that cookies carry.
const GENERATIONS: usize = 0xffff_ffff;

impl Requests {
    /// Takes a table of at most [`NONE`] slots, of which [`OWN`] are for the library's own.
    pub(crate) fn new(vci: u8, slots: &'static mut [Slot], activity: Activity) -> Self {
        let common = slots.len().saturating_sub(OWN);
        Self { vci, table: SlotTable::new(slots), activity, common }
    }

    /// Requests that there are.
    pub(crate) fn used(&self) -> usize {
        self.table.len()
    }

    /// Begins a request that is active until [`complete`](Self::complete).
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn open(&mut self, operation: Option<PointToPoint>) -> Result<u16> {
        self.begin(false, || operation).map(|key| key.index as u16)
    }

    /// As [`open`](Self::open), of the library's own, for nothing of point to point.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn open_own(&mut self) -> Result<u16> {
        self.begin(true, || None).map(|key| key.index as u16)
    }

    /// Begins a request that is to do what `operation` says, which is made where it stays; of the library's `own` or not.
    ///
    /// # Errors
    /// [`Error::NoMem`]; nothing was made then.
    #[inline(always)]
    pub(crate) fn open_for(
        &mut self,
        own: bool,
        operation: impl FnOnce() -> PointToPoint,
    ) -> Result<Request> {
        let Key { index, generation } = self.begin(own, || Some(operation()))?;
        Ok(Request::new(self.vci, index as u16, generation))
    }

    /// As [`open_for`](Self::open_for), of one that is complete from the start.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    #[inline]
    pub(crate) fn open_complete(&mut self, own: bool, status: impl FnOnce() -> Status) -> Result<Request> {
        let Key { index, generation } = self.insert(own, || Entry {
            phase: Phase::Complete,
            traits: Traits::of(own),
            status: Some(status()),
            operation: None,
        })?;
        Ok(Request::new(self.vci, index as u16, generation))
    }

    #[inline(always)]
    fn begin(&mut self, own: bool, operation: impl FnOnce() -> Option<PointToPoint>) -> Result<Key> {
        let key = self.insert(own, || Entry {
            phase: Phase::Active,
            traits: Traits::of(own),
            status: None,
            operation: operation(),
        })?;
        self.activity.set(key.index as u16, key.generation);
        Ok(key)
    }

    /// Puts a request into a free slot, if there is one left for those of the library's `own`, or for the others.
    #[inline(always)]
    fn insert(&mut self, own: bool, entry: impl FnOnce() -> Entry) -> Result<Key> {
        let most = if own { self.table.capacity() } else { self.common };
        let key = if self.table.len() < most { self.table.insert_with(entry) } else { None };
        let Some(key) = key else { return Err(no_requests(own, self.table.capacity())) };
        if own {
            self.common += 1;
        }
        Ok(key)
    }

    /// Makes a persistent request; without anything to be done it ends with `status` whenever it is started.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn prepare(&mut self, operation: Option<PointToPoint>, status: Status) -> Result<u16> {
        let index = self.open(operation)?;
        if let Some(slot) = self.get_mut(index) {
            slot.phase = Phase::Inactive;
            slot.traits = Traits::PERSISTENT;
            slot.status = Some(status);
            self.activity.set(index, 0);
        }
        Ok(index)
    }

    /// A persistent request is started.
    ///
    /// # Errors
    /// [`Error::Request`] if it is none, or under way.
    pub(crate) fn start(&mut self, request: Request) -> Result<()> {
        let entry = self.find(request)?;
        if entry.phase != Phase::Inactive {
            return Err(Error::Request);
        }
        entry.phase = Phase::Active;
        self.activity.set(request.slot(), request.generation());
        Ok(())
    }

    /// The name of the request in a slot.
    pub(crate) fn name(&self, index: u16) -> Request {
        let generation = self.table.key(index.into()).map_or(0, |key| key.generation);
        Request::new(self.vci, index, generation)
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Entry> {
        self.table.get(index.into())
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Entry> {
        self.table.get_mut(index.into())
    }

    /// Takes what is to be done out of the table, to be given back at once.
    pub(crate) fn take_operation(&mut self, index: u16) -> Option<PointToPoint> {
        self.get_mut(index)?.operation.take()
    }

    pub(crate) fn give_operation(&mut self, index: u16, operation: PointToPoint) {
        if let Some(slot) = self.get_mut(index) {
            slot.operation = Some(operation);
        }
    }

    /// What callbacks know a request by: a later one in its slot has another.
    pub(crate) fn cookie(&self, index: u16) -> usize {
        usize::from(index) | (self.name(index).generation() as usize & GENERATIONS) << u16::BITS
    }

    /// The slot of a request that is still active.
    pub(crate) fn of_cookie(&self, cookie: usize) -> Option<u16> {
        let index = cookie as u16;
        let active = self.get(index)?.phase == Phase::Active;
        (active && self.cookie(index) == cookie).then_some(index)
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> u16 {
        self.table.capacity() as u16
    }

    /// The slot that a request names.
    ///
    /// # Errors
    /// [`Error::Request`].
    #[inline]
    pub(crate) fn find(&mut self, request: Request) -> Result<&mut Entry> {
        let key = Key { index: request.slot().into(), generation: request.generation() };
        self.table.find(key).ok_or(Error::Request)
    }

    /// Ends a request.
    pub(crate) fn complete(&mut self, index: u16, status: Status) {
        let activity = self.activity;
        let Some(entry) = self.get_mut(index).filter(|entry| entry.phase == Phase::Active) else { return };
        entry.status = Some(status);
        if entry.end((index, activity)) {
            self.free(index);
        }
    }

    /// Takes the first receive out of `list` and ends it with the status that `ended` makes, if it has no [`Traits`] and `takes` is
    /// true of it. Whoever has it `awaited` has the status, and its slot is free; if nobody has, it keeps that. Returns
    /// whether there was such a one.
    #[inline(always)]
    pub(crate) fn end_first(
        &mut self,
        list: &mut List,
        awaited: &Awaited,
        takes: impl FnOnce(&Receiving) -> bool,
        ended: impl FnOnce() -> Status,
    ) -> bool {
        let ends = |key: Key, entry: &mut Entry| {
            let Some(PointToPoint::Receive(receiving)) = &entry.operation else { return None };
            if entry.traits != Traits::NONE || !takes(receiving) {
                return None;
            }
            entry.operation = None;
            if awaited.is(key) {
                awaited.hand_over(ended());
                return Some((Leaves::ListAndTable, key.index));
            }
            entry.phase = Phase::Complete;
            // Made where it stays: a status is long.
            entry.status = Some(ended());
            Some((Leaves::List, key.index))
        };
        let Some(index) = self.table.decide_first(list, ends) else { return false };
        self.activity.set(index as u16, 0);
        true
    }

    /// Ends the receive in a slot, which is in no list.
    #[inline]
    pub(crate) fn end_receive(&mut self, index: u16, status: impl FnOnce(&Receiving) -> Status) {
        let activity = self.activity;
        let Some(entry) = self.get_mut(index) else { return };
        if let Some(PointToPoint::Receive(receiving)) = &entry.operation {
            entry.status = Some(status(receiving));
        }
        if entry.end((index, activity)) {
            self.free(index);
        }
    }

    /// Hands what is told of a completed request to `tell`, once, or `None` if it is active: it is free afterwards, or inactive.
    /// A status is long, so `tell` makes of it what the caller returns.
    #[inline(always)]
    pub(crate) fn take<T>(
        &mut self,
        request: &mut Request,
        tell: impl FnOnce(Option<&Status>) -> Result<T>,
    ) -> Result<T> {
        let entry = self.find(*request)?;
        match entry.phase {
            Phase::Active => return tell(None),
            Phase::Inactive => return tell(Some(&Status::EMPTY)),
            Phase::Complete => {}
        }
        let told = match &entry.status {
            Some(status) => tell(Some(status)),
            None => tell(Some(&Status::EMPTY)),
        };
        if entry.traits.has(Traits::PERSISTENT) {
            entry.phase = Phase::Inactive;
        } else {
            // It is over, so there is none, and the rest of it is numbers.
            if entry.operation.is_some() {
                entry.forget();
            }
            if entry.traits.has(Traits::OWN) {
                self.common -= 1;
            }
            self.table.vacate(request.slot().into());
            *request = Request::NULL;
        }
        told
    }

    /// As [`take`](Self::take), and the request stays.
    pub(crate) fn peek(&mut self, request: Request) -> Result<Option<Status>> {
        let slot = self.find(request)?;
        Ok(match slot.phase {
            Phase::Complete => Some(slot.status.unwrap_or(Status::EMPTY)),
            Phase::Inactive => Some(Status::EMPTY),
            _ => None,
        })
    }

    /// Whether it is complete or inactive.
    pub(crate) fn is_over(&mut self, request: Request) -> Result<bool> {
        self.find(request).map(|slot| slot.phase != Phase::Active)
    }

    /// Whether it is not inactive.
    pub(crate) fn is_started(&mut self, request: Request) -> Result<bool> {
        self.find(request).map(|slot| slot.phase != Phase::Inactive)
    }

    /// Frees a slot, whatever it is.
    pub(crate) fn free(&mut self, index: u16) {
        if self.table.get(index.into()).is_some_and(|entry| entry.traits.has(Traits::OWN)) {
            self.common -= 1;
        }
        self.activity.set(index, 0);
        self.table.discard(index.into());
    }
}
