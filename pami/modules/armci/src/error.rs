//! Why a call was refused, and why what was begun did not end well.

use crate::address::GlobalAddress;
use base::OutOfMemory;
use core::fmt;
use pami::factory::FactoryError;
use pami::geometry::MembersError;
use pami::{ClientError, CollectError, GeometryError, OperationError, RegisterError, SendError};

/// What went wrong. The caller is at fault, but for `Client`, `Factory`, `Register`, `Memory`, `Full` and `Operation`, which tell of
/// what ran out or died, and `Send` with a dead node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The client or a context could not be had, or not be ended.
    Client(ClientError),
    /// A function of the messaging layer could not be registered.
    Factory(FactoryError),
    /// The slab could not be registered.
    Register(RegisterError),
    /// An operation was not taken.
    Send(SendError),
    /// An operation that was taken was given up.
    Operation(OperationError),
    /// A collective was not started.
    Collect(CollectError),
    /// A group could not be made or ended.
    Geometry(GeometryError),
    /// There is no such group.
    Members(MembersError),
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
    /// The job has no such task.
    Task(u32),
    /// The slab of this task has no room, or no place to note one more allocation.
    Full {
        /// Whose slab.
        task: u32,
    },
    /// Nothing is allocated from that address on.
    NotAllocated(GlobalAddress),
    /// Room for another number of addresses is wanted: one for each task of the group.
    Addresses {
        /// How many there was room for.
        given: usize,
        /// How many there are.
        wanted: usize,
    },
    /// The bytes do not lie in the slab of the address's task.
    Outside {
        /// The first byte.
        address: GlobalAddress,
        /// How far they reach.
        reach: u64,
    },
    /// The bytes do not lie in the local memory.
    Local {
        /// The first byte.
        offset: usize,
        /// How far they reach.
        reach: u64,
        /// Bytes that the memory has.
        len: usize,
    },
    /// There is one count more than levels, as many strides on each side as levels, and no more than there can be.
    Levels {
        /// Counts.
        counts: usize,
        /// Strides of the local and of the remote side.
        strides: [usize; 2],
        /// How many levels there can be.
        limit: usize,
    },
    /// The data has over `u32::MAX` bytes, or reaches over as many.
    TooLong,
    /// An element of this many bytes does not lie at a multiple of its size, or is not whole.
    Unaligned {
        /// Bytes of an element.
        size: u32,
    },
    /// All handles are in use: wait for one.
    NoHandle {
        /// How many there are.
        limit: usize,
    },
    /// The task has no such mutex.
    NoMutex {
        /// The task.
        task: u32,
        /// The mutex's number there.
        mutex: u32,
    },
    /// More mutexes than the settings have places for, or there are some already.
    Mutexes {
        /// How many there can be.
        limit: u32,
    },
    /// A mutex is held, or waited for: mutexes are destroyed when nobody wants them.
    MutexHeld(u32),
    /// Another thread waits for a mutex on this context.
    LockPending(u8),
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
            Self::Memory(error) => error.fmt(f),
            Self::Setting(name, range) => write!(f, "the setting {name} must be {range}"),
            Self::Finalized => f.write_str("the library was finalized: call init again"),
            Self::Context { context, contexts } => {
                write!(f, "the library has no context {context}: its settings name {contexts}")
            }
            Self::Task(task) => write!(f, "task {task} is not in the job"),
            Self::Full { task } => {
                write!(
                    f,
                    "the slab of task {task} is full: free some of it, or name a larger one in the settings"
                )
            }
            Self::NotAllocated(address) => {
                write!(f, "{address} was not allocated here, or is free: name what malloc returned")
            }
            Self::Addresses { given, wanted } => {
                write!(f, "the group has {wanted} tasks, and there is room for {given} addresses")
            }
            Self::Outside { address, reach } => {
                write!(f, "{reach} bytes from {address} on are not all in that task's slab")
            }
            Self::Local { offset, reach, len } => {
                write!(f, "{reach} bytes from {offset} on are not all in the local memory of {len} bytes")
            }
            Self::Levels { counts, strides: [local, remote], limit } => write!(
                f,
                "{counts} counts go with one stride fewer on each side, {limit} at most, not with {local} and {remote}"
            ),
            Self::TooLong => write!(f, "data of a transfer lies within {} bytes", u32::MAX),
            Self::Unaligned { size } => {
                write!(f, "elements of {size} bytes must be whole and lie at multiples of their size")
            }
            Self::NoHandle { limit } => write!(f, "all {limit} handles are in use: wait for one of them"),
            Self::NoMutex { task, mutex } => write!(f, "task {task} has no mutex {mutex}: create it first"),
            Self::Mutexes { limit } => {
                write!(f, "a task has at most {limit} mutexes, created once: see the settings")
            }
            Self::MutexHeld(mutex) => write!(f, "mutex {mutex} of this task is held or waited for"),
            Self::LockPending(context) => write!(
                f,
                "another thread waits for a mutex on context {context}: give each thread a context of its own"
            ),
        }
    }
}

impl core::error::Error for Error {}

base::from!(Error: ClientError => Client, FactoryError => Factory, RegisterError => Register, SendError => Send,
    OperationError => Operation, CollectError => Collect, GeometryError => Geometry, MembersError => Members,
    OutOfMemory => Memory);
