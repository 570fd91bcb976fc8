//! Collectives from their call to their end: started in order, as room allows.

use super::arena::{Arena, together};
use super::lists::Lists;
use super::side::Side;
use crate::error::{Class, Error, Result};
use crate::library::{fill, shared};
use crate::message::Handling;
use crate::op::{Combiner, UserPlace};
use crate::protocols::Protocols;
use crate::request::{NONE, Requests};
use crate::settings::Settings;
use crate::status::Status;
use core::ops::Range;
use pami::client::Node;
use pami::collective::{self, Collective};
use pami::device::Port;
use pami::{Active, Collect, CollectError, GeometryId};

/// Lengths of a block of each process.
#[derive(Clone, Copy)]
pub(super) enum Sizes {
    Equal(usize),
    /// All that this process knows of blocks of any lengths is its own one; the root, whose rank this is, knows all.
    Own(usize, u32),
    Listed(usize),
}

/// A collective as this process calls it.
pub(super) struct Plan {
    pub what: Collective,
    pub root: u32,
    pub in_place: bool,
    pub combiner: Option<Combiner>,
    pub blocks: Sizes,
    pub sources: Sizes,
    /// Every process knows all blocks.
    pub known_blocks: bool,
    pub send: Option<Side>,
    pub receive: Option<Side>,
}

impl Plan {
    /// One of no data.
    pub fn new(what: Collective) -> Self {
        Self {
            what,
            root: 0,
            in_place: false,
            combiner: None,
            blocks: Sizes::Equal(0),
            sources: Sizes::Equal(0),
            known_blocks: true,
            send: None,
            receive: None,
        }
    }
}

/// A collective that was called.
struct Flight {
    plan: Plan,
    geometry: GeometryId,
    size: u32,
    request: u16,
    /// By which the layer below knows the request.
    cookie: usize,
    /// Counts the calls of the context.
    number: u64,
    started: bool,
    /// Calls that could not be, one behind the other: their class, and how many.
    refused: Option<(Class, u32)>,
    /// Its scratch memory: all of it, and where the two sides begin.
    held: Range<usize>,
    places: [usize; 2],
}

impl Flight {
    /// A call that could not be.
    fn refusal((geometry, size): (GeometryId, u32), number: u64, class: Class) -> Self {
        Self {
            plan: Plan::new(Collective::Barrier),
            geometry,
            size,
            request: NONE,
            cookie: NOBODYS,
            number,
            started: false,
            refused: Some((class, 1)),
            held: 0..0,
            places: [0; 2],
        }
    }
}

/// By which the layer below knows calls that could not be.
const NOBODYS: usize = usize::MAX;

/// What became of an attempt to start.
enum Start {
    Started,
    /// The other processes know that a call could not be.
    Refused,
    /// There is no room now.
    Again,
}

/// The collectives of one context.
#[derive(Default)]
pub(crate) struct Collectives {
    /// Twice as many as there can be calls under way: as many again may be refused meanwhile.
    flights: &'static mut [Option<Flight>],
    /// Calls that were not refused.
    under_way: usize,
    limit: usize,
    /// Bytes of scratch memory that every process has left for the layer below, whatever its data takes.
    scratch_limit: usize,
    /// The applications' operators of these.
    users: &'static [UserPlace],
    arena: Arena,
    pub(super) lists: Lists,
    calls: u64,
    /// Called and not started.
    waiting: usize,
}

/// What completes requests, and what collectives go through.
pub(crate) type Means<'a, P> = (&'a Handling<P>, &'a Protocols);

impl Collectives {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        Ok(Self {
            flights: fill(node, 2 * settings.collective_requests + 1, || None)?,
            under_way: 0,
            scratch_limit: settings.collective_scratch / 2,
            limit: settings.collective_requests,
            users: fill(node, 2 * settings.collective_requests + 1, UserPlace::new)?,
            arena: Arena::new(shared(node, settings.collective_scratch)?),
            lists: Lists::new(node, settings.collective_lists)?,
            calls: 0,
            waiting: 0,
        })
    }

    /// Whether collectives were called that have not started.
    pub(crate) fn are_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether some of this geometry were: what starts now would overtake them.
    pub(crate) fn has_waiting(&self, geometry: GeometryId) -> bool {
        self.waiting > 0 && self.flights.iter().flatten().any(|it| !it.started && it.geometry == geometry)
    }

    /// Gives back what a plan has of the pool.
    pub(super) fn drop_plan(&mut self, plan: &Plan) {
        let sides = [&plan.send, &plan.receive].into_iter().flatten().filter_map(Side::list);
        let sizes = [plan.blocks, plan.sources].into_iter().filter_map(|sizes| match sizes {
            Sizes::Listed(list) => Some(list),
            _ => None,
        });
        for list in sides.chain(sizes) {
            self.lists.release(list);
        }
    }

    /// Takes a call, starts it if it can be, and keeps it otherwise.
    ///
    /// # Errors
    /// Why it cannot be started at all.
    pub(super) fn call<P: Port>(
        &mut self,
        active: &mut Active<P>,
        (geometry, size): (GeometryId, u32),
        plan: Plan,
        (request, cookie): (u16, usize),
        means: Means<'_, P>,
    ) -> Result<()> {
        let limit = self.limit;
        let behind = self.has_waiting(geometry);
        let free = self.flights.iter().position(Option::is_none).filter(|_| self.under_way < limit);
        let Some(index) = free else {
            self.drop_plan(&plan);
            return Err(Error::NoMem { what: "collectives under way", limit });
        };
        self.calls += 1;
        self.under_way += 1;
        let flight = Flight {
            plan,
            geometry,
            size,
            request,
            cookie,
            number: self.calls,
            started: false,
            refused: None,
            held: 0..0,
            places: [0; 2],
        };
        self.flights[index] = Some(flight);
        self.waiting += 1;
        if behind {
            return Ok(());
        }
        match self.start(active, index, means) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.remove(index);
                Err(error)
            }
        }
    }

    /// A call could not be, for a reason of this class: when its turn comes, all processes are told. Returns whether there
    /// was a place to note it.
    pub(super) fn refuse<P: Port>(
        &mut self,
        active: &mut Active<P>,
        (geometry, size): (GeometryId, u32),
        class: Class,
        means: Means<'_, P>,
    ) -> bool {
        let waits = |flight: &&mut Flight| !flight.started && flight.geometry == geometry;
        let last = self.flights.iter_mut().flatten().filter(waits).max_by_key(|flight| flight.number);
        let behind = last.is_some();
        if let Some(Flight { refused: Some((before, times)), .. }) = last
            && *before == class
        {
            *times += 1;
            return true;
        }
        let Some(index) = self.flights.iter().position(Option::is_none) else { return false };
        self.calls += 1;
        self.flights[index] = Some(Flight::refusal((geometry, size), self.calls, class));
        self.waiting += 1;
        if !behind && !matches!(self.start(active, index, means), Ok(Start::Again)) {
            self.remove(index);
        }
        true
    }

    fn remove(&mut self, index: usize) -> Option<Flight> {
        let flight = self.flights[index].take()?;
        self.waiting -= usize::from(!flight.started);
        self.under_way -= usize::from(flight.refused.is_none());
        if let (Some(Combiner::User(_)), Some(place)) = (&flight.plan.combiner, self.users.get(index)) {
            place.clear();
        }
        self.drop_plan(&flight.plan);
        Some(flight)
    }

    fn sizes(&self, sizes: Sizes, size: u32) -> Result<collective::Blocks<'static>> {
        Ok(match sizes {
            Sizes::Equal(len) => collective::Blocks::equal(len),
            // With a gap they are not taken for blocks that are equal at all processes.
            Sizes::Own(len, root) => collective::Blocks::equal(len).window(0, Some(root)),
            Sizes::Listed(list) => self.lists.blocks(list, size)?,
        })
    }

    fn start<P: Port>(&mut self, active: &mut Active<P>, index: usize, means: Means<'_, P>) -> Result<Start> {
        let Some(flight) = &mut self.flights[index] else { return Ok(Start::Started) };
        if let Some((class, times)) = &mut flight.refused {
            while *times > 0 {
                match active.abandon(flight.geometry, *class as u16, means.0.ended(NOBODYS)) {
                    Err(CollectError::Again) => return Ok(Start::Again),
                    // Without the geometry, or a member, nobody waits for this.
                    _ => *times -= 1,
                }
            }
            return Ok(Start::Refused);
        }
        let Some(flight) = &self.flights[index] else { return Ok(Start::Started) };
        let plan = &flight.plan;
        let reducer = match &plan.combiner {
            None => None,
            Some(Combiner::Known(reducer)) => Some(*reducer),
            Some(Combiner::User(user)) => self.users.get(index).and_then(|place| place.reducer(user)),
        };
        let mut collect = Collect {
            root: plan.root,
            blocks: self.sizes(plan.blocks, flight.size)?,
            sources: self.sizes(plan.sources, flight.size)?,
            known_blocks: plan.known_blocks,
            reducer,
            in_place: plan.in_place,
            scratch_limit: self.scratch_limit,
            ..Collect::new(flight.geometry, plan.what, means.0.ended(flight.cookie))
        };
        let work = match active.scratch_len(&collect) {
            Err(CollectError::Again) => return Ok(Start::Again),
            len => len?,
        };
        let scratch = |side: &Option<Side>| side.as_ref().map_or(0, Side::scratch);
        let lens = [scratch(&plan.send), scratch(&plan.receive), work];
        let (len, starts) = together(lens).ok_or(Error::Count(usize::MAX))?;
        let used = self.flights.iter().flatten().map(|flight| flight.held.clone());
        let used = used.filter(|range| !range.is_empty());
        let Some(base) = self.arena.find(len, used)? else { return Ok(Start::Again) };
        let memory = self.arena.memory().ok_or(Error::Finalized)?;
        let [send, receive, scratch] = starts.map(|start| base + start);
        let sides = [(&plan.send, send, &mut collect.input), (&plan.receive, receive, &mut collect.output)];
        for (side, at, area) in sides {
            if let Some(side) = side {
                side.pack(&self.lists, memory, at)?;
                *area = Some(side.place(memory, at));
            }
        }
        collect.scratch = Some((memory.clone(), scratch));
        match means.1.collect(active, collect) {
            Err(CollectError::Again) => return Ok(Start::Again),
            started => started?,
        }
        if let Some(flight) = &mut self.flights[index] {
            flight.started = true;
            flight.held = base..base + len;
            flight.places = [send, receive];
            self.waiting -= 1;
        }
        Ok(Start::Started)
    }

    /// Starts what waits and has room now, in the order of calls within each communicator. Those that cannot be started at
    /// all end with the error.
    pub(crate) fn go_on<P: Port>(
        &mut self,
        active: &mut Active<P>,
        requests: &mut Requests,
        means: Means<'_, P>,
    ) {
        let mut after = 0;
        while self.waiting > 0 {
            let waits = |flight: &&Flight| !flight.started && flight.number > after;
            // Only the first of each communicator may start.
            let first = |flight: &&Flight| {
                let earlier = |other: &Flight| {
                    !other.started && other.geometry == flight.geometry && other.number < flight.number
                };
                !self.flights.iter().flatten().any(earlier)
            };
            let candidates = self.flights.iter().flatten().filter(waits).filter(first);
            let Some(number) = candidates.map(|flight| flight.number).min() else { return };
            after = number;
            let place = |flight: &Option<Flight>| flight.as_ref().is_some_and(|it| it.number == number);
            let Some(index) = self.flights.iter().position(place) else { return };
            match self.start(active, index, means) {
                Ok(Start::Refused) => drop(self.remove(index)),
                Ok(_) => {}
                Err(error) => self.give_up(index, error, requests),
            }
        }
    }

    /// A call that waited for its turn cannot be: the others are told instead.
    fn give_up(&mut self, index: usize, error: Error, requests: &mut Requests) {
        let Some(Flight { geometry, size, request, number, .. }) = self.remove(index) else { return };
        self.flights[index] = Some(Flight::refusal((geometry, size), number, error.class()));
        self.waiting += 1;
        requests.complete(request, Status::failed(error));
    }

    /// The collective with this request is over: its result goes where it belongs. Returns its status.
    pub(crate) fn end(&mut self, request: u16, status: Status) -> Status {
        let is_it = |flight: &Option<Flight>| flight.as_ref().is_some_and(|it| it.request == request);
        let Some(index) = self.flights.iter().position(is_it) else { return status };
        let mut outcome = Ok(());
        if let (Some(flight), Some(memory), None) = (&self.flights[index], self.arena.memory(), status.error)
            && let Some(side) = &flight.plan.receive
        {
            outcome = side.unpack(&self.lists, memory, flight.places[1]);
        }
        self.remove(index);
        outcome.map_or_else(Status::failed, |()| status)
    }
}
