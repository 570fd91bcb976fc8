//! Collectives from their call to their end. PAMI has those wait that find no room there, in the order of calls; what is
//! left to wait for here is memory to pack data in, the answer to which places all processes have, and what is divided. PAMI's
//! queue does not hold those: what it takes has its memory, and the algorithm that a reduction gets hangs on the answer.
//!
//! # No circle of waits (SPEC R-1)
//!
//! Processes may start collectives of several communicators in different orders. So none waits for scratch memory of an
//! algorithm that another one has: each that can be called has a place of its own. A reduction of a longer vector
//! runs better with more. There is one large place; before such a reduction all say whether they hold theirs for it, in a
//! collective of one word, and those that do keep it if all do, and give it up otherwise. Nobody waits for it. The task's place
//! for a collective that is divided among the contexts is had likewise. What is divided holds up its own communicator's alone.

mod agreement;

use super::arena::{Arena, Places, together};
use super::lists::BlockLists;
use super::side::Side;
use crate::callbacks::Callbacks;
use crate::division::Token;
use crate::error::{Class, Error, Result};
use crate::op::{Combiner, UserPlace};
use crate::protocols::Protocols;
use crate::request::{NONE, Requests};
use crate::settings::Settings;
use crate::status::Status;
use agreement::{DIVIDED, LARGE, divided};
use base::{fill, shared};
use core::ops::Range;
use pami::client::Node;
use pami::collective::{self, Collective};
use pami::device::Port;
use pami::{Active, Collect, CollectError, GeometryId};
use rings::list::List;
use rings::slot_table::{Slot, SlotTable};

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

/// The communicator of a call.
#[derive(Clone, Copy)]
pub(crate) struct Caller {
    pub geometry: GeometryId,
    pub size: u32,
    /// Its collectives may be divided among the contexts.
    pub divides: bool,
}

/// A collective that was called.
struct Flight {
    plan: Plan,
    caller: Caller,
    request: u16,
    /// By which the layer below knows the request.
    cookie: usize,
    stage: Stage,
    /// Calls that could not be, one behind the other: their class, and how many.
    refused: Option<(Class, u32)>,
    /// Its place for the algorithm, and the large one.
    work: Option<u32>,
    large: Option<u32>,
    /// The task's place for one that is divided, if it has that.
    token: Option<&'static Token>,
    /// Its scratch memory for data: all of it, and where the two sides begin.
    held: Range<usize>,
    places: [usize; 2],
}

impl Flight {
    fn new(plan: Plan, caller: Caller, (request, cookie): (u16, usize)) -> Self {
        Self {
            plan,
            caller,
            request,
            cookie,
            stage: Stage::Called,
            refused: None,
            work: None,
            large: None,
            token: None,
            held: 0..0,
            places: [0; 2],
        }
    }

    /// A call that could not be.
    fn refusal(caller: Caller, class: Class) -> Self {
        let none = Self::new(Plan::new(Collective::Barrier), caller, (NONE, NOBODYS));
        Self { refused: Some((class, 1)), ..none }
    }

    /// Bytes of the vectors that it reduces; the same at all processes.
    fn reduced(&self, lists: &BlockLists) -> usize {
        let Some(combiner) = &self.plan.combiner else { return 0 };
        let elements = match (self.plan.what, self.plan.blocks) {
            (Collective::ReduceScatter, Sizes::Equal(block)) => {
                block.saturating_mul(self.caller.size as usize)
            }
            (_, Sizes::Equal(elements) | Sizes::Own(elements, _)) => elements,
            (_, Sizes::Listed(list)) => lists.total(list, self.caller.size),
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
    /// All are being asked for their places.
    Agreeing,
    /// All have answered; those that still have them may use them.
    Answered,
    /// The contexts have it, a slice each.
    Divided,
    /// The layer below has it.
    Started,
}

/// What became of an attempt to start.
enum Start {
    /// All are being asked, or the contexts have it: those of its communicator stay behind it.
    Held,
    /// The layer below has it, or what stands for it.
    Started,
    /// There is no memory to pack its data in now, or no place below to wait in.
    Again,
}

impl Start {
    /// What the layer below did not take: refusals of many calls may fill its queue.
    fn later(error: CollectError) -> Result<Self> {
        if let CollectError::Full { .. } = error { Ok(Self::Again) } else { Err(error.into()) }
    }
}

/// The collectives of one context.
#[derive(Default)]
pub(crate) struct Collectives {
    /// Twice as many as there can be calls under way: as many again may be refused meanwhile.
    flights: SlotTable<Flight>,
    /// Those that the layer below does not have, in the order of calls.
    waiting: List,
    /// Calls that were not refused.
    under_way: usize,
    limit: usize,
    /// The applications' operators of these.
    users: &'static [UserPlace],
    works: Places,
    larges: Places,
    arena: Arena,
    pub(crate) lists: BlockLists,
}

/// What completes requests, and what collectives go through.
pub(crate) type Means<'a, P> = (&'a Callbacks<P>, &'a Protocols);

impl Collectives {
    pub(crate) fn new<N: Node>(node: &N, settings: &Settings) -> Result<Self> {
        let flights = 2 * settings.collective_requests + 1;
        Ok(Self {
            flights: SlotTable::new(fill(node, "collectives", flights, Slot::new)?),
            waiting: List::EMPTY,
            under_way: 0,
            limit: settings.collective_requests,
            users: fill(node, "collectives", flights, UserPlace::new)?,
            works: Places::new(node, settings.collective_requests, settings.collective_work)?,
            larges: Places::new(node, 1, settings.collective_large)?,
            arena: Arena::new(shared(node, "collectives", settings.collective_scratch)?),
            lists: BlockLists::new(node, settings.collective_lists, settings.collective_counts)?,
        })
    }

    /// Whether collectives were called that may start as soon as there is room.
    pub(crate) fn are_waiting(&self) -> bool {
        self.next(0).is_some()
    }

    /// Those that wait, in the order of calls.
    fn waiting(&self) -> impl Iterator<Item = (u32, &Flight)> {
        self.waiting.iter(&self.flights).filter_map(|index| Some((index, self.flights.get(index)?)))
    }

    /// Those of a geometry.
    fn waiting_of(&self, geometry: GeometryId) -> impl Iterator<Item = u32> {
        self.waiting().filter(move |(_, flight)| flight.caller.geometry == geometry).map(|(index, _)| index)
    }

    /// Whether some of this geometry wait: what starts now would overtake them.
    pub(crate) fn has_waiting(&self, geometry: GeometryId) -> bool {
        self.waiting_of(geometry).next().is_some()
    }

    /// Of those that may start the one behind so many others: only the first of each geometry may.
    fn next(&self, others: usize) -> Option<u32> {
        let may_start = |&(index, flight): &(u32, &Flight)| {
            !matches!(flight.stage, Stage::Agreeing | Stage::Divided)
                && self.waiting_of(flight.caller.geometry).next() == Some(index)
        };
        self.waiting().filter(may_start).map(|(index, _)| index).nth(others)
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
        caller: Caller,
        plan: Plan,
        request: (u16, usize),
        means: Means<'_, P>,
    ) -> Result<()> {
        let full = Error::NoMem { what: "collectives under way", limit: self.limit };
        if self.under_way == self.limit {
            self.drop_plan(&plan);
            return Err(full);
        }
        let behind = self.has_waiting(caller.geometry);
        let index = match self.flights.insert(Flight::new(plan, caller, request)) {
            Ok(key) => key.index,
            Err(flight) => {
                self.drop_plan(&flight.plan);
                return Err(full);
            }
        };
        self.under_way += 1;
        let started = if behind { Ok(Start::Again) } else { self.start(active, index, means) };
        match started {
            Ok(Start::Started) => {}
            Ok(Start::Held | Start::Again) => self.waiting.push(&mut self.flights, index),
            Err(error) => {
                self.remove(index);
                return Err(error);
            }
        }
        Ok(())
    }

    /// A call could not be, for a reason of this class: when its turn comes, all processes are told. Returns whether there
    /// was a place to note it.
    pub(crate) fn refuse<P: Port>(
        &mut self,
        active: &mut Active<P>,
        caller: Caller,
        class: Class,
        means: Means<'_, P>,
    ) -> bool {
        match self.waiting_of(caller.geometry).last().and_then(|last| self.flights.get_mut(last)) {
            Some(Flight { refused: Some((before, times)), .. }) if *before == class => {
                *times += 1;
                return true;
            }
            Some(_) => {}
            None => {
                let told = active.abandon(caller.geometry, class as u16, means.0.ended(NOBODYS));
                // Without the geometry, or a member, nobody waits for this.
                if !matches!(told, Err(CollectError::Full { .. })) {
                    return true;
                }
            }
        }
        let Ok(key) = self.flights.insert(Flight::refusal(caller, class)) else { return false };
        self.waiting.push(&mut self.flights, key.index);
        true
    }

    fn remove(&mut self, index: u32) -> Option<Flight> {
        if self.flights.get(index)?.stage != Stage::Started {
            self.waiting.remove(&mut self.flights, index);
        }
        let flight = self.flights.remove(index)?;
        self.under_way -= usize::from(flight.refused.is_none());
        if let (Some(Combiner::User(_)), Some(place)) =
            (&flight.plan.combiner, self.users.get(index as usize))
        {
            place.clear();
        }
        self.works.release(flight.work);
        self.larges.release(flight.large);
        if let Some(token) = flight.token {
            token.release();
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

    /// Tells all processes of calls that could not be.
    fn tell<P: Port>(&mut self, active: &mut Active<P>, index: u32, means: Means<'_, P>) -> Start {
        let Some(Flight { caller, refused: Some((class, times)), .. }) = self.flights.get_mut(index) else {
            return Start::Started;
        };
        while *times > 0 {
            match active.abandon(caller.geometry, *class as u16, means.0.ended(NOBODYS)) {
                Err(CollectError::Full { .. }) => return Start::Again,
                // Without the geometry, or a member, nobody waits for this.
                _ => *times -= 1,
            }
        }
        Start::Started
    }

    fn start<P: Port>(&mut self, active: &mut Active<P>, index: u32, means: Means<'_, P>) -> Result<Start> {
        let Some(flight) = self.flights.get(index) else { return Ok(Start::Started) };
        let (has_large, work_len) = (flight.large.is_some(), self.works.len());
        let plan = &flight.plan;
        let reducer = match &plan.combiner {
            None => None,
            Some(Combiner::Known(reducer)) => Some(*reducer),
            Some(Combiner::User(user)) => {
                self.users.get(index as usize).and_then(|place| place.reducer(user))
            }
        };
        let mut collect = Collect {
            root: plan.root,
            blocks: self.sizes(plan.blocks, flight.caller.size)?,
            sources: self.sizes(plan.sources, flight.caller.size)?,
            known_blocks: plan.known_blocks,
            reducer,
            in_place: plan.in_place,
            scratch_limit: if has_large { self.larges.len() } else { work_len },
            ..Collect::new(flight.caller.geometry, plan.what, means.0.ended(flight.cookie))
        };
        let large = self.larges.len() > work_len && flight.reduced(&self.lists) > work_len;
        let (asks, room) = match flight.stage {
            Stage::Called if large => (LARGE, self.larges.len()),
            Stage::Called => (0, work_len),
            _ => (0, collect.scratch_limit),
        };
        let divided = if flight.caller.divides && (flight.stage == Stage::Called || flight.token.is_some()) {
            divided(active, &collect, room, means)
        } else {
            None
        };
        let scratch = |side: &Option<Side>| side.as_ref().map_or(0, Side::scratch);
        let (len, second) =
            together([scratch(&plan.send), scratch(&plan.receive)]).ok_or(Error::Count(usize::MAX))?;
        if flight.stage == Stage::Called && (asks > 0 || divided.is_some()) {
            // What needs the large place is refused, whoever has that, and so is what there is no memory for: once all have
            // agreed, slices wait for this process in every context, and of a failure one hears.
            active.scratch_len(&collect)?;
            self.arena.find(len, core::iter::empty())?;
            let asks = asks | if divided.is_some() { DIVIDED } else { 0 };
            return self.ask(active, index, asks, means);
        }
        let used = self.flights.values().map(|flight| flight.held.clone());
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
        collect.scratch = match flight.large {
            Some(large) => self.larges.place(large),
            None => work.and_then(|work| self.works.place(work)),
        };
        let mut stage = Stage::Started;
        if let (Some(division), Some(_)) = (means.0.division, divided) {
            stage = Stage::Divided;
            division.begin(Collect { algorithm: divided, ..collect }, active.endpoint().context().0.into());
        } else if let Err(error) = means.1.collectives.collect(active, collect) {
            self.works.release(work);
            return Start::later(error);
        }
        if let Some(flight) = self.flights.get_mut(index) {
            flight.stage = stage;
            flight.work = work;
            flight.held = base..base + len;
            flight.places = [send, receive];
        }
        Ok(if stage == Stage::Divided { Start::Held } else { Start::Started })
    }

    /// Starts what waits and has room now, in the order of calls within each communicator. Those that cannot be started at
    /// all end with the error.
    pub(crate) fn go_on<P: Port>(
        &mut self,
        active: &mut Active<P>,
        requests: &mut Requests,
        means: Means<'_, P>,
    ) {
        let mut without_room = 0;
        while let Some(index) = self.next(without_room) {
            let refused = self.flights.get(index).is_some_and(|flight| flight.refused.is_some());
            let started =
                if refused { Ok(self.tell(active, index, means)) } else { self.start(active, index, means) };
            match started {
                Ok(Start::Again) => without_room += 1,
                Ok(Start::Held) => {}
                Ok(Start::Started) if refused => drop(self.remove(index)),
                Ok(Start::Started) => _ = self.waiting.remove(&mut self.flights, index),
                Err(error) => self.give_up(index, error, requests),
            }
        }
    }

    /// A call that waited for its turn cannot be: the others are told instead.
    fn give_up(&mut self, index: u32, error: Error, requests: &mut Requests) {
        let Some(Flight { caller, request, .. }) = self.remove(index) else { return };
        // It has the place that has become free, and its turn: none of its geometry is in front.
        if let Ok(key) = self.flights.insert(Flight::refusal(caller, error.class())) {
            self.waiting.push_front(&mut self.flights, key.index);
        }
        requests.complete(request, Status::failed(error));
    }

    /// What was started for this request is over. If it was the collective, its result goes where it belongs, and its status
    /// is returned.
    pub(crate) fn end(&mut self, request: u16, status: Status) -> Option<Status> {
        let found = self.flights.iter().find(|(_, flight)| flight.request == request);
        let Some((index, flight)) = found else { return Some(status) };
        if flight.stage == Stage::Agreeing && status.error.is_none() {
            self.answered(index);
            return None;
        }
        let mut outcome = Ok(());
        if let (Some(memory), None, Some(side)) = (self.arena.memory(), status.error, &flight.plan.receive) {
            outcome = side.unpack(&self.lists, memory, flight.places[1]);
        }
        self.remove(index);
        Some(outcome.map_or_else(Status::failed, |()| status))
    }
}
