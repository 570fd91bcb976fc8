//! Starting a collective.

use super::announce::Notice;
use super::geometry::{Digest, Entry};
use super::network::{Creation, Way};
use super::parts::{self, Part, Parts};
use super::slot::{Phase, REDUCED_AT_ONCE, Slot};
use super::slots::reserved;
use super::wire::{CALLED, GATE, Key};
use super::{Collect, CollectError, Engine, GeometryId, WINDOW};
use crate::collective::catalogue::Metadata;
use crate::collective::cost::{self, COSTS};
use crate::collective::need::{ALIGNMENT, Need};
use crate::collective::{Algorithm, Area, Call, Collective, Form, Query, Reducer, SelectionError, Tuning};
use crate::combine::Operation;
use crate::context::{Active, Done};
use crate::device::{CollectiveNetwork, Port};
use crate::error::OperationError;
use heapless::Vec;

/// A call that was found good.
struct Checked {
    geometry: u16,
    /// The whole.
    call: Call<'static>,
    element_len: usize,
    /// What this endpoint does of it.
    parts: Parts,
    /// Most parts of any endpoint.
    most: usize,
}

impl Checked {
    /// Bytes that the parts name of an area.
    fn extent(&self, area: Area) -> usize {
        let ends = self.parts.iter().flat_map(|part| {
            let [input, output] = needs(&part.call);
            let used = part.areas.into_iter().zip([input, output, part.scratch_len()]);
            // Of what is nothing, nothing is in front.
            let used = used.filter(move |((whose, _), elements)| *whose == area && *elements > 0);
            used.map(|((_, base), elements)| base + elements * self.element_len)
        });
        ends.max().unwrap_or(0)
    }
}

/// Elements that a call names of the input and of the output.
fn needs(call: &Call) -> [usize; 2] {
    use Collective as C;
    let (own, total) = (|| call.blocks.len(call.rank), || call.total());
    let in_place = call.operand() == Area::Output;
    let (input, output) = match call.collective {
        C::Barrier => (0, 0),
        C::Broadcast => (if call.is_root() { call.len() } else { 0 }, call.len()),
        C::Reduce => (call.len(), if call.is_root() { call.len() } else { 0 }),
        C::Allreduce | C::Scan | C::Exscan => (call.len(), call.len()),
        C::ReduceScatter => (total(), if in_place { total() } else { own() }),
        C::Gather => (own(), if call.is_root() { total() } else { 0 }),
        C::Allgather => (own(), total()),
        C::Alltoall => {
            let sources = call.sources.start(call.size);
            (total(), if in_place { sources.max(total()) } else { sources })
        }
        C::Scatter if call.is_root() => {
            return [total(), if call.in_place { 0 } else { own() }];
        }
        C::Scatter => return [0, own()],
    };
    [if in_place { 0 } else { input }, output]
}

/// Whether nobody is done with the collective before all have begun it.
fn synchronises<P: Port>(collect: &Collect<P>, call: &Call) -> bool {
    use Collective as C;
    // Endpoints of a task do not wait for each other.
    if collect.divided && call.collective != C::Barrier {
        return false;
    }
    let all = matches!(call.collective, C::Allreduce | C::ReduceScatter | C::Allgather | C::Alltoall);
    let data = if call.collective.is_of_vectors() { call.len() > 0 } else { call.blocks.len(0) > 0 };
    let even = call.collective == C::Allreduce || (call.blocks.are_equal() && call.sources.are_equal());
    call.collective == C::Barrier || all && even && data
}

/// What a divided collective goes by if nothing is said.
fn directly(what: Collective) -> Option<Algorithm> {
    match what {
        Collective::Scatter | Collective::Gather => Some(Algorithm::Flat),
        Collective::Broadcast => Some(Algorithm::Binomial),
        _ => None,
    }
}

/// A barrier of all ranks.
fn barrier(like: &Call<'static>, entry: &Entry) -> Call<'static> {
    Call {
        collective: Collective::Barrier,
        algorithm: entry.barrier(),
        size: entry.members.size(),
        rank: entry.rank,
        root: 0,
        tuning: Tuning { radix: 2, chunk: 1 },
        grid: None,
        domains: entry.domains,
        ..*like
    }
}

fn digest(call: &Call, reducer: Option<&Reducer>, element_len: usize) -> u32 {
    let mut digest = Digest::new();
    digest.add(call.collective as u32);
    digest.add(call.algorithm as u32);
    digest.add(call.root);
    digest.add(call.tuning.radix);
    digest.add(call.tuning.chunk as u32);
    digest.add(element_len as u32);
    digest.add(reducer.map_or(0, Reducer::code));
    digest.add(call.size);
    if call.collective.is_of_vectors() || call.blocks.are_equal() {
        digest.add(call.len() as u32);
    }
    if call.collective == Collective::Alltoall {
        digest.add(call.in_place.into());
    }
    digest.value()
}

impl<P: Port> Engine<P> {
    /// Most places that a collective may take.
    fn limit(&self) -> usize {
        self.slots.capacity() - reserved(self.geometries.len(), self.always, 0)
    }

    /// Places that the geometry at this place of the table may take now: others keep theirs.
    fn room_for(&self, index: usize) -> usize {
        let busy = self.slots.busy_beside(index);
        self.slots.vacant().saturating_sub(reserved(self.geometries.len(), self.always, busy))
    }
}

impl<P: Port> Active<P> {
    /// The call as a whole, of ranks or of tasks, and the place of its geometry. Its algorithm is any.
    fn whole(&self, collect: &Collect<P>) -> Result<(usize, Call<'static>, usize), CollectError> {
        let unknown = CollectError::UnknownGeometry(collect.geometry);
        let (geometry, entry) = self.collectives.entry(collect.geometry).ok_or(unknown)?;
        let element_len = collect.reducer.map_or(1, |reducer| reducer.element_len());
        let (members, divided) = (&entry.members, collect.divided);
        let call = Call {
            collective: collect.what,
            algorithm: Algorithm::Binomial,
            size: if divided { members.task_count() } else { members.size() },
            rank: if divided { members.task_of(entry.rank).unwrap_or_default() } else { entry.rank },
            root: collect.root,
            blocks: collect.blocks,
            sources: if collect.what == Collective::Alltoall { collect.sources } else { collect.blocks },
            in_place: collect.in_place,
            commutative: collect.reducer.is_none_or(|reducer| reducer.commutes()),
            tuning: collect.algorithm.map_or(cost::tuning(&COSTS, element_len), |(_, tuning)| tuning),
            grid: entry.grid.filter(|_| !divided),
            domains: entry.domains.filter(|_| !divided),
        };
        Ok((geometry, call, element_len))
    }

    /// What is known of a collective, to list its algorithms and to choose one (SPEC G-2).
    ///
    /// # Errors
    /// [`CollectError`]
    pub fn query(&self, collect: &Collect<P>) -> Result<Query<'static>, CollectError> {
        let (geometry, call, element_len) = self.whole(collect)?;
        let unknown = CollectError::UnknownGeometry(collect.geometry);
        let entry = self.collectives.geometries[geometry].as_ref().ok_or(unknown)?;
        let metadata = Metadata {
            known_blocks: collect.known_blocks,
            // What only some are told of, and parts of several turns, have no one order.
            class_route: entry.has_route() && !collect.divided && collect.form == Form::All,
            aligned: collect.aligned
                || self.transport.port.network().is_none_or(|network| network.alignment() <= 1),
            tree_operator: collect.reducer.is_none_or(|reducer| Operation::of(&reducer).is_some()),
            ..Metadata::of(&call)
        };
        let elements = match collect.what {
            Collective::Barrier => 0,
            what if what.is_of_vectors() => collect.blocks.len(0),
            _ if metadata.equal_blocks || metadata.known_blocks => collect.blocks.longest(),
            _ => 0,
        };
        Ok(Query {
            collective: collect.what,
            bytes: elements.saturating_mul(element_len),
            element_len,
            metadata,
            scratch: parts::share(entry, collect, call.root),
            in_place: collect.in_place,
            moves: collect.in_place && collect.what == Collective::Alltoall && call.blocks != call.sources,
            terrain: entry.terrain,
            costs: &COSTS,
            tuning: call.tuning,
        })
    }

    fn check_collect(&self, collect: &Collect<P>) -> Result<Checked, CollectError> {
        let (geometry, mut call, element_len) = self.whole(collect)?;
        let unknown = CollectError::UnknownGeometry(collect.geometry);
        let entry = self.collectives.geometries[geometry].as_ref().ok_or(unknown)?;
        if let Some(node) = entry.dead {
            return Err(CollectError::Dead(node));
        }
        if matches!(entry.way, Way::Pending) {
            return Err(CollectError::Again);
        }
        if collect.what.reduces() && collect.reducer.is_none() {
            return Err(CollectError::NoReducer(collect.what));
        }
        if element_len > REDUCED_AT_ONCE {
            return Err(CollectError::ElementLen(element_len));
        }
        let blocks = if collect.what.is_of_vectors() { 1 } else { call.size as usize };
        let longest = collect.blocks.longest().max(collect.sources.longest());
        let bytes = longest.checked_mul(blocks).and_then(|len| len.checked_mul(element_len));
        if bytes.is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return Err(CollectError::TooLong);
        }
        let forced = collect.algorithm.map(|(algorithm, _)| algorithm);
        let forced = forced.or_else(|| directly(collect.what).filter(|_| collect.divided));
        let chosen = self.query(collect)?.choose(forced).map_err(CollectError::Selection)?;
        call.algorithm = chosen.algorithm;
        call.check().map_err(CollectError::Call)?;
        if collect.form != Form::All && !(collect.form.allows(&call) && call.blocks.are_equal()) {
            return Err(CollectError::Form);
        }
        let parts = parts::parts(entry, collect, &call, element_len)?;
        // Who is called back is not told of runs.
        if collect.form != Form::All && parts.iter().any(|part| part.run < part.call.longest()) {
            let unmet = SelectionError::Unmet(call.algorithm, Need::Scratch);
            return Err(CollectError::Selection(unmet));
        }
        let most = parts::most(entry, collect, &call);
        Ok(Checked { geometry: geometry as u16, call, element_len, parts, most })
    }

    /// Bytes of scratch memory that a collective needs at this member.
    ///
    /// # Errors
    /// [`CollectError`]
    pub fn scratch_len(&self, collect: &Collect<P>) -> Result<usize, CollectError> {
        Ok(self.check_collect(collect)?.extent(Area::Scratch))
    }

    /// Starts a collective. Several may be in flight; those of a geometry are matched by the order in which each member
    /// starts them. The callback is not called before the next advance. It hears
    /// [`OperationError::NodeDead`] if a member's node dies, [`OperationError::Mismatch`] if another member's call was
    /// another one or had other lengths, [`OperationError::Abandoned`] if a member gave up.
    ///
    /// # Errors
    /// [`CollectError`]; nothing was started, and the other members wait until this one starts or
    /// [abandons](Self::abandon) it.
    pub fn collect(&mut self, collect: Collect<P>) -> Result<(), CollectError> {
        self.start(collect, None).map(|_| ())
    }

    /// Ends the geometry's next collective here without having begun it, and at all members with
    /// [`OperationError::Abandoned`], this endpoint's rank and the caller's `reason`. The callback hears that too.
    ///
    /// # Errors
    /// [`CollectError::Again`], [`CollectError::UnknownGeometry`], [`CollectError::Dead`]
    pub fn abandon(&mut self, geometry: GeometryId, reason: u16, done: Done<P>) -> Result<(), CollectError> {
        let tuning = Tuning { radix: 2, chunk: 1 };
        let algorithm = Some((Algorithm::Dissemination, tuning));
        let barrier = Collect { algorithm, ..Collect::new(geometry, Collective::Barrier, done) };
        let number = self.start(barrier, None)?;
        if let Some(slot) = self.collectives.slots.get_mut(number) {
            let error = OperationError::Abandoned { rank: slot.call.rank, reason };
            slot.fail(error);
            let (place, sequence) = (slot.geometry, slot.key.sequence);
            self.collectives.forsake_route(place.into(), sequence, error);
        }
        Ok(())
    }

    /// As [`collect`](Self::collect); members may have something else to agree in than the call. Returns a slot of it.
    pub(super) fn start(&mut self, collect: Collect<P>, agreed: Option<u32>) -> Result<usize, CollectError> {
        let mut checked = self.check_collect(&collect)?;
        let areas = [&collect.input, &collect.output, &collect.scratch];
        for (area, place) in [Area::Input, Area::Output, Area::Scratch].into_iter().zip(areas) {
            let bytes = checked.extent(area);
            let room = place.as_ref().map_or(0, |(memory, base)| memory.len().saturating_sub(*base));
            if room < bytes {
                return Err(CollectError::TooSmall { area, bytes });
            }
            let at = place.as_ref().map_or(0, |(_, base)| *base);
            if collect.aligned && !at.is_multiple_of(ALIGNMENT) {
                return Err(CollectError::Unaligned(area));
            }
        }
        // With a barrier in front, whether this one has one or not.
        let (parts, limit) = (1 + checked.most, self.collectives.limit());
        if parts > limit {
            return Err(CollectError::InFlight { parts, limit });
        }
        let index = usize::from(checked.geometry);
        let room = self.collectives.room_for(index);
        let Some(entry) = &mut self.collectives.geometries[index] else {
            return Err(CollectError::UnknownGeometry(collect.geometry));
        };
        let called = collect.form != Form::All;
        let gated = !called && entry.next % WINDOW == WINDOW - 1 && !synchronises(&collect, &checked.call);
        if gated || checked.parts.is_empty() {
            // Whoever has no share is done when the barrier is, or at once.
            let barrier = barrier(&checked.call, entry);
            let alone =
                Call { algorithm: Algorithm::Dissemination, size: 1, rank: 0, domains: None, ..barrier };
            let call = if gated { barrier } else { alone };
            // There is a place for it.
            let _ = checked.parts.push(Part::whole(GATE, 0, call));
        }
        if room < checked.parts.len() {
            return Err(CollectError::Again);
        }
        let sequence = if called { collect.number } else { entry.number() };
        let Checked { call, element_len, parts, .. } = checked;
        let digest = agreed.unwrap_or_else(|| digest(&call, collect.reducer.as_ref(), element_len));
        let notice = called.then(|| Notice::new(&collect, (call.algorithm, call.tuning)));
        if self.collectives.is_idle() {
            self.collectives.looked_ns = self.transport.port.now_ns();
        }
        let mut last = 0;
        for part in parts {
            let ticket = match &mut self.collectives.geometries[index] {
                Some(entry) => entry.ticket(&part.call),
                None => None,
            };
            let number = if called { CALLED | part.number } else { part.number };
            let key = Key { geometry: collect.geometry.0, sequence, part: number };
            let own = |(area, base): (Area, usize)| {
                areas[area as usize].as_ref().map(|(memory, at)| (memory.clone(), at + base))
            };
            let slot = Slot {
                geometry: index as u16,
                key,
                digest,
                notice,
                creates: agreed.is_some(),
                peers: part.peers,
                turn: part.turn,
                discards: part.discards,
                phase: Phase::Waits,
                areas: part.areas.map(own),
                call: part.call,
                run: part.run,
                from: 0,
                element_len,
                reducer: collect.reducer,
                ticket,
                passage: None,
                creation: agreed.map(|_| Creation::Meets),
                asked: false,
                step: None,
                position: 0,
                waiting: false,
                sends: Vec::new(),
                receives: Vec::new(),
                refused: false,
                moved: true,
                result: Ok(()),
                done: collect.done,
            };
            // There is room for all of them.
            last = self.collectives.slots.open(slot).unwrap_or(last);
        }
        self.end_if_doomed(index, sequence, called);
        self.stir();
        Ok(last)
    }

    /// Ends a collective that was given up before it began here.
    fn end_if_doomed(&mut self, index: usize, sequence: u32, called: bool) {
        let Engine { slots, geometries, .. } = &mut self.collectives;
        let doomed = geometries[index].as_mut().and_then(|entry| entry.doomed.take(sequence, called));
        let Some((error, told)) = doomed else { return };
        let of_it = |slot: &&mut Slot<P>| {
            usize::from(slot.geometry) == index
                && slot.key.sequence == sequence
                && (slot.key.part & CALLED != 0) == called
        };
        // One of its parts tells for all.
        let mut told = told;
        for slot in slots.iter_mut().filter(of_it) {
            // Who does not agree on the members did not tell all of them.
            if told && !slot.creates {
                slot.end(error)
            } else {
                slot.fail(error)
            }
            told = true;
        }
        if matches!(error, OperationError::Abandoned { .. }) && !called {
            self.collectives.forsake_route(index, sequence, error);
        }
    }
}
