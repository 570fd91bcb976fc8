//! Operations under way: the table, the line of those that still have packets to queue, and their ends.
//!
//! An operation has a place from its start to its last callback. Its number in the order of the context's operations is
//! the message number of its packets, with the place in the lower bits, so an answer finds its operation at once.
//! Operations stand in line while packets are to be queued, and never overtake an earlier one on the same path.
//!
//! Nothing here knows of fences: a fence looks at the places when it needs to (SPEC F-4).

mod object;

pub use object::ObjectMemory;
pub(crate) use object::{Loan, Waiting};

use crate::balance::ProcessState;
use crate::device::{OPERATIONS, Path, REQUESTS};
use crate::dispatch::{Done, OnFetched};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::fence::FenceState;
use crate::get::GetState;
use crate::put::PutState;
use crate::rmw::RmwState;
use crate::send::SendState;
use heapless::Vec;
use rings::buffer::{Buffer, Lease};

/// Paths that had no room in this pass; one for each operation or receive request at most.
pub(crate) type Blocked = Vec<Path, OPERATIONS>;

const _: () = assert!(OPERATIONS <= u64::BITS as usize, "one bit for each operation");

// A fence lies where a send would: it makes no operation larger (SPEC F-4).
const _: () = assert!(size_of::<FenceState>() <= size_of::<SendState>());

/// What an operation does.
pub(crate) enum Action {
    Send(SendState),
    Put(PutState),
    Get(GetState),
    Rmw(RmwState),
    Fence(FenceState),
    Process(ProcessState),
    /// Nothing any more: only its callbacks are left.
    Over,
}

/// An operation's state.
pub(crate) struct Operation<A: 'static> {
    /// Where its packets go; `None` for those with many targets.
    pub(crate) path: Option<Path>,
    pub(crate) target: Endpoint,
    /// Counts the context's operations.
    pub(crate) order: u64,
    /// Every packet is.
    pub(crate) queued: bool,
    /// Whose answer has not come.
    pub(crate) awaits: Awaits,
    pub(crate) result: Result<(), OperationError>,
    pub(crate) lease: Option<Lease>,
    pub(crate) local_done: Option<Done<A>>,
    pub(crate) remote_done: RemoteDone<A>,
    pub(crate) action: Action,
}

/// Whose answer an operation waits for. No other ends it (SPEC D-9).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awaits {
    Nobody,
    /// The target's context tells that it has the message, has pulled or has processed it; a fence, that of all targets.
    Context,
    /// The target's message unit answers requests (SPEC D-5).
    Unit,
}

impl Awaits {
    /// [`Unit`](Self::Unit), if one is wanted.
    #[inline]
    pub(crate) fn unit(wanted: bool) -> Self {
        if wanted { Self::Unit } else { Self::Nobody }
    }

    /// [`Context`](Self::Context), if one is wanted.
    #[inline]
    pub(crate) fn context(wanted: bool) -> Self {
        if wanted { Self::Context } else { Self::Nobody }
    }

    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self != Self::Nobody
    }
}

/// An operation whose only packet is queued.
pub(crate) struct Sent<A: 'static> {
    pub(crate) path: Path,
    pub(crate) target: Endpoint,
    pub(crate) order: u64,
    pub(crate) awaits: Awaits,
    pub(crate) lease: Option<Lease>,
    pub(crate) local_done: Option<Done<A>>,
    pub(crate) remote_done: RemoteDone<A>,
}

/// How much of what an operation has to send found room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    All,
    Part,
    Nothing,
}

impl Queued {
    /// For an operation of one packet.
    pub(crate) fn whole(queued: bool) -> Self {
        if queued { Self::All } else { Self::Nothing }
    }

    /// For one that stopped, after some packets or none.
    pub(crate) fn stopped(some: bool) -> Self {
        if some { Self::Part } else { Self::Nothing }
    }
}

/// One place for an operation; its size is what a context's memory is reckoned by.
pub(crate) struct Slot<A: 'static> {
    /// Over, if there is none or it is lent.
    own: Operation<A>,
    /// The caller's memory, if the operation lies there (SPEC M-3).
    lent: Option<Loan<A>>,
    /// One that was carried out at once, and is no matter of this place otherwise.
    ended: Ended<A>,
}

impl<A: 'static> Slot<A> {
    pub(crate) fn new() -> Self {
        // Whose it is nobody asks while it is in no use.
        let target = Endpoint::from_bits(0);
        let ended =
            Ended { target, result: Ok(()), buffer: None, local_done: None, remote_done: RemoteDone::Nobody };
        Self { own: Operation::over(target), lent: None, ended }
    }

    /// The operation at a place that is in use.
    #[inline]
    pub(crate) fn see(&self) -> &Operation<A> {
        self.lent.as_ref().and_then(|loan| loan.as_ref()).unwrap_or(&self.own)
    }

    /// The same.
    #[inline]
    pub(crate) fn get(&mut self) -> &mut Operation<A> {
        if self.lent.is_some() { self.get_lent() } else { &mut self.own }
    }

    /// Off the way of those that lie in places of their own.
    #[cold]
    #[inline(never)]
    pub(crate) fn get_lent(&mut self) -> &mut Operation<A> {
        self.lent.as_mut().and_then(|loan| loan.as_mut()).unwrap_or(&mut self.own)
    }
}

/// Who is told of an operation's end at the target.
pub(crate) enum RemoteDone<A: 'static> {
    Nobody,
    Done(Done<A>),
    /// And what the word was.
    Fetched(OnFetched<A>, u64),
}

impl<A: 'static> From<Option<Done<A>>> for RemoteDone<A> {
    #[inline]
    fn from(done: Option<Done<A>>) -> Self {
        done.map_or(Self::Nobody, Self::Done)
    }
}

impl<A: 'static> RemoteDone<A> {
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Notes what the word was.
    pub(crate) fn fetched(&mut self, old: u64) {
        if let Self::Fetched(_, value) = self {
            *value = old;
        }
    }
}

impl<A: 'static> Clone for RemoteDone<A> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<A: 'static> Copy for RemoteDone<A> {}

/// An operation that was carried out at once: what is left to tell. It is written field by field, where it lies: to build it
/// elsewhere and move it costs as much as to carry it out.
pub(crate) struct Ended<A: 'static> {
    pub(crate) target: Endpoint,
    pub(crate) result: Result<(), OperationError>,
    pub(crate) buffer: Option<Buffer>,
    pub(crate) local_done: Option<Done<A>>,
    pub(crate) remote_done: RemoteDone<A>,
}

/// The operations of one context.
pub(crate) struct Operations<A: 'static> {
    places: &'static mut [Slot<A>],
    /// Bit set of places in use.
    used: u64,
    /// Those with packets to queue, oldest first.
    pub(crate) pending: Vec<u8, OPERATIONS>,
    /// Bit set of those whose payload is on its way back, or whose end only has to be told.
    pub(crate) settling: u64,
    /// Bit set of fences that wait for answers or for older operations.
    pub(crate) fences: u64,
    /// Bit set of sends that ask to be let in ([`crate::admission`]) and are not known to be.
    pub(crate) asking: u64,
    /// Those in their callers' memory that found no place. While there are any, no place is free.
    pub(crate) waiting: Waiting<A>,
    /// How many were carried out at once and not told of, and where the oldest of them is: as many as there are places.
    pub(crate) ended: [usize; 2],
}

/// The message number of the operation or receive request at place `index`.
#[inline]
pub(crate) fn message_number(order: u64, index: usize) -> u32 {
    (order as u32).wrapping_mul(REQUESTS as u32).wrapping_add(index as u32)
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = u8> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let number = set.trailing_zeros() as u8;
            set &= set - 1;
            number
        })
    })
}

impl<A: 'static> Operations<A> {
    /// Takes at most [`OPERATIONS`] places.
    pub(crate) fn new(places: &'static mut [Slot<A>]) -> Self {
        Self {
            places,
            used: 0,
            pending: Vec::new(),
            settling: 0,
            fences: 0,
            asking: 0,
            waiting: Waiting::new(),
            ended: [0; 2],
        }
    }

    pub(crate) fn into_places(self) -> &'static mut [Slot<A>] {
        self.places
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used | self.ended[0] as u64 == 0
    }

    /// Whether one more that is carried out at once can be told of.
    #[inline]
    pub(crate) fn may_end_at_once(&self) -> bool {
        self.ended[0] < self.places.len()
    }

    /// Where the next one of those is noted, which there is room for.
    #[inline(always)]
    pub(crate) fn end_next(&mut self) -> Option<&mut Ended<A>> {
        let [number, oldest] = self.ended;
        self.ended[0] = number + 1;
        let at = oldest + number;
        let at = if at < self.places.len() { at } else { at - self.places.len() };
        self.places.get_mut(at).map(|place| &mut place.ended)
    }

    /// The oldest of those, if there is one; the next is the oldest then.
    pub(crate) fn next_ended(&mut self) -> Option<&mut Ended<A>> {
        let [number, oldest] = self.ended;
        let left = number.checked_sub(1)?;
        self.ended = [left, if oldest + 1 < self.places.len() { oldest + 1 } else { 0 }];
        self.places.get_mut(oldest).map(|place| &mut place.ended)
    }

    /// Whether what goes to `target` now has nothing in front of it that waits.
    #[inline]
    pub(crate) fn lets_pass(&self) -> bool {
        self.pending.is_empty() && self.waiting.is_empty() && self.asking == 0
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// A place that is in no use.
    #[inline]
    pub(crate) fn free_place(&self) -> Option<u8> {
        let number = (!self.used).trailing_zeros() as usize;
        (number < self.places.len()).then_some(number as u8)
    }

    #[inline]
    pub(crate) fn is_used(&self, number: u8) -> bool {
        self.used.checked_shr(number.into()).unwrap_or(0) & 1 == 1
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u8) -> Option<&mut Operation<A>> {
        if !self.is_used(number) {
            return None;
        }
        self.places.get_mut(usize::from(number)).map(Slot::get)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation<A>> {
        bits(self.used).filter_map(|number| self.see(number))
    }

    /// Whether a send to `target` asks to be let in and is not known to be.
    #[inline]
    pub(crate) fn asks(&self, target: Endpoint) -> bool {
        self.asking != 0 && self.any_asks(target)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn any_asks(&self, target: Endpoint) -> bool {
        bits(self.asking).any(|number| self.see(number).is_some_and(|asking| asking.target == target))
    }

    #[inline]
    pub(crate) fn see(&self, number: u8) -> Option<&Operation<A>> {
        if !self.is_used(number) {
            return None;
        }
        self.places.get(usize::from(number)).map(Slot::see)
    }

    /// Builds an operation in a free place, where it is compiled: to move it there costs as much as to carry a short put out.
    #[inline(always)]
    pub(crate) fn put(&mut self, number: u8, operation: Operation<A>) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.own = operation;
        }
        self.used |= 1 << number;
    }

    /// Notes one whose only packet is queued in a free place, with nothing to do but to wait and to tell. It is written field
    /// by field, where it lies: most of an operation never is.
    #[inline(always)]
    pub(crate) fn note_sent(&mut self, number: u8, sent: Sent<A>) {
        self.used |= 1 << number;
        let Sent { path, target, order, awaits, lease, local_done, remote_done } = sent;
        if !awaits.is_some() || local_done.is_some() || lease.is_some() {
            self.settling |= 1 << number;
        }
        let operation = self.places.get_mut(usize::from(number)).map(|place| &mut place.own);
        let Some(operation) = operation else { return };
        operation.path = Some(path);
        operation.target = target;
        operation.order = order;
        operation.queued = true;
        operation.awaits = awaits;
        operation.result = Ok(());
        operation.lease = lease;
        operation.local_done = local_done;
        operation.remote_done = remote_done;
    }

    pub(crate) fn free(&mut self, number: u8) {
        let bit = 1 << number;
        self.used &= !bit;
        self.settling &= !bit;
        self.fences &= !bit;
        self.asking &= !bit;
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            if let Some(mut loan) = place.lent.take() {
                *loan = None;
            } else {
                (place.own.action, place.own.lease) = (Action::Over, None);
            }
        }
    }

    /// Gives an operation in its caller's memory a place that is free.
    pub(crate) fn lend(&mut self, number: u8, loan: Loan<A>) {
        self.used |= 1 << number;
        if let Some(Operation { action: Action::Fence(_), .. }) = &*loan {
            self.fences |= 1 << number;
        }
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.lent = Some(loan);
        }
    }
}

/// What the local completion is told: what the target's unit refused was sent all the same.
pub(crate) fn sent(result: Result<(), OperationError>) -> Result<(), OperationError> {
    match result {
        Err(OperationError::Region(_)) => Ok(()),
        other => other,
    }
}

impl<A: 'static> Operation<A> {
    /// One that nothing is left of.
    pub(crate) fn over(target: Endpoint) -> Self {
        Self {
            path: None,
            target,
            order: 0,
            queued: true,
            awaits: Awaits::Nobody,
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: RemoteDone::Nobody,
            action: Action::Over,
        }
    }

    /// Who is to be told now, and nobody again.
    pub(crate) fn take_remote_done(&mut self) -> RemoteDone<A> {
        core::mem::replace(&mut self.remote_done, RemoteDone::Nobody)
    }
}
