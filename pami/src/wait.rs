//! Waiting: contexts are advanced a while, then the hart sleeps (SPEC N-8).

use crate::context::{Active, Context};
use crate::device::Port;
use crate::error::SendError;
use core::borrow::BorrowMut;
use core::slice;

/// Rounds between two looks at the clock, which tell how long the hart was idle (SPEC L-2), and whether it is time to end.
const ROUNDS_PER_LOOK: u32 = 32;

/// Longest sleep of [`Context::retry`] between its first two attempts; it doubles until the other, while there is no room.
const RETRY_NS: [u64; 2] = [1_000_000, 128_000_000];

impl<P: Port> Context<P> {
    /// Calls `attempt`, and advances and calls it again for as long as it finds no room.
    ///
    /// # Errors
    /// What `attempt` returns, but for [`SendError::Again`].
    pub fn retry<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Active<P>) -> Result<T, SendError>,
    ) -> Result<T, SendError> {
        let mut outcome = attempt(self);
        let [mut pause, most] = RETRY_NS;
        while matches!(outcome, Err(SendError::Again)) {
            self.wait_for(pause, |active| {
                outcome = attempt(active);
                !matches!(outcome, Err(SendError::Again))
            });
            pause = (pause * 2).min(most);
        }
        outcome
    }

    /// Advances until `until` holds; sleeps while there is nothing to do (SPEC N-8).
    pub fn wait(&mut self, mut until: impl FnMut(&mut Active<P>) -> bool) {
        while !self.wait_for(u64::MAX, &mut until) {}
    }

    /// As [`wait`](Self::wait), for `timeout_ns` at most. Returns whether `until` held.
    pub fn wait_for(&mut self, timeout_ns: u64, mut until: impl FnMut(&mut Active<P>) -> bool) -> bool {
        wait_on(slice::from_mut(self), timeout_ns, |contexts| until(&mut contexts[0]))
    }
}

/// Sleeps until something comes, or until `deadline`. That a node is gone comes too: nobody has to ask.
fn sleep<P: Port, C: BorrowMut<Context<P>>>(contexts: &mut [C], deadline: Option<u64>) {
    contexts.iter_mut().for_each(|context| context.borrow_mut().note_awaited());
    contexts[0].borrow_mut().sleep(deadline);
    contexts.iter_mut().for_each(|context| context.borrow_mut().note_woken());
}

/// What was waited for has not come in time.
#[cold]
fn give_up<P: Port, C: BorrowMut<Context<P>>>(_contexts: &[C]) -> bool {
    #[cfg(feature = "trace")]
    _contexts[0].borrow().note(crate::trace::Event::Waited);
    false
}

/// Advances several contexts of one thread until `until` holds, for `timeout_ns` at most; sleeps while there is
/// nothing to do for any of them (SPEC P-2, N-8). They may be contexts, or references to them. `u64::MAX` is for ever.
/// Returns whether `until` held.
pub fn wait_on<P: Port, C: BorrowMut<Context<P>>>(
    contexts: &mut [C],
    timeout_ns: u64,
    mut until: impl FnMut(&mut [C]) -> bool,
) -> bool {
    // Behind each message what is waited for may be there.
    let advance = |contexts: &mut [C]| {
        contexts.iter_mut().map(|context| context.borrow_mut().advance_by_one()).sum::<usize>()
    };
    let Some(first) = contexts.first() else { return until(contexts) };
    #[cfg(feature = "trace")]
    first.borrow().note(crate::trace::Event::Wait);
    // Most wait for ever, and need not know since when.
    let deadline = if timeout_ns < u64::MAX { first.borrow().now_ns().checked_add(timeout_ns) } else { None };
    let mut rounds = 0u32;
    loop {
        let (mut idle, mut looked) = (0u32, None);
        let polls = contexts[0].borrow().polls();
        while idle < polls {
            let events = advance(contexts);
            if until(contexts) {
                #[cfg(feature = "trace")]
                contexts[0].borrow().note(crate::trace::Event::Waited);
                return true;
            }
            rounds = rounds.wrapping_add(1);
            let looks = rounds.is_multiple_of(ROUNDS_PER_LOOK);
            if events > 0 {
                (idle, looked) = (0, None);
                if !looks || deadline.is_none() {
                    continue;
                }
            } else {
                idle += 1;
            }
            if looks {
                let first = contexts[0].borrow_mut();
                let now = first.now_ns();
                if events == 0
                    && let Some(from) = looked.replace(now)
                {
                    first.note_idle(from, now);
                }
                // Neither long polling nor messages that do not end have it wait longer.
                if deadline.is_some_and(|deadline| now >= deadline) {
                    return give_up(contexts);
                }
            }
        }
        if deadline.is_some_and(|deadline| contexts[0].borrow().now_ns() >= deadline) {
            return give_up(contexts);
        }
        let mut may_sleep = true;
        for context in contexts.iter_mut() {
            may_sleep &= context.borrow_mut().arm();
        }
        // What came before the ports were armed wakes nobody: look once more.
        let quiet = advance(contexts) == 0;
        let held = until(contexts);
        if may_sleep && quiet && !held {
            let looks = contexts.iter().filter_map(|context| context.borrow().look_ns());
            let until = looks.chain(deadline).min();
            sleep(contexts, until);
        }
        for context in contexts.iter_mut() {
            context.borrow_mut().disarm();
        }
        if held {
            #[cfg(feature = "trace")]
            contexts[0].borrow().note(crate::trace::Event::Waited);
            return true;
        }
    }
}
