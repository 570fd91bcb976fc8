//! Callbacks of one-sided operations, made once for a library.

use crate::memory::{OutOfMemory, place};
use pami::device::Port;
use pami::{Active, Completion, Done, Fetched, Node, OnFetched};

/// What the layer below calls at the end of operations, each known by a cookie.
pub struct Completions<P: Port> {
    done: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
    fetched: &'static (dyn Fn(&mut Active<P>, Fetched) + Sync),
}

impl<P: Port> Completions<P> {
    /// Of `done`, and of `fetched` for those that say what a word was.
    ///
    /// # Errors
    /// [`OutOfMemory`]
    pub fn new<N: Node<Port = P>>(
        node: &N,
        done: impl Fn(&mut Active<P>, Completion) + Send + Sync + 'static,
        fetched: impl Fn(&mut Active<P>, Fetched) + Send + Sync + 'static,
    ) -> Result<Self, OutOfMemory> {
        Ok(Self { done: place(node, "callbacks", done)?, fetched: place(node, "callbacks", fetched)? })
    }

    /// What tells of the end of an operation.
    pub fn done(&self, cookie: usize) -> Done<P> {
        Done { call: self.done, cookie }
    }

    /// What tells of the end of an update, and what the word was.
    pub fn fetched(&self, cookie: usize) -> OnFetched<P> {
        OnFetched { call: self.fetched, cookie }
    }
}
