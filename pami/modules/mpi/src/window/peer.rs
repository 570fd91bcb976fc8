//! What a window knows of each of its processes.

use super::wire::Info;
use pami::Endpoint;

/// `MPI_LOCK_SHARED`, `MPI_LOCK_EXCLUSIVE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockType {
    /// With others who share it.
    Shared,
    /// Alone.
    Exclusive,
}

/// A lock that this process has of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Held {
    Lock(LockType),
    /// It said that none was needed.
    Unchecked,
}

/// What a window of this process knows of one of its processes.
#[derive(Clone, Copy)]
pub(crate) struct WindowPeer {
    pub info: Info,
    pub endpoint: Endpoint,
    /// Operations that it has not carried out, for all that is known here.
    pub under_way: u32,
    /// Those of them that only the target carries out: fetches by message, and fences.
    pub served: u32,
    /// Those of them that are split with the target.
    pub split: u32,
    /// Accumulates were sent to it that no fence is behind.
    pub unfenced: bool,
    /// The lock that this process has there.
    pub held: Option<Held>,
    /// It is in the group of a `start`.
    pub accessed: bool,
    /// It is in the group of a `post`.
    pub exposed: bool,
    /// Its posts that no `start` has taken.
    pub posts: u32,
    /// Its completes that no `wait` has taken.
    pub completes: u32,
}

impl WindowPeer {
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            info: Info::NONE,
            endpoint,
            under_way: 0,
            served: 0,
            split: 0,
            unfenced: false,
            held: None,
            accessed: false,
            exposed: false,
            posts: 0,
            completes: 0,
        }
    }
}
