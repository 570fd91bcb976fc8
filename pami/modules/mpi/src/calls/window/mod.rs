//! One-sided communication (the standard's chapter of that name): windows, accesses, epochs.
//!
//! | access | how | who carries it out |
//! |---|---|---|
//! | put, get | a put or get of the layer below, by its layouts, or one for each run of a type without one | the target's message unit |
//! | accumulate of sums of `i32`, `i64`, `f32`, `f64` in one piece | [`pami::balance`], split by [`Settings::accumulate`](crate::Settings::accumulate) | origin and target |
//! | accesses of one value of 4 or 8 bytes whose operator updates of words have | an update of the layer below | the target's message unit |
//! | all others of the accumulate family | messages of one packet, see `operate` | the target, as it advances |
//!
//! What the message unit carries out needs no call at the target; what the target does needs it to be in a call of the
//! library. Locks are words that origins update, so they need none either.
//!
//! All of the family are atomic towards each other, value by value: values of 4 and 8 bytes are changed by updates of their
//! aligned words, whoever does it; others only by their target's context. One origin's accesses of the family to one target
//! take effect in order: a way that could overtake what goes another way is not taken while that is under way.
//!
//! A window has a communicator of its own, so its collective calls do not meet those of the one it was made of, which may be
//! freed before it.

mod accumulate;
mod compare;
mod create;
mod fence;
mod flush;
mod lock;
mod pieces;
mod post;
mod target;
mod transfer;
mod way;

use crate::error::{Error, Result};
use crate::group::Group;
use crate::library::{Communicator, Library};
use crate::vci::State;
use crate::window::Windows;
use crate::window::peer::WindowPeer;
use crate::window::table::Win;
use base::Completions;
use pami::client::Node;
use pami::{Active, Shared};
pub use target::Target;

/// A window: memory of each process of a communicator that the others can access. A small name.
pub struct Window<N: Node> {
    library: &'static Library<N>,
    communicator: Communicator<N>,
    slot: u8,
    generation: u32,
    size: usize,
    unit: u32,
}

impl<N: Node> Clone for Window<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Window<N> {}

/// A context at work on one of its windows.
struct At<'a, N: Node> {
    active: &'a mut Active<N::Port>,
    state: &'a mut State,
    ends: &'a Completions<N::Port>,
    slot: u8,
}

impl<N: Node> At<'_, N> {
    /// The window.
    ///
    /// # Errors
    /// [`Error::Win`].
    fn win(&mut self) -> Result<&mut Win> {
        self.state.windows.win(self.slot).ok_or(Error::Win)
    }

    /// What is known of one of its processes.
    ///
    /// # Errors
    /// [`Error::Rank`].
    fn peer(&mut self, rank: u32) -> Result<&mut WindowPeer> {
        self.state.windows.peer(self.slot, rank).ok_or(Error::Rank(rank.into()))
    }
}

impl<N: Node> Window<N> {
    /// The memory of this process, and its first byte there (`MPI_WIN_BASE`).
    ///
    /// # Errors
    /// [`Error::Win`], [`Error::Finalized`].
    pub fn base(&self) -> Result<(Shared, usize)> {
        self.enter(|at| at.win().map(|win| (win.memory.clone(), win.base)))
    }

    /// Bytes of this process's memory (`MPI_WIN_SIZE`).
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes of a step of displacements in this process's memory (`MPI_WIN_DISP_UNIT`).
    pub fn disp_unit(&self) -> u32 {
        self.unit
    }

    /// The processes that have it, in the order of ranks (`MPI_Win_get_group`).
    ///
    /// # Errors
    /// [`Error::Win`] if it was freed.
    pub fn group(&self) -> Result<Group> {
        self.communicator.group().map_err(|_| Error::Win)
    }

    fn vci(&self) -> usize {
        self.communicator.context().into()
    }

    /// Calls `work` with the window's context.
    ///
    /// # Errors
    /// [`Error::Win`] if it was freed; [`Error::Finalized`].
    fn enter<T>(&self, work: impl FnOnce(&mut At<'_, N>) -> Result<T>) -> Result<T> {
        self.library.enter(self.vci(), |active, state| work(&mut self.at(active, state)?))
    }

    fn at<'a>(&self, active: &'a mut Active<N::Port>, state: &'a mut State) -> Result<At<'a, N>> {
        if state.windows.generation(self.slot) != Some(self.generation) {
            return Err(Error::Win);
        }
        let ends = self.library.accesses.get().ok_or(Error::Finalized)?;
        Ok(At { active, state, ends, slot: self.slot })
    }

    /// Calls `attempt` until it finds room; sleeps while there is nothing to do.
    fn insist<T>(&self, mut attempt: impl FnMut(&mut At<'_, N>) -> Result<Option<T>>) -> Result<T> {
        self.library.retry(self.vci(), |active, state| attempt(&mut self.at(active, state)?))
    }

    /// Waits until `until` holds of the window, or it has failed.
    ///
    /// # Errors
    /// What went wrong in the window since it was last asked.
    fn wait_for(&self, mut until: impl FnMut(&mut Windows) -> bool) -> Result<()> {
        let vci = self.library.vci(self.vci())?;
        self.library.wait_until(self.vci(), || {
            let mut state = vci.state.lock();
            let failed = state.windows.win(self.slot).is_none_or(|win| win.error.is_some());
            failed || until(&mut state.windows)
        })?;
        self.enter(|at| at.win()?.error.take().map_or(Ok(()), Err))
    }
}
