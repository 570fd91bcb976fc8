//! Fences of puts, gets and updates alone, which the target's message unit answers (SPEC F-5, D-5).
//!
//! ```text
//! origin                         message unit of the target's node
//!   puts, requests ------------>  carries them out as they come, and answers in that order
//!   GET of nothing ------------>
//!          <--------------------  GetLast of nothing, behind all other answers
//!   done
//! ```

use super::terms::{Here, Terms};
use super::{Active, Done, Operation, RemoteDone};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::operation::{Action, Awaits, message_number};
use crate::packet::{Envelope, Kind};
use crate::region::RegionId;
use crate::transport::Queued;

impl<P: Port> Active<P> {
    /// Calls `done` when all puts, gets and updates to `target` that were started on this context before have been carried out.
    /// It says nothing of sends, of messages to be processed, nor of puts with signal, as [`fence`](Self::fence) does; but
    /// nobody has to advance the target: the message unit of its node answers, whoever runs that (SPEC D-7). The callback
    /// is not called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or why the target has no path.
    pub fn fence_rma(&mut self, target: Endpoint, done: Done<P>) -> Result<(), SendError> {
        self.fence_rma_on(target, done, Here(None))
    }

    pub(crate) fn fence_rma_on<T: Terms<P>>(
        &mut self,
        target: Endpoint,
        done: Done<P>,
        terms: T,
    ) -> Result<(), SendError> {
        let usual = self.transport.path_to(&self.port, target)?;
        let room = terms.room(&self.operations)?;
        // Within the node all is done when it was begun, but for what a factory sends by loop-back.
        let is_asked = |other: &Operation<P>| other.target == target && other.awaits == Awaits::Unit;
        let loops = self.operations.iter().any(is_asked) || !self.operations.waiting().is_empty();
        let node = self.port.node_of(target.task()).filter(|_| loops || matches!(usual, Path::Torus(_)));
        let path = node.map_or(usual, Path::Torus);
        let operation = Operation {
            path: Some(path),
            target,
            order: self.transport.next_order(),
            queued: node.is_none(),
            awaits: Awaits::unit(node.is_some()),
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: RemoteDone::Done(done),
            action: if node.is_some() { Action::Synchronization } else { Action::Over },
        };
        if node.is_some() {
            T::begin(self, room, operation);
        } else {
            T::begin_settled(self, room, operation);
        }
        Ok(())
    }

    /// Queues the get of nothing, if there is room.
    pub(crate) fn queue_synchronization(&mut self, number: u8) -> Queued {
        let origin = self.transport.me();
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let (Some(Path::Torus(node)), target) = (operation.path, operation.target) else {
            return Queued::All;
        };
        let message = message_number(operation.order, usize::from(number));
        let envelope =
            Envelope { kind: Kind::Get, dispatch: 0, origin, target, message, offset: 0, total: 0 };
        Queued::whole(self.port.push_get(node, &envelope, RegionId::NONE, None, true).is_ok())
    }
}
