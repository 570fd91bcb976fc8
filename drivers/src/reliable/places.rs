//! Which nodes have a place among the peers: who calls, who is called, and who is let go (SPEC R-3).

use super::handshake::{Connection, Heard, Number, Numbers, Stranger, Word, Words, hear_stranger, wait};
use super::outgoing::link_of;
use super::peers::Peer;
use super::{Core, Reliable};
use crate::adapter::{Adapter, RxBuffer};
use crate::link::{Flags, Link};

/// What a link header says of the handshake.
fn words_of(link: &Link) -> Words {
    let (to, own) = (Number::new(link.connection), Number::new(link.own));
    let word = [
        (Flags::LAST, Word::Last),
        (Flags::CONNECT, Word::Connect),
        (Flags::RELEASE, Word::Release),
        (Flags::RELEASED, Word::Released),
        (Flags::KEEP, Word::Keep),
    ];
    let word =
        word.iter().find(|(flag, _)| link.flags.contains(*flag)).map_or(Word::Plain, |(_, word)| *word);
    Words { word, to, own, attempt: link.attempt }
}

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// Whether a packet for node `node`, which has no place, can be taken: there is one for it, or it is refused. If not, it
    /// waits, and room is made.
    #[cold]
    pub(super) fn has_place_for(&mut self, node: u32) -> bool {
        let turn = self.callers.is_empty() || !self.callers_first;
        let may = if node == self.node { self.peers.free() > 0 } else { self.peers.may_call() };
        let has = (turn && may) || node >= self.nodes || self.is_gone(node);
        self.wanting |= !has;
        self.short |= !has;
        has
    }

    /// Gives node `node` a place and calls it.
    #[cold]
    pub(super) fn call(&mut self, node: u32) -> Option<u16> {
        if self.is_gone(node) || !self.has_place_for(node) {
            return None;
        }
        let own = self.node;
        let index = self.peers.add(node, &mut self.pool, |numbers| match numbers.fresh() {
            mine if node == own => Connection::to_self(mine),
            mine => Connection::call(mine),
        })?;
        self.callers_first = true;
        self.ask(index);
        Some(index)
    }

    /// A node without a place calls.
    fn called(&mut self, node: u32, number: Number) {
        let own_turn = self.wanted && !self.callers_first && self.peers.free() == 1 && self.peers.may_call();
        if self.admits && self.peers.free() > 0 && !own_turn {
            return self.answer(node, number);
        }
        match self.callers.iter_mut().find(|(caller, _)| *caller == node) {
            Some((_, before)) => *before = number,
            // One too many calls again.
            None => _ = self.callers.push_back((node, number)),
        }
        self.short = true;
        self.reliability.waits += 1;
        self.reply(node, wait(number));
    }

    /// Gives a caller a place.
    fn answer(&mut self, node: u32, number: Number) {
        let connection = |numbers: &mut Numbers| Connection::answer(numbers.fresh(), number);
        if let Some(index) = self.peers.add(node, &mut self.pool, connection) {
            self.callers_first = false;
            self.ask(index);
        }
    }

    /// Tells a peer how far the handshake is, again and again until it answers.
    fn ask(&mut self, index: u16) {
        let now = self.now();
        if let Some(peer) = self.peers.get(index) {
            if !peer.connection.is_open() {
                peer.sender.ask(now);
            }
            self.timer = self.timer.min(peer.sender.timer());
        }
        self.tell_soon(index);
    }

    fn tell_soon(&mut self, index: u16) {
        if !self.tell(index, Flags::empty()) {
            if let Some(peer) = self.peers.get(index) {
                peer.receiver.ack_at_once();
            }
            self.ack_now(index);
        }
    }

    /// Says something to a node of which nothing is kept. If there is no room, it asks again.
    fn reply(&mut self, node: u32, words: Words) {
        let link = link_of(self.life, words);
        self.send_link(node, &link);
    }

    /// Takes in a frame that is of the handshake, or of no connection that is open.
    #[cold]
    pub(super) fn take_words(&mut self, source: u32, link: &Link, buffer: RxBuffer) -> Option<RxBuffer> {
        if link.flags == Flags::APART {
            return self.put_apart(link, buffer);
        }
        let words = words_of(link);
        if words.word == Word::Connect {
            self.inner.learn(&buffer);
        }
        let Some(index) = self.peers.find(source) else {
            match hear_stranger(&words) {
                _ if self.is_gone(source) => self.reliability.stale += 1,
                Stranger::Stale => self.reliability.stale += 1,
                Stranger::Calls(number) => self.called(source, number),
                Stranger::Reply(words) => {
                    // It must hear that, even if this node ends.
                    self.last_answer = Some(self.now());
                    self.reply(source, words);
                }
            }
            return Some(buffer);
        };
        if self.peers.get(index).is_none_or(|peer| peer.dead) {
            return Some(buffer);
        }
        let heard = self.peers.handshake(index, |connection, _| connection.hear(words))?;
        if heard == Heard::Stale {
            self.reliability.stale += 1;
            return Some(buffer);
        }
        let now = self.now();
        if let Some(peer) = self.peers.get(index) {
            if heard == Heard::Lives && peer.connection.is_open() {
                self.timer = self.timer.min(peer.sender.rest(now, peer.connection.attempts()));
            } else if peer.connection.is_open() {
                peer.sender.answered(now);
                self.news = true;
            }
        }
        match heard {
            Heard::Counts => {
                if words.word == Word::Last
                    && let Some(peer) = self.peers.get(index)
                {
                    peer.heard_last = link.sequence;
                }
                return self.take_frame_besides(index, link, buffer);
            }
            Heard::Tell => {
                let unused = self.take_frame_besides(index, link, buffer);
                self.tell_soon(index);
                return unused;
            }
            Heard::Decide => {
                let unused = self.take_frame_besides(index, link, buffer);
                // Of what the other side has sent, or this one, the request may know less.
                if self.peers.get(index).is_some_and(|peer| peer.agrees_with(link)) {
                    self.parting.insert(index);
                    self.short = true;
                } else {
                    self.decide(index, false);
                }
                return unused;
            }
            Heard::Ask => self.tell_soon(index),
            Heard::Reply(words) => self.reply(source, words),
            Heard::Forget => self.forgotten(index),
            Heard::Anew(number) => {
                if self.peers.get(index).is_some_and(|peer| peer.is_idle()) {
                    self.vacate(index);
                    self.answer(source, number);
                }
            }
            Heard::Lives | Heard::Stale => {}
        }
        Some(buffer)
    }

    /// The peer has forgotten the connection.
    fn forgotten(&mut self, index: u16) {
        let Some(peer) = self.peers.get(index) else { return };
        if peer.is_idle() {
            self.reliability.released += 1;
            self.vacate(index);
        } else if self.peers.handshake(index, |connection, _| connection.call_again()) == Some(true) {
            // It never had it, and now this side has packets.
            self.ask(index);
        }
    }

    /// Puts a peer that is dead out of use, once its buffers are back.
    #[cold]
    pub(super) fn vacate_dead(&mut self, index: u16) {
        if self.peers.in_use(index).is_some_and(|peer| peer.dead && peer.receiver.is_idle()) {
            self.vacate(index);
        }
    }

    /// Puts an idle peer out of use; nothing of it is to be delivered.
    fn vacate(&mut self, index: u16) {
        self.peers.remove(index, &mut self.pool);
        for set in [&mut self.acks_due, &mut self.sendable, &mut self.starving, &mut self.parting] {
            set.remove(index);
        }
        // What waits for a place is looked at in the next round.
        self.news = true;
    }

    fn decide(&mut self, index: u16, agrees: bool) {
        let decision = self.peers.handshake(index, |connection, _| connection.decide(agrees));
        let Some((agreed, words)) = decision else { return };
        let Some(node) = self.peers.get(index).map(|peer| peer.rank) else { return };
        self.reply(node, words);
        if agreed {
            // It must hear that, even if this node ends.
            self.last_answer = Some(self.now());
            self.reliability.released += 1;
            self.vacate(index);
        }
    }

    /// Decides about the peers that ask for release; `owes` says to which nodes this one will have to say something.
    pub(super) fn part(&mut self, owes: &impl Fn(u32) -> bool) {
        while let Some(index) = self.parting.pop() {
            if let Some(peer) = self.peers.in_use(index) {
                let agrees = peer.is_idle() && !owes(peer.rank);
                self.decide(index, agrees);
            }
        }
    }

    /// Gives those who wait places that are free.
    pub(super) fn let_callers_in(&mut self) {
        while self.admits {
            let own_turn = self.wanting && !self.callers_first && self.peers.may_call();
            if self.peers.free() <= usize::from(own_turn) {
                break;
            }
            let Some((node, number)) = self.callers.pop_front() else { break };
            if self.peers.find(node).is_none() && !self.is_gone(node) {
                self.answer(node, number);
            }
        }
    }

    /// Asks as many idle peers for release as places are wanted.
    pub(super) fn look_for_places(&mut self, owes: &impl Fn(u32) -> bool) {
        self.wanted = core::mem::take(&mut self.wanting);
        let indices = self.peers.indices();
        // Who does not answer for long is not waited for alone.
        let parts = |peer: &Peer| !peer.connection.takes_packets() && !peer.sender.is_late();
        let parting = (0..indices).filter(|&index| self.peers.in_use(index).is_some_and(parts)).count();
        let wants = self.callers.len() + usize::from(self.wanted);
        let mut wants = wants.saturating_sub(parting + self.peers.free());
        for _ in 0..indices {
            if wants == 0 {
                break;
            }
            self.hand = if self.hand + 1 < indices { self.hand + 1 } else { 0 };
            let index = self.hand;
            let Some(peer) = self.peers.in_use(index) else { continue };
            let is_own = peer.rank == self.node;
            if !peer.may_part() || owes(peer.rank) {
                continue;
            } else if is_own {
                self.vacate(index);
            } else {
                self.peers.handshake(index, |connection, _| connection.release());
                self.ask(index);
            }
            wants -= 1;
        }
    }
}
