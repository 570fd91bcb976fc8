//! Communicators: who communicates, in a world of its own (the standard's chapter on groups, contexts,
//! communicators).
//!
//! Each is a geometry of the layer below, whose number is the standard's context id, and has one of the library's
//! contexts, chosen by that number.

mod create;
mod ids;

use crate::cartesian::Grid;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::lane::State;
use crate::library::{Library, Mpi, fill};
use crate::settings::Settings;
use pami::client::Node;
use pami::geometry::Members;
use pami::{Active, Endpoint, GeometryId, NewGeometry, WORLD};

pub(crate) use create::AGREEMENT_BYTES;
pub use create::UNDEFINED;
pub(crate) use ids::{Ids, SEEKERS};

/// The geometry of a communicator with only this task.
pub(crate) const SELF: GeometryId = GeometryId(1);

/// A communicator: a small name. The process's rank and the number of processes need no look at anything else.
pub struct Communicator<N: Node> {
    pub(crate) library: &'static Library<N>,
    id: GeometryId,
    generation: u32,
    rank: u32,
    size: u32,
    lane: u8,
    slot: u16,
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
            && (self.lane, self.slot, self.generation) == (other.lane, other.slot, other.generation)
    }
}
impl<N: Node> Eq for Communicator<N> {}

/// A communicator as its context knows it.
pub(crate) struct Entry {
    pub(crate) members: Members<'static>,
    pub(crate) group: Group,
    /// Its topology.
    pub(crate) grid: Option<Grid>,
}

struct Place {
    generation: u32,
    entry: Option<Entry>,
}

/// The communicators of a context.
#[derive(Default)]
pub(crate) struct Communicators {
    places: &'static mut [Place],
    /// Places that are taken, or will be.
    used: usize,
}

impl Communicators {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let count = settings.communicators.into();
        Ok(Self { places: fill(node, count, || Place { generation: 0, entry: None })?, used: 0 })
    }

    /// Keeps a place for [`add`](Self::add).
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn reserve(&mut self) -> Result<()> {
        let limit = self.places.len();
        if self.used == limit {
            return Err(Error::NoMem { what: "communicators", limit });
        }
        self.used += 1;
        Ok(())
    }

    /// Nothing comes to a place that was kept.
    pub(crate) fn give_back(&mut self) {
        self.used -= 1;
    }

    /// Takes a place that was kept: its number and generation.
    ///
    /// # Errors
    /// [`Error::NoMem`].
    pub(crate) fn add(&mut self, entry: Entry) -> Result<(u16, u32)> {
        let limit = self.places.len();
        let mut places = (0..).zip(self.places.iter_mut());
        let free = places.find(|(_, place)| place.entry.is_none());
        let (slot, place) = free.ok_or(Error::NoMem { what: "communicators", limit })?;
        place.entry = Some(entry);
        Ok((slot, place.generation))
    }

    /// Frees a place.
    pub(crate) fn remove(&mut self, slot: u16) {
        if let Some(place) = self.places.get_mut(usize::from(slot)) {
            self.used -= usize::from(place.entry.take().is_some());
            place.generation = place.generation.wrapping_add(1);
        }
    }
}

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
        self.lane
    }

    /// Calls `work` with its context, its context's state and itself.
    ///
    /// # Errors
    /// [`Error::Comm`] if it was freed; [`Error::Finalized`].
    pub(crate) fn enter<T>(
        &self,
        work: impl FnOnce(&mut Active<N::Port>, &mut State) -> Result<T>,
    ) -> Result<T> {
        self.library.enter(self.lane.into(), |active, state| {
            self.entry(state)?;
            work(active, state)
        })
    }

    /// What its context knows of it.
    ///
    /// # Errors
    /// [`Error::Comm`].
    pub(crate) fn entry<'a>(&self, state: &'a mut State) -> Result<&'a mut Entry> {
        let place = state.communicators.places.get_mut(usize::from(self.slot)).ok_or(Error::Comm)?;
        place.entry.as_mut().filter(|_| place.generation == self.generation).ok_or(Error::Comm)
    }

    /// The endpoint of one of its processes.
    ///
    /// # Errors
    /// [`Error::Rank`], [`Error::Comm`].
    pub(crate) fn endpoint(&self, state: &mut State, rank: u32) -> Result<Endpoint> {
        self.entry(state)?.members.endpoint(rank).ok_or(Error::Rank(rank.into()))
    }
}

impl<N: Node> Mpi<N> {
    /// `MPI_COMM_WORLD`: all tasks of the job.
    pub fn world(&self) -> Communicator<N> {
        let (rank, size) = (self.library.node.task(), self.library.node.tasks());
        let library = self.library;
        Communicator { library, id: WORLD, generation: 0, rank, size, lane: 0, slot: 0 }
    }

    /// `MPI_COMM_SELF`: this task.
    pub fn itself(&self) -> Communicator<N> {
        Communicator { id: SELF, rank: 0, size: 1, slot: 1, ..self.world() }
    }

    /// World and self, in the first places of the first context.
    pub(crate) fn first_communicators(&self) -> Result<()> {
        let library = self.library;
        let task = library.node.task();
        let mut request = library.enter(0, |active, state| {
            let population = active.population();
            state.communicators.reserve()?;
            state.communicators.reserve()?;
            let members = Members::world(population, 0..1)?;
            state.communicators.add(Entry {
                members,
                group: Group::range(0, library.node.tasks(), 1),
                grid: None,
            })?;
            let members = Members::range(population, 0..1, task, 1, 1)?;
            state.communicators.add(Entry { members, group: Group::range(task, 1, 1), grid: None })?;
            let slot = state.requests.open(None)?;
            let done = library.handling.get().ok_or(Error::Finalized)?.ended(state.requests.cookie(slot));
            active.create_geometry(NewGeometry { id: SELF, members, domains: None, done })?;
            Ok(state.requests.name(slot))
        })?;
        self.wait(&mut request)?;
        self.world().barrier()
    }
}
