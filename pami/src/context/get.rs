//! Gets of a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, Get, Operation};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::operation::{Action, Awaits, message_number};
use crate::packet::{Envelope, Kind};
use crate::transport::Queued;

impl<P: Port> Active<P> {
    /// Reads from a region of another task. The callback is not called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or what is wrong with the get.
    pub fn get(&mut self, get: Get<P>) -> Result<(), SendError> {
        self.get_on(get, Here(None))
    }

    #[inline(always)]
    pub(crate) fn get_on<T: Terms<P>>(&mut self, get: Get<P>, terms: T) -> Result<(), SendError> {
        let Get { target, region, offset, layout, at, into_layout, len, .. } = get;
        let path = terms.path(self, target)?;
        let reach = layout.reach(len).ok_or(SendError::Layout)?;
        region.check(target.task(), offset, reach).map_err(SendError::Region)?;
        let fills = into_layout.reach(len).ok_or(SendError::Layout)?;
        let end = at.checked_add(fills).ok_or(SendError::Range)?;
        if end as usize > get.into.len() {
            return Err(SendError::Range);
        }
        let room = terms.room(&self.operations)?;
        let (mut state, done) = get.into_state();
        let mut operation = Operation {
            path: Some(path),
            target,
            order: self.transport.next_order(),
            queued: true,
            awaits: Awaits::Nobody,
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: done.into(),
            action: Action::Over,
        };
        // A request for nothing is what fences are made of.
        if len == 0 || matches!(path, Path::Local(_)) {
            operation.result = state.carry_out(&mut self.port, target).map_err(OperationError::Region);
            T::begin_settled(self, room, operation);
        } else {
            operation.queued = false;
            operation.awaits = Awaits::Unit;
            operation.action = Action::Get(state);
            T::begin(self, room, operation);
        }
        Ok(())
    }

    /// Queues requests of a get until its path is full.
    pub(crate) fn queue_get(&mut self, number: u8) -> Queued {
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let target = operation.target;
        let (Some(Path::Torus(node)), Action::Get(state)) = (operation.path, &mut operation.action) else {
            return Queued::All;
        };
        let mut some = false;
        while let Some(request) = state.next_request() {
            let (origin, offset, total) = (self.transport.me(), request.offset, request.len);
            let envelope = Envelope { kind: Kind::Get, dispatch: 0, origin, target, message, offset, total };
            let into = Some((state.memory(), request.at));
            if self.port.push_get(node, &envelope, state.region(), into, request.last).is_err() {
                return Queued::stopped(some);
            }
            state.queued(&request);
            some = true;
        }
        Queued::All
    }
}
