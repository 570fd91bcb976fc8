//! Post, start, complete, wait: epochs of some processes.

use super::transfer::taken;
use super::{At, Window};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::protocols;
use crate::window::epoch::{Assert, Epoch};
use crate::window::wire::Signal;
use pami::client::Node;
use zerocopy::IntoBytes;

impl<N: Node> At<'_, N> {
    /// Tells a process of a post or a complete. `None` if there is no room now.
    fn signal(&mut self, rank: u32, complete: bool) -> Result<Option<()>> {
        let own = self.win()?.rank;
        let peer = *self.peer(rank)?;
        let signal = Signal {
            slot: peer.info.slot,
            generation: peer.info.generation,
            rank: own.into(),
            complete: u32::from(complete).into(),
        };
        let (target, header) = (peer.endpoint, signal.as_bytes());
        let factory = &self.state.window_protocols()?.signal;
        taken(protocols::send_immediate(factory, self.active, target, header, &[]))
    }

    /// Whether all that this process is exposed to have completed; then it is so no longer.
    fn end_exposure(&mut self) -> Result<bool> {
        let peers = self.state.windows.peers(self.slot);
        if peers.iter().any(|peer| peer.exposed && peer.completes == 0) {
            return Ok(false);
        }
        for peer in peers.iter_mut().filter(|peer| peer.exposed) {
            peer.exposed = false;
            peer.completes -= 1;
        }
        Ok(true)
    }

    fn close_access(&mut self) -> Result<()> {
        self.state.windows.peers(self.slot).iter_mut().for_each(|peer| peer.accessed = false);
        self.win()?.epoch.complete()
    }
}

impl<N: Node> Window<N> {
    /// Calls `each` with the ranks of a group's processes in the window.
    ///
    /// # Errors
    /// [`Error::Group`] if the window does not have one of them; what `each` returns.
    fn each_of(&self, group: &Group, mut each: impl FnMut(u32) -> Result<()>) -> Result<()> {
        let own = self.communicator.group()?;
        (0..group.size()).try_for_each(|index| {
            let rank = group.task(index).and_then(|task| own.rank_of(task));
            each(rank.ok_or(Error::Group)?)
        })
    }

    /// `MPI_Win_post`: opens this process's window to the processes of a group.
    ///
    /// # Errors
    /// [`Error::RmaSync`] while it is open to some, or in an epoch of locks; [`Error::Group`].
    pub fn post(&self, group: &Group, _: Assert) -> Result<()> {
        self.each_of(group, |_| Ok(()))?;
        self.enter(|at| {
            let locks = matches!(at.win()?.epoch, Epoch::Locked(_) | Epoch::LockedAll);
            let peers = at.state.windows.peers(self.slot);
            if locks || peers.iter().any(|peer| peer.exposed) {
                return Err(Error::RmaSync);
            }
            Ok(())
        })?;
        self.each_of(group, |rank| self.enter(|at| at.peer(rank).map(|peer| peer.exposed = true)))?;
        self.each_of(group, |rank| self.insist(|at| at.signal(rank, false)))
    }

    /// `MPI_Win_start`: begins an epoch of accesses to the processes of a group. Waits for their posts.
    ///
    /// # Errors
    /// [`Error::RmaSync`] in another epoch, [`Error::Group`], [`Error::NodeDead`].
    pub fn start(&self, group: &Group, _: Assert) -> Result<()> {
        self.each_of(group, |_| Ok(()))?;
        self.enter(|at| at.win()?.epoch.start())?;
        self.each_of(group, |rank| self.enter(|at| at.peer(rank).map(|peer| peer.accessed = true)))?;
        let slot = self.slot;
        let posted =
            self.wait_for(|windows| windows.peers(slot).iter().all(|peer| !peer.accessed || peer.posts > 0));
        self.enter(|at| {
            if posted.is_err() {
                return at.close_access();
            }
            let peers = at.state.windows.peers(slot).iter_mut();
            peers.filter(|peer| peer.accessed).for_each(|peer| peer.posts -= 1);
            Ok(())
        })?;
        posted
    }

    /// `MPI_Win_complete`: ends the epoch of a [`start`](Self::start): its operations are complete here and there.
    ///
    /// # Errors
    /// [`Error::RmaSync`] without one; what went wrong with the operations.
    pub fn complete(&self) -> Result<()> {
        self.enter(|at| if at.win()?.epoch == Epoch::Started { Ok(()) } else { Err(Error::RmaSync) })?;
        let mut outcome = Ok(());
        for rank in 0..self.communicator.size() {
            if self.enter(|at| at.peer(rank).map(|peer| peer.accessed))? {
                outcome = outcome.and(self.finish(rank));
                // Whatever went wrong, it waits.
                outcome = outcome.and(self.insist(|at| at.signal(rank, true)));
            }
        }
        self.enter(|at| at.close_access())?;
        outcome
    }

    /// `MPI_Win_wait`: waits until all processes that the window was opened to have completed, and closes it.
    ///
    /// # Errors
    /// [`Error::NodeDead`].
    pub fn wait(&self) -> Result<()> {
        let slot = self.slot;
        let completed = self
            .wait_for(|windows| windows.peers(slot).iter().all(|peer| !peer.exposed || peer.completes > 0));
        if completed.is_err() {
            // Who died does not complete; the others are not waited for.
            self.enter(|at| {
                at.state.windows.peers(slot).iter_mut().for_each(|peer| peer.exposed = false);
                Ok(())
            })?;
            return completed;
        }
        self.enter(|at| at.end_exposure().map(drop))
    }

    /// `MPI_Win_test`: as [`wait`](Self::wait), without waiting. Returns whether the window is closed.
    ///
    /// # Errors
    /// [`Error::NodeDead`].
    pub fn test(&self) -> Result<bool> {
        self.library.advance()?;
        self.enter(|at| match at.win()?.error.take() {
            Some(error) => Err(error),
            None => at.end_exposure(),
        })
    }
}
