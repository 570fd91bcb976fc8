//! Flushes: what was begun is carried out. Built on acknowledgements of what the message unit carries out, and on fences of
//! the layer below (SPEC F-1) behind messages, which the target answers as it advances.

use super::target::rank as rank_of;
use super::transfer::taken;
use super::{At, Window};
use crate::error::Result;
use crate::request::NONE;
use crate::window::ends::{End, Name};
use pami::GeometryId;
use pami::client::Node;

impl<N: Node> At<'_, N> {
    /// Begins a fence behind messages to a process. `None` if there is no room now.
    fn fence(&mut self, rank: u32) -> Result<Option<()>> {
        let peer = self.peer(rank)?;
        if !peer.unfenced {
            return Ok(Some(()));
        }
        let target = peer.endpoint;
        let name = Name { end: End::Fence, window: self.slot, rank, request: NONE };
        let begun = taken(self.state.window_protocols()?.one_sided.fence(
            self.active,
            target,
            self.ends.done(name.cookie()),
        ))?;
        if begun.is_some() {
            self.peer(rank)?.unfenced = false;
            self.state.windows.begun(name);
        }
        Ok(begun)
    }

    /// The same behind those to all processes, which are `geometry`: one by one if messages went to few of them.
    fn fence_all(&mut self, geometry: GeometryId) -> Result<Option<()>> {
        let peers = self.state.windows.peers(self.slot);
        let unfenced = peers.iter().filter(|peer| peer.unfenced).count();
        if unfenced > 1 && 2 * unfenced > peers.len() {
            return self.fence_geometry(geometry);
        }
        while let Some(rank) = self.state.windows.peers(self.slot).iter().position(|peer| peer.unfenced) {
            if self.fence(rank as u32)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn fence_geometry(&mut self, geometry: GeometryId) -> Result<Option<()>> {
        let name = Name { end: End::FenceAll, window: self.slot, rank: 0, request: NONE };
        let begun = taken(self.state.window_protocols()?.one_sided.fence_geometry(
            self.active,
            geometry,
            self.ends.done(name.cookie()),
        ))?;
        if begun.is_some() {
            let windows = &mut self.state.windows;
            windows.peers(self.slot).iter_mut().for_each(|peer| peer.unfenced = false);
            windows.begun(name);
        }
        Ok(begun)
    }
}

impl<N: Node> Window<N> {
    /// Waits until a process has carried all operations out that were begun before.
    pub(super) fn finish(&self, rank: u32) -> Result<()> {
        self.insist(|at| at.fence(rank))?;
        let slot = self.slot;
        self.wait_for(|windows| windows.peer(slot, rank).is_none_or(|peer| peer.under_way == 0))
    }

    /// As [`finish`](Self::finish), of all processes.
    pub(super) fn finish_all(&self) -> Result<()> {
        self.insist(|at| at.fence_all(self.communicator.geometry()))?;
        let slot = self.slot;
        self.wait_for(|windows| windows.win(slot).is_none_or(|win| win.remote == 0))
    }

    /// Waits until this process's buffers are its own again.
    pub(super) fn finish_locally(&self) -> Result<()> {
        let slot = self.slot;
        self.wait_for(|windows| windows.win(slot).is_none_or(|win| win.local == 0))
    }

    fn check_flush(&self, rank: Option<u32>) -> Result<()> {
        self.enter(|at| {
            let peer = rank.map(|rank| at.peer(rank).copied()).transpose()?;
            at.win()?.epoch.flush(peer.as_ref())
        })
    }

    /// `MPI_Win_flush`: all operations that this process began on that one's window are complete, here and there. Needs no
    /// call there but for what goes by messages; see [`window`](super).
    ///
    /// # Errors
    /// [`Error::RmaSync`](crate::Error::RmaSync) if the process is not locked, [`Error::Rank`](crate::Error::Rank); what went
    /// wrong with the operations.
    pub fn flush(&self, rank: i32) -> Result<()> {
        let Some(rank) = rank_of(rank, self.communicator.size())? else { return Ok(()) };
        self.check_flush(Some(rank))?;
        self.finish(rank)
    }

    /// `MPI_Win_flush_all`: as [`flush`](Self::flush), of all processes.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_all(&self) -> Result<()> {
        self.check_flush(None)?;
        self.finish_all()
    }

    /// `MPI_Win_flush_local`: the buffers of all operations that this process began on that one's window are its own again,
    /// and have what was read. Those of others are waited for as well.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_local(&self, rank: i32) -> Result<()> {
        let Some(rank) = rank_of(rank, self.communicator.size())? else { return Ok(()) };
        self.check_flush(Some(rank))?;
        self.finish_locally()
    }

    /// `MPI_Win_flush_local_all`: as [`flush_local`](Self::flush_local), of all processes.
    ///
    /// # Errors
    /// As [`flush`](Self::flush).
    pub fn flush_local_all(&self) -> Result<()> {
        self.check_flush(None)?;
        self.finish_locally()
    }
}
