//! Packets whose receivers are not ready, out of the way of those behind them (SPEC R-1).
//!
//! A context that nobody advances keeps the buffers of what it was sent. That uses up its senders' credit, and what they
//! have for others of its node would wait as well. So of a peer's buffers [some](super::credit) are spared: only a peer that
//! asks for credit, or has packets aside, gets at them. What then comes for a context that takes nothing is refused, as by
//! a queue pair whose receiver is not ready (RNR).
//!
//! ```text
//!      sender                                      receiver
//!      packet s ---------------------------------> not ready: gives its buffer back
//!      puts s aside, and  <------- refused s -----
//!      what is for the same context behind it ---> voids s, ...: goes on behind them
//!      sends them by new numbers    <---- ready -- the context has taken what it had
//! ```
//!
//! - *Exactly once.* A packet that was refused is not taken when it comes again, nor is anything behind it, until the void
//!   has come. The void says which packets on the way behind it are voids too, so that both sides know the same ones. What a
//!   receiver has out of order stays with its sender until all before it has arrived, as it may be put aside.
//! - *In order.* While packets for a context are aside, none for it follows (`Adapter::holds_aside`): those that are aside go
//!   first, in order. One-sided operations and their answers
//!   wait for no context: they go on, in their own order.
//! - *Ready* may be lost, so the first packet for each context is tried again now and then, less and less often.
//! - *No circle of waits.* What is aside waits for its own context. It holds a cookie, of which each peer without packets
//!   aside or on the way keeps one.

use super::credit::WINDOW;
use super::{Core, Reliable};
use crate::adapter::Adapter;
use crate::link::{Flags, Seq};
use heapless::Vec;
use pami::packet::Header;

/// When what is aside is tried again, at first and at last.
const FIRST_NS: u64 = 1_000_000;
const LAST_NS: u64 = 64_000_000;
/// Contexts of a node that are tried at a time.
const TRIED: usize = 16;

/// A peer that has packets aside for a context of this node.
pub(super) struct PutOff {
    pub(super) rank: u32,
    pub(super) target: u64,
    /// It is to hear that the context is ready.
    pub(super) ready: bool,
}

/// A packet that is aside.
pub(super) struct Aside {
    rank: u32,
    /// The context that it is for.
    target: u64,
    cookie: u16,
}

impl Aside {
    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    pub(super) fn target(&self) -> u64 {
        self.target
    }

    pub(super) fn cookie(&self) -> u16 {
        self.cookie
    }
}

/// The context that a packet with this front is for; `None` if it is taken whatever the context does.
pub(super) fn target_of(head: &[u8]) -> Option<u64> {
    let (header, _) = Header::read(head)?;
    let kind = header.kind().filter(|kind| !kind.is_one_sided() && !kind.is_answer());
    kind.map(|_| header.target().to_bits())
}

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// The peer's oldest packet that was not acknowledged was refused.
    #[cold]
    pub(super) fn put_aside(&mut self, index: u16, seq: Seq) {
        let now = self.now();
        let Self { peers, flights, aside, .. } = self;
        let Some(peer) = peers.get(index) else { return };
        // That of the first, which is the one that was refused.
        let mut target = None;
        let mut taken: Vec<u16, { WINDOW as usize }> = Vec::new();
        let is_for_it = |cookie| {
            let of = flights.get(cookie).and_then(|flight| target_of(flight.head()));
            of.is_some() && of == *target.get_or_insert(of)
        };
        peer.sender.refused(seq, is_for_it, |cookie| _ = taken.push(cookie));
        if let Some(target) = target.flatten() {
            let rank = peer.rank;
            // Before those that were behind them.
            let first = aside.iter().position(|aside| (aside.rank, aside.target) == (rank, target));
            for (at, cookie) in (first.unwrap_or(aside.len())..).zip(taken) {
                flights.put_aside(cookie);
                aside.insert(at, Aside { rank, target, cookie });
            }
            if self.retry_at == u64::MAX {
                (self.retry_ns, self.retry_at) = (FIRST_NS, now + FIRST_NS);
            }
            self.timer = self.timer.min(self.retry_at);
            self.reliability.refused += 1;
        }
        self.sendable.insert(index);
    }

    /// Sends what is aside for a peer: of what is for a context all that there is room for, or the first packet for each.
    #[cold]
    pub(super) fn try_again(&mut self, index: u16, only: Option<u64>) {
        let Some(rank) = self.peers.get(index).map(|peer| peer.rank) else { return };
        let mut tried: Vec<u64, TRIED> = Vec::new();
        let mut at = 0;
        while let Some(&Aside { rank: of, target, cookie }) = self.aside.get(at) {
            let idle = self.flights.get(cookie).is_some_and(|flight| !flight.in_device());
            let others = of != rank || only.is_some_and(|only| only != target);
            if others || tried.contains(&target) || tried.is_full() {
                at += 1;
                continue;
            }
            if !idle || !self.peers.get(index).is_some_and(|peer| peer.has_room(u32::MAX)) {
                // What is behind it must not overtake it.
                let _ = tried.push(target);
                at += 1;
                continue;
            }
            if only.is_none() {
                let _ = tried.push(target);
            }
            self.aside.remove(at);
            if let Some(peer) = self.peers.get(index) {
                peer.sender.take_from_aside();
            }
            self.send_anew(index, cookie);
        }
        self.news = true;
    }

    /// Tries for all peers what is aside, if it is time.
    pub(super) fn try_all_again(&mut self) {
        if self.retry_at > self.now() {
            return;
        }
        for index in 0..self.peers.indices() {
            if self.peers.in_use(index).is_some_and(|peer| peer.sender.has_aside()) {
                self.try_again(index, None);
            }
        }
        self.retry_ns = (2 * self.retry_ns).min(LAST_NS);
        self.retry_at = if self.aside.is_empty() { u64::MAX } else { self.now() + self.retry_ns };
    }

    /// A context of this node has taken what it had: who was refused for it is to hear that.
    #[cold]
    pub(super) fn note_ready(&mut self, target: u64) {
        for put_off in self.put_off.iter_mut().filter(|put_off| put_off.target == target) {
            (put_off.ready, self.ready) = (true, true);
        }
    }

    /// Tells peers that contexts are ready.
    #[cold]
    pub(super) fn tell_ready(&mut self) {
        while let Some(at) = self.put_off.iter().position(|put_off| put_off.ready) {
            let PutOff { rank, target, .. } = self.put_off[at];
            if let Some(index) = self.peers.find(rank) {
                if !self.send_word(index, Flags::WORD, None, target) {
                    return;
                }
                let others =
                    self.put_off.iter().enumerate().any(|(other, it)| other != at && it.rank == rank);
                if let Some(peer) = self.peers.get(index) {
                    peer.receiver.note_put_off(others);
                }
            }
            self.put_off.swap_remove(at);
        }
        self.ready = false;
    }
}
