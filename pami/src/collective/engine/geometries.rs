//! Geometries at run time: created, asked, destroyed (SPEC G-1).
//!
//! A geometry has a number, which the application chooses and which is the same at all members. Every member's context
//! creates it; the creation is itself a collective, a barrier that also compares what the members think it is.

use super::Engine;
use super::bulletins::Bulletins;
use super::geometry::GeometryState;
use super::known::Known;
use super::request::{Collect, CollectError};
use super::slot::CollectiveInFlight;
use super::start::Start;
use super::wire::CREATION;
use crate::affinity::{Affinities, Crossings, Domains, RADIX};
use crate::collective::{Algorithm, AlgorithmList, Collective, Tuning};
use crate::device::Port;
use crate::dispatch::Done;
use crate::endpoint::{Endpoint, TaskList};
use crate::geometry::{GeometryId, Members, Population, WORLD};
use core::fmt;
use rings::bulletin::Bulletin;

/// A geometry to be created.
pub struct NewGeometry<A: 'static> {
    /// Its number, not 0.
    pub id: GeometryId,
    /// Who takes part; the same at all of them.
    pub members: Members<'static>,
    /// The affinity domains of its ranks, the same at all of them. `None`: those of the kernel's [`Affinities`], with
    /// the default [`RADIX`].
    pub domains: Option<Domains<'static>>,
    /// Whether it gets a class route of the tree network, if there is one left; the same at all of them.
    pub routed: bool,
    /// What its collectives are chosen from, the same at all of them.
    pub algorithms: AlgorithmList,
    /// Called when all members have created it.
    pub done: Done<A>,
}

impl<A> NewGeometry<A> {
    /// One with the domains that the kernel knows, a class route if there is one, and all algorithms.
    pub fn new(id: GeometryId, members: Members<'static>, done: Done<A>) -> Self {
        Self { id, members, domains: None, routed: true, algorithms: AlgorithmList::ALL, done }
    }
}

/// Why a geometry was not created or destroyed. The caller is at fault, but for `Again`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeometryError {
    /// The client was made without [`Limits`](super::Limits).
    NotSetUp,
    /// So many collectives are in flight that none can start: advance, then try again.
    Again,
    /// The context has no room for more geometries than this many.
    Full {
        /// How many.
        limit: usize,
    },
    /// The number is that of a geometry in use here.
    Taken(GeometryId),
    /// The number is that of a geometry which was destroyed here not long ago: messages of that may still come.
    Used(GeometryId),
    /// This endpoint is not one of the members.
    NotMember,
    /// No geometry here has that number.
    Unknown(GeometryId),
    /// Collectives of the geometry are in flight, or wait for room, or fences of it have not ended. Its list is to change:
    /// collectives wait for room.
    Busy(GeometryId),
    /// The world lasts as long as its context.
    World,
    /// A member's node, of this rank, is dead.
    Dead(u32),
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSetUp => {
                f.write_str("the client has no limits for collectives: set them in its builder")
            }
            Self::Again => f.write_str("too many collectives are in flight: advance, then try again"),
            Self::Full { limit } => write!(f, "the context has {limit} geometries: destroy one"),
            Self::Taken(id) => write!(f, "geometry {} is in use: take another number", id.0),
            Self::Used(id) => {
                write!(
                    f,
                    "geometry {} was destroyed, and messages of it may still come: take a new number",
                    id.0
                )
            }
            Self::NotMember => f.write_str("this endpoint is not a member: only members create a geometry"),
            Self::Unknown(id) => write!(f, "there is no geometry {} at this endpoint", id.0),
            Self::Busy(id) => write!(
                f,
                "collectives or fences of geometry {} are in flight or wait for room: wait for their ends",
                id.0
            ),
            Self::Dead(node) => write!(f, "node {node}, where a member lives, is dead"),
            Self::World => {
                f.write_str("the world cannot be destroyed, and has all tasks: make another geometry")
            }
        }
    }
}

impl core::error::Error for GeometryError {}

/// What can be asked of a geometry.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    /// Its number.
    pub id: GeometryId,
    /// The number of its epoch: its own, or what it was last [changed](crate::Active::change_geometry) with.
    pub epoch: GeometryId,
    /// Who takes part.
    pub members: &'a Members<'static>,
    /// This endpoint's rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Collectives of the epoch started here so far, its creation included.
    pub started: u32,
    /// A node of its members that died.
    pub dead: Option<u32>,
    /// The affinity domains of its ranks, if they are known.
    pub domains: Option<&'a Domains<'static>>,
    /// What its collectives are chosen from.
    pub algorithms: &'a AlgorithmList,
    /// What this endpoint sent in it: for its collectives, for the barriers that the engine puts between them, and for its
    /// creation.
    pub crossings: Crossings,
    /// Whether it has a class route of the tree network.
    pub class_route: bool,
}

/// The domains that the caller gives, or those that the kernel knows.
pub(super) fn domains_of(
    members: &Members<'static>,
    given: Option<Domains<'static>>,
    affinities: Option<Affinities>,
) -> Option<Domains<'static>> {
    let domains = given.or_else(|| affinities?.domains(members, RADIX));
    domains.filter(|domains| domains.size() == members.size())
}

/// The barrier in which members of a geometry meet, by this algorithm.
pub(super) fn meeting<A>(geometry: GeometryId, algorithm: Algorithm, done: Done<A>) -> Collect<A> {
    let algorithm = Some((algorithm, Tuning { radix: 2, chunk: 1 }));
    Collect { algorithm, ..Collect::new(geometry, Collective::Barrier, done) }
}

/// Why a collective that creates a geometry, or ends an epoch, has not begun.
pub(super) fn refusal(started: Result<Option<u32>, CollectError>) -> GeometryError {
    match started {
        Err(CollectError::Dead(node)) => GeometryError::Dead(node),
        Err(CollectError::InFlight { .. }) => GeometryError::NotSetUp,
        Err(CollectError::NotCreated(id)) => GeometryError::Busy(id),
        _ => GeometryError::Again,
    }
}

impl<A> Engine<A> {
    /// What endpoints the client has.
    pub(crate) fn population(&self) -> Population {
        self.population
    }

    /// Makes the world, if there is room and this endpoint is in it.
    pub(crate) fn make_world(&mut self, me: Endpoint, tasks: &TaskList, domains: Option<Domains<'static>>) {
        let members = match tasks {
            TaskList::Range(range) => {
                Members::range(self.population, 0..1, range.start, range.len() as u32, 1)
            }
            TaskList::Listed(list) => Members::tasks(self.population, 0..1, list, &mut []),
        };
        if let (Ok(members), Some(place)) = (members, self.geometries.first_mut()) {
            let domains = domains_of(&members, domains, self.affinities);
            *place = GeometryState::new(WORLD, members, me, domains, self.placement);
        }
    }

    /// Makes a geometry that all members know of from the start, if there is room and this endpoint is in it.
    pub(crate) fn establish(
        &mut self,
        me: Endpoint,
        id: GeometryId,
        members: Members<'static>,
        algorithms: AlgorithmList,
    ) {
        let domains = domains_of(&members, None, self.affinities);
        let entry = GeometryState::new(id, members, me, domains, self.placement);
        if let (Some(mut entry), Some(index)) = (entry, self.free_place()) {
            entry.algorithms = algorithms;
            // Nothing of it is taken for a creation.
            entry.next = CREATION + 1;
            self.geometries[index] = Some(entry);
        }
    }

    /// A place for one more geometry. The first one is the world's.
    fn free_place(&self) -> Option<usize> {
        (1..self.geometries.len()).find(|&index| self.geometries[index].is_none())
    }

    /// Has the members of the world show each other what they have, if `bulletin` finds what each shows and no boundary of an affinity
    /// domain lies between them.
    pub(crate) fn show_world(&mut self, bulletin: impl Fn(Endpoint) -> Option<&'static Bulletin>) {
        if let Some(Some(world)) = self.geometries.first_mut()
            && world.inner_domains().is_none()
        {
            world.bulletins = Bulletins::of(&world.members, world.rank, bulletin);
        }
    }

    /// Creates a geometry, of which `me` must be a member; all members do. It is called by `name`.
    ///
    /// # Errors
    /// See [`GeometryError`].
    pub(crate) fn create<P: Port>(
        &mut self,
        me: Endpoint,
        name: GeometryId,
        new: NewGeometry<A>,
        port: &P,
    ) -> Result<(), GeometryError> {
        let place = self.place(me, &new, port)?;
        let begun = self.begin(place, name, new.routed, new.done, port);
        begun.inspect_err(|_| self.take_back(place))
    }

    /// Puts one into the table, without a name. Returns its place.
    pub(super) fn place<P: Port>(
        &mut self,
        me: Endpoint,
        new: &NewGeometry<A>,
        port: &P,
    ) -> Result<usize, GeometryError> {
        let &NewGeometry { id, members, domains, algorithms, .. } = new;
        if self.geometries.is_empty() {
            return Err(GeometryError::NotSetUp);
        }
        let taken = |entry: &GeometryState| entry.id == id || entry.name == Some(id);
        if self.geometries.iter().flatten().any(taken) || id == WORLD {
            return Err(GeometryError::Taken(id));
        }
        if self.was_destroyed(id) {
            return Err(GeometryError::Used(id));
        }
        let index = self.free_place().ok_or(GeometryError::Full { limit: self.geometries.len() })?;
        let domains = domains_of(&members, domains, self.affinities);
        let entry = GeometryState::new(id, members, me, domains, self.placement);
        let mut entry = entry.ok_or(GeometryError::NotMember)?;
        (entry.name, entry.algorithms) = (None, algorithms);
        if let Some(unmade) = &mut self.unmade {
            entry.doomed = unmade.take(id.0);
        }
        self.geometries[index] = Some(entry);
        self.mark_dead(index, port);
        match self.geometries[index].as_ref().and_then(|entry| entry.dead) {
            None => Ok(index),
            Some(node) => {
                self.take_back(index);
                Err(GeometryError::Dead(node))
            }
        }
    }

    /// Takes one out of the table again that has not begun.
    pub(super) fn take_back(&mut self, place: usize) {
        if let (Some(entry), Some(unmade)) = (self.geometries[place].take(), &mut self.unmade) {
            unmade.put_back(entry.id.0, entry.doomed);
        }
    }

    /// Begins the creation of one that has its place.
    pub(super) fn begin<P: Port>(
        &mut self,
        place: usize,
        name: GeometryId,
        routed: bool,
        done: Done<A>,
        port: &P,
    ) -> Result<(), GeometryError> {
        let entry = self.geometries[place].as_mut().ok_or(GeometryError::Unknown(name))?;
        entry.name = Some(name);
        let (digest, algorithm) = (entry.digest() ^ u32::from(!routed), entry.barrier());
        let started = self.start(&mut meeting(name, algorithm, done), Start::Creation(digest), port);
        if !matches!(started, Ok(Some(_))) {
            return Err(refusal(started));
        }
        if routed
            && port.network().is_some()
            && let Some(entry) = &mut self.geometries[place]
        {
            entry.way.await_route();
        }
        Ok(())
    }

    /// Has the collectives that are called from now on be chosen from another list.
    ///
    /// # Errors
    /// [`GeometryError::Unknown`]; [`GeometryError::Busy`] while collectives of it wait for room.
    pub(crate) fn set_algorithms(
        &mut self,
        id: GeometryId,
        algorithms: AlgorithmList,
    ) -> Result<(), GeometryError> {
        let (index, _) = self.entry(id).ok_or(GeometryError::Unknown(id))?;
        // Those that wait were called before, and are not chosen for yet.
        if self.queue.has(index) {
            return Err(GeometryError::Busy(id));
        }
        if let Some(entry) = &mut self.geometries[index] {
            entry.algorithms = algorithms;
            entry.known = Known::default();
        }
        Ok(())
    }

    /// Forgets a geometry here. What comes of it later is dropped.
    ///
    /// # Errors
    /// [`GeometryError::Unknown`], [`GeometryError::Busy`], [`GeometryError::World`]; [`GeometryError::Again`] while too many
    /// are being given up.
    pub(crate) fn destroy(&mut self, id: GeometryId) -> Result<(), GeometryError> {
        if id == WORLD {
            return Err(GeometryError::World);
        }
        let (index, _) = self.entry(id).ok_or(GeometryError::Unknown(id))?;
        self.forget(index)
    }

    /// Forgets the geometry at this place of the table.
    pub(super) fn forget(&mut self, index: usize) -> Result<(), GeometryError> {
        let Some(entry) = &self.geometries[index] else { return Ok(()) };
        let (id, name, leaving) = (entry.id, entry.name.unwrap_or(entry.id), entry.way.leave());
        let busy = |slot: &CollectiveInFlight<A>| slot.geometry() == index;
        if entry.fences > 0 || self.slots.values().any(busy) || self.queue.has(index) {
            return Err(GeometryError::Busy(name));
        }
        if leaving.is_some_and(|leaving| !self.give_up(leaving)) {
            return Err(GeometryError::Again);
        }
        self.geometries[index] = None;
        if let Some(destroyed) = &mut self.destroyed {
            destroyed.write(id);
        }
        self.early.forget(|key| key.geometry == id.0);
        if let Some(herald) = &mut self.herald {
            herald.forget(id.0);
            self.answers = !herald.has_answered();
        }
        Ok(())
    }

    /// The members of a geometry of this context.
    #[inline]
    pub(crate) fn members(&self, id: GeometryId) -> Option<&Members<'static>> {
        self.entry(id).map(|(_, entry)| &entry.members)
    }

    /// One more fence of a geometry is under way, which is not forgotten before it ends. Returns whether there is one.
    pub(crate) fn fence_begins(&mut self, id: GeometryId) -> bool {
        let entry = self.geometries.iter_mut().flatten().find(|entry| entry.name == Some(id));
        entry.is_some_and(|entry| entry.fences.checked_add(1).inspect(|&more| entry.fences = more).is_some())
    }

    /// One of them has ended.
    pub(crate) fn fence_ended(&mut self, id: GeometryId) {
        if let Some(entry) = self.geometries.iter_mut().flatten().find(|entry| entry.name == Some(id)) {
            entry.fences -= 1;
        }
    }

    /// A geometry of this context.
    pub(crate) fn geometry(&self, id: GeometryId) -> Option<Geometry<'_>> {
        let (_, entry) = self.entry(id)?;
        Some(Geometry {
            id,
            epoch: entry.id,
            members: &entry.members,
            rank: entry.rank,
            size: entry.members.size(),
            started: entry.next,
            dead: entry.dead,
            domains: entry.domains.as_ref(),
            algorithms: &entry.algorithms,
            crossings: entry.crossings.get(),
            class_route: entry.way.is_open(),
        })
    }

    /// Whether the geometry is one of the last that were destroyed here.
    pub(super) fn was_destroyed(&self, id: GeometryId) -> bool {
        self.destroyed.as_ref().is_some_and(|destroyed| destroyed.contains(&id))
    }

    /// A geometry by what the application calls it, with its place in the table.
    pub(super) fn entry(&self, id: GeometryId) -> Option<(usize, &GeometryState)> {
        let mut entries = self.geometries.iter().enumerate();
        entries
            .find_map(|(index, entry)| Some((index, entry.as_ref().filter(|entry| entry.name == Some(id))?)))
    }

    /// Notes a node of a geometry's members that is dead.
    pub(super) fn mark_dead<P: Port>(&mut self, index: usize, port: &P) {
        if port.deaths() == 0 {
            return;
        }
        let Some(entry) = self.geometries[index].as_mut().filter(|entry| entry.dead.is_none()) else {
            return;
        };
        let node = |rank| port.node_of(entry.members.endpoint(rank)?.task());
        entry.dead = (0..entry.members.size()).filter_map(node).find(|&node| port.is_dead(node));
    }
}
