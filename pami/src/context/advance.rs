//! What an advance does, from the first look to the handler and to the last callback (SPEC P-2).

use super::due::Due;
use super::{ARRIVALS_PER_ADVANCE, Active, Context, POSTS_PER_ADVANCE, Progress, QUIET_LOOKS, Receive};
use crate::collective::engine;
use crate::device::{Arrival, OPERATIONS, Port, REQUESTS};
use crate::dispatch::Message;
use crate::operation::Blocked;
use crate::packet::DISPATCH_IDS;

impl<P: Port> Context<P> {
    /// Makes progress and never blocks: moves packets, runs handlers for those that arrived, posted work,
    /// pending operations and the callbacks of those that completed. Returns how many of these there were.
    #[inline]
    pub fn advance(&mut self) -> usize {
        #[cfg(feature = "trace")]
        if let Some(moved) = self.advance_and_note(false) {
            return moved;
        }
        let active = &mut self.active;
        if !active.due.is_some() {
            return if active.is_quiet() { 0 } else { active.advance_awoken() };
        }
        if active.due.is_look() { active.advance_stalled() } else { active.advance_all(0) }
    }

    /// As [`advance`](Self::advance), for whoever waits for one message: behind one that lay ready it looks at nothing more.
    /// The next call does.
    #[inline]
    pub fn advance_by_one(&mut self) -> usize {
        #[cfg(feature = "trace")]
        if let Some(moved) = self.advance_and_note(true) {
            return moved;
        }
        let active = &mut self.active;
        if active.due.is_some() {
            return self.advance();
        }
        if active.is_quiet() { 0 } else { active.advance_by_one() }
    }
}

impl<P: Port> Active<P> {
    /// Whether nothing is new, neither at the port nor posted.
    #[inline]
    pub(super) fn is_quiet(&mut self) -> bool {
        self.port.is_quiet() && self.posts.seem_idle()
    }

    /// An advance while nothing is under way and something is new: mostly a whole message lies ready, and this is the shortest
    /// way to its handler.
    #[inline(never)]
    pub(super) fn advance_awoken(&mut self) -> usize {
        let Some(arrival) = self.port.pull_ready() else { return self.advance_queued() };
        self.take_next::<false>(arrival);
        self.advance_behind(1)
    }

    /// The same, and it leaves what may lie behind the message to the next one, but for one of so many.
    #[inline(never)]
    pub(super) fn advance_by_one(&mut self) -> usize {
        let Some(arrival) = self.port.pull_ready() else { return self.advance_behind(0) };
        self.take_next::<true>(arrival);
        let looks = self.transport.counters().received.is_multiple_of(ARRIVALS_PER_ADVANCE as u64);
        if looks { self.advance_behind(1) } else { 1 }
    }

    /// The same of one that lies in the reception FIFO.
    #[inline(never)]
    fn advance_queued(&mut self) -> usize {
        let Some(arrival) = self.port.pull_queued() else { return self.advance_all(0) };
        self.take_next::<false>(arrival);
        self.advance_behind(1)
    }

    /// An advance behind so many messages, its first or none.
    #[inline(never)]
    fn advance_behind(&mut self, ready: usize) -> usize {
        let (events, drained) = self.take_more_ready(ready);
        let rests =
            drained && !self.dead_packets_left && self.port.deaths() == self.deaths && self.is_quiet();
        if rests { events } else { self.advance_all(events) }
    }

    /// What lies ready, while nothing is under way.
    fn take_all_ready(&mut self) -> usize {
        if self.take_ready() { self.take_more_ready(1).0 } else { 0 }
    }

    /// What lies ready behind so many messages. Returns how many there were with those, and whether the port is drained.
    #[inline(always)]
    fn take_more_ready(&mut self, ready: usize) -> (usize, bool) {
        let mut events = ready;
        while !self.due.is_some() && events < ARRIVALS_PER_ADVANCE {
            if self.port.is_drained() {
                return (events, true);
            }
            if !self.take_ready() {
                break;
            }
            events += 1;
        }
        (events, false)
    }

    /// A packet that lies ready, while nothing is under way. Returns whether there was one.
    #[inline(never)]
    fn take_ready(&mut self) -> bool {
        let arrival = self.port.pull_ready().or_else(|| self.port.pull_queued());
        arrival.map(|arrival| self.take_next::<false>(arrival)).is_some()
    }

    /// A packet, while nothing is under way. One that lay `READY` can be released here, without a call, which takes registers of
    /// whoever may find none.
    #[inline(always)]
    fn take_next<const READY: bool>(&mut self, arrival: P::Arrival) {
        let Some((dispatch, origin)) = arrival.whole() else { return self.take_other(arrival) };
        let Some(handler) = self.handlers[usize::from(dispatch) % DISPATCH_IDS] else {
            return self.take_other(arrival);
        };
        let (header, data) = arrival.parts();
        let received = handler(self, &Message { origin, header, data, total: data.len() });
        if !matches!(received, Receive::Done) {
            return self.take_more(arrival, received);
        }
        self.transport.note_received();
        if READY { self.port.release_ready(arrival) } else { self.port.release(arrival) }
    }

    /// One that is not a whole message for a handler.
    #[inline(never)]
    fn take_other(&mut self, arrival: P::Arrival) {
        self.receive(&arrival);
        self.port.release(arrival);
    }

    /// A whole message whose handler wants more than to have seen it.
    #[inline(never)]
    fn take_more(&mut self, arrival: P::Arrival, received: Receive<P>) {
        self.begin_reception(&arrival.envelope(), arrival.parts().1, received);
        self.port.release(arrival);
    }

    /// An advance while all that is under way waits for messages: it would change nothing if none has come.
    #[inline(never)]
    pub(super) fn advance_stalled(&mut self) -> usize {
        let quiet = self.is_quiet();
        if quiet && self.collectives.sees() {
            // Nothing else was under way, and nothing else has come.
            let events = self.advance_on_bulletins();
            self.due = if self.is_idle() { Due::NEW } else { Due::ALL };
            return events;
        }
        self.due = if quiet { self.due.looked() } else { Due::ALL };
        if self.due.is_look() { 0 } else { self.advance_all(0) }
    }

    /// The part of an advance behind what lay ready, which was `ready` messages.
    #[inline(never)]
    pub(super) fn advance_all(&mut self, ready: usize) -> usize {
        // What lies in memory needs no engine.
        let mut events = ready + self.take_arrivals();
        let moved = self.port.progress();
        events += usize::from(moved);
        if self.port.deaths() != self.deaths {
            self.note_deaths();
            events += 1;
        }
        if self.due.is_some() {
            events += self.take_ends();
        }
        if moved {
            events += self.take_brought();
        }
        events += self.run_posts();
        if self.due.is_some() {
            events += self.progress_operations();
        }
        if events > 0 {
            self.port.progress();
        }
        events
    }

    /// Requests that have ended.
    #[inline(never)]
    fn take_ends(&mut self) -> usize {
        let mut events = 0;
        // A callback may ask for more: the bound keeps that from holding the caller.
        while events < REQUESTS
            && let Some(completed) = self.port.completed()
        {
            match completed.message as usize % REQUESTS {
                ..OPERATIONS => self.request_ended(completed),
                engine::FIRST_PULL.. => self.collectives.pull_ended(completed),
                _ => self.pull_ended(completed),
            }
            events += 1;
        }
        events
    }

    /// What the engine has just put into the reception FIFO, and all else.
    #[inline]
    fn take_brought(&mut self) -> usize {
        let ready = if self.due.is_some() { 0 } else { self.take_all_ready() };
        ready + self.take_arrivals()
    }

    #[inline]
    fn take_arrivals(&mut self) -> usize {
        let mut events = 0;
        loop {
            if events == ARRIVALS_PER_ADVANCE {
                self.port.look();
                break;
            }
            let Some(arrival): Option<P::Arrival> = self.port.pull() else {
                if self.dead_packets_left {
                    self.end_halves();
                }
                break;
            };
            self.receive(&arrival);
            self.port.release(arrival);
            events += 1;
        }
        events
    }

    #[inline]
    fn run_posts(&mut self) -> usize {
        let mut finished = 0;
        // Work may post more work: the bound keeps that from holding the caller.
        while finished < POSTS_PER_ADVANCE
            && let Some(work) = self.posts.first()
        {
            if (work.run)(self, work.cookie) == Progress::Again {
                break;
            }
            self.posts.finish_first();
            finished += 1;
        }
        finished
    }

    /// Goes on with everything under way. Returns how much of it moved.
    #[inline(never)]
    fn progress_operations(&mut self) -> usize {
        let mut blocked = Blocked::new();
        let mut events = self.settle_receives();
        events += self.send_answers(&mut blocked);
        events += self.send_advices(&mut blocked);
        events += self.queue_receives(&mut blocked);
        blocked.clear();
        events += self.queue_pending(&mut blocked);
        events += self.settle_operations();
        events += self.complete_fences();
        if !self.collectives.rests() {
            events += self.run_collectives();
        }
        let stalls = || events == 0 && self.collectives.is_stalled() && self.is_idle_otherwise();
        self.due = match self.is_idle() {
            true => Due::NEW,
            false if stalls() => Due::looks(QUIET_LOOKS),
            false => Due::ALL,
        };
        events
    }
}
