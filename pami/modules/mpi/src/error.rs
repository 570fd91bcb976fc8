//! Error classes of the standard, and errors that say more.

use crate::data::DataError;
use crate::datatype::TypeError;
use base::OutOfMemory;
use pami::client::ClientError;
use pami::files::Errno;
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
    Access = 20,
    Amode = 21,
    Assert = 22,
    BadFile = 23,
    Base = 24,
    Disp = 26,
    FileExists = 28,
    FileInUse = 29,
    Io = 35,
    Keyval = 36,
    LockType = 37,
    NoMem = 39,
    NoSpace = 41,
    NoSuchFile = 42,
    ProcAborted = 44,
    ReadOnly = 46,
    RmaConflict = 48,
    RmaRange = 49,
    RmaSync = 51,
    Size = 55,
    UnsupportedOperation = 58,
    Win = 60,
}

impl Class {
    /// All of them, by number.
    const ALL: [Self; 42] = [
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
        Self::Access,
        Self::Amode,
        Self::Assert,
        Self::BadFile,
        Self::Base,
        Self::Disp,
        Self::FileExists,
        Self::FileInUse,
        Self::Io,
        Self::Keyval,
        Self::LockType,
        Self::NoMem,
        Self::NoSpace,
        Self::NoSuchFile,
        Self::ProcAborted,
        Self::ReadOnly,
        Self::RmaConflict,
        Self::RmaRange,
        Self::RmaSync,
        Self::Size,
        Self::UnsupportedOperation,
        Self::Win,
    ];

    /// That of why a call for a file failed.
    fn of_file(errno: Errno) -> Self {
        match errno {
            Errno::ENOENT | Errno::ENOTDIR => Self::NoSuchFile,
            Errno::EEXIST => Self::FileExists,
            Errno::EBUSY => Self::FileInUse,
            Errno::EPERM | Errno::EACCES | Errno::EBADF => Self::Access,
            Errno::EROFS => Self::ReadOnly,
            Errno::ENOSPC | Errno::EFBIG => Self::NoSpace,
            Errno::EINVAL | Errno::EISDIR | Errno::ENAMETOOLONG | Errno::ELOOP => Self::BadFile,
            _ => Self::Io,
        }
    }

    /// The class with this number, as another process has sent it.
    pub(crate) fn of_number(number: u32) -> Self {
        Self::ALL.into_iter().find(|class| *class as u32 == number).unwrap_or(Self::Unknown)
    }
}

base::errors! {
    /// Why a call was refused, or an operation did not end well.
    pub enum Error:
    below {
    /// What is wrong with the data.
    Data(DataError),
    /// What is wrong with a datatype's constructor.
    Datatype(TypeError),
    /// The node has not so many bytes.
    Memory(OutOfMemory),
    /// A client or a context could not be had.
    Client(ClientError),
    /// A protocol or a factory could not be had.
    Factory(FactoryError),
    /// A communicator cannot have such members.
    Members(MembersError),
    }
    told {
    /// The layer below refused: a mistake of this library's.
    Send(SendError),
    /// As above, of a collective.
    Collect(CollectError),
    /// As above, of a geometry.
    Geometry(GeometryError),
    /// A collective, or an operation of the layer below, ended so.
    Operation(OperationError),
    /// A file cannot be opened, read or written.
    File(Errno),
    }
    own {
    Finalized => "the library is finalized: call it before",
    Unfinished { what: &'static str, count: usize }
        => "{count} {what} are left: complete or free them before the library is finalized",
    Comm => "the communicator was freed, or never was one",
    Rank(rank: i64) => "no process has rank {rank} there",
    Tag(tag: i32) => "the tag {tag} is negative or over TAG_UB",
    Count(count: usize) => "{count} elements or bytes are too many",
    Type => "the datatype is not committed, or cannot be used so",
    Buffer => "the attached buffer is missing, has no room, or is one too many",
    Truncate { len: usize, room: usize } => "a message of {len} bytes came to a receive with room for {room}",
    Request => "the request was completed or freed before, or is of another kind",
    Root(root: u32) => "no process has the root's rank {root}",
    Group => "the group is not of this library, or has no such members",
    Op => "the operator cannot be used with this datatype",
    Topology => "the communicator has no such topology",
    Dims => "the dimensions do not fit the number of processes",
    Arg(problem: &'static str) => "{problem}",
    Amode(problem: &'static str) => "{problem}",
    Keyval => "the key is not in use: create it first",
    Win => "the window was freed, or never was one",
    RmaSync => "the window is accessed outside an epoch, or epochs do not fit",
    RmaRange => "the access reaches out of the target's window",
    Callback(code: i32) => "an attribute's function returned {code}",
    NoMem { what: &'static str, limit: usize } => "no room for more {what} than {limit}: see the library's settings",
    Elsewhere(class: Class) => "another process could not take its part in the call: {class:?}",
    InStatus => "some of the requests failed: their statuses say which",
    Pending => "the request is still under way",
    NodeDead(node: u32) => "node {node}, where the other side lives, is dead",
    Unsupported(what: &'static str) => "{what} is not supported",
    }
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
            Self::Amode(_) => Class::Amode,
            Self::File(errno) => Class::of_file(*errno),
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
