//! Handlers that are registered while their client's contexts live (SPEC M-1).
//!
//! A context has a copy of its client's handlers, made with it, and looks nowhere else for a message of which it knows the
//! handler. What is registered later lies in a table of the client's, where a context looks for an id that it knows none of, and
//! copies what it finds. So the way of a message has no lock, and the first one of an id takes that of its place in the table,
//! which is held for the length of a copy.
//!
//! A handler goes when its client has no contexts any more, so no copy outlives what it is of.

use super::{Active, DeferringHandler, Handler};
use crate::device::Port;
use crate::packet::{DEFERRING, DEFERRING_IDS, DISPATCH_IDS};
use spin::Mutex;

/// Those of one client, by their ids.
pub(crate) struct LateHandlers<P: Port> {
    plain: [Mutex<Option<Handler<P>>>; DISPATCH_IDS],
    deferring: [Mutex<Option<DeferringHandler<P>>>; DEFERRING_IDS],
}

impl<P: Port> LateHandlers<P> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            plain: [const { Mutex::new(None) }; DISPATCH_IDS],
            deferring: [const { Mutex::new(None) }; DEFERRING_IDS],
        }
    }

    /// From now on contexts find this handler under an id.
    pub(crate) fn publish(&self, id: u8, handler: Handler<P>) {
        if let Some(place) = self.plain.get(usize::from(id)) {
            *place.lock() = Some(handler);
        }
    }

    /// The same of one that may want messages later.
    pub(crate) fn publish_deferring(&self, id: u8, handler: DeferringHandler<P>) {
        if let Some(place) = id.checked_sub(DEFERRING).and_then(|at| self.deferring.get(usize::from(at))) {
            *place.lock() = Some(handler);
        }
    }

    /// No context is there to find what was under an id, and none is to find it again.
    pub(crate) fn withdraw(&self, id: u8) {
        match id.checked_sub(DEFERRING) {
            None => self.plain.get(usize::from(id)).map(|place| *place.lock() = None),
            Some(at) => self.deferring.get(usize::from(at)).map(|place| *place.lock() = None),
        };
    }
}

impl<P: Port> Active<P> {
    /// The handler of a dispatch id that this context knows none of, if one was registered since it was made.
    #[cold]
    #[inline(never)]
    pub(super) fn learn(&mut self, dispatch: u8) -> Option<Handler<P>> {
        let at = usize::from(dispatch);
        let handler = *self.late?.plain.get(at)?.lock();
        *self.handlers.get_mut(at)? = handler;
        handler
    }

    /// The same of one that may want messages later.
    #[cold]
    #[inline(never)]
    pub(super) fn learn_deferring(&mut self, dispatch: u8) -> Option<DeferringHandler<P>> {
        let at = usize::from(dispatch.checked_sub(DEFERRING)?);
        let handler = *self.late?.deferring.get(at)?.lock();
        *self.deferring.get_mut(at)? = handler;
        handler
    }
}
