//! Starting a collective.

use super::geometry::Digest;
use super::network::{Creation, Way};
use super::run::before;
use super::slot::{Phase, REDUCED_AT_ONCE, Slot};
use super::wire::Key;
use super::{GeometryId, WINDOW};
use crate::collective::catalogue::Metadata;
use crate::collective::cost::{self, COSTS};
use crate::collective::{
    Algorithm, Area, Blocks, Call, CallError, Collective, Query, Reducer, Schedule, SelectionError, Tuning,
};
use crate::context::Active;
use crate::device::Port;
use crate::dispatch::Done;
use crate::error::OperationError;
use core::fmt;
use heapless::Vec;
use rings::shared::Shared;

/// Memory of a collective, from a byte on.
type Place = (Shared, usize);

/// A collective to be started: what one member brings. What each area must hold is in the table at
/// [`Call`]. The areas must not overlap.
pub struct Collect<P: Port> {
    /// Whose members take part. They start its collectives in the same order.
    pub geometry: GeometryId,
    /// What is to be done.
    pub what: Collective,
    /// The root's rank, the same at all members; 0 where there is none.
    pub root: u32,
    /// What this member contributes; only read. Absent if it works in place, or contributes nothing.
    pub input: Option<Place>,
    /// What it gets.
    pub output: Option<Place>,
    /// Memory to work in; [`Active::scratch_len`] says how much.
    pub scratch: Option<Place>,
    /// The blocks, see [`Call::blocks`]; of bytes, or of the reducer's elements.
    pub blocks: Blocks<'static>,
    /// The blocks that an alltoall receives.
    pub sources: Blocks<'static>,
    /// Whether every member knows all blocks. If not, as in a gather of blocks whose lengths only the root knows, each
    /// member names its own right, and the root all.
    pub known_blocks: bool,
    /// What a reduction combines with.
    pub reducer: Option<Reducer>,
    /// See [`Call`].
    pub in_place: bool,
    /// How; the same at all members. `None`: what [`Active::query`] chooses.
    pub algorithm: Option<(Algorithm, Tuning)>,
    /// Called when this member's part is complete, or has failed: input may change, output is there.
    pub done: Done<P>,
}

impl<P: Port> Collect<P> {
    /// A collective of no data. Fields for areas, blocks and so on are to be filled in.
    pub fn new(geometry: GeometryId, what: Collective, done: Done<P>) -> Self {
        Self {
            geometry,
            what,
            root: 0,
            input: None,
            output: None,
            scratch: None,
            blocks: Blocks::equal(0),
            sources: Blocks::equal(0),
            known_blocks: true,
            reducer: None,
            in_place: false,
            algorithm: None,
            done,
        }
    }
}

/// Why a collective was not started. The caller is at fault, but for `Again` and `Dead`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectError {
    /// As many as can be are in flight, or the geometry is not created yet: advance, then try again.
    Again,
    /// No geometry here has that number.
    UnknownGeometry(GeometryId),
    /// A member's node, of this rank, is dead.
    Dead(u32),
    /// The arguments do not fit together.
    Call(CallError),
    /// The algorithm that was asked for is not to be had.
    Selection(SelectionError),
    /// A reduction without anything to reduce with.
    NoReducer(Collective),
    /// Elements of a user's operator are over [`REDUCED_AT_ONCE`](super) bytes long.
    ElementLen(usize),
    /// The memory is absent, or too short.
    TooSmall {
        /// Which one.
        area: Area,
        /// Bytes that it must have from the byte that was named.
        bytes: usize,
    },
    /// Over `u32::MAX` bytes.
    TooLong,
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Again => f.write_str("too many collectives are in flight, or the geometry is not there yet: advance, then try again"),
            Self::UnknownGeometry(id) => write!(f, "there is no geometry {} at this endpoint", id.0),
            Self::Dead(node) => write!(f, "node {node}, where a member lives, is dead"),
            Self::Call(error) => error.fmt(f),
            Self::Selection(error) => error.fmt(f),
            Self::NoReducer(what) => write!(f, "{what:?} needs a reducer"),
            Self::ElementLen(len) => {
                write!(f, "an element of {len} bytes is too long: at most {REDUCED_AT_ONCE}")
            }
            Self::TooSmall { area, bytes } => write!(f, "the {area:?} area needs {bytes} bytes"),
            Self::TooLong => write!(f, "a collective has at most {} bytes", u32::MAX),
        }
    }
}

impl core::error::Error for CollectError {}

/// A call that was found good.
struct Checked {
    geometry: u8,
    call: Call<'static>,
    element_len: usize,
    scratch: usize,
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
fn synchronises(call: &Call) -> bool {
    use Collective as C;
    let all = matches!(call.collective, C::Allreduce | C::ReduceScatter | C::Allgather | C::Alltoall);
    let data = if call.collective.is_of_vectors() { call.len() > 0 } else { call.blocks.len(0) > 0 };
    let even = call.collective == C::Allreduce || (call.blocks.are_equal() && call.sources.are_equal());
    call.collective == C::Barrier || all && even && data
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
    if call.collective.is_of_vectors() || call.blocks.are_equal() {
        digest.add(call.len() as u32);
    }
    digest.value()
}

impl<P: Port> Active<P> {
    /// What is known of a collective, to list its algorithms and to choose one (SPEC G-2).
    ///
    /// # Errors
    /// [`CollectError`]
    pub fn query(&self, collect: &Collect<P>) -> Result<Query<'static>, CollectError> {
        let unknown = CollectError::UnknownGeometry(collect.geometry);
        let (_, entry) = self.collectives.entry(collect.geometry).ok_or(unknown)?;
        let element_len = collect.reducer.map_or(1, |reducer| reducer.element_len());
        let tuning = collect.algorithm.map_or(cost::tuning(&COSTS, element_len), |(_, tuning)| tuning);
        let call = Call {
            collective: collect.what,
            // Any, to be replaced.
            algorithm: Algorithm::Binomial,
            size: entry.members.size(),
            rank: entry.rank,
            root: collect.root,
            blocks: collect.blocks,
            sources: if collect.what == Collective::Alltoall { collect.sources } else { collect.blocks },
            in_place: collect.in_place,
            commutative: collect.reducer.is_none_or(|reducer| reducer.commutes()),
            tuning,
            grid: entry.grid,
            domains: entry.domains,
        };
        let metadata = Metadata {
            known_blocks: collect.known_blocks,
            class_route: matches!(entry.way, Way::On(_)),
            tree_operator: collect.reducer.is_none_or(|reducer| reducer.operation().is_some()),
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
            terrain: entry.terrain,
            costs: &COSTS,
            tuning,
        })
    }

    fn check_collect(&self, collect: &Collect<P>) -> Result<Checked, CollectError> {
        let unknown = CollectError::UnknownGeometry(collect.geometry);
        let (geometry, entry) = self.collectives.entry(collect.geometry).ok_or(unknown)?;
        if let Some(node) = entry.dead {
            return Err(CollectError::Dead(node));
        }
        if matches!(entry.way, Way::Pending) {
            return Err(CollectError::Again);
        }
        if collect.what.reduces() && collect.reducer.is_none() {
            return Err(CollectError::NoReducer(collect.what));
        }
        let size = entry.members.size();
        let element_len = collect.reducer.map_or(1, |reducer| reducer.element_len());
        if element_len > REDUCED_AT_ONCE {
            return Err(CollectError::ElementLen(element_len));
        }
        let blocks = if collect.what.is_of_vectors() { 1 } else { size as usize };
        let longest = collect.blocks.longest().max(collect.sources.longest());
        let bytes = longest.checked_mul(blocks).and_then(|len| len.checked_mul(element_len));
        if bytes.is_none_or(|bytes| u32::try_from(bytes).is_err()) {
            return Err(CollectError::TooLong);
        }
        let query = self.query(collect)?;
        let forced = collect.algorithm.map(|(algorithm, _)| algorithm);
        let chosen = query.choose(forced).map_err(CollectError::Selection)?;
        let call = Call {
            collective: collect.what,
            algorithm: chosen.algorithm,
            size,
            rank: entry.rank,
            root: collect.root,
            blocks: collect.blocks,
            sources: if collect.what == Collective::Alltoall { collect.sources } else { collect.blocks },
            in_place: collect.in_place,
            commutative: collect.reducer.is_none_or(|reducer| reducer.commutes()),
            tuning: query.tuning,
            grid: entry.grid,
            domains: entry.domains,
        };
        let schedule = Schedule::new(&call).map_err(CollectError::Call)?;
        Ok(Checked { geometry: geometry as u8, call, element_len, scratch: schedule.scratch_len() })
    }

    /// Bytes of scratch memory that a collective needs at this member.
    ///
    /// # Errors
    /// [`CollectError`]
    pub fn scratch_len(&self, collect: &Collect<P>) -> Result<usize, CollectError> {
        let checked = self.check_collect(collect)?;
        Ok(checked.scratch * checked.element_len)
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
        self.start(collect, None)
    }

    /// Ends the geometry's next collective here without having begun it, and at all members with
    /// [`OperationError::Abandoned`] and this endpoint's rank. The callback hears that too.
    ///
    /// # Errors
    /// [`CollectError::Again`], [`CollectError::UnknownGeometry`], [`CollectError::Dead`]
    pub fn abandon(&mut self, geometry: GeometryId, done: Done<P>) -> Result<(), CollectError> {
        let tuning = Tuning { radix: 2, chunk: 1 };
        let algorithm = Some((Algorithm::Dissemination, tuning));
        let barrier = Collect { algorithm, ..Collect::new(geometry, Collective::Barrier, done) };
        let number = self.place(barrier, None)?;
        if let Some(slot) = &mut self.collectives.slots[number] {
            let rank = slot.call.rank;
            slot.fail(OperationError::Abandoned(rank));
        }
        Ok(())
    }

    /// As [`collect`](Self::collect); members may have something else to agree in than the call.
    pub(super) fn start(&mut self, collect: Collect<P>, agreed: Option<u32>) -> Result<(), CollectError> {
        self.place(collect, agreed).map(|_| ())
    }

    /// Gives a collective a slot and a number. Returns which slot.
    fn place(&mut self, collect: Collect<P>, agreed: Option<u32>) -> Result<usize, CollectError> {
        let Checked { geometry, call, element_len, scratch } = self.check_collect(&collect)?;
        let [input, output] = needs(&call);
        let areas = [collect.input, collect.output, collect.scratch];
        for ((area, place), elements) in
            [Area::Input, Area::Output, Area::Scratch].into_iter().zip(&areas).zip([input, output, scratch])
        {
            let bytes = elements * element_len;
            let room = place.as_ref().map_or(0, |(memory, base)| memory.len().saturating_sub(*base));
            if room < bytes {
                return Err(CollectError::TooSmall { area, bytes });
            }
        }
        let number = self.collectives.slots.iter().position(Option::is_none).ok_or(CollectError::Again)?;
        let entry = self.collectives.geometries[usize::from(geometry)].as_mut();
        let Some(entry) = entry else { return Err(CollectError::UnknownGeometry(collect.geometry)) };
        let ticket = entry.ticket(&call);
        let sequence = entry.number();
        debug_assert!(before(sequence, entry.next));
        let slot = Slot {
            geometry,
            key: Key { geometry: entry.id.0, sequence, part: 0 },
            creates: agreed.is_some(),
            digest: agreed.unwrap_or_else(|| digest(&call, collect.reducer.as_ref(), element_len)),
            gated: sequence % WINDOW == WINDOW - 1 && !synchronises(&call),
            call,
            phase: Phase::Waits,
            areas,
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
            moved: true,
            result: Ok(()),
            done: collect.done,
        };
        if self.collectives.is_idle() {
            self.collectives.looked_ns = self.port.now_ns();
        }
        self.collectives.slots[number] = Some(slot);
        self.collectives.used += 1;
        self.busy = true;
        Ok(number)
    }
}
