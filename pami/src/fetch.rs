//! Updates of single words of a region, which say what the word was (SPEC P-7).
//!
//! An update is atomic against all others of that word, whatever node, task or thread they come from: all are carried out
//! by the node that owns the word.

use crate::context::{Active, OnFetched};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::error::{OperationError, SendError};
use crate::factory::terms::{Here, Terms};
use crate::operation::{Action, Operation, Queued, message_number};
use crate::packet::{Envelope, Kind};
use crate::region::{RegionFault, RegionHandle, RegionId, Rmw};
use rings::shared::Width;
use zerocopy::IntoBytes;

/// An update of a word of a region.
pub struct Fetch<P: Port> {
    /// An endpoint of the task that the region belongs to.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::UPDATE`](crate::region::Rights::UPDATE).
    pub region: RegionHandle,
    /// The word's place, a multiple of its size.
    pub offset: u32,
    /// What becomes of it.
    pub rmw: Rmw,
    /// Called with what it was, or with why it could not be changed.
    pub done: Option<OnFetched<P>>,
}

/// An update under way.
pub(crate) struct FetchState<P: Port> {
    region: RegionId,
    offset: u32,
    rmw: Rmw,
    /// What the word was, once it is known.
    pub(crate) value: u64,
    pub(crate) done: Option<OnFetched<P>>,
}

impl<P: Port> FetchState<P> {
    /// Updates a word of this node.
    pub(crate) fn carry_out(&mut self, port: &mut P, target: Endpoint) -> Result<(), RegionFault> {
        self.value = port.rmw_local(target, self.region, self.offset, self.rmw)?;
        Ok(())
    }
}

impl<P: Port> Active<P> {
    /// Updates a word of a region of another task. The callback is not called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or what is wrong with the update.
    #[inline(always)]
    pub fn fetch(&mut self, fetch: Fetch<P>) -> Result<(), SendError> {
        self.fetch_here(&fetch)
    }

    // A call of its own, by reference: a factory's adds one comparison to it, and neither a copy.
    #[inline(never)]
    fn fetch_here(&mut self, fetch: &Fetch<P>) -> Result<(), SendError> {
        self.fetch_on(fetch, Here(None))
    }

    #[inline(always)]
    pub(crate) fn fetch_on<T: Terms<P>>(&mut self, fetch: &Fetch<P>, terms: T) -> Result<(), SendError> {
        let &Fetch { target, region, offset, rmw, done } = fetch;
        let path = terms.path(self, target)?;
        let size = if rmw.width == Width::Eight { 8 } else { 4 };
        region.check(target.task(), offset, size).map_err(SendError::Region)?;
        if !offset.is_multiple_of(size) {
            return Err(SendError::Region(RegionFault::Unaligned));
        }
        let room = terms.room(&self.operations)?;
        let mut state = FetchState { region: region.id, offset, rmw, value: 0, done };
        let mut result = Ok(());
        let local = matches!(path, Path::Local(_)) && T::is_now(&room);
        if local {
            match self.transport.port.rmw_local(target, region.id, offset, rmw) {
                Ok(old) => state.value = old,
                Err(fault) => result = Err(OperationError::Region(fault)),
            }
        }
        let operation = Operation {
            path: Some(path),
            target,
            order: self.transport.next_order(),
            queued: local,
            awaits: !local,
            result,
            lease: None,
            local_done: None,
            remote_done: None,
            action: Action::Fetch(state),
        };
        if local {
            T::begin_settled(self, room, operation);
        } else {
            T::begin(self, room, operation);
        }
        Ok(())
    }

    /// Queues the request of an update.
    pub(crate) fn queue_fetch(&mut self, number: u8) -> Queued {
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (origin, target) = (self.transport.me, operation.target);
        let (Some(path), Action::Fetch(state)) = (operation.path, &operation.action) else {
            return Queued::All;
        };
        let (operator, operands) = state.rmw.encode();
        let data = operands.as_bytes();
        let (offset, total) = (state.offset, data.len() as u32);
        let envelope =
            Envelope { kind: Kind::Rmw, dispatch: operator, origin, target, message, offset, total };
        Queued::whole(self.transport.port.push_copy(path, &envelope, state.region.as_bytes(), data).is_ok())
    }
}
