//! What one context knows of a geometry that it is in (SPEC G-1).
//!
//! An entry is data, of parts that see to themselves. It is of fixed size, whatever the number of members, if they are a range or a rectangle; lists are the
//! caller's.

use super::bulletins::Bulletins;
use super::contacts::Contacts;
use super::doomed::Doomed;
use super::known::Known;
use super::route::{Channel, Way};
use super::wire::Key;
use crate::affinity::{Crossings, Domains};
use crate::collective::cost::PlacementStatistics;
use crate::collective::{Algorithm, AlgorithmList, Collective, Grid};
use crate::combine::{Census, ClassRoute};
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::geometry::{GeometryId, Members};
use core::cell::Cell;

/// How an epoch ends here.
#[derive(Clone, Copy)]
pub(super) struct EpochEnd {
    /// Its last collective.
    pub(super) last: Key,
    /// The creation of the one that comes after it, if this endpoint is in that.
    pub(super) next: Option<Key>,
}

/// A geometry as one context has it.
pub(crate) struct GeometryState {
    /// Its number in messages.
    pub(super) id: GeometryId,
    /// What the application calls it by: the number of its first epoch. None: it has ended, and goes when nothing of it is in
    /// flight.
    pub(super) name: Option<GeometryId>,
    pub(super) end: Option<EpochEnd>,
    pub(super) members: Members<'static>,
    /// This endpoint's.
    pub(super) rank: u32,
    /// Number of its next collective.
    pub(super) next: u32,
    /// A node of its members that died.
    pub(super) dead: Option<u32>,
    pub(super) grid: Option<Grid>,
    pub(super) domains: Option<Domains<'static>>,
    /// What its collectives are chosen from.
    pub(super) algorithms: AlgorithmList,
    pub(super) placement: PlacementStatistics,
    pub(super) crossings: Cell<Crossings>,
    pub(super) way: Way,
    /// What its members show each other, if they do.
    pub(super) bulletins: Option<Bulletins>,
    /// Those of its collectives to come that were given up.
    pub(super) doomed: Doomed,
    /// What its last calls came to.
    pub(super) known: Known,
    /// Who of its members was spoken with last.
    pub(super) contacts: Contacts,
    /// Fences of it that have not ended here.
    pub(super) fences: u16,
}

impl GeometryState {
    pub(super) fn new(
        id: GeometryId,
        members: Members<'static>,
        me: Endpoint,
        domains: Option<Domains<'static>>,
        placement: PlacementStatistics,
    ) -> Option<Self> {
        let (rank, size) = (members.rank(me)?, members.size());
        let grid = members.grid().filter(|grid| grid.size() == size);
        let per_node = domains.map_or(placement.per_node, |domains| domains.per_node());
        let fanout = domains.map_or(0, |domains| domains.fanout());
        let placement = PlacementStatistics { size, per_node, fanout, ..placement };
        let (crossings, way) = (Cell::default(), Way::default());
        Some(Self {
            id,
            name: Some(id),
            end: None,
            members,
            rank,
            next: 0,
            dead: None,
            grid,
            domains,
            algorithms: AlgorithmList::ALL,
            placement,
            crossings,
            way,
            bulletins: None,
            doomed: Doomed::default(),
            known: Known::default(),
            contacts: Contacts::default(),
            fences: 0,
        })
    }

    /// Domains inside a node that messages can cross the boundaries of.
    pub(super) fn inner_domains(&self) -> Option<Domains<'static>> {
        self.domains.filter(Domains::matter)
    }

    /// How the engine's own barriers go: they cross as few boundaries as can be (SPEC A-6).
    pub(super) fn barrier(&self) -> Algorithm {
        self.inner_domains().map_or(Algorithm::Dissemination, |_| Algorithm::Affinity)
    }

    /// Whether the engine itself goes by an algorithm: what is created or given up does, whatever the list says.
    pub(super) fn goes_by(&self, what: Collective, algorithm: Algorithm) -> bool {
        what == Collective::Barrier && (algorithm == Algorithm::Dissemination || algorithm == self.barrier())
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

    /// What members compare when they create it.
    pub(super) fn digest(&self) -> u32 {
        digest(&self.members, self.domains.as_ref(), &self.algorithms)
    }

    fn leader(&self, rank: u32) -> u32 {
        self.domains.map_or(rank, |domains| domains.leader(rank))
    }

    /// The channel of a class route, if this member leads its node's.
    pub(super) fn channel(&self, route: ClassRoute) -> Option<Channel> {
        let leads = self.leader(self.rank) == self.rank;
        let owned = self.rank == 0 && !route.is_world();
        // What an earlier client of the place has left on the world's is no collective of this one's.
        let generation = self.members.endpoint(self.rank).map_or(0, |own| own.client().generation());
        let mut first = Digest::new();
        first.add(u32::from(generation));
        leads.then(|| Channel::new(route, owned, first.value()))
    }

    /// The nodes, if they can have a class route.
    pub(super) fn census<P: Port>(&self, port: &P) -> Option<Census> {
        let mut census = Census::new();
        for rank in (0..self.members.size()).filter(|&rank| self.leader(rank) == rank) {
            census.add(port.node_of(self.members.endpoint(rank)?.task())?).ok()?;
        }
        (census.nodes() > 1).then_some(census)
    }
}

/// What members of a geometry compare.
pub(super) fn digest(
    members: &Members<'_>,
    domains: Option<&Domains<'_>>,
    algorithms: &AlgorithmList,
) -> u32 {
    let mut digest = Digest::new();
    digest.add(members.size());
    digest.add(members.task_count());
    for members in members.digests() {
        digest.add(members as u32);
        digest.add((members >> 32) as u32);
    }
    // Who knows of other domains, or has another list, would choose other algorithms.
    domains.into_iter().flat_map(Domains::words).for_each(|word| digest.add(word));
    algorithms.words().for_each(|word| digest.add(word));
    digest.value()
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
