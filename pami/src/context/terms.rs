//! On what terms an operation is carried out: whose settings hold, and where its object lies.

use super::{Loan, ObjectMemory, Operation};
use crate::context::Active;
use crate::device::{Path, Port, Unreachable};
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::operation::Operations;
use crate::registry::Settings;

/// Where the object lies is known where an operation is compiled, so that nobody pays for there being other memory.
pub(crate) trait Terms<P: Port>: Copy {
    /// Room that was found for the object.
    type Room;
    /// Whether an operation that is carried out at once needs no room.
    const AT_ONCE: bool;

    /// The path to a target.
    fn path(self, active: &mut Active<P>, target: Endpoint) -> Result<Path, SendError>;
    /// Whether the dispatch id was seen to be one.
    fn has_dispatch_id(self) -> bool;
    /// Bytes from which on data goes by rendezvous.
    fn rendezvous_from(self, active: &Active<P>) -> usize;
    /// Whether a put is answered though nobody wants to know: its path is not that of the fences.
    fn must_be_answered(self) -> bool;

    /// Finds room.
    fn room(self, operations: &Operations<Active<P>>) -> Result<Self::Room, SendError>;
    /// Lets the operation begin.
    fn begin(active: &mut Active<P>, room: Self::Room, operation: Operation<P>);
    /// The same for one that was carried out, which has to wait for its end alone: what comes behind it does not overtake it.
    fn begin_settled(active: &mut Active<P>, room: Self::Room, operation: Operation<P>);
    /// The same for a fence.
    fn begin_fence(active: &mut Active<P>, room: Self::Room, operation: Operation<P>);
}

/// The settings of a factory, or of the client; the context's memory. Which of them is known where a call is compiled, so
/// those without a factory pay nothing for there being some.
#[derive(Clone, Copy)]
pub(crate) struct Here<'a>(pub(crate) Option<&'a Settings>);

impl<P: Port> Terms<P> for Here<'_> {
    type Room = u8;
    const AT_ONCE: bool = true;

    #[inline(always)]
    fn path(self, active: &mut Active<P>, target: Endpoint) -> Result<Path, SendError> {
        match self.0 {
            // One comparison for both: another client's factory, and one with paths of its own.
            Some(settings) if settings.usual_for != active.transport.me().client() => {
                settings.locate(active, target)
            }
            _ => active.transport.path_to(&active.port, target),
        }
    }

    #[inline(always)]
    fn has_dispatch_id(self) -> bool {
        self.0.is_some()
    }

    #[inline(always)]
    fn rendezvous_from(self, active: &Active<P>) -> usize {
        self.0.map_or(active.rendezvous_from, |settings| settings.rendezvous_from)
    }

    #[inline(always)]
    fn must_be_answered(self) -> bool {
        self.0.is_some_and(|settings| settings.own_path)
    }

    #[inline(always)]
    fn room(self, operations: &Operations<Active<P>>) -> Result<u8, SendError> {
        operations.free_place().ok_or(SendError::Again)
    }

    #[inline(always)]
    fn begin(active: &mut Active<P>, number: u8, operation: Operation<P>) {
        active.begin(number, operation);
    }

    #[inline(always)]
    fn begin_settled(active: &mut Active<P>, number: u8, operation: Operation<P>) {
        active.begin_settled(number, operation);
    }

    #[inline(always)]
    fn begin_fence(active: &mut Active<P>, number: u8, operation: Operation<P>) {
        let path = operation.path;
        active.operations.put(number, operation);
        active.launch_fence(number, path);
    }
}

/// A factory's settings, the caller's memory.
pub(crate) struct InMemory<'a, P: Port>(pub(crate) &'a Settings, pub(crate) &'static ObjectMemory<P>);

impl<P: Port> Clone for InMemory<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: Port> Copy for InMemory<'_, P> {}

/// The caller's memory, and a place if one is free.
pub(crate) struct Lodging<P: Port> {
    memory: &'static ObjectMemory<P>,
    loan: Loan<P>,
    place: Option<u8>,
}

impl<P: Port> Lodging<P> {
    /// Puts the operation there. Returns its place.
    fn put(mut self, active: &mut Active<P>, operation: Operation<P>) -> Option<u8> {
        *self.loan = Some(operation);
        match self.place {
            Some(number) => active.operations.lend(number, self.loan),
            None => {
                drop(self.loan);
                active.wait_for_place(self.memory);
            }
        }
        self.place
    }
}

impl<P: Port> Terms<P> for InMemory<'_, P> {
    type Room = Lodging<P>;
    const AT_ONCE: bool = false;

    fn path(self, active: &mut Active<P>, target: Endpoint) -> Result<Path, SendError> {
        Here(Some(self.0)).path(active, target)
    }

    fn has_dispatch_id(self) -> bool {
        true
    }

    fn rendezvous_from(self, _: &Active<P>) -> usize {
        self.0.rendezvous_from
    }

    fn must_be_answered(self) -> bool {
        self.0.own_path
    }

    fn room(self, operations: &Operations<Active<P>>) -> Result<Lodging<P>, SendError> {
        let loan = self.1.0.take().ok_or(SendError::MemoryInUse)?;
        Ok(Lodging { memory: self.1, loan, place: operations.free_place() })
    }

    fn begin(active: &mut Active<P>, room: Lodging<P>, operation: Operation<P>) {
        let path = operation.path;
        if let Some(number) = room.put(active, operation) {
            active.launch(number, path);
        }
    }

    fn begin_settled(active: &mut Active<P>, room: Lodging<P>, operation: Operation<P>) {
        if let Some(number) = room.put(active, operation) {
            active.operations.settle(number);
            active.note_work();
        }
    }

    fn begin_fence(active: &mut Active<P>, room: Lodging<P>, operation: Operation<P>) {
        Self::begin(active, room, operation);
    }
}

impl Settings {
    /// The path that the factory was registered for, if it was by the context's client.
    #[cold]
    #[inline(never)]
    fn locate<P: Port>(&self, active: &Active<P>, target: Endpoint) -> Result<Path, SendError> {
        if self.client != active.transport.me().client() {
            return Err(SendError::ForeignFactory);
        }
        if !target.is_fellow(active.transport.me()) {
            return Err(SendError::ForeignClient);
        }
        active.port.locate(target, self.local_paths).map_err(|error| match error {
            Unreachable::NoSuchEndpoint => SendError::Unreachable,
            Unreachable::Gone(node, gone) => SendError::gone(node, gone),
        })
    }
}
