//! Fences, and synchronisation with the process's own memory.

use super::Window;
use crate::error::{Error, Result};
use crate::window::epoch::Assert;
use core::sync::atomic::{Ordering, fence};
use pami::client::Node;

impl<N: Node> Window<N> {
    /// `MPI_Win_fence`: all operations that any process began in the epoch are complete when it returns, and another epoch
    /// begins unless [`Assert::NOSUCCEED`] is given. Collective.
    ///
    /// # Errors
    /// [`Error::RmaSync`] in an epoch of another kind; what went wrong with the operations.
    pub fn fence(&self, assert: Assert) -> Result<()> {
        self.enter(|at| {
            if at.state.windows.peers(self.slot).iter().any(|peer| peer.exposed) {
                return Err(Error::RmaSync);
            }
            at.win()?.epoch.fence(!assert.contains(Assert::NOSUCCEED))
        })
        .inspect_err(|error| self.communicator.refuse(*error))?;
        let finished = if assert.contains(Assert::NOPRECEDE) { Ok(()) } else { self.finish_all() };
        // Whatever went wrong, the others wait.
        self.communicator.barrier()?;
        fence(Ordering::SeqCst);
        finished
    }

    /// `MPI_Win_sync`: what this process stored in its window before is seen by others' later accesses, and it sees theirs.
    /// There is one copy of a window (`MPI_WIN_UNIFIED`).
    ///
    /// # Errors
    /// [`Error::Win`].
    pub fn sync(&self) -> Result<()> {
        self.enter(|at| at.win().map(drop))?;
        fence(Ordering::SeqCst);
        Ok(())
    }
}
