//! Error classes of the standard, and errors that say more.

use crate::data::DataError;
use crate::datatype::TypeError;
use base::OutOfMemory;
use core::fmt;
use pami::client::ClientError;
use pami::geometry::MembersError;
use pami::{CollectError, FactoryError, GeometryError, OperationError, SendError};

/// Error classes, with the standard's names. What a C binding returns is the number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(i32)]
#[allow(missing_docs, reason = "the standard's list")]
pub enum Class {
    Success = 0,
    Buffer = 1,
    Count = 2,
    Type = 3,
    Tag = 4,
    Comm = 5,
    Rank = 6,
    Request = 7,
    Root = 8,
    Group = 9,
    Op = 10,
    Topology = 11,
    Dims = 12,
    Arg = 13,
    Unknown = 14,
    Truncate = 15,
    Other = 16,
    Intern = 17,
    Pending = 18,
    InStatus = 19,
    Assert = 22,
    Base = 24,
    Disp = 26,
    Keyval = 36,
    LockType = 37,
    NoMem = 39,
    ProcAborted = 44,
    RmaConflict = 48,
    RmaRange = 49,
    RmaSync = 51,
    Size = 55,
    UnsupportedOperation = 58,
    Win = 60,
}

impl Class {
    /// All of them, by number.
    const ALL: [Self; 33] = [
        Self::Success,
        Self::Buffer,
        Self::Count,
        Self::Type,
        Self::Tag,
        Self::Comm,
        Self::Rank,
        Self::Request,
        Self::Root,
        Self::Group,
        Self::Op,
        Self::Topology,
        Self::Dims,
        Self::Arg,
        Self::Unknown,
        Self::Truncate,
        Self::Other,
        Self::Intern,
        Self::Pending,
        Self::InStatus,
        Self::Assert,
        Self::Base,
        Self::Disp,
        Self::Keyval,
        Self::LockType,
        Self::NoMem,
        Self::ProcAborted,
        Self::RmaConflict,
        Self::RmaRange,
        Self::RmaSync,
        Self::Size,
        Self::UnsupportedOperation,
        Self::Win,
    ];

    /// The class with this number, as another process has sent it.
    pub(crate) fn of_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|class| *class as u32 == number).unwrap_or(Self::Unknown)
    }
}

/// Why a call was refused, or an operation did not end well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The library is finalized, or was in the meantime.
    Finalized,
    /// Requests, communicators or window traffic are left when the library is finalized: so many of what.
    Unfinished {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
    },
    /// The communicator was freed, or is none.
    Comm,
    /// No process of the communicator, or of the group, has this rank.
    Rank(i64),
    /// The tag is negative, or over the upper bound.
    Tag(i32),
    /// So many elements are more than an operation can have, or fewer than none.
    Count(usize),
    /// The datatype was not committed, or cannot be used so.
    Type,
    /// The attached buffer has no room, is missing, or is one too many.
    Buffer,
    /// What is wrong with the data.
    Data(DataError),
    /// What is wrong with a datatype's constructor.
    Datatype(TypeError),
    /// The message has this many bytes, more than the receive has room for.
    Truncate {
        /// Bytes of the message.
        len: usize,
        /// Bytes that the receive has room for.
        room: usize,
    },
    /// The request was completed or freed before, or the call is not for requests of its kind.
    Request,
    /// The root's rank does not exist.
    Root(u32),
    /// The group is not one of this library's, or has no such members.
    Group,
    /// The operator cannot be used with the datatype.
    Op,
    /// The communicator has no, or another, topology.
    Topology,
    /// The dimensions do not fit.
    Dims,
    /// An argument is wrong: which, in words.
    Arg(&'static str),
    /// The key is not in use.
    Keyval,
    /// The window was freed, or is none.
    Win,
    /// Accesses of a window outside an epoch, or epochs that do not fit.
    RmaSync,
    /// An access reaches out of the target's window.
    RmaRange,
    /// An attribute's copy or delete function said this.
    Callback(i32),
    /// There is no room for more: of what, and how many there are. Change the settings.
    NoMem {
        /// Of what.
        what: &'static str,
        /// How many there are.
        limit: usize,
    },
    /// The node has not so many bytes.
    Memory(OutOfMemory),
    /// Another process could not take its part in a collective call, for a reason of this class.
    Elsewhere(Class),
    /// At least one of the requests ended with an error: see their statuses.
    InStatus,
    /// This request of several has neither failed nor completed.
    Pending,
    /// The node that the other side lives on, of this rank, is dead.
    NodeDead(u32),
    /// The call is not supported: in words.
    Unsupported(&'static str),
    /// A client or a context could not be had.
    Client(ClientError),
    /// A protocol or a factory could not be had.
    Factory(FactoryError),
    /// The layer below refused: a mistake of this library's.
    Send(SendError),
    /// As above, of a collective.
    Collect(CollectError),
    /// As above, of a geometry.
    Geometry(GeometryError),
    /// A communicator cannot have such members.
    Members(MembersError),
    /// A collective, or an operation of the layer below, ended so.
    Operation(OperationError),
}

/// What calls return.
pub type Result<T> = core::result::Result<T, Error>;

impl Error {
    /// The standard's class.
    pub fn class(&self) -> Class {
        match self {
            Self::Comm => Class::Comm,
            Self::Rank(_) => Class::Rank,
            Self::Tag(_) => Class::Tag,
            Self::Count(_) => Class::Count,
            Self::Type => Class::Type,
            Self::Buffer => Class::Buffer,
            Self::Data(DataError::Type) => Class::Type,
            Self::Data(DataError::Short { .. }) => Class::Truncate,
            Self::Data(DataError::Range { .. }) => Class::Buffer,
            Self::Datatype(TypeError::Memory { .. } | TypeError::Types { .. } | TypeError::Runs { .. }) => {
                Class::NoMem
            }
            Self::Datatype(_) => Class::Arg,
            Self::Truncate { .. } => Class::Truncate,
            Self::Request => Class::Request,
            Self::Root(_) => Class::Root,
            Self::Group | Self::Members(_) => Class::Group,
            Self::Op => Class::Op,
            Self::Topology => Class::Topology,
            Self::Dims => Class::Dims,
            Self::Arg(_) => Class::Arg,
            Self::Keyval => Class::Keyval,
            Self::Win => Class::Win,
            Self::RmaSync => Class::RmaSync,
            Self::RmaRange => Class::RmaRange,
            Self::NoMem { .. } | Self::Memory(_) => Class::NoMem,
            Self::Elsewhere(class) => *class,
            Self::InStatus => Class::InStatus,
            Self::Pending => Class::Pending,
            Self::NodeDead(_) => Class::ProcAborted,
            Self::Unsupported(_) => Class::UnsupportedOperation,
            Self::Finalized
            | Self::Unfinished { .. }
            | Self::Callback(_)
            | Self::Client(_)
            | Self::Factory(_) => Class::Other,
            Self::Send(_) | Self::Geometry(_) | Self::Collect(_) | Self::Operation(_) => Class::Intern,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finalized => f.write_str("the library is finalized: call it before"),
            Self::Unfinished { what, count } => {
                write!(f, "{count} {what} are left: complete or free them before the library is finalized")
            }
            Self::Comm => f.write_str("the communicator was freed, or never was one"),
            Self::Rank(rank) => write!(f, "no process has rank {rank} there"),
            Self::Tag(tag) => write!(f, "the tag {tag} is negative or over TAG_UB"),
            Self::Count(count) => write!(f, "{count} elements or bytes are too many"),
            Self::Type => f.write_str("the datatype is not committed, or cannot be used so"),
            Self::Buffer => f.write_str("the attached buffer is missing, has no room, or is one too many"),
            Self::Truncate { len, room } => {
                write!(f, "a message of {len} bytes came to a receive with room for {room}")
            }
            Self::Request => f.write_str("the request was completed or freed before, or is of another kind"),
            Self::Root(root) => write!(f, "no process has the root's rank {root}"),
            Self::Group => f.write_str("the group is not of this library, or has no such members"),
            Self::Op => f.write_str("the operator cannot be used with this datatype"),
            Self::Topology => f.write_str("the communicator has no such topology"),
            Self::Dims => f.write_str("the dimensions do not fit the number of processes"),
            Self::Arg(problem) => f.write_str(problem),
            Self::Keyval => f.write_str("the key is not in use: create it first"),
            Self::Win => f.write_str("the window was freed, or never was one"),
            Self::RmaSync => f.write_str("the window is accessed outside an epoch, or epochs do not fit"),
            Self::RmaRange => f.write_str("the access reaches out of the target's window"),
            Self::Callback(code) => write!(f, "an attribute's function returned {code}"),
            Self::NoMem { what, limit } => {
                write!(f, "no room for more {what} than {limit}: see the library's settings")
            }
            Self::Elsewhere(class) => {
                write!(f, "another process could not take its part in the call: {class:?}")
            }
            Self::InStatus => f.write_str("some of the requests failed: their statuses say which"),
            Self::Pending => f.write_str("the request is still under way"),
            Self::NodeDead(node) => write!(f, "node {node}, where the other side lives, is dead"),
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
            Self::Memory(error) => error.fmt(f),
            Self::Data(error) => error.fmt(f),
            Self::Datatype(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
            Self::Factory(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Collect(error) => error.fmt(f),
            Self::Geometry(error) => error.fmt(f),
            Self::Members(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for Error {}

base::from!(Error: DataError => Data, TypeError => Datatype, ClientError => Client, FactoryError => Factory,
    MembersError => Members, OutOfMemory => Memory);

impl From<SendError> for Error {
    fn from(error: SendError) -> Self {
        if let SendError::Dead(node) = error { Self::NodeDead(node) } else { Self::Send(error) }
    }
}

impl From<CollectError> for Error {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Dead(node) => Self::NodeDead(node),
            CollectError::Full { limit } => Self::NoMem { what: "collectives that wait for room", limit },
            other => Self::Collect(other),
        }
    }
}

impl From<GeometryError> for Error {
    fn from(error: GeometryError) -> Self {
        match error {
            GeometryError::Full { limit } => Self::NoMem { what: "communicators", limit },
            other => Self::Geometry(other),
        }
    }
}

impl From<OperationError> for Error {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::NodeDead(node) => Self::NodeDead(node),
            OperationError::Abandoned { reason, .. } => Self::Elsewhere(Class::of_number(reason.into())),
            _ => Self::Operation(error),
        }
    }
}
