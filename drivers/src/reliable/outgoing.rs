//! What leaves: packets, those that are sent again, and frames that only acknowledge.

use super::flights::Flight;
use super::places::link_of;
use super::sender::Content;
use super::{Core, Reliable};
use crate::adapter::{Adapter, Lent};
use crate::link::{Flags, Link, Seq};

/// The bytes that a packet in flight has lent.
///
/// # Safety
/// The packet's cookie was not given back yet.
unsafe fn lent_bytes(lent: &Lent) -> &[u8] {
    if lent.len == 0 {
        return &[];
    }
    // SAFETY: whoever called `transmit` keeps these bytes readable and unchanged until the cookie comes back.
    unsafe { core::slice::from_raw_parts(lent.pointer, lent.len) }
}

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// Takes a packet for `node`. False if the node is gone, or there is no room or place.
    pub(super) fn queue(
        &mut self,
        node: u32,
        header: &[u8],
        inline: &[u8],
        lent: [Lent; 2],
        cookie: u16,
    ) -> bool {
        if node >= self.nodes {
            return false;
        }
        let known = self.peers.find(node);
        let Some(index) = known.or_else(|| self.call(node)) else { return false };
        let Some(peer) = self.peers.get(index) else { return false };
        if peer.dead || !peer.has_room(u32::MAX) || !self.flights.keep(cookie, header, inline, lent) {
            return false;
        }
        let stalls = self.send_new(index, cookie);
        self.counters.stalls += u64::from(stalls && known.is_some());
        true
    }

    /// Gives a packet that is kept, for which the peer's window has room, the next number, and sends it if there is credit.
    /// Whether there is none.
    pub(super) fn send_new(&mut self, index: u16, cookie: u16) -> bool {
        let now = self.now();
        let Some(peer) = self.peers.get(index) else { return false };
        self.busy += u32::from(peer.sender.outstanding() == 0);
        peer.sender.queue(cookie);
        self.outstanding += 1;
        let stalls = peer.sender.sendable().is_none();
        self.send_next(index);
        if let Some(peer) = self.peers.get(index) {
            self.timer = self.timer.min(peer.sender.start_timer(now));
        }
        stalls
    }

    /// Sends a peer's next packet, if it has credit. Whether it did.
    fn send_next(&mut self, index: u16) -> bool {
        let Some(peer) = self.peers.get(index) else { return false };
        let Some((seq, content)) = peer.sender.sendable() else { return false };
        let sent = match content {
            Content::Packet(cookie) => self.send(index, seq, cookie),
            Content::Void => self.send_void(index, seq),
        };
        if !sent {
            self.sendable.insert(index);
            return false;
        }
        if let Some(peer) = self.peers.get(index) {
            peer.sender.sent();
        }
        true
    }

    /// Gives a packet to the device, for the first time or again.
    fn send(&mut self, index: u16, seq: Seq, cookie: u16) -> bool {
        if !self.inner.has_room() {
            self.blocked = true;
            return false;
        }
        let now = self.now();
        let Some(link) = self.link(index, Flags::PACKET, Some(seq)) else { return false };
        let (Some(peer), Some(flight)) = (self.peers.get(index), self.flights.get(cookie)) else {
            return false;
        };
        let (rank, lent) = (peer.rank, flight.lent());
        let link = Link { length: flight.len() as u16, ..link };
        // SAFETY: the packet is in flight: its cookie is in the peer's window.
        let pieces = unsafe { [flight.head(), lent_bytes(&lent[0]), lent_bytes(&lent[1])] };
        let header = link.seal(self.node, rank, pieces, C::crc32c);
        // SAFETY: the bytes are lent until this cookie is given back, which waits for the device to return it.
        let taken = unsafe { self.inner.transmit(rank, &header, flight.head(), lent, cookie) };
        if taken {
            self.flights.sent(cookie, now);
            self.told(index, &link);
        }
        taken
    }

    /// Sends a void.
    #[cold]
    fn send_void(&mut self, index: u16, seq: Seq) -> bool {
        let Some(peer) = self.peers.get(index) else { return false };
        let behind = peer.sender.voids_behind(seq);
        self.send_word(index, Flags::PACKET | Flags::WORD, Some(seq), behind)
    }

    /// Sends a peer a frame with a word that is no packet.
    #[cold]
    pub(super) fn send_word(&mut self, index: u16, flags: Flags, seq: Option<Seq>, word: u64) -> bool {
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else {
            self.blocked = true;
            return false;
        };
        let Some(link) = self.link(index, flags, seq) else { return false };
        let Some(rank) = self.peers.get(index).map(|peer| peer.rank) else { return false };
        let (link, word) = (Link { length: size_of::<u64>() as u16, ..link }, word.to_le_bytes());
        let header = link.seal(self.node, rank, [&word[..]], C::crc32c);
        // SAFETY: nothing is lent, and the cookie is this layer's own and free.
        let taken = unsafe { self.inner.transmit(rank, &header, &word, [Lent::NONE; 2], self.spare[spare]) };
        if taken {
            self.spares = spare;
            self.told(index, &link);
        }
        taken
    }

    /// Sends a peer a frame without a packet.
    pub(super) fn tell(&mut self, index: u16, flags: Flags) -> bool {
        if self.spares == 0 || !self.inner.has_room() {
            self.blocked = true;
            return false;
        }
        let Some(link) = self.link(index, flags, None) else { return false };
        let Some(rank) = self.peers.get(index).map(|peer| peer.rank) else { return false };
        let taken = self.send_link(rank, &link);
        if taken {
            self.counters.acks += 1;
            self.told(index, &link);
        }
        taken
    }

    /// Sends a frame without a packet to node `rank`, if there is room.
    pub(super) fn send_link(&mut self, rank: u32, link: &Link) -> bool {
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else { return false };
        let header = link.seal(self.node, rank, [], C::crc32c);
        // SAFETY: nothing is lent, and the cookie is this layer's own and free.
        let taken = unsafe { self.inner.transmit(rank, &header, &[], [Lent::NONE; 2], self.spare[spare]) };
        if taken {
            self.spares = spare;
        }
        taken
    }

    /// What a frame to a peer says, with as much credit as there is. A packet's number is the next one's if it is
    /// none.
    fn link(&mut self, index: u16, flags: Flags, packet: Option<Seq>) -> Option<Link> {
        let peer = self.peers.get(index)?;
        if !peer.dead {
            let before = peer.used();
            let mut more =
                self.pool.grant(peer.receiver.promised(), peer.receiver.lent(), peer.receiver.gets_all());
            if !self.starving.is_empty() && self.starving.next(index) != Some(index) {
                // Others come first, but for what is guaranteed.
                more = more.min(self.pool.guarantee().saturating_sub(before));
            }
            peer.receiver.promise(more);
            self.pool.change(before, before + more);
        }
        let (acknowledged, sack, credit) = peer.receiver.says();
        let flags = if peer.receiver.has_refused() { flags | Flags::REFUSED } else { flags };
        let sequence = packet.unwrap_or(peer.sender.next());
        let link = link_of(self.life, peer.connection.says());
        Some(Link { sequence, acknowledged, sack, credit, flags: link.flags | flags, ..link })
    }

    /// A peer was told all there is to tell.
    fn told(&mut self, index: u16, link: &Link) {
        let Some(peer) = self.peers.get(index) else { return };
        if !peer.receiver.is_ready() {
            self.acks_due.remove(index);
            peer.receiver.told();
        }
        if link.credit == 0 && !peer.dead && peer.used() < self.pool.most(peer.receiver.gets_all()) {
            self.starving.insert(index);
        } else {
            self.starving.remove(index);
        }
    }

    /// Sends what got credit and what was lost.
    pub(super) fn send_ready(&mut self) {
        let mut sendable = core::mem::replace(&mut self.sendable, super::PeerSet::EMPTY);
        while let Some(index) = sendable.pop() {
            let due = self.peers.get(index).and_then(|peer| peer.sender.take_due_void());
            if let Some(seq) = due
                && !self.send_void(index, seq)
            {
                if let Some(peer) = self.peers.get(index) {
                    peer.sender.keep_due_void();
                }
                self.sendable.insert(index);
            } else if self.send_again(index, Flight::is_lost, u32::MAX).is_none() {
                self.sendable.insert(index);
            } else {
                while self.send_next(index) {}
            }
        }
    }

    /// Sends again up to `most` packets that are on their way and that `which` picks. Returns how many; `None` if there is no
    /// room.
    fn send_again(&mut self, index: u16, which: impl Fn(&Flight) -> bool, most: u32) -> Option<u32> {
        let mut step = 0;
        let mut count = 0;
        while count < most {
            let Some(peer) = self.peers.get(index) else { break };
            let Some((seq, content)) = peer.sender.on_the_way(step) else { break };
            step += 1;
            let Content::Packet(cookie) = content else { continue };
            let Some(flight) = self.flights.get(cookie) else { continue };
            if !flight.may_go_again(&which) {
                continue;
            }
            if !self.send(index, seq, cookie) {
                return None;
            }
            self.counters.retransmitted += 1;
            count += 1;
        }
        Some(count)
    }

    /// Tells peers what arrived: all of them, or those for whom it is time.
    pub(super) fn send_acks_due(&mut self, all: bool) {
        if self.acks_due.is_empty() {
            return;
        }
        let now = self.now();
        let mut acks_due = self.acks_due;
        while let Some(index) = acks_due.pop() {
            let Some(peer) = self.peers.get(index) else { continue };
            if (all || peer.receiver.is_due(now)) && !self.tell(index, Flags::empty()) {
                return;
            }
        }
    }

    /// Looks after the peers whose timers have ended.
    #[cold]
    pub(super) fn expire(&mut self) {
        let now = self.now();
        self.try_all_again();
        self.timer = self.retry_at;
        for index in 0..self.peers.indices() {
            if self.peers.in_use(index).is_none() {
                continue;
            }
            let Some(peer) = self.peers.get(index) else { break };
            let sender = &mut peer.sender;
            if sender.timer() <= now {
                let burst = sender.burst();
                sender.timed_out(now);
                if !peer.connection.is_open() {
                    self.tell(index, Flags::empty());
                } else if peer.sender.outstanding() == 0 {
                    // It rested long enough.
                } else {
                    let void = peer.sender.on_the_way(0).filter(|(_, content)| *content == Content::Void);
                    let told = void.is_some_and(|(seq, _)| self.send_void(index, seq));
                    // Without credit the peer is asked for some; if it has all, for what it said last and was lost.
                    if self.send_again(index, |_| true, burst) == Some(0) && !told {
                        self.counters.probes += 1;
                        self.tell(index, Flags::PROBE);
                    }
                }
            }
            if let Some(peer) = self.peers.get(index) {
                self.timer = self.timer.min(peer.sender.timer());
            }
        }
    }
}
