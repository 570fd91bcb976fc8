//! Contexts: a share of a client's resources, a work queue and the functions that run it (SPEC P-2).
//!
//! A [`Context`] is `Send` and not `Sync`, and [`Context::advance`] takes `&mut self`: whoever can call it has
//! the context alone, and no lock is needed (DESIGN decision 2). Other threads reach it through a [`Poster`].
//! Handlers and callbacks are handed an [`Active`], which has everything but `advance`.
//!
//! ```compile_fail,E0277
//! fn shared<P: pami::device::Port>(context: &pami::context::Context<P>) -> &(dyn Sync + '_) {
//!     context
//! }
//! ```
//! ```compile_fail,E0599
//! fn nested<P: pami::device::Port>(active: &mut pami::context::Active<P>) {
//!     active.advance();
//! }
//! ```

use crate::client::Counters;
use crate::device::{Arrival, Port, Wake};
use crate::dispatch::{DISPATCH_IDS, Handler};
use crate::endpoint::Endpoint;
use crate::receive::Incoming;
use crate::send::{SendError, Sends};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::slice;
use rings::post::{PostQueue, Slot};

/// Most packets that one call of [`Context::advance`] takes in: a busy peer cannot keep the caller.
pub const ARRIVALS_PER_ADVANCE: usize = 16;
/// Most posts that one call of [`Context::advance`] runs.
pub const POSTS_PER_ADVANCE: usize = 64;
/// Rounds that [`Context::wait`] polls before it sleeps: long enough to catch an answer of a neighbour, short
/// enough that nodes which share a host core do not steal each other's time.
pub const POLLS_BEFORE_SLEEP: usize = 64;

/// Longest sleep of [`Context::retry`] between two attempts.
const RETRY_NS: u64 = 1_000_000;

/// What posted work says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// It is finished; its slot is free again.
    Done,
    /// It could not be done now. It stays first in the queue and is run again (SPEC P-11).
    Again,
}

/// What a post carries to the context's thread.
pub struct Work<P: Port> {
    /// Runs on the thread that advances the context.
    pub run: &'static (dyn Fn(&mut Active<P>, usize) -> Progress + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

impl<P: Port> Clone for Work<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: Port> Copy for Work<P> {}

/// The slot of a post is still in a queue.
pub use rings::post::Busy;

/// Memory for one post, the caller's: a post needs no other and so never fails for want of room.
pub type WorkSlot<P> = Slot<Work<P>>;

/// Posts work to a context from any thread.
pub struct Poster<P: Port> {
    queue: &'static PostQueue<Work<P>>,
    waker: P::Waker,
}

impl<P: Port> Clone for Poster<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: Port> Copy for Poster<P> {}

impl<P: Port> Poster<P> {
    /// Queues `work`; lock-free. The next advance of the context runs it, in the order of the posts.
    ///
    /// # Errors
    /// [`Busy`] while an earlier post of `slot` has not been run to its end.
    pub fn post(&self, slot: &'static WorkSlot<P>, work: Work<P>) -> Result<(), Busy> {
        self.queue.post(slot, work)?;
        self.waker.wake();
        Ok(())
    }
}

/// A context without its `advance`: what handlers, callbacks and posted work are handed.
pub struct Active<P: Port> {
    pub(crate) port: P,
    pub(crate) me: Endpoint,
    pub(crate) local_paths: bool,
    pub(crate) handlers: [Option<Handler<P>>; DISPATCH_IDS],
    pub(crate) sends: Sends<P>,
    pub(crate) incoming: Incoming<P>,
    pub(crate) counters: Counters,
    not_sync: PhantomData<Cell<()>>,
}

impl<P: Port> Active<P> {
    pub(crate) fn new(
        port: P,
        me: Endpoint,
        local_paths: bool,
        handlers: [Option<Handler<P>>; DISPATCH_IDS],
        sends: Sends<P>,
        incoming: Incoming<P>,
    ) -> Self {
        let counters = Counters::default();
        Self { port, me, local_paths, handlers, sends, incoming, counters, not_sync: PhantomData }
    }

    /// The endpoint that this context is.
    pub fn endpoint(&self) -> Endpoint {
        self.me
    }

    /// What went through this context so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Nanoseconds since the node started.
    pub fn now_ns(&self) -> u64 {
        self.port.now_ns()
    }

    /// For posts to this context from other threads, or from its own handlers.
    pub fn poster(&self) -> Poster<P> {
        Poster { queue: self.port.posts(), waker: self.port.waker() }
    }

    fn run_posts(&mut self) -> usize {
        let mut finished = 0;
        // Work may post more work: the bound keeps that from holding the caller.
        while finished < POSTS_PER_ADVANCE
            && let Some(work) = self.port.posted().peek()
        {
            if (work.run)(self, work.cookie) == Progress::Again {
                break;
            }
            self.port.posted().pop();
            finished += 1;
        }
        finished
    }
}

/// A context, owned by the thread that advances it.
pub struct Context<P: Port> {
    active: Active<P>,
}

impl<P: Port> Deref for Context<P> {
    type Target = Active<P>;
    fn deref(&self) -> &Active<P> {
        &self.active
    }
}

impl<P: Port> DerefMut for Context<P> {
    fn deref_mut(&mut self) -> &mut Active<P> {
        &mut self.active
    }
}

impl<P: Port> Context<P> {
    pub(crate) fn new(active: Active<P>) -> Self {
        Self { active }
    }

    pub(crate) fn into_active(self) -> Active<P> {
        self.active
    }

    /// Makes progress and never blocks: moves packets, runs handlers for those that arrived, posted work,
    /// pending sends and the callbacks of those that completed. Returns how many of these there were.
    pub fn advance(&mut self) -> usize {
        let active = &mut self.active;
        let mut events = usize::from(active.port.drive());
        for _ in 0..ARRIVALS_PER_ADVANCE {
            // An arrival may owe an acknowledgement; with no place to note one it waits in its FIFO.
            if active.sends.acks_full() {
                break;
            }
            let Some(arrival) = active.port.pull() else { break };
            active.receive(arrival.envelope(), arrival.header(), arrival.data());
            active.port.release(arrival);
            events += 1;
        }
        events += active.run_posts();
        events += active.progress_sends();
        if events > 0 {
            active.port.drive();
        }
        events
    }

    /// Calls `attempt`, and advances and calls it again for as long as it finds no room.
    ///
    /// # Errors
    /// What `attempt` returns, but for [`SendError::Again`].
    pub fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Active<P>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        let mut outcome = attempt(&mut self.active);
        while matches!(outcome, Err(SendError::Again)) {
            self.wait_for(RETRY_NS, |active| {
                outcome = attempt(active);
                !matches!(outcome, Err(SendError::Again))
            });
        }
        outcome
    }

    /// Advances until `until` holds; sleeps while there is nothing to do (SPEC N-8).
    pub fn wait(&mut self, mut until: impl FnMut(&mut Active<P>) -> bool) {
        while !self.wait_for(u64::MAX, &mut until) {}
    }

    /// As [`wait`](Self::wait), for `timeout_ns` at most. Returns whether `until` held.
    pub fn wait_for(&mut self, timeout_ns: u64, mut until: impl FnMut(&mut Active<P>) -> bool) -> bool {
        wait_on(slice::from_mut(self), timeout_ns, |contexts| until(&mut contexts[0].active))
    }
}

/// Advances several contexts of one thread until `until` holds, for `timeout_ns` at most; sleeps while there is
/// nothing to do for any of them (SPEC P-2, N-8). Returns whether `until` held.
pub fn wait_on<P: Port>(
    contexts: &mut [Context<P>],
    timeout_ns: u64,
    mut until: impl FnMut(&mut [Context<P>]) -> bool,
) -> bool {
    let advance = |contexts: &mut [Context<P>]| contexts.iter_mut().map(Context::advance).sum::<usize>();
    let Some(start) = contexts.first().map(|context| context.now_ns()) else { return until(contexts) };
    let deadline = start.checked_add(timeout_ns);
    loop {
        let mut idle = 0;
        while idle < POLLS_BEFORE_SLEEP {
            let events = advance(contexts);
            if until(contexts) {
                return true;
            }
            idle = if events == 0 { idle + 1 } else { 0 };
        }
        if deadline.is_some_and(|deadline| contexts[0].now_ns() >= deadline) {
            return false;
        }
        for context in contexts.iter_mut() {
            context.active.port.arm();
        }
        // What came before the ports were armed wakes nobody: look once more.
        let quiet = advance(contexts) == 0;
        let held = until(contexts);
        if quiet && !held {
            contexts[0].active.port.sleep(deadline);
        }
        for context in contexts.iter_mut() {
            context.active.port.disarm();
        }
        if held {
            return true;
        }
    }
}
