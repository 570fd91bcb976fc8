//! Geometries at run time: created, asked, destroyed (SPEC G-1).
//!
//! A geometry has a number, which the application chooses and which is the same at all members. Every member's context
//! creates it; the creation is itself a collective, a barrier that also compares what the members think it is. Each context
//! has an entry of fixed size for it, whatever the number of members, if they are a range or a rectangle; lists are the
//! caller's.

use super::doomed::Doomed;
use super::network::Way;
use super::wire::Key;
use super::{Collect, CollectError, Engine};
use crate::affinity::{Affinities, Crossings, Domains, RADIX};
use crate::client::Attributes;
use crate::collective::cost::Terrain;
use crate::collective::{Algorithm, Collective, Grid, Tuning};
use crate::context::{Active, Done};
use crate::device::Port;
use crate::endpoint::{Endpoint, TaskList};
use crate::geometry::{Members, Population};
use core::cell::Cell;
use core::fmt;

/// Number of a geometry, the same at all its members. A number is used once: what is still under way of a geometry that was
/// destroyed is told by it from what is of a new one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct GeometryId(pub u32);

/// All tasks of the client, each with its context 0. It is there from the start.
pub const WORLD: GeometryId = GeometryId(0);

/// A geometry to be created.
pub struct NewGeometry<P: Port> {
    /// Its number, not 0.
    pub id: GeometryId,
    /// Who takes part; the same at all of them.
    pub members: Members<'static>,
    /// The affinity domains of its ranks, the same at all of them. `None`: those of the kernel's [`Affinities`], with
    /// the default [`RADIX`].
    pub domains: Option<Domains<'static>>,
    /// Called when all members have created it.
    pub done: Done<P>,
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
    /// Collectives of the geometry are in flight.
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
            Self::Busy(id) => write!(f, "collectives of geometry {} are in flight: wait for them", id.0),
            Self::Dead(node) => write!(f, "node {node}, where a member lives, is dead"),
            Self::World => f.write_str("the world cannot be destroyed"),
        }
    }
}

impl core::error::Error for GeometryError {}

/// A geometry as one context has it.
pub(crate) struct Entry {
    pub(super) id: GeometryId,
    pub(super) members: Members<'static>,
    /// This endpoint's.
    pub(super) rank: u32,
    /// Number of its next collective.
    pub(super) next: u32,
    /// A node of its members that died.
    pub(super) dead: Option<u32>,
    pub(super) grid: Option<Grid>,
    pub(super) domains: Option<Domains<'static>>,
    pub(super) terrain: Terrain,
    crossings: Cell<Crossings>,
    pub(super) way: Way,
    /// The class route is not used any more.
    pub(super) forsaken: bool,
    /// Those of its collectives to come that were given up.
    pub(super) doomed: Doomed,
}

impl Entry {
    fn new(
        id: GeometryId,
        members: Members<'static>,
        me: Endpoint,
        domains: Option<Domains<'static>>,
        terrain: Terrain,
    ) -> Option<Self> {
        let (rank, size) = (members.rank(me)?, members.size());
        let grid = members.grid().filter(|grid| grid.size() == size);
        let domains = domains.filter(|domains| domains.size() == size);
        let per_node = domains.map_or(terrain.per_node, |domains| domains.per_node());
        let terrain = Terrain { size, per_node, ..terrain };
        let (crossings, way) = (Cell::default(), Way::Off);
        Some(Self {
            id,
            members,
            rank,
            next: 0,
            dead: None,
            grid,
            domains,
            terrain,
            crossings,
            way,
            forsaken: false,
            doomed: Doomed::default(),
        })
    }

    /// Domains inside a node that messages can cross the boundaries of.
    fn inner_domains(&self) -> Option<Domains<'static>> {
        self.domains.filter(Domains::matter)
    }

    /// How the engine's own barriers go: they cross as few boundaries as can be (SPEC A-6).
    pub(super) fn barrier(&self) -> Algorithm {
        self.inner_domains().map_or(Algorithm::Dissemination, |_| Algorithm::Affinity)
    }

    /// How the engine's own broadcasts go.
    pub(super) fn broadcast(&self) -> Algorithm {
        self.inner_domains().map_or(Algorithm::Binomial, |_| Algorithm::Affinity)
    }

    /// A message of a collective goes to a rank.
    pub(super) fn count(&self, to: u32) {
        if let Some(level) = self.domains.as_ref().and_then(|domains| domains.meet(self.rank, to)) {
            let mut crossings = self.crossings.get();
            crossings.count(level);
            self.crossings.set(crossings);
        }
    }

    /// Takes the number of the next collective.
    pub(super) fn number(&mut self) -> u32 {
        let sequence = self.next;
        self.next = sequence.wrapping_add(1);
        sequence
    }

    /// What members compare when they create it.
    pub(super) fn digest(&self) -> u32 {
        let mut digest = Digest::new();
        digest.add(self.members.size());
        digest.add(self.members.task_count());
        for members in self.members.digests() {
            digest.add(members as u32);
            digest.add((members >> 32) as u32);
        }
        // Who knows of other domains would choose other algorithms.
        self.domains.iter().flat_map(Domains::words).for_each(|word| digest.add(word));
        digest.value()
    }
}

/// A checksum of what members must agree in (Fowler, Noll, Vo: FNV-1a).
pub(super) struct Digest(u32);

impl Digest {
    pub(super) fn new() -> Self {
        Self(0x811c_9dc5)
    }

    pub(super) fn add(&mut self, word: u32) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }

    pub(super) fn value(&self) -> u32 {
        self.0
    }
}

/// What can be asked of a geometry.
#[derive(Clone, Copy, Debug)]
pub struct Geometry<'a> {
    /// Its number.
    pub id: GeometryId,
    /// Who takes part.
    pub members: &'a Members<'static>,
    /// This endpoint's rank.
    pub rank: u32,
    /// Number of ranks.
    pub size: u32,
    /// Collectives started here so far, its creation included.
    pub started: u32,
    /// A node of its members that died.
    pub dead: Option<u32>,
    /// The affinity domains of its ranks, if they are known.
    pub domains: Option<&'a Domains<'static>>,
    /// What this endpoint sent in it: for its collectives, for the barriers that the engine puts between them, and for its
    /// creation.
    pub crossings: Crossings,
    /// Whether it has a class route of the tree network.
    pub class_route: bool,
}

/// Where a client's tasks are, as far as one context knows.
pub(crate) fn terrain(attributes: &Attributes) -> Terrain {
    let torus = attributes.torus;
    let nodes = torus.nodes().max(1);
    let across = |d: usize| {
        let extent = u32::from(torus.extent(d));
        if torus.wraps(d) { extent / 2 } else { extent - 1 }
    };
    let diameter = (0..crate::topology::MAX_DIMENSIONS).map(across).sum::<u32>();
    Terrain {
        size: attributes.tasks,
        per_node: attributes.tasks.div_ceil(nodes).max(1),
        hops: diameter.div_ceil(2).max(1),
        diameter,
    }
}

/// The domains that the caller gives, or those that the kernel knows.
fn domains_of(
    members: &Members<'static>,
    given: Option<Domains<'static>>,
    affinities: Option<Affinities>,
) -> Option<Domains<'static>> {
    given.or_else(|| affinities?.domains(members, RADIX))
}

impl<P: Port> Engine<P> {
    /// Makes the world, if there is room and this context is in it.
    pub(crate) fn make_world(
        &mut self,
        me: Endpoint,
        population: Population,
        tasks: &TaskList,
        affinity: (Option<Domains<'static>>, Option<Affinities>),
        terrain: Terrain,
    ) {
        let members = match tasks {
            TaskList::Range(range) => Members::range(population, 0..1, range.start, range.len() as u32, 1),
            TaskList::Listed(list) => Members::tasks(population, 0..1, list, &mut []),
        };
        if let (Ok(members), Some(place)) = (members, self.geometries.first_mut()) {
            let (given, affinities) = affinity;
            *place = Entry::new(WORLD, members, me, domains_of(&members, given, affinities), terrain);
        }
    }

    /// Whether the geometry is one of the last that were destroyed here.
    pub(super) fn was_destroyed(&self, id: GeometryId) -> bool {
        self.destroyed.contains(&id)
    }

    pub(super) fn entry(&self, id: GeometryId) -> Option<(usize, &Entry)> {
        let mut entries = self.geometries.iter().enumerate();
        entries.find_map(|(index, entry)| Some((index, entry.as_ref().filter(|entry| entry.id == id)?)))
    }
}

impl<P: Port> Active<P> {
    /// What endpoints this context's client has, to make [`Members`] of.
    pub fn population(&self) -> Population {
        Population { client: self.transport.me.client(), tasks: self.tasks, contexts: self.contexts }
    }

    /// Creates a geometry, of which this context's endpoint must be a member; all members do, in any order among other
    /// geometries. On nodes with a tree network its collectives may be started once it is created, elsewhere at once. The
    /// callback is not called before the next advance; it hears
    /// [`OperationError::Mismatch`](crate::OperationError::Mismatch) if another member named others.
    ///
    /// # Errors
    /// See [`GeometryError`].
    pub fn create_geometry(&mut self, new: NewGeometry<P>) -> Result<(), GeometryError> {
        let NewGeometry { id, members, domains, done } = new;
        if self.collectives.geometries.is_empty() {
            return Err(GeometryError::NotSetUp);
        }
        if id == WORLD || self.collectives.entry(id).is_some() {
            return Err(GeometryError::Taken(id));
        }
        if self.collectives.was_destroyed(id) {
            return Err(GeometryError::Used(id));
        }
        let full = GeometryError::Full { limit: self.collectives.geometries.len() };
        // The first place is the world's.
        let free = |&index: &usize| self.collectives.geometries[index].is_none();
        let index = (1..self.collectives.geometries.len()).find(free).ok_or(full)?;
        let domains = domains_of(&members, domains, self.affinities);
        let entry = Entry::new(id, members, self.transport.me, domains, self.terrain);
        let mut entry = entry.ok_or(GeometryError::NotMember)?;
        entry.doomed = self.collectives.unmade.take(id.0);
        let digest = entry.digest();
        let algorithm = Some((entry.barrier(), Tuning { radix: 2, chunk: 1 }));
        self.collectives.geometries[index] = Some(entry);
        self.mark_dead(index);
        let barrier = Collect { algorithm, ..Collect::new(id, Collective::Barrier, done) };
        if let Err(error) = self.start(barrier, Some(digest)) {
            if let Some(entry) = self.collectives.geometries[index].take() {
                self.collectives.unmade.put_back(id.0, entry.doomed);
            }
            return Err(match error {
                CollectError::Dead(node) => GeometryError::Dead(node),
                CollectError::InFlight { .. } => GeometryError::NotSetUp,
                _ => GeometryError::Again,
            });
        }
        if self.is_on_tree()
            && let Some(entry) = &mut self.collectives.geometries[index]
        {
            entry.way = Way::Pending;
        }
        Ok(())
    }

    /// Forgets a geometry here. Every member does so for itself, after its last collective of the geometry. What comes of it
    /// later is dropped.
    ///
    /// # Errors
    /// [`GeometryError::Unknown`], [`GeometryError::Busy`], [`GeometryError::World`]; [`GeometryError::Again`] while too many
    /// are being given up.
    pub fn destroy_geometry(&mut self, id: GeometryId) -> Result<(), GeometryError> {
        if id == WORLD {
            return Err(GeometryError::World);
        }
        let (index, _) = self.collectives.entry(id).ok_or(GeometryError::Unknown(id))?;
        let busy = |slot: &super::Slot<P>| usize::from(slot.geometry) == index;
        if self.collectives.slots.iter().any(busy) {
            return Err(GeometryError::Busy(id));
        }
        let leaving = self.collectives.geometries[index].as_ref().and_then(Entry::leave);
        if leaving.is_some_and(|leaving| !self.collectives.give_up(leaving)) {
            return Err(GeometryError::Again);
        }
        self.stir();
        self.collectives.geometries[index] = None;
        self.collectives.destroyed.write(id);
        self.collectives.early.forget(|key: Key| key.geometry == id.0);
        Ok(())
    }

    /// A geometry of this context.
    pub fn geometry(&self, id: GeometryId) -> Option<Geometry<'_>> {
        let (_, entry) = self.collectives.entry(id)?;
        Some(Geometry {
            id,
            members: &entry.members,
            rank: entry.rank,
            size: entry.members.size(),
            started: entry.next,
            dead: entry.dead,
            domains: entry.domains.as_ref(),
            crossings: entry.crossings.get(),
            class_route: entry.has_route(),
        })
    }
}
