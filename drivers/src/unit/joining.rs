//! How a node waits for all others to be up before its job starts (SPEC X-3, N-8).

use super::MessageUnit;
use super::muster::{GATHERER, Muster, Word};
use super::network::{Held, Network};
use super::running::DRAIN_NS;
use crate::adapter::FABRIC;
use crate::backoff::{Backoff, MOST_NS};
use crate::gathering::Gathering;
use crate::platform::Platform;
use core::sync::atomic::Ordering;
use pami::endpoint::{ClientId, ContextOffset, Endpoint};
use pami::packet::{Envelope, Kind};

/// How often a node says for whom it waits.
const TELL_NS: u64 = 5_000_000_000;
/// So long node 0 says Go to who does not say that it has heard it. It may have, and compute: if not, it says Hello again, and is
/// answered by whoever runs the engine.
const GO_NS: u64 = 1_000_000_000;
/// So long it does so before it ends: a node that waits calls twice in that time. One that has ended says nothing.
const LAST_GO_NS: u64 = 2 * MOST_NS;

impl<P: Platform, N: Network> MessageUnit<P, N> {
    /// Tells the fabric, or node 0, that this node is up and waits until all `nodes` are. A node without an adapter
    /// waits for nobody, and neither does one by itself, but for a fabric.
    pub fn join(&self, nodes: u32) {
        match &self.muster {
            _ if self.engine.is_none() => self.note_go(),
            Some(_) if nodes == 1 => self.note_go(),
            None => {
                let word = Word { kind: Kind::Hello, dispatch: 0, incarnation: 0 };
                let hello = Envelope { total: nodes, ..self.word(word) };
                self.call(|| _ = self.say(FABRIC, &hello, &[]));
            }
            Some(muster) if self.node == GATHERER => self.gather(muster),
            Some(muster) => {
                let hello = self.word(muster.hello());
                self.call(|| _ = self.say(GATHERER, &hello, muster.words()));
            }
        }
    }

    /// Says Hello until Go comes, less and less often: either may get lost.
    fn call(&self, say_hello: impl Fn()) {
        let mut calls = Backoff::new();
        // A fabric says for whom it waits by itself.
        let mut tell_at = self.muster.as_ref().map_or(u64::MAX, |_| P::now_ns() + TELL_NS);
        while !self.joined.load(Ordering::Acquire) {
            if calls.is_due(P::now_ns()) {
                say_hello();
            }
            if P::now_ns() >= tell_at {
                tell_at = P::now_ns() + TELL_NS;
                P::gathering(&Gathering::NoWord);
            }
            self.wait_for_word(calls.next().min(tell_at), || self.joined.load(Ordering::Acquire));
        }
    }

    /// Waits until all others have said Hello, and tells them to go. Each has heard it on return, as far as can be told: this node
    /// may not run its engine for long.
    fn gather(&self, muster: &Muster) {
        let mut tell_at = P::now_ns() + TELL_NS;
        while let Some(missing) = muster.missing() {
            if P::now_ns() >= tell_at {
                tell_at = P::now_ns() + TELL_NS;
                P::gathering(&Gathering::Waits(missing));
            }
            self.wait_for_word(tell_at, || self.joined.load(Ordering::Acquire));
        }
        self.say_go(muster, GO_NS);
    }

    /// Says Go less and less often, until all have said that they heard it, for at most `most_ns`.
    fn say_go(&self, muster: &Muster, most_ns: u64) {
        let (mut calls, mut next) = (Backoff::new(), None);
        let end = P::now_ns() + most_ns;
        while muster.owes_go() && P::now_ns() < end {
            if calls.is_due(P::now_ns()) {
                next = muster.next_to_go(0);
            }
            while let Some((node, go)) = next
                && self.say(node, &self.word(go), muster.words())
            {
                next = muster.next_to_go(node + 1);
            }
            let again = if next.is_some() { P::now_ns() + DRAIN_NS } else { calls.next().min(end) };
            self.wait_for_word(again, || !muster.owes_go());
        }
    }

    /// This node has nothing left to do: as long as somebody may wait for its Go, it stays.
    pub(super) fn say_go_at_last(&self) {
        if let Some(muster) = &self.muster {
            self.say_go(muster, LAST_GO_NS);
        }
    }

    /// Runs the engine and sleeps, until something was heard, or the clock reads `until_ns`; may return early. Whoever runs the
    /// engine wakes this hart.
    fn wait_for_word(&self, until_ns: u64, is_over: impl Fn() -> bool) {
        self.join_bell.arm(P::hart());
        self.progress();
        if !is_over() {
            self.sleep(Some(until_ns));
        }
        self.join_bell.disarm(rings::bell::Rest::Quiet);
    }

    /// Says a word of how nodes come together to node `to`, or to the fabric. False without room.
    fn say(&self, to: u32, word: &Envelope, data: &[u8]) -> bool {
        self.with_engine(|engine| engine.say(to, word, data)).unwrap_or(false)
    }

    /// A word of this node's, as it travels.
    pub(super) fn word(&self, word: Word) -> Envelope {
        let me = Endpoint::from_parts(ClientId(0), self.node, ContextOffset(0));
        let Word { kind, dispatch, incarnation } = word;
        Envelope { kind, dispatch, origin: me, target: me, message: incarnation, offset: 0, total: 0 }
    }
}
