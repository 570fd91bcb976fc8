//! Runs schedules inside `advance`: collectives at run time (SPEC G-1 to G-3, G-9).
//!
//! Each context that has [`Limits`] has an engine: a table of geometries, a fixed pool of slots for
//! collectives in flight, and a pool for messages that come before their collective. Nothing is allocated.
//!
//! # Messages
//!
//! Every message is one packet of kind [`Collective`](crate::packet::Kind::Collective); see `wire`. It names the
//! geometry, the number of the collective in it and the tag, so it finds its receive whatever order things come in.
//!
//! | message | when | what the target does |
//! |---|---|---|
//! | short | the data fits [`SHORT_LIMIT`] and a packet | puts it in place, or keeps it |
//! | clear | a receive of longer data was started | offers the data once it comes to that, or keeps the clear |
//! | offer | the target has cleared long data | gets it to its place |
//! | taken | it is there | has its memory back |
//! | data | the target has cleared data that a packet has room for, or that no region is left for | puts it in place |
//! | abort | the collective ends badly | ends it as well |
//! | report | a member sees that it ends badly | tells all members, or has the origin do that |
//! | tell | a report is of what is not in flight here | tells all members |
//! | request | there is no credit for a short message; longer data was not cleared for [`PROBE_NS`]; not all endpoints are instructed | compares what is meant, and clears it if the receive is there; keeps it if it announces a collective |
//! | credit | short messages were taken | may send more eagerly |
//!
//! So a short message takes one packet and half a round trip, and a collective's first ones leave in its call, if it has its turn
//! then. Of long data the target speaks first, since it knows as
//! well as the origin what comes: it is offered half a round trip after both are there, or at once if the target was
//! earlier by that much, and goes by the bulk transfer (`bulk`). It never waits anywhere but in the memory that it is of. What is kept early is short messages
//! and clears, in [`Limits::early`] places. Members cannot run far ahead of each other: a collective begins when all
//! but [`WINDOW`] before it in its geometry are done here, and after [`WINDOW`] collectives in a row that some member
//! may leave before another has begun, such as broadcasts, the next begins with a barrier, which goes by affinity
//! domains and is counted as the collectives are (SPEC A-6). A member thus gets at most the messages of twice as many
//! collectives early.
//!
//! Reductions that need more scratch memory than every member has go in runs ([`Collect::scratch_limit`]). In runs
//! every message is cleared first, however short.
//!
//! # No circle of waits (SPEC R-1)
//!
//! What comes early never waits in front of the FIFO. A short message goes eagerly only with *credit*: its target has a
//! place for it whatever else comes (`early`). Without credit it goes as longer data does, when its receive has cleared
//! it, and its origin keeps it where it is. A clear that finds no place is forgotten; a message that waits for one then
//! asks. A request is repeated by its origin. So a collective waits for nothing but the begin of the same collective at
//! other members, for another collective only as long as its gets are under way; each geometry has room for one ([`Limits::always`]), and what finds
//! none waits for its own geometry's (`queue`); the members of a geometry begin its collectives in one order, and what an
//! application waits for otherwise comes in. An abort that comes before its collective, or before its geometry, is kept in a
//! place of its own (`doomed`), which always has room.
//!
//! # Errors
//!
//! A call that is wrong by itself is refused. One that differs from another member's, where a message can show it, ends
//! with an error at the member that sees it, which has all others told (`herald`). A node that dies ends the collectives of all its
//! geometries at all members, with its name.
//!
//! Collectives that go through the tree network are the subject of `network`, those that go by bulletins of `bulletins`.
//!
//! # Layers
//!
//! | layer | files | what |
//! |---|---|---|
//! | sweep | `advance`, `arrive`, `queue`, `geometries`, `epochs`, `announce` | what a context asks of its engine |
//! | start | `start`, `again` | what begins, and what begins once more |
//! | routes | `network` | class routes of geometries |
//! | table | `slots`, `memory` | those in flight; what an engine is made of |
//! | collective | `slot` | one in flight: its messages, its steps, its end |
//! | call | `check` | what a call comes to |
//! | shares | `parts`, `passage` | what an endpoint does of it; a vector in the tree network |
//! | state | `geometry`, `transfer` | a geometry as a member has it; a message under way |
//! | parts of state | `areas`, `bulletins`, `bulk`, `contacts`, `doomed`, `early`, `route`, `known` | memory, what members show each other, what is lent and got, who was spoken with, what was given up, what came early, a class route, the last calls |
//! | share | `part` | a schedule that an endpoint is to run |
//! | heralds | `herald` | who tells of a failure |
//! | words | `request`, `wire` | what callers say, what packets say |
//! | measures | `limits` | how much of everything |
//!
//! Nothing here knows of contexts: who advances one hands the engine its transport, and calls what the engine says is over.

mod advance;
mod again;
mod announce;
mod areas;
mod arrive;
mod bulk;
mod bulletins;
mod check;
mod contacts;
mod doomed;
mod early;
mod epochs;
mod geometries;
mod geometry;
mod herald;
mod known;
mod limits;
mod memory;
mod network;
mod part;
mod parts;
mod passage;
mod queue;
mod request;
mod route;
mod slot;
mod slots;
mod start;
mod transfer;
mod wire;

pub use super::cost::SHORT_LIMIT;
pub use crate::geometry::{GeometryId, WORLD};
pub use announce::{Announcement, OnAnnounced};
pub(crate) use bulk::{BulkMemory, FIRST_PULL, PULLS};
pub(crate) use doomed::Unmade;
pub(crate) use early::{EarlyData, EarlyMemory};
pub use geometries::{Geometry, GeometryError, NewGeometry};
pub(crate) use herald::Herald;
pub use limits::{Limits, PROBE_NS, WINDOW};
pub use memory::EngineMemory;
pub use queue::CollectMemory;
pub use request::{Collect, CollectError};

use super::cost::PlacementStatistics;
use crate::affinity::Affinities;
use crate::combine::CLASS_ROUTES;
use crate::endpoint::Endpoint;
use crate::geometry::Population;
use bulk::Bulk;
use bulletins::OnBulletins;
use early::EarlyMessages;
use geometry::GeometryState;
use heapless::{HistoryBuf, Vec};
use queue::Queue;
use rings::list::List;
use rings::shared::Shared;
use route::Leaving;
use slot::CollectiveInFlight;
use slots::Slots;

/// Geometries that were destroyed of which late messages are known as such.
const DESTROYED: usize = 64;
/// Those geometries.
pub(crate) type Destroyed = HistoryBuf<GeometryId, DESTROYED>;

/// The collectives of one context. `A` is what callbacks are handed.
pub(crate) struct Engine<A: 'static> {
    /// Those in flight, and parts of them.
    slots: Slots<A>,
    /// The same, in the order of starts.
    in_flight: List,
    /// Those that found no room. If there are any, some are in flight.
    queue: Queue<A>,
    geometries: &'static mut [Option<GeometryState>],
    /// See [`Limits::always`].
    always: usize,
    early: EarlyMessages,
    /// There are epochs that have ended.
    retires: bool,
    /// Calls that were found good and noted, in all geometries: the name of the last one.
    noted: u64,
    bulk: Bulk,
    /// What was given up of geometries that are not made here yet. Nothing is noted where there are no collectives.
    unmade: Option<&'static mut Unmade>,
    /// The last ones that were destroyed. A clear may come after its collective has ended well, and anything after one
    /// that has not.
    destroyed: Option<&'static mut Destroyed>,
    herald: Option<&'static mut Herald>,
    /// It has answers to send.
    answers: bool,
    /// What the members of a new geometry are told.
    notes: Option<Shared>,
    /// Class routes of geometries that were destroyed; no more than a node can have.
    leaving: Vec<Leaving, CLASS_ROUTES>,
    on_announced: Option<OnAnnounced<A>>,
    /// A message has come that announces a collective which has not begun here.
    calls: bool,
    /// What became of the collective that went on last, on bulletins.
    on_bulletins: OnBulletins,
    /// When the slots were last looked over for those that do not move.
    looked_ns: u64,
    /// What endpoints the client has, where its tasks are, and where threads run.
    population: Population,
    placement: PlacementStatistics,
    affinities: Option<Affinities>,
}

impl<A> Engine<A> {
    pub(crate) fn new(
        memory: EngineMemory<A>,
        population: Population,
        placement: PlacementStatistics,
        affinities: Option<Affinities>,
    ) -> Self {
        let EngineMemory { slots, queue, geometries, always, early, bulk, unmade, destroyed, herald, notes } =
            memory;
        let peers = population.tasks as usize * usize::from(population.contexts);
        let early = EarlyMessages::new(early, peers);
        Self {
            slots: Slots::new(slots),
            in_flight: List::EMPTY,
            queue: Queue::new(queue),
            geometries,
            always,
            early,
            retires: false,
            noted: 0,
            bulk: Bulk::new(bulk),
            unmade,
            destroyed,
            herald,
            answers: false,
            notes,
            leaving: Vec::new(),
            on_announced: None,
            calls: false,
            on_bulletins: OnBulletins::Nothing,
            looked_ns: 0,
            population,
            placement,
            affinities,
        }
    }

    pub(crate) fn into_memory(self) -> EngineMemory<A> {
        let Self {
            slots,
            queue,
            geometries,
            always,
            early,
            bulk,
            mut unmade,
            mut destroyed,
            mut herald,
            notes,
            ..
        } = self;
        geometries.fill_with(|| None);
        if let Some(destroyed) = &mut destroyed {
            destroyed.clear();
        }
        if let Some(unmade) = &mut unmade {
            unmade.clear();
        }
        if let Some(herald) = &mut herald {
            herald.clear();
        }
        let (slots, queue, early) = (slots.into_slots(), queue.into_slots(), early.into_memory());
        EngineMemory {
            slots,
            queue,
            geometries,
            always,
            early,
            bulk: bulk.into_memory(),
            unmade,
            destroyed,
            herald,
            notes,
        }
    }

    /// Whether no collective is in flight, and no class route is being given up.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.leaving.is_empty()
    }

    /// Whether nobody waits for anything from here.
    pub(crate) fn has_told_all(&self) -> bool {
        self.slots.is_empty()
            && self.queue.is_empty()
            && self.leaving.iter().all(Leaving::has_told)
            && !self.answers
    }

    /// Whether nothing becomes of the collectives in flight before something arrives, if the last advance moved none.
    pub(crate) fn is_stalled(&self) -> bool {
        self.only_runs()
            // Of several that wait on bulletins only one is looked at.
            && (matches!(self.on_bulletins, OnBulletins::Nothing) || self.slots.len() == 1)
            && self.slots.values().all(CollectiveInFlight::is_stalled)
    }

    /// Whether all that is under way is a collective on bulletins, of which [`sees`](Self::sees) tells when it is to go on.
    #[inline]
    pub(crate) fn is_on_bulletins_alone(&self) -> bool {
        !matches!(self.on_bulletins, OnBulletins::Nothing) && self.slots.len() == 1 && self.only_runs()
    }

    /// Whether there is nothing to do but for collectives in flight.
    #[inline(always)]
    fn only_runs(&self) -> bool {
        !self.calls && !self.queue.must_retry() && !self.answers && self.leaving.is_empty()
    }

    /// Whether what a collective waits for on a bulletin has come, or it is over.
    #[inline]
    pub(crate) fn sees(&self) -> bool {
        match self.on_bulletins {
            OnBulletins::Nothing => false,
            OnBulletins::Awaits(awaited) => awaited.is_there(),
            OnBulletins::Over => true,
        }
    }

    /// Whether an advance has nothing to do for collectives.
    #[inline]
    pub(crate) fn rests(&self) -> bool {
        self.is_idle() && !self.calls && !self.early.owes_credit() && !self.answers
    }

    /// Calls `note` with each endpoint that a collective waits for.
    pub(crate) fn for_awaited(&self, mut note: impl FnMut(Endpoint)) {
        for slot in self.slots.values() {
            slot.for_awaited(&mut note);
        }
    }

    /// When a sleeper has to look again.
    pub(crate) fn look_ns(&self) -> Option<u64> {
        (!self.slots.is_empty()).then(|| self.looked_ns.saturating_add(PROBE_NS))
    }
}
