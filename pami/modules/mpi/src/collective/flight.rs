//! Collectives from their call to their end: started in order, as room allows.
//!
//! # No circle of waits (SPEC R-1)
//!
//! Processes may start collectives of several communicators in different orders. So none waits for scratch memory of an
//! algorithm that another one has: each that PAMI can have in flight has a place of its own. A reduction of a longer vector
//! runs better with more. There is one large place; before such a reduction all say whether they hold theirs for it, in a
//! collective of one word, and those that do keep it if all do, and give it up otherwise. Nobody waits for it.

use super::arena::{Arena, Places, together};
use super::lists::Lists;
use super::side::Side;
use crate::callbacks::Callbacks;
use crate::error::{Class, Error, Result};
use crate::memory::{fill, shared};
use crate::op::{Combiner, UserPlace};
use crate::protocols::Protocols;
use crate::request::{NONE, Requests};
use crate::settings::Settings;
use crate::status::Status;
use core::ops::Range;
use pami::client::Node;
use pami::collective::{self, Collective, Reducer};
use pami::device::Port;
use pami::operator::{Element, Operator};
use pami::{Active, Collect, CollectError, GeometryId};

/// Lengths of a block of each process.
#[derive(Clone, Copy)]
pub(crate) enum Sizes {
    Equal(usize),
    /// All that this process knows of blocks of any lengths is its own one; the root, whose rank this is, knows all.
    Own(usize, u32),
    Listed(usize),
}

/// A collective as this process calls it.
pub(crate) struct Plan {
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

/// Bytes for the answer to whether there is a large place, in front of what its reduction takes.
const ANSWER: usize = 8;

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
    stage: Stage,
    /// Calls that could not be, one behind the other: their class, and how many.
    refused: Option<(Class, u32)>,
    /// Its place for the algorithm, and the large one.
    work: Option<usize>,
    large: Option<usize>,
    /// Its scratch memory for data: all of it, and where the two sides begin.
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
            stage: Stage::Called,
            refused: Some((class, 1)),
            work: None,
            large: None,
            held: 0..0,
            places: [0; 2],
        }
    }

    /// Bytes of the vectors that it reduces; the same at all processes.
    fn reduced(&self, lists: &Lists) -> usize {
        let Some(combiner) = &self.plan.combiner else { return 0 };
        let elements = match (self.plan.what, self.plan.blocks) {
            (Collective::ReduceScatter, Sizes::Equal(block)) => block.saturating_mul(self.size as usize),
            (_, Sizes::Equal(elements) | Sizes::Own(elements, _)) => elements,
            (_, Sizes::Listed(list)) => lists.total(list, self.size),
        };
        elements.saturating_mul(combiner.element_len())
    }
}

/// By which the layer below knows calls that could not be.
const NOBODYS: usize = usize::MAX;

/// How far a collective is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Called,
    /// All are being asked for the large place.
    Asks,
    /// All have answered; those that still have it may use it.
    Answered,
    Started,
}

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
    /// The applications' operators of these.
    users: &'static [UserPlace],
    works: Places,
    larges: Places,
    arena: Arena,
    pub(crate) lists: Lists,
    calls: u64,
    /// Called and not started.
    waiting: usize,
}

/// What completes requests, and what collectives go through.
pub(crate) type Means<'a, P> = (&'a Callbacks<P>, &'a Protocols);

impl Collectives {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        Ok(Self {
            flights: fill(node, 2 * settings.collective_requests + 1, || None)?,
            under_way: 0,
            limit: settings.collective_requests,
            users: fill(node, 2 * settings.collective_requests + 1, UserPlace::new)?,
            works: Places::new(node, settings.collective_requests, settings.collective_work)?,
            larges: Places::new(node, 1, settings.collective_large)?,
            arena: Arena::new(shared(node, settings.collective_scratch)?),
            lists: Lists::new(node, settings.collective_lists)?,
            calls: 0,
            waiting: 0,
        })
    }

    /// Whether collectives were called that may start as soon as there is room.
    pub(crate) fn are_waiting(&self) -> bool {
        self.next(0).is_some()
    }

    /// Whether some of this geometry were called and have not started: what starts now would overtake them.
    pub(crate) fn has_waiting(&self, geometry: GeometryId) -> bool {
        self.first(geometry).is_some()
    }

    /// The number of the first that has not started, of those of a geometry.
    fn first(&self, geometry: GeometryId) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let flights = self.flights.iter().flatten();
        let waits = flights.filter(|it| it.stage != Stage::Started && it.geometry == geometry);
        waits.map(|flight| flight.number).min()
    }

    /// The number of the next one behind this that may start: only the first of each geometry may.
    fn next(&self, after: u64) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let starts = |flight: &&Flight| matches!(flight.stage, Stage::Called | Stage::Answered);
        let candidates = self.flights.iter().flatten().filter(starts).filter(|flight| flight.number > after);
        let first = |flight: &&Flight| self.first(flight.geometry) == Some(flight.number);
        candidates.filter(first).map(|flight| flight.number).min()
    }

    /// Gives back what a plan has of the pool.
    pub(crate) fn drop_plan(&mut self, plan: &Plan) {
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
    pub(crate) fn call<P: Port>(
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
            stage: Stage::Called,
            refused: None,
            work: None,
            large: None,
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
    pub(crate) fn refuse<P: Port>(
        &mut self,
        active: &mut Active<P>,
        (geometry, size): (GeometryId, u32),
        class: Class,
        means: Means<'_, P>,
    ) -> bool {
        let waits = |flight: &&mut Flight| flight.stage != Stage::Started && flight.geometry == geometry;
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
        self.waiting -= usize::from(flight.stage != Stage::Started);
        self.under_way -= usize::from(flight.refused.is_none());
        if let (Some(Combiner::User(_)), Some(place)) = (&flight.plan.combiner, self.users.get(index)) {
            place.clear();
        }
        self.works.release(flight.work);
        self.larges.release(flight.large);
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
        let (has_large, work_len) = (flight.large.is_some(), self.works.len());
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
            scratch_limit: if has_large { self.larges.len() } else { work_len },
            ..Collect::new(flight.geometry, plan.what, means.0.ended(flight.cookie))
        };
        if !has_large {
            // What needs the large place is refused, whoever has that.
            match active.scratch_len(&collect) {
                Err(CollectError::Again) => return Ok(Start::Again),
                len => len?,
            };
            if flight.stage == Stage::Called
                && self.larges.len() > work_len
                && flight.reduced(&self.lists) > work_len
            {
                return self.ask(active, index, means);
            }
        }
        let scratch = |side: &Option<Side>| side.as_ref().map_or(0, Side::scratch);
        let (len, second) =
            together([scratch(&plan.send), scratch(&plan.receive)]).ok_or(Error::Count(usize::MAX))?;
        let used = self.flights.iter().flatten().map(|flight| flight.held.clone());
        let Some(base) = self.arena.find(len, used)? else { return Ok(Start::Again) };
        let memory = self.arena.memory().ok_or(Error::Finalized)?;
        let [send, receive] = [base, base + second];
        let sides = [(&plan.send, send, &mut collect.input), (&plan.receive, receive, &mut collect.output)];
        for (side, at, area) in sides {
            if let Some(side) = side {
                side.pack(&self.lists, memory, at)?;
                *area = Some(side.place(memory, at));
            }
        }
        let work = if has_large { None } else { self.works.take() };
        collect.scratch = match (flight.large, work) {
            (Some(large), _) => self.larges.place(large),
            (None, Some(work)) => self.works.place(work),
            (None, None) => return Ok(Start::Again),
        };
        let started = means.1.collect(active, collect);
        if started.is_err() {
            self.works.release(work);
        }
        match started {
            Err(CollectError::Again) => return Ok(Start::Again),
            started => started?,
        }
        if let Some(flight) = &mut self.flights[index] {
            flight.stage = Stage::Started;
            flight.work = work;
            flight.held = base..base + len;
            flight.places = [send, receive];
            self.waiting -= 1;
        }
        Ok(Start::Started)
    }

    /// Asks all processes whether they have the large place, which this one has if it is free.
    fn ask<P: Port>(&mut self, active: &mut Active<P>, index: usize, means: Means<'_, P>) -> Result<Start> {
        let Some(flight) = &mut self.flights[index] else { return Ok(Start::Started) };
        let Some(work) = self.works.take() else { return Ok(Start::Again) };
        let large = self.larges.take();
        let (memory, at) = self.works.place(work).ok_or(Error::Finalized)?;
        memory.write(at, &u32::from(large.is_some()).to_ne_bytes()).map_err(|_| Error::Finalized)?;
        let collect = Collect {
            output: Some((memory.clone(), at)),
            in_place: true,
            blocks: collective::Blocks::equal(1),
            reducer: Some(Reducer::new(Operator::Min, Element::U32).map_err(|_| Error::Op)?),
            scratch: Some((memory, at + ANSWER)),
            scratch_limit: self.works.len() - ANSWER,
            ..Collect::new(flight.geometry, Collective::Allreduce, means.0.ended(flight.cookie))
        };
        let asked = means.1.collect(active, collect);
        if asked.is_ok() {
            (flight.stage, flight.work, flight.large) = (Stage::Asks, Some(work), large);
        } else {
            self.works.release(Some(work));
            self.larges.release(large);
        }
        match asked {
            Err(CollectError::Again) => Ok(Start::Again),
            asked => Ok(asked.map(|()| Start::Started)?),
        }
    }

    /// All have answered whether they have the large place.
    fn answered(&mut self, index: usize) {
        let Some(flight) = &mut self.flights[index] else { return };
        let answer = flight.work.and_then(|work| self.works.place(work));
        let mut word = [0; 4];
        let have = answer.is_some_and(|(memory, at)| memory.read(at, &mut word).is_ok()) && word != [0; 4];
        self.works.release(flight.work.take());
        if !have {
            self.larges.release(flight.large.take());
        }
        flight.stage = Stage::Answered;
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
        while let Some(number) = self.next(after) {
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

    /// What was started for this request is over. If it was the collective, its result goes where it belongs, and its status
    /// is returned.
    pub(crate) fn end(&mut self, request: u16, status: Status) -> Option<Status> {
        let is_it = |flight: &Option<Flight>| flight.as_ref().is_some_and(|it| it.request == request);
        let Some(index) = self.flights.iter().position(is_it) else { return Some(status) };
        let asks = self.flights[index].as_ref().is_some_and(|flight| flight.stage == Stage::Asks);
        if asks && status.error.is_none() {
            self.answered(index);
            return None;
        }
        let mut outcome = Ok(());
        if let (Some(flight), Some(memory), None) = (&self.flights[index], self.arena.memory(), status.error)
            && let Some(side) = &flight.plan.receive
        {
            outcome = side.unpack(&self.lists, memory, flight.places[1]);
        }
        self.remove(index);
        Some(outcome.map_or_else(Status::failed, |()| status))
    }
}
