//! Why a call was refused, and why what was begun did not end well.

use base::OutOfMemory;
use core::fmt;
use pami::factory::FactoryError;
use pami::geometry::MembersError;
use pami::operator::ReduceError;
use pami::{ClientError, CollectError, GeometryError, OperationError, RegisterError, SendError};

/// What went wrong. The caller is at fault, but for `Client`, `Factory`, `Register`, `Memory`, `Full` and `Operation`, which
/// tell of what ran out or died, and `Send` with a dead node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The client or a context could not be had, or not be ended.
    Client(ClientError),
    /// A function of the messaging layer could not be registered.
    Factory(FactoryError),
    /// The heap could not be registered.
    Register(RegisterError),
    /// An operation was not taken. [`SendError::Region`] and [`SendError::Range`] tell of objects outside of the heap.
    Send(SendError),
    /// An operation that was taken was given up.
    Operation(OperationError),
    /// A collective was not started.
    Collect(CollectError),
    /// A team could not be made or ended.
    Geometry(GeometryError),
    /// There is no such team.
    Members(MembersError),
    /// There is no such reduction of these elements.
    Reduce(ReduceError),
    /// The node has not so many bytes.
    Memory(OutOfMemory),
    /// A setting has a value that it cannot have: which, and what it may be.
    Setting(&'static str, &'static str),
    /// The library was finalized.
    Finalized,
    /// The library has no such context.
    Context {
        /// The one that was asked for.
        context: u8,
        /// How many there are, from 0 on.
        contexts: u8,
    },
    /// The team, or the job, has no such PE.
    Pe {
        /// The one that was named.
        pe: u32,
        /// How many there are, from 0 on.
        pes: u32,
    },
    /// The heap has no room for so many bytes, or no place to note one more allocation.
    Full {
        /// How many were wanted.
        bytes: usize,
    },
    /// Nothing is allocated there.
    NotAllocated {
        /// Bytes from the start of the heap.
        offset: u32,
    },
    /// PEs named different arguments in a call that is the same at all: which call.
    Asymmetric(&'static str),
    /// An object has too few elements.
    Short {
        /// How many it has.
        has: usize,
        /// How many are wanted.
        wanted: usize,
    },
    /// A transfer with strides takes every first, second, ... element, not every zeroth.
    Stride,
    /// The elements cannot be dealt out evenly.
    Uneven {
        /// How many there are.
        elements: usize,
        /// Among how many PEs.
        pes: u32,
    },
    /// A member has as many teams as there can be.
    Teams {
        /// How many, the world among them.
        limit: usize,
    },
    /// A lock is cleared that this PE does not hold.
    NotHeld,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Factory(error) => error.fmt(f),
            Self::Register(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
            Self::Collect(error) => error.fmt(f),
            Self::Geometry(error) => error.fmt(f),
            Self::Members(error) => error.fmt(f),
            Self::Reduce(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Setting(name, range) => write!(f, "the setting {name} must be {range}"),
            Self::Finalized => f.write_str("the library was finalized: call init again"),
            Self::Context { context, contexts } => {
                write!(f, "the library has no context {context}: its settings name {contexts}")
            }
            Self::Pe { pe, pes } => write!(f, "there is no PE {pe}: name one below {pes}"),
            Self::Full { bytes } => write!(
                f,
                "the heap has no room for {bytes} bytes more: free some of it, or name a larger one in the settings"
            ),
            Self::NotAllocated { offset } => {
                write!(f, "nothing is allocated at byte {offset} of the heap: name what malloc returned")
            }
            Self::Asymmetric(call) => {
                write!(f, "PEs call {call} with different arguments: they must be the same at all")
            }
            Self::Short { has, wanted } => {
                write!(f, "an object has {has} elements where {wanted} are wanted: allocate more")
            }
            Self::Stride => f.write_str("a stride of 0 elements makes no sense: name 1 or more"),
            Self::Uneven { elements, pes } => {
                write!(f, "{elements} elements cannot be dealt out to {pes} PEs: name a multiple of {pes}")
            }
            Self::Teams { limit } => {
                write!(f, "a member has {limit} teams, the most that there can be: destroy one")
            }
            Self::NotHeld => f.write_str("this PE does not hold the lock that it clears: set it first"),
        }
    }
}

impl core::error::Error for Error {}

base::from!(Error: ClientError => Client, FactoryError => Factory, RegisterError => Register, SendError => Send,
    OperationError => Operation, CollectError => Collect, GeometryError => Geometry, MembersError => Members,
    ReduceError => Reduce, OutOfMemory => Memory);
