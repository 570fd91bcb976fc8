//! What a library instance is set up with, and what of it can be changed later (SPEC M-4).

use pami::{Limits, Sharing, Split};

/// Most contexts of a library.
pub(crate) const CONTEXTS: usize = 8;
/// Threads that make communicators at the same time.
pub(crate) const SEEKERS: usize = 16;

/// Settings of one instance. No other instance, and no other library, sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the client, different from those of other clients of the task.
    pub name: &'static str,
    /// Contexts that communicators are hashed over, the same number in every task. Threads that use different
    /// communicators then seldom wait for each other.
    pub contexts: u8,
    /// Whether these share their injection FIFO.
    pub sharing: Sharing,
    /// Messages of more bytes stay with their sender until they are wanted. Can be changed.
    pub eager_limit: usize,
    /// Bytes of messages that came before their receive which each context keeps, of all tasks together, in pieces of 256 bytes
    /// and one at least for each message; the same in every task. Who sends has a part of it, more if there is room; one who has
    /// used that up sends the next ones as if they were over the eager limit.
    pub unexpected_bytes: usize,
    /// RTS to each context whose messages it has not received, in all. One more is refused: its send ends with
    /// an error of class `NoMem`.
    pub rts_places: usize,
    /// Regions of the node that each context has at a time for messages under way, so that their receivers can pull the
    /// data; messages from one memory share one. Without one left a message's data is sent after a CTS.
    pub regions: usize,
    /// Requests that each context can have at a time. At most 65503: numbers of theirs and of the library's own have 16 bits.
    pub requests: u16,
    /// Communicators at a time in each context, world and self among them.
    pub communicators: u16,
    /// Collectives in flight in each context, besides one of each communicator.
    pub collectives: usize,
    /// Messages of collectives that may come early; see [`pami::Limits::early`].
    pub early: usize,
    /// Collectives that were called and are not complete, in each context. Those that find no room wait.
    pub collective_requests: usize,
    /// Bytes of scratch memory that each of those has for its algorithm, the same in every task. Algorithms that
    /// need more are not chosen, and reductions go in runs that need no more.
    pub collective_work: usize,
    /// Bytes that one reduction at a time has in their place if its vector is longer than those, the same in every task.
    pub collective_large: usize,
    /// Communicators at a time whose long collectives are divided among the contexts, if there are several; the same in every
    /// task. Those past it have all in one context; with 0, all have.
    pub divided: u16,
    /// Bytes of scratch memory in each context that data of collectives which does not lie in one piece is packed into.
    pub collective_scratch: usize,
    /// Lists of counts and displacements that each context keeps for collectives of the v forms, one for each buffer.
    pub collective_lists: usize,
    /// Counts that these have together: a list one for each process, an alltoallv two lists. What finds no room is refused.
    pub collective_counts: usize,
    /// Derived datatypes at a time.
    pub types: usize,
    /// Runs of equally spaced blocks that all datatypes can have together.
    pub type_runs: usize,
    /// Groups that are no ranges at a time, those of communicators among them.
    pub groups: usize,
    /// Ranks that these can have together. A list that does not rise has each twice.
    pub group_ranks: usize,
    /// Keys of attributes.
    pub keyvals: usize,
    /// Attributes of all communicators together.
    pub attributes: usize,
    /// Windows at a time in each context, at most 255.
    pub windows: u16,
    /// Processes that the windows of a context can have together, the same in every task.
    pub window_ranks: usize,
    /// Bytes for windows that the library allocates, in each context that has windows.
    pub window_memory: usize,
    /// Who adds the numbers of an accumulate of sums, its origin or its target.
    pub accumulate: Split,
    /// Whether blocking calls sleep when nothing has come for a while, or poll on. Can be changed.
    pub sleeps: bool,
}

/// What an instance has whose application says nothing; docs/limits.md has each number, and what is past it.
const DEFAULT: Settings = Settings {
    name: "mpi",
    contexts: 1,
    sharing: Sharing::Exclusive,
    eager_limit: 8 << 10,
    unexpected_bytes: 128 << 10,
    rts_places: 16 << 10,
    regions: 32,
    requests: 10 << 10,
    communicators: 1024,
    collectives: 16,
    early: 128,
    collective_requests: 64,
    collective_work: 8 << 10,
    collective_large: 128 << 10,
    divided: 16,
    collective_scratch: 256 << 10,
    collective_lists: 8,
    collective_counts: 32 << 10,
    types: 1024,
    type_runs: 16 << 10,
    groups: 2048,
    group_ranks: 64 << 10,
    keyvals: 64,
    attributes: 1024,
    windows: 8,
    window_ranks: 1024,
    window_memory: 64 << 10,
    accumulate: Split::Advice,
    sleeps: true,
};

impl Default for Settings {
    fn default() -> Self {
        DEFAULT
    }
}

impl Settings {
    /// Communicators whose collectives may be divided.
    pub(crate) fn divisible(&self) -> u16 {
        if self.contexts > 1 { self.divided } else { 0 }
    }

    /// What PAMI has for the collectives of each context.
    pub(crate) fn limits(&self) -> Limits {
        let divisible = usize::from(self.divisible());
        Limits {
            // The first place of each context is the world's.
            geometries: usize::from(self.communicators) + 1 + divisible,
            in_flight: self.collectives,
            // As many as can be under way, each of another communicator, and a slice of what is divided.
            always: self.collective_requests.saturating_sub(1) + divisible.min(1),
            // As many again may be refused, of which all are told in their turn.
            queued: 2 * self.collective_requests,
            early: self.early,
            domains: None,
        }
    }
}

/// What can be changed of the settings of an instance in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// [`Settings::eager_limit`].
    EagerLimit(usize),
    /// [`Settings::sleeps`].
    Sleeps(bool),
}
