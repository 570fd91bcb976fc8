//! Collectives from their call to their end: started in order, as room allows.

use super::arena::{Arena, together};
use super::lists::Lists;
use super::side::Side;
use crate::error::{Error, Result};
use crate::library::{fill, shared};
use crate::protocols;
use crate::request::Requests;
use crate::settings::Settings;
use crate::status::Status;
use core::ops::Range;
use pami::client::Node;
use pami::collective::{self, Collective, Reducer};
use pami::device::Port;
use pami::{Active, Collect, CollectError, Done, GeometryId};

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
    pub reducer: Option<Reducer>,
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
            reducer: None,
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
    /// Its scratch memory: all of it, and where the two sides begin.
    held: Range<usize>,
    places: [usize; 2],
}

/// What became of an attempt to start.
enum Start {
    Started,
    /// There is no room now.
    Again,
}

/// The collectives of one context.
#[derive(Default)]
pub(crate) struct Collectives {
    flights: &'static mut [Option<Flight>],
    arena: Arena,
    pub(super) lists: Lists,
    calls: u64,
    /// Called and not started.
    waiting: usize,
}

impl Collectives {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        Ok(Self {
            flights: fill(node, settings.collective_requests, || None)?,
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
        request: u16,
        done: Done<P>,
    ) -> Result<()> {
        let limit = self.flights.len();
        let behind = self.has_waiting(geometry);
        let Some(index) = self.flights.iter().position(Option::is_none) else {
            self.drop_plan(&plan);
            return Err(Error::NoMem { what: "collectives under way", limit });
        };
        self.calls += 1;
        let flight = Flight {
            plan,
            geometry,
            size,
            request,
            cookie: done.cookie,
            number: self.calls,
            started: false,
            held: 0..0,
            places: [0; 2],
        };
        self.flights[index] = Some(flight);
        self.waiting += 1;
        if behind {
            return Ok(());
        }
        match self.start(active, index, done) {
            Ok(_) => Ok(()),
            Err(error) => {
                self.remove(index);
                Err(error)
            }
        }
    }

    fn remove(&mut self, index: usize) -> Option<Flight> {
        let flight = self.flights[index].take()?;
        self.waiting -= usize::from(!flight.started);
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

    fn start<P: Port>(&mut self, active: &mut Active<P>, index: usize, done: Done<P>) -> Result<Start> {
        let Some(flight) = &self.flights[index] else { return Ok(Start::Started) };
        let plan = &flight.plan;
        let mut collect = Collect {
            root: plan.root,
            blocks: self.sizes(plan.blocks, flight.size)?,
            sources: self.sizes(plan.sources, flight.size)?,
            known_blocks: plan.known_blocks,
            reducer: plan.reducer,
            in_place: plan.in_place,
            ..Collect::new(flight.geometry, plan.what, done)
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
        match protocols::collect(active, collect) {
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
        done: impl Fn(usize) -> Done<P>,
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
            let Some(&Flight { request, cookie, .. }) = self.flights[index].as_ref() else { return };
            if let Err(error) = self.start(active, index, done(cookie)) {
                self.remove(index);
                requests.complete(request, Status::failed(error));
            }
        }
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
