//! What one instance of the library is set to (SPEC M-4): its own, whatever other libraries of the application have.

use crate::error::Error;
use pami::{Sharing, client};

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

/// Most bytes of data that an accumulate's message can have.
pub const CHUNK_LIMIT: usize = 1024;

/// The settings of one instance. All tasks give the same name, contexts and sharing; the rest is each task's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the client, which no other library in the task may have.
    pub client: &'static str,
    /// Contexts of each task: one for each thread that communicates.
    pub contexts: u8,
    /// Whether the contexts share their injection FIFO (SPEC P-3).
    pub sharing: Sharing,
    /// From how many bytes on a message goes by rendezvous (SPEC P-6).
    pub rendezvous_from: usize,
    /// Places for kept messages of each context.
    pub kept: usize,
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
    /// Most bytes of data of one message of an accumulate: a multiple of 8, up to [`CHUNK_LIMIT`]. Can be changed.
    pub accumulate_chunk: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            client: "armci",
            contexts: 1,
            sharing: Sharing::Exclusive,
            rendezvous_from: client::RENDEZVOUS_FROM,
            kept: 1,
            wait: Wait::Poll(2048),
            slab: 1 << 20,
            allocations: 64,
            mutexes: 16,
            handles: 32,
            accumulate_chunk: CHUNK_LIMIT,
        }
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
        check_chunk(self.accumulate_chunk)
    }
}

pub(crate) fn check_chunk(bytes: usize) -> Result<(), Error> {
    let good = bytes > 0 && bytes <= CHUNK_LIMIT && bytes.is_multiple_of(8);
    good.then_some(()).ok_or(Error::Setting("accumulate_chunk", "a multiple of 8 from 8 to 1024"))
}
