//! Fences: what was begun has been carried out (SPEC F-1, F-5).
//!
//! Nothing is counted for them but that accumulates were sent, which is what puts, gets and updates of the same target wait
//! for: these are carried out by its message unit, accumulates by threads of both tasks.

use crate::error::Error;
use crate::library::Library;
use crate::requests::RequestKind;
use pami::Node;

impl<N: Node> Library<N> {
    /// Waits until all that was begun on this context towards `task` has been carried out there. If that are no accumulates it
    /// needs nothing of that task's threads.
    ///
    /// # Errors
    /// [`Error::Task`], [`Error::Send`], [`Error::Operation`]
    pub fn fence(&self, task: u32) -> Result<(), Error> {
        let accumulated = self.accumulated()?;
        let before = accumulated.count();
        let target = (self.endpoint(task)?, accumulated.has(task));
        let slot = self.begin(RequestKind::Own, task)?;
        let begun = self.operate(slot, |active| self.inner.protocols.fence(active, target, slot));
        self.finish(slot, begun)?;
        accumulated.forget(Some(task), before);
        Ok(())
    }

    /// Waits until all that was begun on this context has been carried out, everywhere. If a node is dead the others are
    /// fenced all the same.
    ///
    /// # Errors
    /// [`Error::Send`], [`Error::Operation`]
    pub fn all_fence(&self) -> Result<(), Error> {
        let accumulated = self.accumulated()?;
        let before = accumulated.count();
        let slot = self.begin(RequestKind::Own, self.task())?;
        let tasks = self.tasks();
        let begun = self.operate(slot, |active| self.inner.protocols.fence_all(active, tasks, slot));
        self.finish(slot, begun)?;
        accumulated.forget(None, before);
        Ok(())
    }

    /// Waits until all that was begun on any context has been carried out, everywhere.
    pub(crate) fn fence_contexts(&self) -> Result<(), Error> {
        let contexts = 0..self.settings().contexts;
        contexts.map(|context| Self { context, ..*self }.all_fence()).fold(Ok(()), Result::and)
    }

    /// Has what is begun next towards `task` come behind accumulates that were begun before.
    pub(crate) fn follow_accumulates(&self, task: u32) -> Result<(), Error> {
        if self.accumulated()?.has(task) { self.fence(task) } else { Ok(()) }
    }
}
