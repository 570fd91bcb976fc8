//! Updates of single words by a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, OnFetched, Operation, RemoteDone, Rmw};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::operation::{Action, Awaits, Ended, message_number};
use crate::packet::{Envelope, Kind};
use crate::region::{RegionFault, RmwOp};
use crate::rmw::RmwState;
use crate::transport::Queued;
use rings::shared::{Update, Width};

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
        if self.transport.is_near(rmw.target) && self.rmw_now(rmw) {
            return Ok(());
        }
        self.rmw_far(rmw)
    }

    /// Queues an update to where the last one went that somebody is told of, if nothing waits. All others, and what is wrong
    /// with this one, are [`rmw_on`](Self::rmw_on)'s.
    #[inline(never)]
    fn rmw_far(&mut self, rmw: &Rmw<P>) -> Result<(), SendError> {
        if let Some(node) = self.transport.far_node(&self.port, rmw.target)
            && self.rmw_word(rmw, node)
        {
            return Ok(());
        }
        self.rmw_by(rmw)
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

    /// Carries an addition to a whole word within the node out that somebody is told of. Returns whether it did: all others, and
    /// what is wrong with this one, are [`rmw_on`](Self::rmw_on)'s.
    #[inline(always)]
    fn rmw_now(&mut self, rmw: &Rmw<P>) -> bool {
        const BYTES: u32 = size_of::<u64>() as u32;
        let Rmw { target, region, offset, op, done: Some(done) } = rmw else { return false };
        let &RmwOp { width: Width::Eight, update: Update::Add(operand) } = op else { return false };
        let (&target, &offset) = (target, offset);
        if !region.reaches(target.task(), offset, BYTES as usize) || !offset.is_multiple_of(BYTES) {
            return false;
        }
        let Some(end) = self.operations.next_end() else { return false };
        let added = self.port.add_to_word_local(target, region.id, offset, operand);
        let Some(old) = added else { return false };
        self.end_at_once(end, Ended::new(target, RemoteDone::Fetched(*done, old)));
        true
    }

    // A call of its own: what it needs of the stack and of registers is not for the short way to pay.
    #[inline(never)]
    fn rmw_by(&mut self, rmw: &Rmw<P>) -> Result<(), SendError> {
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
                let end = self.operations.next_end().ok_or(SendError::Again)?;
                let fetched = self.port.rmw_local(target, region.id, offset, op);
                let tells = told(done, fetched.unwrap_or_default());
                self.end_at_once(end, Ended { outcome: fetched.map(drop), ..Ended::new(target, tells) });
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
