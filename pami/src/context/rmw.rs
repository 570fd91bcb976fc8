//! Updates of single words by a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, OnFetched, Operation, RemoteDone, Rmw, Sent};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::operation::{Action, Awaits, message_number};
use crate::region::RegionFault;
use crate::rmw::RmwState;
use crate::transport::Queued;
use rings::shared::Width;

impl<P: Port> Active<P> {
    /// Updates a word of a region of another task. The callback is not called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or what is wrong with the update.
    #[inline(always)]
    pub fn rmw(&mut self, rmw: Rmw<P>) -> Result<(), SendError> {
        self.rmw_here(&rmw)
    }

    // A call of its own, by reference: a factory's adds one comparison to it, and neither a copy.
    #[inline(never)]
    fn rmw_here(&mut self, rmw: &Rmw<P>) -> Result<(), SendError> {
        self.rmw_on(rmw, Here(None))
    }

    #[inline(always)]
    pub(crate) fn rmw_on<T: Terms<P>>(&mut self, rmw: &Rmw<P>, terms: T) -> Result<(), SendError> {
        let &Rmw { target, region, offset, op, done } = rmw;
        let path = terms.path(self, target)?;
        let size = if op.width == Width::Eight { 8 } else { 4 };
        region.check(target.task(), offset, size).map_err(SendError::Region)?;
        if !offset.is_multiple_of(size) {
            return Err(SendError::Region(RegionFault::Unaligned));
        }
        match path {
            Path::Local(_) if T::AT_ONCE => {
                if !self.operations.may_end_at_once() {
                    return Err(SendError::Again);
                }
                let fetched = self.port.rmw_local(target, region.id, offset, op);
                let value = fetched.unwrap_or_default();
                let tells = told(done, value);
                self.end_at_once(target, fetched.map(drop), None, None, tells);
                Ok(())
            }
            Path::Torus(_) if T::AT_ONCE && self.rmw_in_one(rmw, path) => Ok(()),
            _ => self.rmw_in_place(rmw, path, terms),
        }
    }

    /// Queues the request of an update that finds its way open. Returns whether it did.
    #[inline(always)]
    fn rmw_in_one(&mut self, rmw: &Rmw<P>, path: Path) -> bool {
        if !self.operations.lets_pass() {
            return false;
        }
        let Some(number) = self.operations.free_place() else { return false };
        let &Rmw { target, region, offset, op, done } = rmw;
        let order = self.transport.next_order();
        let state = RmwState { region: region.id, offset, op };
        if !state.push(&mut self.port, &self.transport, (path, target), message_number(order, number.into()))
        {
            return false;
        }
        let remote_done = told(done, 0);
        self.operations.note_sent(
            number,
            Sent { path, target, order, awaits: Awaits::Unit, lease: None, local_done: None, remote_done },
        );
        self.note_work();
        true
    }

    /// Gives the update a place, for its request or until there is one.
    #[inline(never)]
    fn rmw_in_place<T: Terms<P>>(&mut self, rmw: &Rmw<P>, path: Path, terms: T) -> Result<(), SendError> {
        let &Rmw { target, region, offset, op, done } = rmw;
        let room = terms.room(&self.operations)?;
        let state = RmwState { region: region.id, offset, op };
        let now = !T::AT_ONCE && matches!(path, Path::Local(_)) && T::is_now(&room);
        let result = if now { state.carry_out(&mut self.port, target) } else { Ok(0) };
        let operation = Operation {
            path: Some(path),
            target,
            order: self.transport.next_order(),
            queued: now,
            awaits: Awaits::unit(!now),
            result: result.map(drop).map_err(OperationError::Region),
            lease: None,
            local_done: None,
            remote_done: told(done, result.unwrap_or_default()),
            action: Action::Rmw(state),
        };
        if now {
            T::begin_settled(self, room, operation);
        } else {
            T::begin(self, room, operation);
        }
        Ok(())
    }

    /// Queues the request of an update.
    pub(crate) fn queue_rmw(&mut self, number: u8) -> Queued {
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (Some(path), Action::Rmw(state)) = (operation.path, &operation.action) else {
            return Queued::All;
        };
        Queued::whole(state.push(&mut self.port, &self.transport, (path, operation.target), message))
    }
}

/// Who is told, and what.
fn told<P: Port>(done: Option<OnFetched<P>>, value: u64) -> RemoteDone<P> {
    done.map_or(RemoteDone::Nobody, |done| RemoteDone::Fetched(done, value))
}
