//! What arrives.

use super::aside::{PutOff, target_of};
use super::handshake::Number;
use super::peers::Peer;
use super::receiver::Verdict;
use super::sender::Bogus;
use super::{Core, Reliable};
use crate::adapter::{Adapter, FABRIC, RxBuffer};
use crate::link::{Flags, LINK_BYTES, Link, Seq};
use pami::packet::Packet;

/// The word behind a link header.
fn word_of(buffer: &RxBuffer) -> Option<u64> {
    Some(u64::from_le_bytes(*buffer.packet().get(LINK_BYTES..)?.first_chunk()?))
}

/// Whether a packet is of those that only the network itself sends.
#[cold]
fn is_control(packet: &[u8]) -> bool {
    Packet::parse(packet).is_ok_and(|packet| packet.envelope.kind.is_control())
}

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// The next packet whose turn has come.
    #[inline]
    pub(super) fn deliver(&mut self) -> Option<RxBuffer> {
        let peer = self.peers.get(self.draining?)?;
        let before = peer.used();
        let buffer = peer.receiver.deliver();
        if !peer.receiver.is_ready() {
            self.draining = None;
        }
        // A void has taken a promise with it.
        let after = peer.used();
        if after != before {
            self.pool.change(before, after);
        }
        // With each packet there is less leave for the next: the more so is the peer to hear.
        self.acks_at = self.acks_at.min(peer.receiver.due_at());
        self.patience = self.pool.patience(peer.receiver.lent());
        buffer
    }

    /// The packet that was delivered last is not taken.
    #[cold]
    pub(super) fn turn_down(&mut self, buffer: RxBuffer) {
        let (source, target) = (buffer.source(), target_of(buffer.packet()));
        self.inner.recycle(buffer);
        let Some(index) = self.peers.find(source) else { return };
        if let Some(peer) = self.peers.get(index) {
            peer.receiver.refuse();
        }
        // One too many tries again by itself.
        if let Some(target) = target
            && self.put_off.len() < self.put_off.capacity()
            && !self.put_off.iter().any(|put_off| (put_off.rank, put_off.target) == (source, target))
        {
            self.put_off.push(PutOff { rank: source, target, ready: false });
        }
        self.draining = None;
        self.ack_now(index);
    }

    /// Takes a frame in that has just come. The next packet whose turn has come, if there is one.
    #[inline(never)]
    pub(super) fn take_in_next(&mut self, buffer: RxBuffer) -> Option<RxBuffer> {
        if buffer.source() != FABRIC {
            self.take_in(buffer);
            self.deliver()
        } else if is_control(buffer.packet()) {
            Some(buffer)
        } else {
            self.reliability.corrupt += 1;
            self.inner.recycle(buffer);
            None
        }
    }

    /// Takes a frame of another node in.
    #[inline]
    pub(super) fn take_in(&mut self, buffer: RxBuffer) {
        let source = buffer.source();
        let link = Link::open(buffer.packet(), source, self.node, C::crc32c);
        let (Ok(link), true) = (link, source < self.nodes) else {
            return self.take_odd(buffer);
        };
        if link.life != self.life {
            self.reliability.stale += 1;
            return self.inner.recycle(buffer);
        }
        let to = Number::new(link.connection);
        let meant = |peer: &Peer| peer.connection.is_meant(to) && !link.flags.is_handshake();
        let unused = match self
            .peers
            .find(source)
            .filter(|&index| self.peers.get(index).is_some_and(|peer| meant(peer)))
        {
            Some(index) => self.take_frame(index, &link, buffer),
            None => self.take_words(source, &link, buffer),
        };
        if let Some(unused) = unused {
            self.inner.recycle(unused);
        }
    }

    /// The same, of one that is of the handshake too.
    #[cold]
    pub(super) fn take_frame_besides(
        &mut self,
        index: u16,
        link: &Link,
        buffer: RxBuffer,
    ) -> Option<RxBuffer> {
        self.take_frame(index, link, buffer)
    }

    /// Takes a frame of a peer in. Returns its buffer if that is free again.
    #[inline(always)]
    fn take_frame(&mut self, index: u16, link: &Link, buffer: RxBuffer) -> Option<RxBuffer> {
        let now = self.now();
        let unsettled = self.peers.is_unsettled();
        let Some(peer) = self.peers.get(index) else { return Some(buffer) };
        if peer.dead {
            return Some(buffer);
        }
        let before = peer.sender.outstanding();
        match peer.sender.acknowledge(link, &mut self.flights, now) {
            Ok(progress) => {
                let left = peer.sender.outstanding();
                self.outstanding -= before - left;
                self.busy -= u32::from(before > 0 && left == 0);
                self.timer = self.timer.min(peer.sender.timer());
                self.news |= progress.room;
                if progress.to_send {
                    self.sendable.insert(index);
                }
            }
            Err(Bogus) => {
                self.reliability.corrupt += 1;
                return Some(buffer);
            }
        }
        if self.outstanding == 0 && !unsettled && !self.short {
            self.timer = self.retry_at;
        }
        if link.flags.contains(Flags::PROBE) {
            self.inner.kick_again();
            peer.receiver.asked();
            self.ack_now(index);
        }
        if link.flags.contains(Flags::REFUSED) {
            self.put_aside(index, link.acknowledged);
        }
        let word = if link.flags.contains(Flags::WORD) { word_of(&buffer) } else { None };
        if !link.flags.contains(Flags::PACKET) {
            if let Some(target) = word {
                self.try_again(index, Some(target));
            }
            return Some(buffer);
        }
        self.last_packet = Some(now);
        if self.acks_due.is_empty() {
            self.acks_at = u64::MAX;
        }
        self.acks_due.insert(index);
        if let Some(behind) = word {
            self.acks_at = 0;
            self.take_voids(index, link.sequence, behind);
            return Some(buffer);
        }
        let peer = self.peers.get(index)?;
        let packet = buffer.trimmed(LINK_BYTES as u16, link.length);
        let unused = match peer.receiver.accept(link.sequence, packet) {
            Verdict::Kept { in_order: true } => {
                self.draining = Some(index);
                peer.receiver.ack_later(now);
                self.acks_at = self.acks_at.min(peer.receiver.due_at());
                return None;
            }
            Verdict::Kept { in_order: false } => {
                self.reliability.out_of_order += 1;
                None
            }
            Verdict::Duplicate(buffer) => {
                self.reliability.duplicates += 1;
                self.inner.kick_again();
                peer.receiver.ack_at_once();
                Some(buffer)
            }
            Verdict::Beyond(buffer) => {
                self.reliability.beyond_credit += 1;
                peer.receiver.ack_at_once();
                Some(buffer)
            }
        };
        self.acks_at = 0;
        unused
    }

    /// Takes a void in.
    #[cold]
    fn take_voids(&mut self, index: u16, seq: Seq, behind: u64) {
        let Some(peer) = self.peers.get(index) else { return };
        let inner = &mut self.inner;
        if !peer.receiver.accept_voids(seq, behind, |packet| inner.recycle(packet)) {
            self.reliability.beyond_credit += 1;
        }
        peer.receiver.ack_at_once();
        if peer.receiver.is_ready() {
            self.draining = Some(index);
        }
    }

    /// The message unit gave a buffer of a peer back: there may be credit for it, and for those that have none.
    pub(super) fn credit_back(&mut self, source: u32) {
        let Some(index) = self.peers.find(source) else { return };
        let Some(peer) = self.peers.get(index) else { return };
        let before = peer.used();
        peer.receiver.given_back();
        self.pool.change(before, peer.used());
        if !peer.dead {
            let all = peer.receiver.gets_all();
            let worth = (self.pool.share() / 4).max(1);
            let (promised, lent) = (peer.receiver.promised(), peer.receiver.lent());
            if promised < worth && self.pool.grant(promised, lent, all) >= worth {
                peer.receiver.ack_at_once();
                self.ack_now(index);
            }
        } else {
            self.vacate_dead(index);
        }
        if !self.starving.is_empty() {
            self.feed_starving();
        }
    }

    /// Has those be told that have no credit and can get some now.
    #[cold]
    fn feed_starving(&mut self) {
        let now = self.now();
        let mut starving = self.starving;
        while let Some(index) = starving.pop() {
            let Some(peer) = self.peers.get(index) else { continue };
            let all = peer.receiver.gets_all();
            if peer.used() >= self.pool.most(all) {
                // It has what it may have; what it gives back will be its own again.
                self.starving.remove(index);
            } else if self.pool.grant(peer.receiver.promised(), peer.receiver.lent(), all) > 0 {
                peer.receiver.ack_later(now);
                self.ack_now(index);
            }
        }
    }
}
