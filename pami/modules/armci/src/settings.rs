//! What one instance of the library is set to (SPEC M-4): its own, whatever other libraries of the application have.

use crate::error::Error;
use pami::{Sharing, Split};

/// How calls wait for what they began (SPEC N-8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// So many rounds at most are polled, then the hart sleeps: quick where tasks have harts of their own.
    Poll(u32),
    /// The hart sleeps as soon as there is nothing to do, until something arrives.
    Interrupt,
}

impl Wait {
    /// Rounds that are polled.
    pub(crate) fn polls(self) -> u32 {
        match self {
            Self::Poll(rounds) => rounds,
            Self::Interrupt => 0,
        }
    }
}

/// The settings of one instance. All tasks give the same name, contexts and sharing; the rest is each task's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the client, which no other library in the task may have.
    pub client: &'static str,
    /// Contexts of each task: one for each thread that communicates.
    pub contexts: u8,
    /// Whether the contexts share their injection FIFO (SPEC P-3).
    pub sharing: Sharing,
    /// How calls wait. Can be changed.
    pub wait: Wait,
    /// Bytes of the task's slab, which all that is allocated lies in.
    pub slab: u32,
    /// Allocations that the slab can have at a time.
    pub allocations: usize,
    /// Mutexes that the task can own.
    pub mutexes: u32,
    /// Handles of non-blocking calls that can be in use at a time. Can be changed, up to the value at the start.
    pub handles: usize,
    /// Who does the work of this task's accumulates (SPEC L-4): itself, the target, or both. Can be changed.
    pub accumulate: Split,
}

/// What an instance has whose application says nothing; docs/limits.md has each number, and what is past it.
const DEFAULT: Settings = Settings {
    client: "armci",
    contexts: 1,
    sharing: Sharing::Exclusive,
    wait: Wait::Poll(2048),
    slab: 1 << 20,
    allocations: 64,
    mutexes: 16,
    handles: 32,
    accumulate: Split::Advice,
};

impl Default for Settings {
    fn default() -> Self {
        DEFAULT
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.slab == 0 || self.slab > u32::MAX / 2 {
            return Err(Error::Setting("slab", "from 1 to 2^31 - 1"));
        }
        if self.handles == 0 {
            return Err(Error::Setting("handles", "1 at least"));
        }
        Ok(())
    }
}
