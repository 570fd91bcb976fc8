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
pub(crate) use awaited::Awaited;
use core::sync::atomic::{AtomicU32, Ordering};
pub(crate) use operation::{Arrived, Awaits, Mode, PointToPoint, Progress, Receiving, Sending};
use rings::list::{Link, Links, List};
use rings::slot_table::{self, Leaves, SlotTable};
use rings::table::Key;

/// Name of a request. Plain data; [`NULL`](Self::NULL) names none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Request {
    vci: u8,
    slot: u16,
    generation: u32,
}

impl Request {
    /// The null request: waiting for it returns at once, with an empty status.
    pub const NULL: Self = Self { vci: u8::MAX, slot: NONE, generation: 0 };
    /// A send that was complete when it began: it needs no place in a table.
    pub(crate) const SENT: Self = Self { vci: u8::MAX, slot: 0, generation: 0 };

    /// Whether it is the null request.
    pub fn is_null(&self) -> bool {
        *self == Self::NULL
    }

    /// Whether it is in no table, and waiting for it returns at once: the null request, or one that was [`SENT`](Self::SENT).
    pub(crate) fn is_nowhere(&self) -> bool {
        self.vci == u8::MAX
    }

    /// The context whose table has it.
    pub(crate) fn vci(&self) -> usize {
        self.vci.into()
    }

    /// All of it as a number.
    pub(crate) fn bits(&self) -> u64 {
        u64::from(self.vci) << 48 | u64::from(self.slot) << 32 | u64::from(self.generation)
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self { vci: (bits >> 48) as u8, slot: (bits >> 32) as u16, generation: bits as u32 }
    }

    pub(crate) fn slot(&self) -> u16 {
        self.slot
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

/// A request.
pub(crate) struct Entry {
    pub(crate) phase: Phase,
    /// Stays after its end, to be started again.
    pub(crate) persistent: bool,
    /// Nobody waits for it: it is free once it is complete.
    pub(crate) detached: bool,
    own: bool,
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
    /// Places left: for the application's, and for the library's own.
    left: [usize; 2],
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

    /// It is over, and its status is there. Returns whether its slot is to be free.
    #[inline(always)]
    pub(crate) fn end(&mut self, (index, activity): (u16, Activity)) -> bool {
        self.phase = Phase::Complete;
        activity.set(index, 0);
        if !self.persistent {
            self.operation = None;
        }
        self.detached
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
        let active = self.0.get(usize::from(request.slot));
        active.is_some_and(|active| active.load(Ordering::Relaxed) == request.generation)
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
        let left = [slots.len().saturating_sub(OWN), OWN];
        Self { vci, table: SlotTable::new(slots), activity, left }
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
        Ok(Request { vci: self.vci, slot: index as u16, generation })
    }

    /// As [`open_for`](Self::open_for), of one that is complete from the start.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    #[inline]
    pub(crate) fn open_complete(&mut self, own: bool, status: impl FnOnce() -> Status) -> Result<Request> {
        let Key { index, generation } = self.insert(own, || Entry {
            phase: Phase::Complete,
            persistent: false,
            detached: false,
            own,
            status: Some(status()),
            operation: None,
        })?;
        Ok(Request { vci: self.vci, slot: index as u16, generation })
    }

    #[inline(always)]
    fn begin(&mut self, own: bool, operation: impl FnOnce() -> Option<PointToPoint>) -> Result<Key> {
        let key = self.insert(own, || Entry {
            phase: Phase::Active,
            persistent: false,
            detached: false,
            own,
            status: None,
            operation: operation(),
        })?;
        self.activity.set(key.index as u16, key.generation);
        Ok(key)
    }

    /// Puts a request into a free slot, if there is one left for those of the library's `own`, or for the others.
    #[inline(always)]
    fn insert(&mut self, own: bool, entry: impl FnOnce() -> Entry) -> Result<Key> {
        let left = &mut self.left[usize::from(own)];
        let key = if *left > 0 { self.table.insert_with(entry) } else { None };
        let Some(key) = key else { return Err(no_requests(own, self.table.capacity())) };
        *left -= 1;
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
            slot.persistent = true;
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
        self.activity.set(request.slot, request.generation);
        Ok(())
    }

    /// The name of the request in a slot.
    pub(crate) fn name(&self, index: u16) -> Request {
        let generation = self.table.key(index.into()).map_or(0, |key| key.generation);
        Request { vci: self.vci, slot: index, generation }
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
        usize::from(index) | (self.name(index).generation as usize & GENERATIONS) << u16::BITS
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
        let key = Key { index: request.slot.into(), generation: request.generation };
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

    /// Takes the first receive out of `list` and ends it with the status that `ended` makes, if it is to be waited for once and
    /// `takes` is true of it. Whoever has it `awaited` has the status, and its slot is free; if nobody has, it keeps that. Returns
    /// whether there was such a one.
    #[inline(always)]
    pub(crate) fn end_first(
        &mut self,
        list: &mut List,
        awaited: &Awaited,
        takes: impl FnOnce(&Receiving) -> bool,
        ended: impl FnOnce() -> Status,
    ) -> bool {
        let left = &mut self.left;
        let ends = |key: Key, entry: &mut Entry| {
            let Some(PointToPoint::Receive(receiving)) = &entry.operation else { return None };
            if entry.persistent || entry.detached || !takes(receiving) {
                return None;
            }
            entry.operation = None;
            if awaited.is(key) {
                awaited.hand_over(ended());
                left[usize::from(entry.own)] += 1;
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
        if entry.persistent {
            entry.phase = Phase::Inactive;
        } else {
            let own = entry.own;
            // It is over, so there is none, and the rest of it is numbers.
            if entry.operation.is_some() {
                entry.forget();
            }
            self.table.vacate(request.slot.into());
            self.left[usize::from(own)] += 1;
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
        if let Some(entry) = self.table.get(index.into()) {
            self.left[usize::from(entry.own)] += 1;
        }
        self.activity.set(index, 0);
        self.table.discard(index.into());
    }
}
