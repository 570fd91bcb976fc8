//! A context with its lock, and how threads take turns on it.
//!
//! A thread that wants a context which another one waits in makes that one give way.

use core::sync::atomic::{AtomicU32, Ordering};
use pami::device::Port;
use pami::{
    Active, Client, ClientError, Context, Node, Pools, Poster, Progress, QUESTIONS_NS, Work, WorkSlot,
};
use spin::{Mutex, MutexGuard, Once};

/// What each context of a library has for what is under way (SPEC R-9). Libraries keep no messages in it.
pub const POOLS: Pools = Pools { unexpected: 0, unexpected_bytes: 0, ..Pools::LARGE };

/// Between two looks at whether a context can be destroyed.
const CLOSE_NS: u64 = 1_000_000;
/// How many of these there are once a node is dead: for a second more than a context may wait for questions of the living.
const CLOSE_LOOKS: u64 = (QUESTIONS_NS + 1_000_000_000) / CLOSE_NS;

/// Longest wait of a thread before it looks after contexts that nobody has.
const OTHERS_NS: u64 = 1_000_000;

/// Whoever holds it has the lane's context, while there is one.
pub type Guard<P> = MutexGuard<'static, Option<Context<P>>>;

/// A context of a library, from its opening to its end. Not a [`LockedContext`](pami::LockedContext), since it is taken out
/// again when the library ends.
#[repr(C)]
pub struct Lane<P: Port> {
    /// Threads that wait for the lock. Every call looks at it and at the lock behind it: here their offsets are short.
    wanted: AtomicU32,
    context: Mutex<Option<Context<P>>>,
    poster: Once<Poster<P>>,
    /// Wakes whoever sleeps with the lock.
    nudge: WorkSlot<P>,
}

impl<P: Port> Default for Lane<P> {
    fn default() -> Self {
        Self {
            wanted: AtomicU32::new(0),
            context: Mutex::new(None),
            poster: Once::new(),
            nudge: WorkSlot::new(),
        }
    }
}

fn nothing<P: Port>(_: &mut Active<P>, _: usize) -> Progress {
    Progress::Done
}

impl<P: Port> Lane<P> {
    /// Gives it a context of `client`.
    ///
    /// # Errors
    /// See [`Client::create_context`].
    pub fn open<N: Node<Port = P>>(&self, client: &mut Client<N>, offset: u8) -> Result<(), ClientError> {
        let memory = client.context_memory()?;
        let context = client.create_context(offset, memory)?;
        self.poster.call_once(|| context.poster());
        *self.context.lock() = Some(context);
        Ok(())
    }

    /// Destroys its context, if it has one, once what that has under way is over. What others still have to hear of this task
    /// goes out first; who died hears nothing.
    ///
    /// # Errors
    /// See [`Client::destroy_context`]. The lane has no context all the same.
    pub fn close<N: Node<Port = P>>(
        &'static self,
        client: &mut Client<N>,
        rest: impl Fn(),
    ) -> Result<(), ClientError> {
        let Some(mut context) = self.enter(rest).take() else { return Ok(()) };
        let mut looks = 0;
        while let Err((error, back)) = client.destroy_context(context) {
            context = back;
            looks += u64::from(context.dead_node().is_some());
            let passes = matches!(error, ClientError::SendsUnderWay | ClientError::ReceivesUnderWay);
            if !passes || looks > CLOSE_LOOKS {
                return Err(error);
            }
            context.wait_for(CLOSE_NS, |_| false);
        }
        Ok(())
    }

    /// Whether another thread wants the context.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Whether nothing has come for the context, by one look at its bell and without its lock. Posts and timers it may
    /// overlook.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.poster.get().is_some_and(Poster::is_quiet)
    }

    /// What posts to its context, once it has been opened.
    pub fn poster(&self) -> Option<Poster<P>> {
        self.poster.get().copied()
    }

    /// Has whoever sleeps with the context look again at what it waits for.
    pub fn nudge(&'static self) {
        if let Some(poster) = self.poster.get() {
            // Still posted means that it wakes up anyway.
            let _ = poster.post(&self.nudge, Work { run: &nothing::<P>, cookie: 0 });
        }
    }

    /// The context, which whoever waits with it gives up for this; `rest` is called meanwhile.
    #[inline]
    pub fn enter(&'static self, rest: impl Fn()) -> Guard<P> {
        match self.context.try_lock() {
            Some(guard) => guard,
            None => self.enter_in_turn(rest),
        }
    }

    /// The same, while another thread has it.
    #[cold]
    #[inline(never)]
    fn enter_in_turn(&'static self, rest: impl Fn()) -> Guard<P> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        self.nudge();
        let guard = loop {
            match self.context.try_lock() {
                Some(guard) => break guard,
                None => rest(),
            }
        };
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// The context, if nobody has or wants it.
    pub fn try_enter(&'static self) -> Option<Guard<P>> {
        if self.is_wanted() { None } else { self.context.try_lock() }
    }

    /// Advances the context, if nobody has or wants it. Returns how much happened.
    pub fn advance(&'static self) -> usize {
        self.try_enter().and_then(|mut guard| guard.as_mut().map(|context| context.advance())).unwrap_or(0)
    }

    /// Calls `act` with the context, if there is one, when it is this thread's turn.
    pub fn with<T>(&'static self, rest: impl Fn(), act: impl FnOnce(&mut Context<P>) -> T) -> Option<T> {
        self.enter(rest).as_mut().map(act)
    }

    /// Advances the context until `until` holds, for `timeout_ns` at most, and lets other threads have it in between.
    /// Returns whether it held, if there is a context.
    pub fn wait_for(
        &'static self,
        rest: impl Fn(),
        timeout_ns: u64,
        mut until: impl FnMut(&mut Active<P>) -> bool,
    ) -> Option<bool> {
        let mut left = timeout_ns;
        loop {
            let (mut held, mut wanted) = (false, false);
            self.with(&rest, |context| {
                held = until(context);
                if !held {
                    let start = context.now_ns();
                    context.wait_for(left, |active| {
                        held = until(active);
                        wanted = self.is_wanted();
                        held || wanted
                    });
                    left = left.saturating_sub(context.now_ns() - start);
                }
            })?;
            if held || !wanted || left == 0 {
                return Some(held);
            }
            while self.is_wanted() {
                rest();
            }
        }
    }
}

/// Advances the context of lane `at` until `until` holds, for `timeout_ns` at most; and now and then those of other lanes
/// that nobody has, so that nobody waits for a context whose thread is elsewhere. Returns whether it held, if there is a
/// context; `rest` is called while others have it.
pub fn wait_for<P: Port>(
    lanes: &'static [Lane<P>],
    at: usize,
    rest: impl Fn(),
    timeout_ns: u64,
    mut until: impl FnMut(&mut Active<P>) -> bool,
) -> Option<bool> {
    let lane = lanes.get(at)?;
    let others = if lanes.len() > 1 { OTHERS_NS } else { u64::MAX };
    let mut left = timeout_ns;
    loop {
        if lane.wait_for(&rest, left.min(others), &mut until)? {
            return Some(true);
        }
        left = left.saturating_sub(others);
        if left == 0 {
            return Some(false);
        }
        lanes.iter().for_each(|lane| _ = lane.advance());
    }
}
