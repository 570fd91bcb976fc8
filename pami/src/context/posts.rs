//! Work that other threads, or handlers, have a context do (SPEC P-2, P-11).

use super::Active;
use crate::device::{Port, Wake};
use rings::post::{PostConsumer, PostQueue, PostSlot};

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
pub type WorkSlot<P> = PostSlot<Work<P>>;

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
    /// Whether nothing has come for the context that a sleeper would be woken for; posts it sees only where one sleeps.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.waker.is_quiet()
    }

    /// Queues `work`; lock-free. The next advance of the context runs it, in the order of the posts.
    ///
    /// # Errors
    /// [`Busy`] while an earlier post of `slot` has not been run to its end.
    #[inline]
    pub fn post(&self, slot: &'static WorkSlot<P>, work: Work<P>) -> Result<(), Busy> {
        if self.queue.post(slot, work)? {
            self.waker.wake();
        }
        Ok(())
    }
}

/// The queue of a context's posts, and its receiving end.
pub(crate) struct Posts<P: Port> {
    queue: &'static PostQueue<Work<P>>,
    consumer: PostConsumer<Work<P>>,
}

impl<P: Port> Posts<P> {
    /// For a queue that nobody takes from.
    pub(crate) fn new(queue: &'static PostQueue<Work<P>>) -> Option<Self> {
        Some(Self { queue, consumer: queue.consumer()? })
    }

    /// For posts to the queue. `waker` wakes who waits for some.
    pub(super) fn poster(&self, waker: P::Waker) -> Poster<P> {
        Poster { queue: self.queue, waker }
    }

    /// Whether nothing is new.
    #[inline]
    pub(super) fn seem_idle(&self) -> bool {
        self.queue.seems_idle()
    }

    /// Whoever takes them is about to sleep. Returns `false` if it must not, as a post is just being queued.
    pub(super) fn sleep(&mut self) -> bool {
        // With work that waits for room in front, posts wake nobody: they would have to wait as well.
        self.consumer.sleep() || self.consumer.peek().is_some()
    }

    /// Takes back [`sleep`](Self::sleep).
    pub(super) fn awake(&mut self) {
        self.consumer.awake();
    }

    /// The first of them.
    #[inline]
    pub(super) fn first(&mut self) -> Option<Work<P>> {
        self.consumer.peek()
    }

    /// The first of them is finished.
    #[inline]
    pub(super) fn finish_first(&mut self) {
        self.consumer.pop();
    }
}
