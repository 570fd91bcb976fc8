//! A context shared by threads: the lock's guard is the only way in (SPEC P-2).

use crate::context::{Context, Poster};
use crate::device::Port;
use spin::{Mutex, MutexGuard};

/// A context behind a lock.
pub struct LockedContext<P: Port> {
    context: Mutex<Context<P>>,
    poster: Poster<P>,
}

impl<P: Port> LockedContext<P> {
    /// Shares `context`.
    pub fn new(context: Context<P>) -> Self {
        let poster = context.poster();
        Self { context: Mutex::new(context), poster }
    }

    /// Waits for the context; dropping the guard unlocks it.
    pub fn lock(&self) -> MutexGuard<'_, Context<P>> {
        self.context.lock()
    }

    /// The context, if nobody has it now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, Context<P>>> {
        self.context.try_lock()
    }

    /// Posts need no lock.
    pub fn poster(&self) -> Poster<P> {
        self.poster
    }

    /// The context, unshared again.
    pub fn into_inner(self) -> Context<P> {
        self.context.into_inner()
    }
}
