//! Updates of single words by a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, OnFetched, Operation, RemoteDone, Rmw};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::operation::{Action, Awaits, Ended, message_number};
use crate::packet::{Envelope, Kind};
use crate::region::RegionFault;
use crate::rmw::RmwState;
use crate::transport::Queued;

impl<P: Port> Active<P> {
    /// Updates a word of a region of another task. The callback is not called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or what is wrong with the update.
    // An addition to a whole word where the last one of the node was, that somebody is told of, is carried out here. All others, and
    // what is wrong with this one, are a call away, by reference: neither their code nor a copy is for each caller to have.
    #[inline(always)]
    pub fn rmw(&mut self, rmw: Rmw<P>) -> Result<(), SendError> {
        let Self { updatable, port, operations, .. } = self;
        let target = rmw.target;
        if let Some(words) = updatable.to(target, &rmw.region)
            && let Some((operand, &OnFetched { call, cookie })) = rmw.short()
            && let Some(end) = operations.next_end()
            && let Some(old) = port.add_to_word(words, rmw.offset, operand)
        {
            end.note(Ended::Rmw(target, OnFetched { call, cookie }, old));
            self.note_work();
            return Ok(());
        }
        self.rmw_otherwise(&rmw)
    }

    /// Queues an update to where the last one went over the network that somebody is told of, if nothing waits. All others, and what
    /// is wrong with this one, are [`rmw_here`](Self::rmw_here)'s.
    #[inline(never)]
    fn rmw_otherwise(&mut self, rmw: &Rmw<P>) -> Result<(), SendError> {
        if let Some(node) = self.transport.far_node(&self.port, rmw.target)
            && self.rmw_word(rmw, node)
        {
            return Ok(());
        }
        self.rmw_here(rmw)
    }

    #[inline(always)]
    fn rmw_word(&mut self, rmw: &Rmw<P>, node: u32) -> bool {
        let Rmw { target, region, offset, op, done: Some(done) } = rmw else { return false };
        let (&target, &offset, size) = (target, offset, op.size());
        if !region.reaches(target.task(), offset, size as usize)
            || !offset.is_multiple_of(size)
            || !self.operations.lets_pass()
        {
            return false;
        }
        let Some(number) = self.operations.free_place() else { return false };
        let (order, origin) = (self.transport.next_order(), self.transport.me());
        let (dispatch, operands) = op.words();
        let envelope = Envelope {
            kind: Kind::Rmw,
            dispatch,
            origin,
            target,
            message: message_number(order, number.into()),
            offset,
            total: size_of_val(&operands) as u32,
        };
        let operands = operands.map(u64::to_le);
        self.await_unit(number, (node, target), order, RemoteDone::Fetched(*done, 0));
        // Behind all else, so that what few pushes call is the end of this.
        self.port.push_words(node, &envelope, region.id, operands).is_ok() || self.take_back(number)
    }

    // A call of its own: what it needs of the stack and of registers is not for the short way to pay.
    #[inline(never)]
    fn rmw_here(&mut self, rmw: &Rmw<P>) -> Result<(), SendError> {
        if rmw.short().is_some()
            && self.updatable.open(&mut self.port, &self.transport, rmw.target, &rmw.region)
        {
            return self.rmw(Rmw { ..*rmw });
        }
        self.rmw_on(rmw, Here(None))
    }

    #[inline(always)]
    pub(crate) fn rmw_on<T: Terms<P>>(&mut self, rmw: &Rmw<P>, terms: T) -> Result<(), SendError> {
        let &Rmw { target, region, offset, op, done } = rmw;
        let path = terms.path(self, target)?;
        let size = op.size();
        region.check(target.task(), offset, size).map_err(SendError::Region)?;
        if !offset.is_multiple_of(size) {
            return Err(SendError::Region(RegionFault::Unaligned));
        }
        match path {
            Path::Local(_) if T::AT_ONCE => {
                let Self { operations, port, .. } = self;
                let end = operations.make_end().ok_or(SendError::Again)?;
                let fetched = port.rmw_local(target, region.id, offset, op);
                let (outcome, remote_done) = (fetched.map(drop), told(done, fetched.unwrap_or_default()));
                end.note(Ended::Otherwise { target, outcome, buffer: None, local_done: None, remote_done });
                self.note_work();
                Ok(())
            }
            _ => self.rmw_in_place(rmw, path, terms),
        }
    }

    /// Gives the update a place, for its request or until there is one.
    #[inline(never)]
    fn rmw_in_place<T: Terms<P>>(&mut self, rmw: &Rmw<P>, path: Path, terms: T) -> Result<(), SendError> {
        let &Rmw { target, region, offset, op, done } = rmw;
        let room = terms.room(&self.operations)?;
        let state = RmwState { region: region.id, offset, op };
        let now = !T::AT_ONCE && matches!(path, Path::Local(_));
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
