//! The handle of a communicator.

use super::{Library, Mpi};
use crate::communicators::{CommunicatorEntry, Communicators};
use crate::context_id::SELF;
use crate::error::{Error, Result};
use crate::vci::{State, Vci};
use core::sync::atomic::{AtomicU32, Ordering};
use pami::client::Node;
use pami::{Active, Endpoint, GeometryId, WORLD};
use rings::slot_table::FIRST;

/// What is said of a communicator that has no place.
static FREED: AtomicU32 = AtomicU32::new(0);

/// A communicator: a small name. The process's rank and the number of processes need no look at anything else.
pub struct Communicator<N: Node> {
    pub(crate) library: &'static Library<N>,
    pub(crate) id: GeometryId,
    pub(crate) generation: u32,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// Where all of it happens.
    pub(crate) home: &'static Vci<N::Port>,
    /// The task of rank 0, and by how much tasks rise from rank to rank; 0 if they are listed.
    pub(crate) first: u32,
    pub(crate) stride: u32,
    pub(crate) vci: u8,
    pub(crate) slot: u16,
    /// It has a geometry in every context, and its collectives may be divided among them.
    pub(crate) divides: bool,
    /// Its generation until it is freed.
    pub(crate) alive: &'static AtomicU32,
}

impl<N: Node> Clone for Communicator<N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<N: Node> Copy for Communicator<N> {}

impl<N: Node> PartialEq for Communicator<N> {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self.library, other.library)
            && (self.vci, self.slot, self.generation) == (other.vci, other.slot, other.generation)
    }
}
impl<N: Node> Eq for Communicator<N> {}

impl<N: Node> Communicator<N> {
    /// `MPI_Comm_rank`.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// `MPI_Comm_size`.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The instance that it belongs to.
    pub fn library(&self) -> Mpi<N> {
        Mpi { library: self.library }
    }

    /// The geometry that it is, in the layer below.
    pub fn geometry(&self) -> GeometryId {
        self.id
    }

    /// The number of its context.
    pub fn context(&self) -> u8 {
        self.vci
    }

    /// Calls `work` with its context, its context's state and itself.
    ///
    /// # Errors
    /// [`Error::Comm`] if it was freed; [`Error::Finalized`].
    pub(crate) fn enter<T>(
        &self,
        work: impl FnOnce(&mut Active<N::Port>, &mut State) -> Result<T>,
    ) -> Result<T> {
        self.library.enter_at(self.home, |active, state| {
            self.entry(state)?;
            work(active, state)
        })
    }

    /// What its context knows of it.
    ///
    /// # Errors
    /// [`Error::Comm`].
    #[inline]
    pub(crate) fn entry<'a>(&self, state: &'a mut State) -> Result<&'a mut CommunicatorEntry> {
        state.communicators.entry(self.slot, self.generation).ok_or(Error::Comm)
    }

    /// The endpoint of one of its processes, whose client and context `me` has; `None` if it was freed, or of a rank that is
    /// none, negative ones among them.
    #[inline(always)]
    pub(crate) fn member(
        &self,
        communicators: &mut Communicators,
        me: Endpoint,
        rank: i32,
    ) -> Option<Endpoint> {
        let rank = rank as u32;
        if rank >= self.size || !self.is_alive() {
            return None;
        }
        if self.stride == 0 {
            return self.listed(communicators, rank);
        }
        Some(me.of_task(self.first.wrapping_add(rank.wrapping_mul(self.stride))))
    }

    /// The same where tasks are listed.
    #[inline(never)]
    fn listed(&self, communicators: &mut Communicators, rank: u32) -> Option<Endpoint> {
        communicators.entry(self.slot, self.generation)?.members.endpoint(rank)
    }

    /// Whether it was not freed. Who holds its context's state has it stay so.
    #[inline(always)]
    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed) == self.generation
    }

    /// What its context says of whether it is alive, for its handle to keep.
    pub(crate) fn life(home: &Vci<N::Port>, slot: u16) -> &'static AtomicU32 {
        home.alive.of(slot).unwrap_or(&FREED)
    }

    /// The endpoint of one of its processes.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Comm`].
    #[inline]
    pub(crate) fn endpoint(&self, state: &mut State, rank: u32) -> Result<Endpoint> {
        self.entry(state)?.members.endpoint(rank).ok_or(Error::Rank(rank.into()))
    }
}

impl<N: Node> Mpi<N> {
    /// `MPI_COMM_WORLD`: all tasks of the job.
    pub fn world(&self) -> Communicator<N> {
        let (rank, size) = (self.library.node.task(), self.library.node.tasks());
        let library = self.library;
        Communicator {
            library,
            id: WORLD,
            generation: FIRST,
            rank,
            size,
            home: library.first,
            first: 0,
            stride: 1,
            vci: 0,
            slot: 0,
            divides: size > 1 && library.division().is_some(),
            alive: Communicator::<N>::life(library.first, 0),
        }
    }

    /// `MPI_COMM_SELF`: this task.
    pub fn itself(&self) -> Communicator<N> {
        let (first, alive) = (self.library.node.task(), Communicator::<N>::life(self.library.first, 1));
        Communicator { id: SELF, rank: 0, size: 1, first, slot: 1, divides: false, alive, ..self.world() }
    }
}
