//! What a library instance is set up with, and what of it can be changed later (SPEC M-4).

use pami::{Sharing, Split};

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
    /// Bytes of messages that came before their receive which each context keeps for every task of the job. A sender
    /// that has used its share up sends the next ones as if they were over the eager limit.
    pub unexpected_bytes: usize,
    /// How many such messages, the same in every task.
    pub unexpected_messages: u16,
    /// Requests that each context can have at a time, the same in every task. At most 32768.
    pub requests: u16,
    /// Communicators at a time in each context, at most 254.
    pub communicators: u16,
    /// Collectives in flight in each context.
    pub collectives: usize,
    /// Messages of collectives that may come early; see [`pami::Limits::early`].
    pub early: usize,
    /// Collectives that were called and are not complete, in each context. Those over
    /// [`collectives`](Self::collectives) wait.
    pub collective_requests: usize,
    /// Bytes of scratch memory for collectives in each context.
    pub collective_scratch: usize,
    /// Lists of counts and displacements that each context keeps for collectives of the v forms, one for each buffer.
    pub collective_lists: usize,
    /// Derived datatypes at a time.
    pub types: usize,
    /// Runs of equally spaced blocks that a datatype can have.
    pub type_runs: usize,
    /// Ranks that groups which are no ranges can have together.
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

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "mpi",
            contexts: 1,
            sharing: Sharing::Exclusive,
            eager_limit: 8 << 10,
            unexpected_bytes: 16 << 10,
            unexpected_messages: 32,
            requests: 256,
            communicators: 16,
            collectives: 16,
            early: 128,
            collective_requests: 64,
            collective_scratch: 256 << 10,
            collective_lists: 8,
            types: 64,
            type_runs: 32,
            group_ranks: 4096,
            keyvals: 16,
            attributes: 64,
            windows: 8,
            window_ranks: 1024,
            window_memory: 64 << 10,
            accumulate: Split::Advice,
            sleeps: true,
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
