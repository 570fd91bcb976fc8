//! What leaves: packets, those that are sent again, and frames that only acknowledge.

use super::credit::CreditPool;
use super::flights::Flight;
use super::handshake::{Word, Words};
use super::peers::{Peer, PeerSet};
use super::sender::Content;
use super::{Core, Reliable};
use crate::adapter::{Adapter, Lent};
use crate::link::{Flags, LINK_BYTES, Link, Seq};

/// The bytes that a packet in flight has lent.
///
/// # Safety
/// The packet's cookie was not given back yet.
#[inline]
unsafe fn lent_bytes(lent: &Lent) -> &[u8] {
    if lent.len == 0 {
        return &[];
    }
    // SAFETY: whoever called `transmit` keeps these bytes readable and unchanged until the cookie comes back.
    unsafe { core::slice::from_raw_parts(lent.pointer, lent.len) }
}

/// A link header that says nothing but this.
#[inline]
pub(super) fn link_of(life: u32, words: Words) -> Link {
    let flags = match words.word {
        Word::Plain => Flags::empty(),
        Word::Connect => Flags::CONNECT,
        Word::Release => Flags::RELEASE,
        Word::Released => Flags::RELEASED,
        Word::Keep => Flags::KEEP,
        Word::Last => Flags::LAST,
    };
    let (connection, own, attempt) = (words.to.get(), words.own.get(), words.attempt);
    let (sequence, acknowledged) = (Seq::FIRST, Seq::FIRST);
    Link { life, connection, own, attempt, sequence, acknowledged, sack: 0, credit: 0, length: 0, flags }
}

/// Whether others than peer `index` were told that they have no credit.
#[inline]
fn others_starve(starving: &PeerSet, index: u16) -> bool {
    !starving.is_empty() && starving.next(index) != Some(index)
}

/// A peer was told all there is to tell.
#[inline(always)]
fn note_told(
    peer: &mut Peer,
    index: u16,
    link: &Link,
    pool: &CreditPool,
    acks_due: &mut PeerSet,
    starving: &mut PeerSet,
) {
    if !peer.receiver.is_ready() {
        acks_due.remove(index);
        peer.receiver.told();
    }
    if link.credit == 0 && !peer.dead && peer.used() < pool.most(peer.receiver.gets_all()) {
        starving.insert(index);
    } else {
        starving.remove(index);
    }
}

impl Peer {
    /// What a frame to the peer says, with as much credit as there is; if `others_first`, no more than is guaranteed. A packet's
    /// number is the next one's if it is none.
    #[inline(always)]
    fn link(
        &mut self,
        pool: &mut CreditPool,
        others_first: bool,
        life: u32,
        flags: Flags,
        packet: Option<Seq>,
    ) -> Link {
        if !self.dead {
            let before = self.used();
            let receiver = &mut self.receiver;
            let mut more = pool.grant(receiver.promised(), receiver.lent(), receiver.gets_all());
            if others_first {
                more = more.min(pool.guarantee().saturating_sub(before));
            }
            if more > 0 {
                receiver.promise(more);
                pool.change(before, before + more);
            }
        }
        let (acknowledged, sack, credit) = self.receiver.says();
        let flags = if self.receiver.has_refused() { flags | Flags::REFUSED } else { flags };
        let sequence = packet.unwrap_or(self.sender.next());
        // An open connection says its number, and no word.
        let link = link_of(life, self.connection.says());
        Link { sequence, acknowledged, sack, credit, flags: link.flags | flags, ..link }
    }
}

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// Takes a packet for `node`. False if the node is gone, or there is no room or place.
    #[inline(always)]
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
        if let Some(seq) = self.line_up(index, cookie) {
            if !self.send(index, seq, cookie, true) {
                self.sendable.insert(index);
            }
        } else if known.is_some() {
            // It waits for credit; else it would for its connection.
            self.reliability.stalls += 1;
        }
        true
    }

    /// Gives a packet that is kept, for which the peer's window has room, the next number. The number, if there is credit for
    /// it.
    #[inline(always)]
    fn line_up(&mut self, index: u16, cookie: u16) -> Option<Seq> {
        let now = self.now();
        let peer = self.peers.get(index)?;
        self.busy += u32::from(peer.sender.outstanding() == 0);
        self.outstanding += 1;
        peer.sender.queue(cookie);
        self.timer = self.timer.min(peer.sender.start_timer(now));
        peer.sender.sendable().map(|(seq, _)| seq)
    }

    /// Gives a packet that was aside the next number, and sends it if there is credit.
    #[cold]
    pub(super) fn send_anew(&mut self, index: u16, cookie: u16) {
        if self.line_up(index, cookie).is_some() {
            self.send_next(index);
        }
    }

    /// Sends a peer's next packet, if it has credit. Whether it did.
    #[cold]
    fn send_next(&mut self, index: u16) -> bool {
        let Some((seq, content)) = self.peers.get(index).and_then(|peer| peer.sender.sendable()) else {
            return false;
        };
        let sent = match content {
            Content::Packet(cookie) => self.send_late(index, seq, cookie, true),
            Content::Void => self.send_void(index, seq),
        };
        if !sent {
            self.sendable.insert(index);
        } else if content == Content::Void
            && let Some(peer) = self.peers.get(index)
        {
            peer.sender.sent();
        }
        sent
    }

    /// As [`send`](Self::send), of a packet that waited, or goes again.
    #[cold]
    #[inline(never)]
    fn send_late(&mut self, index: u16, seq: Seq, cookie: u16, is_first: bool) -> bool {
        self.send(index, seq, cookie, is_first)
    }

    /// Gives a packet to the device, for the first time or again.
    // The way of all packets, in one piece.
    #[inline(always)]
    fn send(&mut self, index: u16, seq: Seq, cookie: u16, is_first: bool) -> bool {
        if !self.inner.has_room() {
            self.blocked = true;
            return false;
        }
        let now = self.now();
        let (Some(peer), Some(flight)) = (self.peers.get(index), self.flights.get(cookie)) else {
            return false;
        };
        let (rank, lent) = (peer.rank, flight.lent());
        let others_first = others_starve(&self.starving, index);
        let link = peer.link(&mut self.pool, others_first, self.life, Flags::PACKET, Some(seq));
        let link = Link { length: flight.len() as u16, ..link };
        // SAFETY: the packet is in flight: its cookie is in the peer's window.
        let pieces = unsafe { [lent_bytes(&lent[0]), lent_bytes(&lent[1])] };
        link.seal(self.node, rank, flight.front(), pieces, C::crc32c);
        let (header, head) = flight.split_front();
        // SAFETY: the bytes are lent until this cookie is given back, which waits for the device to return it.
        let taken = unsafe { self.inner.transmit(rank, header, head, lent, cookie) };
        if taken {
            flight.sent(now);
            if is_first {
                peer.sender.sent();
            }
            let Self { pool, acks_due, starving, .. } = self;
            note_told(peer, index, &link, pool, acks_due, starving);
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
        let Some((rank, link)) = self.link(index, flags, seq) else { return false };
        let link = Link { length: size_of::<u64>() as u16, ..link };
        let mut frame = [0; LINK_BYTES + size_of::<u64>()];
        frame[LINK_BYTES..].copy_from_slice(&word.to_le_bytes());
        link.seal(self.node, rank, &mut frame, [], C::crc32c);
        // SAFETY: nothing is lent, and the cookie is this layer's own and free.
        let taken = unsafe { self.transmit_own(rank, &frame, self.spare[spare]) };
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
        let Some((rank, link)) = self.link(index, flags, None) else { return false };
        let taken = self.send_link(rank, &link);
        if taken {
            self.reliability.acks += 1;
            self.told(index, &link);
        }
        taken
    }

    /// Tells peers that have acknowledged all that they need not stay to do so again.
    pub(super) fn tell_last(&mut self) {
        for index in 0..self.peers.indices() {
            if let Some(peer) = self.peers.in_use(index)
                && peer.has_last_to_tell()
                && let last = peer.sender.next()
                && self.tell(index, Flags::LAST)
                && let Some(peer) = self.peers.get(index)
            {
                peer.told_last = last;
            }
        }
    }

    /// Sends a frame without a packet to node `rank`, if there is room.
    pub(super) fn send_link(&mut self, rank: u32, link: &Link) -> bool {
        let Some(spare) = self.spares.checked_sub(1).filter(|_| self.inner.has_room()) else { return false };
        let mut frame = [0; LINK_BYTES];
        link.seal(self.node, rank, &mut frame, [], C::crc32c);
        // SAFETY: nothing is lent, and the cookie is this layer's own and free.
        let taken = unsafe { self.transmit_own(rank, &frame, self.spare[spare]) };
        if taken {
            self.spares = spare;
        }
        taken
    }

    /// Gives a frame of this layer's own to the adapter.
    ///
    /// # Safety
    /// As that of [`Adapter::transmit`].
    #[inline(never)]
    unsafe fn transmit_own(&mut self, rank: u32, frame: &[u8], cookie: u16) -> bool {
        // SAFETY: nothing is lent, and the cookie is free, says the caller.
        unsafe { self.inner.transmit(rank, frame, &[], [Lent::NONE; 2], cookie) }
    }

    /// What a frame to a peer says, and the peer's rank.
    fn link(&mut self, index: u16, flags: Flags, packet: Option<Seq>) -> Option<(u32, Link)> {
        let others_first = others_starve(&self.starving, index);
        let peer = self.peers.get(index)?;
        Some((peer.rank, peer.link(&mut self.pool, others_first, self.life, flags, packet)))
    }

    /// A peer was told all there is to tell.
    fn told(&mut self, index: u16, link: &Link) {
        let Self { peers, pool, acks_due, starving, .. } = self;
        let Some(peer) = peers.get(index) else { return };
        note_told(peer, index, link, pool, acks_due, starving);
    }

    /// Sends what got credit and what was lost.
    #[cold]
    pub(super) fn send_ready(&mut self) {
        let mut sendable = self.sendable.take();
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
            if !self.send_late(index, seq, cookie, false) {
                return None;
            }
            self.reliability.retransmitted += 1;
            count += 1;
        }
        Some(count)
    }

    /// Tells peers what arrived: all of them, or those for whom it is time.
    #[inline(never)]
    pub(super) fn send_acks_due(&mut self, all: bool) {
        if self.acks_due.is_empty() {
            return;
        }
        let now = self.now();
        let mut acks_due = self.acks_due;
        self.acks_at = u64::MAX;
        while let Some(index) = acks_due.pop() {
            let Some(peer) = self.peers.get(index) else { continue };
            let due_at = peer.receiver.due_at();
            if !all && due_at > now {
                self.acks_at = self.acks_at.min(due_at);
            } else if !self.tell(index, Flags::empty()) {
                self.acks_at = 0;
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
                self.inner.kick_again();
                if !peer.connection.is_open() {
                    self.tell(index, Flags::empty());
                } else if peer.sender.outstanding() == 0 {
                    // It rested long enough.
                } else {
                    let void = peer.sender.on_the_way(0).filter(|(_, content)| *content == Content::Void);
                    let told = void.is_some_and(|(seq, _)| self.send_void(index, seq));
                    // Without credit the peer is asked for some; if it has all, for what it said last and was lost.
                    if self.send_again(index, |_| true, burst) == Some(0) && !told {
                        self.reliability.probes += 1;
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
