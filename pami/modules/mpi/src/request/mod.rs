//! Requests: what is under way, by a small name (the standard's chapter on non-blocking communication).
//!
//! Each context has a table of them. Point-to-point operations are carried out by `message`; collectives and
//! windows `open` a request for what they do and `complete` it from their
//! callbacks.

mod operation;

use crate::error::{Error, Result};
use crate::settings::SEEKERS;
use crate::status::Status;
pub(crate) use operation::{Arrived, Awaits, Mode, Operation, Receiving, Sending};

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

    /// Whether it is the null request.
    pub fn is_null(&self) -> bool {
        *self == Self::NULL
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
/// End of a list of slots.
pub(crate) const NONE: u16 = u16::MAX;

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Free,
    /// Persistent, and not started.
    Inactive,
    Active,
    Complete,
}

/// A place for a request.
pub(crate) struct Slot {
    generation: u32,
    /// The next one in the list that this one is in: of free ones, of those to be sent, of posted receives.
    pub(crate) next: u16,
    pub(crate) phase: Phase,
    /// Stays after its end, to be started again.
    pub(crate) persistent: bool,
    /// Nobody waits for it: it is free once it is complete.
    pub(crate) detached: bool,
    pub(crate) status: Status,
    /// What is to be done; `None` for requests of collectives and windows.
    pub(crate) operation: Option<Operation>,
}

/// The requests of one context.
pub(crate) struct Requests {
    vci: u8,
    slots: &'static mut [Slot],
    free: u16,
    /// Free ones among the last slots, which are the library's own.
    own: u16,
    /// How many the application can have.
    limit: u16,
    /// Slots that are not free.
    used: usize,
}

impl Slot {
    /// What it is doing.
    pub(crate) fn active(&mut self) -> Option<&mut Operation> {
        if self.phase == Phase::Active { self.operation.as_mut() } else { None }
    }

    pub(crate) fn new() -> Self {
        Self {
            generation: 1,
            next: NONE,
            phase: Phase::Free,
            persistent: false,
            detached: false,
            status: Status::EMPTY,
            operation: None,
        }
    }
}

/// Bits of a generation that cookies carry.
const GENERATIONS: usize = 0xffff_ffff;

impl Requests {
    /// Takes a table of at most [`NONE`] slots. The last [`OWN`] are for the library's own.
    pub(crate) fn new(vci: u8, slots: &'static mut [Slot]) -> Self {
        let limit = slots.len().saturating_sub(OWN) as u16;
        let (application, own) = slots.split_at_mut(limit.into());
        let chain = |slots: &mut [Slot], first: u16| {
            let last = slots.len().saturating_sub(1);
            for (index, slot) in slots.iter_mut().enumerate() {
                slot.next = if index == last { NONE } else { first + index as u16 + 1 };
            }
            if slots.is_empty() { NONE } else { first }
        };
        let (free, own) = (chain(application, 0), chain(own, limit));
        Self { vci, slots, free, own, limit, used: 0 }
    }

    /// Slots in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Begins a request that is active until [`complete`](Self::complete).
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn open(&mut self, operation: Option<Operation>) -> Result<u16> {
        let index = self.free;
        let limit = usize::from(self.limit);
        let slot = self.slots.get_mut(usize::from(index)).ok_or(Error::NoMem { what: "requests", limit })?;
        self.free = slot.next;
        Ok(self.begin(index, operation))
    }

    /// As [`open`](Self::open), of the library's own.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn open_own(&mut self, operation: Option<Operation>) -> Result<u16> {
        let index = self.own;
        let full = Error::NoMem { what: "requests of the library's own", limit: OWN };
        self.own = self.slots.get(usize::from(index)).ok_or(full)?.next;
        Ok(self.begin(index, operation))
    }

    fn begin(&mut self, index: u16, operation: Option<Operation>) -> u16 {
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return index };
        self.used += 1;
        slot.next = NONE;
        slot.phase = Phase::Active;
        slot.persistent = false;
        slot.detached = false;
        slot.status = Status::EMPTY;
        slot.operation = operation;
        index
    }

    /// Makes a persistent request; without anything to be done it ends with `status` whenever it is started.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn prepare(&mut self, operation: Option<Operation>, status: Status) -> Result<u16> {
        let index = self.open(operation)?;
        if let Some(slot) = self.get_mut(index) {
            slot.phase = Phase::Inactive;
            slot.persistent = true;
            slot.status = status;
        }
        Ok(index)
    }

    /// The name of the request in a slot.
    pub(crate) fn name(&self, index: u16) -> Request {
        let generation = self.get(index).map_or(0, |slot| slot.generation);
        Request { vci: self.vci, slot: index, generation }
    }

    pub(crate) fn get(&self, index: u16) -> Option<&Slot> {
        self.slots.get(usize::from(index))
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> Option<&mut Slot> {
        self.slots.get_mut(usize::from(index))
    }

    /// Takes what is to be done out of the table, to be given back at once.
    pub(crate) fn take_operation(&mut self, index: u16) -> Option<Operation> {
        self.get_mut(index)?.operation.take()
    }

    pub(crate) fn give_operation(&mut self, index: u16, operation: Operation) {
        if let Some(slot) = self.get_mut(index) {
            slot.operation = Some(operation);
        }
    }

    /// What callbacks know a request by: a later one in its slot has another.
    pub(crate) fn cookie(&self, index: u16) -> usize {
        let generation = self.get(index).map_or(0, |slot| slot.generation);
        usize::from(index) | (generation as usize & GENERATIONS) << u16::BITS
    }

    /// The slot of a request that is still active.
    pub(crate) fn of_cookie(&self, cookie: usize) -> Option<u16> {
        let index = cookie as u16;
        let active = self.get(index)?.phase == Phase::Active;
        (active && self.cookie(index) == cookie).then_some(index)
    }

    /// Number of slots.
    pub(crate) fn len(&self) -> u16 {
        self.slots.len() as u16
    }

    /// The slot that a request names.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub(crate) fn find(&mut self, request: Request) -> Result<&mut Slot> {
        let slot = self.slots.get_mut(usize::from(request.slot)).ok_or(Error::Request)?;
        let good = slot.generation == request.generation && slot.phase != Phase::Free;
        if good { Ok(slot) } else { Err(Error::Request) }
    }

    /// Ends a request.
    pub(crate) fn complete(&mut self, index: u16, status: Status) {
        let Some(slot) = self.get_mut(index) else { return };
        if slot.phase != Phase::Active {
            return;
        }
        slot.status = status;
        slot.phase = Phase::Complete;
        if slot.detached {
            self.free(index);
        } else if !slot.persistent {
            slot.operation = None;
        }
    }

    /// What is told of a completed request, once: it is free afterwards, or inactive.
    pub(crate) fn take(&mut self, request: &mut Request) -> Result<Option<Status>> {
        let slot = self.find(*request)?;
        let status = slot.status;
        match slot.phase {
            Phase::Active => return Ok(None),
            Phase::Inactive => return Ok(Some(Status::EMPTY)),
            _ if slot.persistent => slot.phase = Phase::Inactive,
            _ => {
                self.free(request.slot);
                *request = Request::NULL;
            }
        }
        Ok(Some(status))
    }

    /// As [`take`](Self::take), and the request stays.
    pub(crate) fn peek(&mut self, request: Request) -> Result<Option<Status>> {
        let slot = self.find(request)?;
        Ok(match slot.phase {
            Phase::Complete => Some(slot.status),
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
        let free = if index < self.limit { &mut self.free } else { &mut self.own };
        let Some(slot) = self.slots.get_mut(usize::from(index)) else { return };
        if slot.phase == Phase::Free {
            return;
        }
        slot.generation = slot.generation.wrapping_add(1);
        slot.phase = Phase::Free;
        slot.operation = None;
        slot.next = core::mem::replace(free, index);
        self.used -= 1;
    }
}
