//! Why a call was refused, and why what was begun did not end well.

use base::OutOfMemory;
use pami::factory::FactoryError;
use pami::geometry::MembersError;
use pami::operator::ReduceError;
use pami::{ClientError, CollectError, GeometryError, OperationError, RegisterError, SendError};

/// What a call returns.
pub type Result<T = (), E = Error> = core::result::Result<T, E>;

base::errors! {
    /// What went wrong. The caller is at fault, but for `Client`, `Factory`, `Register`, `Memory`, `Full` and `Operation`,
    /// which tell of what ran out or died, and `Send` with a dead node.
    pub enum Error:
    below {
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
    }
    told {}
    own {
    Setting(name: &'static str, range: &'static str) => "the setting {name} must be {range}",
    Finalized => "the library was finalized: call init again",
    Context { context: u8, contexts: u8 } => "the library has no context {context}: its settings name {contexts}",
    Pe { pe: u32, pes: u32 } => "there is no PE {pe}: name one below {pes}",
    Full { bytes: usize }
        => "the heap has no room for {bytes} bytes more: free some of it, or name a larger one in the settings",
    NotAllocated { offset: u32 } => "nothing is allocated at byte {offset} of the heap: name what malloc returned",
    Asymmetric(call: &'static str) => "PEs call {call} with different arguments: they must be the same at all",
    Short { has: usize, wanted: usize }
        => "an object has {has} elements where {wanted} are wanted: allocate more",
    Stride => "a stride of 0 elements makes no sense: name 1 or more",
    Uneven { elements: usize, pes: u32 }
        => "{elements} elements cannot be dealt out to {pes} PEs: name a multiple of {pes}",
    Teams { limit: usize } => "a member has {limit} teams, the most that there can be: destroy one",
    NotHeld => "this PE does not hold the lock that it clears: set it first",
    }
}
