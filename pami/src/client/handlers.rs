//! The handlers of a client, and the functions that process its messages: each context is made with a copy of them. What is
//! registered while contexts live is published for those besides.

use crate::balance::functions::{Functions, Own};
use crate::context::{DeferringHandler, Handler, LateHandlers};
use crate::device::Port;
use crate::packet::{DEFERRING, DEFERRING_IDS, DISPATCH_IDS};
use crate::registry::FactoryError;

/// Handlers by their ids.
pub(crate) struct Handlers<P: Port> {
    /// From id 0 on.
    plain: [Option<Handler<P>>; DISPATCH_IDS],
    /// From id [`DEFERRING`] on.
    deferring: [Option<DeferringHandler<P>>; DEFERRING_IDS],
    functions: Functions,
    /// Those that were registered while contexts lived, if they may be.
    late: Option<&'static LateHandlers<P>>,
}

impl<P: Port> Handlers<P> {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self {
            plain: [None; DISPATCH_IDS],
            deferring: [None; DEFERRING_IDS],
            functions: Functions::NONE,
            late: None,
        }
    }

    /// Handlers may be registered while contexts live from now on.
    pub(crate) fn open(&mut self, late: &'static LateHandlers<P>) {
        self.late = Some(late);
    }

    /// For a context: where it finds those that come later.
    pub(crate) fn late(&self) -> Option<&'static LateHandlers<P>> {
        self.late
    }

    /// Adds a handler under an id, or under the lowest that is free. Returns the id.
    ///
    /// # Errors
    /// [`FactoryError::DispatchId`], or [`FactoryError::Exhausted`] if none is free.
    pub(crate) fn add(&mut self, id: Option<u8>, handler: Handler<P>) -> Result<u8, FactoryError> {
        let id = add(&mut self.plain, (0, "dispatch ids"), id, handler)?;
        if let Some(late) = self.late {
            late.publish(id, handler);
        }
        Ok(id)
    }

    /// The same for one that may want messages later.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn add_deferring(
        &mut self,
        id: Option<u8>,
        handler: DeferringHandler<P>,
    ) -> Result<u8, FactoryError> {
        let what = "ids of handlers that may want later";
        let id = add(&mut self.deferring, (DEFERRING, what), id, handler)?;
        if let Some(late) = self.late {
            late.publish_deferring(id, handler);
        }
        Ok(id)
    }

    /// Adds a function that processes messages, under the lowest number that is free. Returns that.
    ///
    /// # Errors
    /// [`FactoryError::Exhausted`]
    pub(crate) fn add_function(&mut self, own: Own) -> Result<u8, FactoryError> {
        add(&mut self.functions.0, (0, "functions that process messages"), None, own)
    }

    /// Removes the function of a number.
    pub(crate) fn remove_function(&mut self, number: u8) {
        if let Some(place) = self.functions.0.get_mut(usize::from(number)) {
            *place = None;
        }
    }

    /// For a context: the functions.
    pub(super) fn functions(&self) -> Functions {
        self.functions
    }

    /// Removes the handler under an id.
    pub(crate) fn remove(&mut self, id: u8) {
        if id < DEFERRING {
            self.plain[usize::from(id)] = None;
        } else if let Some(place) = self.deferring.get_mut(usize::from(id - DEFERRING)) {
            *place = None;
        }
        if let Some(late) = self.late {
            late.withdraw(id);
        }
    }

    /// For a context: those that want their messages at once.
    pub(super) fn plain(&self) -> [Option<Handler<P>>; DISPATCH_IDS] {
        self.plain
    }

    /// For a context: those that may want them later.
    pub(super) fn deferring(&self) -> [Option<DeferringHandler<P>>; DEFERRING_IDS] {
        self.deferring
    }
}

/// Adds a handler to a table whose ids begin at `first`.
fn add<H>(
    table: &mut [Option<H>],
    (first, what): (u8, &'static str),
    id: Option<u8>,
    handler: H,
) -> Result<u8, FactoryError> {
    let free = || table.iter().position(Option::is_none).map(|at| first + at as u8);
    let id = id.or_else(free).ok_or(FactoryError::Exhausted { what, limit: table.len() })?;
    match id.checked_sub(first).and_then(|at| table.get_mut(usize::from(at))) {
        Some(place @ None) => *place = Some(handler),
        _ => return Err(FactoryError::DispatchId(id)),
    }
    Ok(id)
}
