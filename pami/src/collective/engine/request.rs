//! What a caller asks for, and why it is refused.

use super::areas::BufferFrom;
use super::limits::REDUCED_AT_ONCE;
use crate::collective::need::ALIGNMENT;
use crate::collective::{
    Algorithm, Area, Blocks, CallError, Collective, Form, Reducer, SelectionError, Tuning,
};
use crate::dispatch::Done;
use crate::geometry::GeometryId;
use core::fmt;

/// A collective to be started: what one member brings. What each area must hold is in the table at
/// [`Call`](crate::collective::Call). The areas must not overlap.
pub struct Collect<A: 'static> {
    /// Whose members take part. They start its collectives in the same order.
    pub geometry: GeometryId,
    /// What is to be done.
    pub what: Collective,
    /// The root's rank, the same at all members; 0 where there is none.
    pub root: u32,
    /// What this member contributes; only read. Absent if it works in place, or contributes nothing.
    pub input: Option<BufferFrom>,
    /// What it gets.
    pub output: Option<BufferFrom>,
    /// Memory to work in; [`scratch_len`](crate::Active::scratch_len) says how much.
    pub scratch: Option<BufferFrom>,
    /// Most bytes of scratch memory that every member has for it, the same at all: what needs more is not chosen, and reductions
    /// go in runs that need no more. `usize::MAX`, the default: as many as any algorithm asks for.
    pub scratch_limit: usize,
    /// The blocks, see [`Call::blocks`](crate::collective::Call::blocks); of bytes, or of the reducer's elements.
    pub blocks: Blocks<'static>,
    /// The blocks that an alltoall receives.
    pub sources: Blocks<'static>,
    /// Whether every member knows all blocks. If not, as in a gather of blocks whose lengths only the root knows, each
    /// member names its own right, and the root all.
    pub known_blocks: bool,
    /// What a reduction combines with.
    pub reducer: Option<Reducer>,
    /// See [`Call`](crate::collective::Call).
    pub in_place: bool,
    /// How; the same at all members, and in the geometry's [list](super::Geometry::algorithms). `None`: what
    /// [`query`](crate::Active::query) chooses; of a divided scatter, gather or broadcast, flat, flat or binomial.
    pub algorithm: Option<(Algorithm, Tuning)>,
    /// The data is each task's, and its endpoints in the geometry share the work (SPEC G-4): root and blocks are by the
    /// index of the task. All its endpoints start it with the same memory, and the task is done when all are. A root's
    /// vector stays in its input in a broadcast, its output is not touched. For broadcast, scatter, gather, reduce,
    /// allreduce, allgather.
    pub divided: bool,
    /// Who is instructed to start it; the others hear of it by [`on_announced`](crate::Active::on_announced) (SPEC G-6).
    pub form: Form,
    /// If not all are instructed: a number that those who are agree in, different from those of others that the geometry
    /// has under way so.
    pub number: u32,
    /// Whether the areas of every member begin at multiples of [`ALIGNMENT`](crate::collective::need::ALIGNMENT), the same
    /// at all. Some networks take operands only from such (SPEC G-2).
    pub aligned: bool,
    /// Called when this member's part is complete, or has failed: input may change, output is there.
    pub done: Done<A>,
}

// A derived impl would ask the same of A.
impl<A> Clone for Collect<A> {
    fn clone(&self) -> Self {
        Self {
            input: self.input.clone(),
            output: self.output.clone(),
            scratch: self.scratch.clone(),
            ..*self
        }
    }
}

impl<A> Collect<A> {
    /// A collective of no data. Fields for areas, blocks and so on are to be filled in.
    pub fn new(geometry: GeometryId, what: Collective, done: Done<A>) -> Self {
        Self {
            geometry,
            what,
            root: 0,
            input: None,
            output: None,
            scratch: None,
            scratch_limit: usize::MAX,
            blocks: Blocks::equal(0),
            sources: Blocks::equal(0),
            known_blocks: true,
            reducer: None,
            in_place: false,
            algorithm: None,
            divided: false,
            form: Form::All,
            number: 0,
            aligned: false,
            done,
        }
    }
}

/// Why a collective was not taken. The caller is at fault, but for `NotCreated`, `Full` and `Dead`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CollectError {
    /// The geometry with that number is not created yet: advance, then try again.
    NotCreated(GeometryId),
    /// As many as can be wait for room: advance, then try again, or set [`Limits::queued`](super::Limits::queued) higher.
    Full {
        /// How many.
        limit: usize,
    },
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
    /// Elements of a user's operator are this many bytes long, too many.
    ElementLen(usize),
    /// The memory is absent, or too short.
    TooSmall {
        /// Which one.
        area: Area,
        /// Bytes that it must have from the byte that was named.
        bytes: usize,
    },
    /// The area does not begin where [`Collect::aligned`] says.
    Unaligned(Area),
    /// Over `u32::MAX` bytes.
    TooLong,
    /// Endpoints cannot share the work: not of that collective; or some of the root's are on other nodes, and blocks differ in length.
    NotDivisible(Collective),
    /// The factory was registered by another client than the context's (SPEC M-6).
    ForeignFactory,
    /// The factory is one for this collective, not for the one that is called (SPEC M-6).
    OtherCollective(Collective),
    /// The memory that was passed for its object holds another one's.
    MemoryInUse,
    /// An endpoint may take part in so many schedules of it at once, the barrier in front of them among them; the context has
    /// places for fewer. Set [`Limits::in_flight`](super::Limits::in_flight) higher.
    InFlight {
        /// How many, at the endpoint that has most.
        parts: usize,
        /// How many places there are.
        limit: usize,
    },
    /// Its data does not flow from those who are instructed to those who are not, or lengths differ.
    Form,
}

impl fmt::Display for CollectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotCreated(id) => write!(f, "geometry {} is not created yet: advance first", id.0),
            Self::Full { limit } => write!(
                f,
                "{limit} collectives wait for room, which is all that can: advance first, or raise Limits::queued"
            ),
            Self::UnknownGeometry(id) => write!(f, "there is no geometry {} at this endpoint", id.0),
            Self::Dead(node) => write!(f, "node {node}, where a member lives, is dead"),
            Self::Call(error) => error.fmt(f),
            Self::Selection(error) => error.fmt(f),
            Self::NoReducer(what) => write!(f, "{what:?} needs a reducer"),
            Self::ElementLen(len) => {
                write!(f, "an element of {len} bytes is too long: at most {REDUCED_AT_ONCE}")
            }
            Self::TooSmall { area, bytes } => write!(f, "the {area:?} area needs {bytes} bytes"),
            Self::Unaligned(area) => {
                write!(f, "the {area:?} area does not begin at a multiple of {ALIGNMENT} bytes")
            }
            Self::NotDivisible(what) => {
                write!(f, "endpoints cannot share a {what} so: see Collect::divided")
            }
            Self::ForeignFactory => {
                f.write_str("the factory is another client's: register one with this client")
            }
            Self::OtherCollective(what) => {
                write!(f, "the factory is for a {what:?}: pass one that was registered for what is called")
            }
            Self::MemoryInUse => {
                f.write_str("the memory holds the object of another collective: pass free memory")
            }
            Self::InFlight { parts, limit } => {
                write!(
                    f,
                    "the collective takes {parts} places in flight, the context has {limit}: raise Limits::in_flight"
                )
            }
            Self::Form => f.write_str("nobody would hear of the collective: instruct all endpoints"),
            Self::TooLong => write!(f, "a collective has at most {} bytes", u32::MAX),
        }
    }
}

impl core::error::Error for CollectError {}
