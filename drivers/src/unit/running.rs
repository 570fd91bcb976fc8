//! Who runs the engine, and when a hart may sleep (SPEC D-7, N-8).

use super::MessageUnit;
use super::engine::Engine;
use super::fifo::PortState;
use super::network::{Held, Network, Ran, Token};
use crate::adapter::{ReliableAdapter, Watch};
use crate::bits::LIMIT as MOST_PORTS;
use crate::nic::Acknowledge;
use crate::platform::{MOST_HARTS, Platform};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use pami::device::Gone;
use rings::bell::{Bell, Rest};
use spin::{Mutex, MutexGuard};

/// Longest sleep of a hart that waits for the FIFOs to drain.
pub(super) const DRAIN_NS: u64 = 1_000_000;
/// Rounds that the agent core polls in vain before it sleeps.
const AGENT_POLLS: usize = 256;

/// A set of ports that any hart adds to and one takes from.
pub(crate) struct Doorbells(Box<[AtomicU64]>);

/// One of them, quickly rung.
#[derive(Clone, Copy)]
pub(crate) struct Doorbell {
    word: &'static AtomicU64,
    bit: u64,
}

impl Doorbell {
    /// As [`Doorbells::ring`].
    #[inline]
    pub(crate) fn ring(self) {
        self.word.fetch_or(self.bit, Ordering::Release);
    }
}

impl Doorbells {
    /// For ports below `ports`. Allocates.
    pub(crate) fn new(ports: usize) -> Self {
        Self((0..ports.min(MOST_PORTS).div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// The word of `port`, and its bit there.
    #[inline]
    fn place(&self, port: u16) -> (&AtomicU64, u64) {
        (&self.0[usize::from(port) / 64], 1 << (port % 64))
    }

    /// Adds `port`. What was published before is seen by whoever takes it.
    #[inline]
    pub(crate) fn ring(&self, port: u16) {
        let (word, bit) = self.place(port);
        word.fetch_or(bit, Ordering::Release);
    }

    /// The doorbell of `port`.
    pub(crate) fn of(&'static self, port: u16) -> Doorbell {
        let (word, bit) = self.place(port);
        Doorbell { word, bit }
    }

    /// Takes `port` out.
    pub(crate) fn clear(&self, port: u16) {
        let (word, bit) = self.place(port);
        word.fetch_and(!bit, Ordering::Relaxed);
    }

    /// Whether `port` is in.
    #[inline]
    pub(crate) fn contains(&self, port: u16) -> bool {
        let (word, bit) = self.place(port);
        word.load(Ordering::Relaxed) & bit != 0
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Takes all ports out, and does `what` with each.
    #[inline]
    pub(crate) fn take(&self, mut what: impl FnMut(u16)) {
        for (at, word) in self.0.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut rung = word.swap(0, Ordering::Acquire);
            while rung != 0 {
                what((at * 64) as u16 + rung.trailing_zeros() as u16);
                // Without the lowest bit.
                rung &= rung - 1;
            }
        }
    }
}

/// Rings a port's bell, and wakes its sleeper.
#[inline]
pub(super) fn ring<P: Platform>(bell: &Bell) {
    if let Some(hart) = bell.ring() {
        P::wake(hart);
    }
}

impl<A: ReliableAdapter> Token for Mutex<Engine<A>> {
    type Held<'a> = MutexGuard<'a, Engine<A>>;

    fn hold(&self) -> Self::Held<'_> {
        self.lock()
    }

    #[inline(always)]
    fn progress<P: Platform, N: Network>(&self, unit: &MessageUnit<P, N>, rests: bool) -> (Ran, u64) {
        unit.progress_of(self, rests)
    }
}

impl<P: Platform, N: Network> MessageUnit<P, N> {
    /// Ends the agent's sleep: a doorbell was rung.
    #[cold]
    #[inline(never)]
    pub(super) fn wake_agent(&self) {
        if let Some(hart) = self.agent_bell.ring() {
            P::wake(hart);
        }
    }

    /// A port's share of running the engine: none if an agent does.
    #[inline]
    pub(super) fn progress_unless_agent(&self) -> Ran {
        if self.agent.is_none() { self.progress() } else { Ran::Quiet }
    }

    /// What to watch for a port's share of running the engine.
    pub(super) fn watch(&self) -> Option<Watch> {
        self.watch.filter(|_| self.agent.is_none())
    }

    /// Whether the device has not sent anything since the engine last ran.
    #[inline]
    pub(super) fn has_all_sent(&self) -> bool {
        self.watch
            .is_none_or(|watch| watch.sent.load(Ordering::Relaxed) == self.sent_seen.load(Ordering::Relaxed))
    }

    /// Whether the engine has nothing to do but for what may have come in.
    pub(super) fn engine_rests(&self) -> bool {
        if self.agent.is_some() || self.engine.is_none() {
            return true;
        }
        if self.watch.is_none() {
            return false;
        }
        let due = self.due.load(Ordering::Relaxed);
        self.doorbells.is_empty() && self.has_all_sent() && (due == u64::MAX || P::now_ns() < due)
    }

    /// One round of the engine, and what others are to know of when the next is needed. Returns whether anything moved.
    #[inline(always)]
    fn progress_once<A: ReliableAdapter>(&self, engine: &mut Engine<A>) -> bool {
        let sent = self.watch.map_or(0, |watch| watch.sent.load(Ordering::Relaxed));
        let moved = engine.progress(self);
        let due = if moved { 0 } else { engine.due() };
        self.sent_seen.store(sent, Ordering::Relaxed);
        self.due.store(due, Ordering::Relaxed);
        moved
    }

    /// Runs the engine, unless another hart does.
    #[inline]
    pub(super) fn progress(&self) -> Ran {
        self.run(false).0
    }

    /// The same, and as [`progress_of`](Self::progress_of). Apart, as callers would not be inlined with all kinds of engine in them.
    #[inline(never)]
    fn run(&self, rests: bool) -> (Ran, u64) {
        self.engine.as_ref().map_or((Ran::Quiet, u64::MAX), |engine| engine.progress(self, rests))
    }

    /// The same, in code of this engine's own. A hart that `rests` arms the adapter's interrupts. Returns also when the adapter
    /// wants to be looked after, at the latest `u64::MAX`.
    #[inline(never)]
    pub(super) fn progress_of<A: ReliableAdapter>(
        &self,
        engine: &Mutex<Engine<A>>,
        mut rests: bool,
    ) -> (Ran, u64) {
        let (mut moved, mut owed) = (false, false);
        let own = if rests { 1 << (P::hart() % MOST_HARTS) } else { 0 };
        loop {
            let token = engine.try_lock().or_else(|| {
                // Either the holder sees the doorbells that were rung before, or this sees the token free.
                fence(Ordering::SeqCst);
                engine.try_lock()
            });
            let Some(mut engine) = token else {
                return (if moved { Ran::Moved } else { Ran::NotAllDone }, u64::MAX);
            };
            let asked =
                self.arm_asked.load(Ordering::Relaxed) && self.arm_asked.swap(false, Ordering::AcqRel);
            let now = self.progress_once(&mut engine);
            moved |= now;
            // Where most comes by other nodes' own hands, the device is asked now and then.
            let quiet = (P::NEAR || self.watch.is_some()) && self.due.load(Ordering::Relaxed) != 0;
            // The interrupt that a sleeper armed may be spent on what was just taken.
            owed |= (asked && !rests) || (now && self.sleeping.load(Ordering::Relaxed) & !own != 0);
            let more = if rests {
                now || engine.arm_settled(self)
            } else {
                owed = owed && engine.arm(self);
                owed
            };
            let deadline = engine.deadline();
            self.let_go_now(engine);
            if !rests {
                self.mind(deadline);
            }
            if !more && !self.was_asked() {
                let ran = match (moved, quiet) {
                    (true, _) => Ran::Moved,
                    (false, true) => Ran::Quiet,
                    (false, false) => Ran::NotAllDone,
                };
                return (ran, deadline.unwrap_or(u64::MAX));
            }
            // The caller may never make progress again, and others sleep. If it was about to, it looks again first.
            moved |= rests;
            rests = false;
        }
    }

    /// Waits for the token and does `what` with it.
    pub(crate) fn with_engine<R>(
        &self,
        what: impl FnOnce(&mut <N::Engine as Token>::Held<'_>) -> R,
    ) -> Option<R> {
        let mut engine = self.engine.as_ref()?.hold();
        let result = what(&mut engine);
        self.let_go(engine);
        if self.was_asked() {
            self.progress();
        }
        Some(result)
    }

    /// Gives the token back, then wakes whom the last call of `progress` had something for: who wakes up wants the token, and on
    /// a busy host may take this hart's processor for it.
    #[inline(always)]
    fn let_go_now(&self, mut engine: impl Held) {
        let mut wake = engine.take_to_wake();
        drop(engine);
        while let Some(port) = wake.pop() {
            self.wake_port(port);
        }
        fence(Ordering::SeqCst);
    }

    /// The same.
    #[inline(never)]
    fn let_go(&self, engine: impl Held) {
        self.let_go_now(engine);
    }

    /// Whether a hart that found the token taken has left something to its holder.
    #[inline]
    fn was_asked(&self) -> bool {
        !self.doorbells.is_empty() || self.arm_asked.load(Ordering::Relaxed)
    }

    /// Sleeps, if nothing came up since the caller armed its bell, and runs the engine before that. The caller looks for work again
    /// either way. Who has no port, and so no bell, waits so for the tree, which it has [looked](crate::TreeUnit::look) at.
    pub fn sleep(&self, deadline_ns: Option<u64>) {
        let hart = P::hart();
        let runs_engine =
            self.agent.is_none_or(|agent| agent == hart) || !self.joined.load(Ordering::Relaxed);
        let bit = 1 << (hart % MOST_HARTS);
        self.sleeping.fetch_or(bit, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut interrupted = false;
        let mut due = false;
        let adapters = if runs_engine { self.nothing_to_do() } else { Some(u64::MAX) };
        if let Some(adapters) = adapters {
            let earliest = deadline_ns.map_or(adapters, |deadline| deadline.min(adapters));
            if runs_engine {
                self.watched.store(adapters, Ordering::Relaxed);
            }
            P::wait((earliest != u64::MAX).then_some(earliest), || {
                if let Some(interrupt) = &self.interrupt {
                    interrupt.acknowledge();
                }
                interrupted = true;
            });
            if runs_engine {
                self.watched.store(u64::MAX, Ordering::Relaxed);
            }
            due = adapters != u64::MAX && P::now_ns() >= adapters;
        }
        self.sleeping.fetch_and(!bit, Ordering::SeqCst);
        // The interrupt was for whoever runs the engine.
        if interrupted && !runs_engine {
            if let Some(agent) = self.agent {
                P::wake(agent);
            }
        } else if interrupted || due {
            if let Some(hart) = self.bare_bell.ring() {
                P::wake(hart);
            }
            // Should another hart have the token, then it may have looked too early.
            self.arm_asked.store(true, Ordering::Relaxed);
            self.progress();
        }
    }

    /// Runs the engine once more, arms the adapter's interrupts and returns when the adapter wants to be looked
    /// after, at the latest `u64::MAX`; or leaves all that to the holder of the token, who looks for it after
    /// letting go. `None` if there is work.
    fn nothing_to_do(&self) -> Option<u64> {
        self.arm_asked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let (ran, deadline) = self.run(true);
        (ran != Ran::Moved).then_some(deadline)
    }

    /// Has a sleeping hart look again if it would sleep past `deadline`: the caller may not run the engine for long.
    #[inline]
    fn mind(&self, deadline: Option<u64>) {
        let Some(deadline) = deadline else { return };
        let sleeping = self.sleeping.load(Ordering::Relaxed);
        if sleeping != 0 && deadline < self.watched.load(Ordering::Relaxed) {
            self.have_watched(deadline, sleeping);
        }
    }

    /// Wakes the agent, or one of the harts that sleep, for `deadline`. The caller itself looks before it sleeps: woken by
    /// itself it would never.
    #[cold]
    fn have_watched(&self, deadline: u64, sleeping: u64) {
        let caller = P::hart();
        let others = sleeping & !(1 << (caller % MOST_HARTS));
        let other = self.agent.or((others != 0).then(|| others.trailing_zeros() as usize));
        if let Some(other) = other.filter(|&other| other != caller) {
            self.watched.store(deadline, Ordering::Relaxed);
            P::wake(other);
        }
    }

    /// Runs the engine on the agent core.
    pub fn run_agent(&self) -> ! {
        loop {
            self.poll_agent();
            self.agent_bell.arm(P::hart());
            if self.doorbells.is_empty() {
                self.sleep(None);
            }
            self.agent_bell.disarm(Rest::Quiet);
        }
    }

    /// Runs the engine until it had nothing to do for a while.
    fn poll_agent(&self) {
        let mut idle = 0;
        while idle < AGENT_POLLS {
            idle = if self.progress() == Ran::Moved { 0 } else { idle + 1 };
            core::hint::spin_loop();
        }
    }

    /// Returns when everything that was injected is sent, or its node is dead, and peers had time to hear what
    /// arrived here; on a plain Ethernet also that they may go.
    pub fn drain(&self) {
        self.say_go_at_last();
        loop {
            self.progress();
            if self.with_engine(|engine| engine.may_rest(P::now_ns())) != Some(false) {
                return;
            }
            self.sleep(Some(P::now_ns() + DRAIN_NS));
        }
    }

    /// Wakes the sleeper of a port, or of all ports that share its injection FIFO.
    pub(super) fn wake_port(&self, port: u16) {
        let first = usize::from(port);
        let Some(port_state) = self.port_states.get(first) else { return };
        let group = if port_state.shared.load(Ordering::Relaxed) { usize::from(self.contexts) } else { 1 };
        for port_state in self.port_states.iter().skip(first).take(group) {
            ring::<P>(&port_state.bell);
        }
    }

    /// Tells port `sender` of this node that a packet of its was released, if it cares.
    #[inline]
    pub(super) fn tell_sender(&'static self, sender: u16) {
        if let Some(port_state) = self.port_state(sender) {
            Self::tell(port_state);
        }
    }

    /// The same, of a port in this state.
    #[inline(always)]
    pub(super) fn tell(port_state: &PortState) {
        // Against a sender that was refused just before: it says that it listens, passes a fence and tries again.
        P::light_fence();
        if port_state.listens.load(Ordering::Relaxed) {
            ring::<P>(&port_state.bell);
        }
    }

    /// All nodes are up.
    pub(super) fn note_go(&self) {
        self.joined.store(true, Ordering::Release);
        self.wake_joiner();
    }

    /// Who waits for the other nodes looks again.
    pub(super) fn wake_joiner(&self) {
        if let Some(hart) = self.join_bell.ring() {
            P::wake(hart);
        }
    }

    /// Node `node` is gone: everybody may have waited for it.
    #[cold]
    pub(super) fn note_gone(&self, node: u32, gone: Gone) {
        if !self.dead.add(node, gone) {
            return;
        }
        if gone == Gone::Died {
            P::node_died(node);
        }
        for hart in self.port_states.iter().filter_map(|port_state| port_state.bell.ring()) {
            P::wake(hart);
        }
        if P::NEAR {
            // Who died may have rung, and been told to wake the sleeper, which nobody is again.
            let mut sleeping = self.sleeping.load(Ordering::SeqCst);
            while sleeping != 0 {
                P::wake(sleeping.trailing_zeros() as usize);
                sleeping &= sleeping - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn d4_a_doorbell_is_its_own_ports_alone() {
        let bells = Doorbells::new(MOST_PORTS);
        for port in 0..MOST_PORTS as u16 {
            assert!(!bells.contains(port) && bells.is_empty());
            bells.ring(port);
            let rung: Vec<_> = (0..MOST_PORTS as u16).filter(|&at| bells.contains(at)).collect();
            assert_eq!(rung, [port]);
            let neighbour = port ^ 1;
            bells.ring(neighbour);
            bells.clear(port);
            let mut taken = Vec::new();
            bells.take(|port| taken.push(port));
            assert_eq!((taken, bells.is_empty()), (std::vec![neighbour], true));
        }
    }
}
