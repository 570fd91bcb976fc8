//! Why a call was refused, and why what was begun did not end well.

use crate::address::GlobalAddress;
use base::OutOfMemory;
use pami::factory::FactoryError;
use pami::geometry::MembersError;
use pami::{ClientError, CollectError, GeometryError, OperationError, RegisterError, SendError};

base::errors! {
    /// What went wrong. The caller is at fault, but for `Client`, `Factory`, `Register`, `Memory`, `Full` and `Operation`, which
    /// tell of what ran out or died, and `Send` with a dead node.
    pub enum Error:
    below {
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
    }
    told {}
    own {
    Setting(name: &'static str, range: &'static str) => "the setting {name} must be {range}",
    Finalized => "the library was finalized: call init again",
    Context { context: u8, contexts: u8 } => "the library has no context {context}: its settings name {contexts}",
    Task(task: u32) => "task {task} is not in the job",
    Full { task: u32 } => "the slab of task {task} is full: free some of it, or name a larger one in the settings",
    NotAllocated(address: GlobalAddress)
        => "{address} was not allocated here, or is free: name what malloc returned",
    Addresses { given: usize, wanted: usize }
        => "the group has {wanted} tasks, and there is room for {given} addresses",
    Outside { address: GlobalAddress, reach: u64 }
        => "{reach} bytes from {address} on are not all in that task's slab",
    Local { offset: usize, reach: u64, len: usize }
        => "{reach} bytes from {offset} on are not all in the local memory of {len} bytes",
    Levels { counts: usize, strides: [usize; 2], limit: usize }
        => "{counts} counts go with one stride fewer on each side, {limit} at most, not with {strides:?}",
    TooLong => "data of a transfer lies within 4294967295 bytes",
    Unaligned { size: u32 } => "elements of {size} bytes must be whole and lie at multiples of their size",
    NoHandle { limit: usize } => "all {limit} handles are in use: wait for one of them",
    NoMutex { task: u32, mutex: u32 } => "task {task} has no mutex {mutex}: create it first",
    Mutexes { limit: u32 } => "a task has at most {limit} mutexes, created once: see the settings",
    MutexHeld(mutex: u32) => "mutex {mutex} of this task is held or waited for",
    LockPending(context: u8)
        => "another thread waits for a mutex on context {context}: give each thread a context of its own",
    }
}
