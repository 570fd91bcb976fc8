//! What an instance of the library is started with (SPEC M-4).

use pami::Sharing;

/// The settings of one instance, the same at all PEs but for `polls`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the client, which no other library in the task may have.
    pub client: &'static str,
    /// Contexts of each PE: one for each thread that communicates.
    pub contexts: u8,
    /// Whether the contexts share their injection FIFO (SPEC P-3).
    pub sharing: Sharing,
    /// Rounds that a call polls at most before the hart sleeps (SPEC N-8).
    pub polls: u32,
    /// Bytes of the symmetric heap.
    pub heap: u32,
    /// Allocations that it can have at a time.
    pub allocations: usize,
    /// Bytes that the collectives of each team have to work in: with more there are more algorithms to choose from.
    pub scratch: u32,
}

/// What an instance has whose application says nothing; docs/limits.md has each number, and what is past it.
const DEFAULT: Settings = Settings {
    client: "shmem",
    contexts: 1,
    sharing: Sharing::Exclusive,
    polls: 2048,
    heap: 1 << 20,
    allocations: 64,
    scratch: 16 << 10,
};

impl Default for Settings {
    fn default() -> Self {
        DEFAULT
    }
}
