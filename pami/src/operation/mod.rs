//! Operations under way: the table, the line of those that still have packets to queue, and their ends.
//!
//! An operation has a place from its start to its last callback. Its number in the order of the context's operations is
//! the message number of its packets, with the place in the lower bits, so an answer finds its operation at once.
//! Operations stand in line while packets are to be queued, and never overtake an earlier one on the same path.
//!
//! An operation lies in its place, or in memory of its caller's that the place borrows ([`ObjectMemory`], SPEC M-3); whoever
//! looks at one does not see which. These are two forms because the first is written where it lies, without a lock and only the
//! fields that its kind has: a short send or put takes fewer instructions than borrowing memory and clearing it would.
//!
//! Nothing here knows of fences: a fence looks at the places when it needs to (SPEC F-4).

mod object;
mod questions;
mod table;

pub use object::ObjectMemory;
pub(crate) use questions::Questions;
pub(crate) use table::{OperationSlot, Operations, Watched};

pub(crate) use crate::transport::message_number;

use crate::balance::ProcessState;
use crate::device::{OPERATIONS, Path};
use crate::dispatch::{Done, OnFetched};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::fence::FenceState;
use crate::get::GetState;
use crate::put::{PutState, Signal};
use crate::region::RegionFault;
use crate::rmw::RmwState;
use crate::send::SendState;
use heapless::Vec;
use rings::buffer::{Buffer, Lease};

/// Paths that had no room in this advance; one for each operation or receive request at most.
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
    /// A fence of one-sided operations alone.
    Synchronization,
    Process(ProcessState),
    /// Nothing any more: only its callbacks are left.
    Over,
    PutSignal(PutState, Signal),
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
    /// The target's context tells that it has handled the signal of a put, or that the put was refused.
    Signal,
    /// The target's message unit answers requests (SPEC D-5).
    Unit,
    /// It has become a part of another operation of this context, and ends with that.
    Other,
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

    /// [`Signal`](Self::Signal), if one is wanted.
    #[inline]
    pub(crate) fn signal(wanted: bool) -> Self {
        if wanted { Self::Signal } else { Self::Nobody }
    }

    /// Whether it is a context's.
    #[inline]
    pub(crate) fn is_of_context(self) -> bool {
        matches!(self, Self::Context | Self::Signal)
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

    /// Who is to be told now, and nobody again.
    pub(crate) fn take(&mut self) -> Self {
        core::mem::replace(self, Self::Nobody)
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

/// An operation that was carried out at once: what is left to tell. It is built where it lies: to move it there costs as much as to
/// carry it out.
pub(crate) enum Ended<A: 'static> {
    /// A put was done, and only its end at the target is told.
    Put(Endpoint, Done<A>),
    /// An update was done; what the word was.
    Rmw(Endpoint, OnFetched<A>, u64),
    Otherwise {
        target: Endpoint,
        outcome: Result<(), RegionFault>,
        buffer: Option<Buffer>,
        local_done: Option<Done<A>>,
        remote_done: RemoteDone<A>,
    },
}

impl<A: 'static> Ended<A> {
    /// Nobody is told of anything.
    pub(crate) fn nothing(target: Endpoint) -> Self {
        let (outcome, remote_done) = (Ok(()), RemoteDone::Nobody);
        Self::Otherwise { target, outcome, buffer: None, local_done: None, remote_done }
    }
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
}
