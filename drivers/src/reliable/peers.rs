//! The peers in use, found by rank, and their connections.

use super::credit::CreditPool;
use super::handshake::{Connection, Numbers, Phase, may_call};
use super::receiver::Receiver;
use super::rto::Rto;
use super::sender::Sender;
use crate::link::{Link, Seq};
use crate::ranks::Ranks;
use alloc::vec::Vec;

/// A set of peers, by index.
pub(super) use crate::ranks::NodeSet as PeerSet;

/// Both directions between this node and another, or itself.
pub(super) struct Peer {
    pub(super) rank: u32,
    pub(super) dead: bool,
    pub(super) connection: Connection,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
    /// The packet before which the peer was last told that it has acknowledged all, and before which it has told so.
    pub(super) told_last: Seq,
    pub(super) heard_last: Seq,
}

impl Peer {
    /// Receive buffers that count for the peer.
    #[inline]
    pub(super) fn used(&self) -> u32 {
        self.receiver.promised() + self.receiver.lent()
    }

    /// Whether nothing is on the way to or from the peer, as far as this node can tell, and it waits for nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.sender.outstanding() == 0 && !self.sender.has_aside() && self.receiver.is_idle()
    }

    /// Whether it lives, both sides know of each other, and nothing is on the way.
    fn is_at_rest(&self) -> bool {
        !self.dead && self.connection.is_open() && self.is_idle()
    }

    /// Whether it may be asked for release.
    pub(super) fn may_part(&self) -> bool {
        self.is_at_rest() && !self.sender.is_resting()
    }

    /// Whether the peer is to be told that it has acknowledged all.
    pub(super) fn has_last_to_tell(&self) -> bool {
        self.is_at_rest() && self.sender.next() != self.told_last
    }

    /// Whether the peer may ask once more for what it was sent already.
    pub(super) fn may_ask_again(&self) -> bool {
        !self.dead && self.receiver.says().0 != self.heard_last
    }

    /// Whether the peer's frame knows of all that was sent, either way.
    pub(super) fn agrees_with(&self, link: &Link) -> bool {
        (link.sequence, link.acknowledged) == (self.receiver.says().0, self.sender.next())
    }

    /// Whether another packet may be queued, if there are `spare` cookies that nobody else needs.
    #[inline]
    pub(super) fn has_room(&self, spare: u32) -> bool {
        self.connection.takes_packets() && self.sender.has_room(spare)
    }
}

/// The peers in use.
pub(super) struct Peers {
    ranks: Ranks,
    peers: Vec<Peer>,
    numbers: Numbers,
    /// Connections whose handshake waits for an answer, and those of them that call.
    unsettled: u32,
    calling: u32,
}

impl Peers {
    /// None of at most `most`. Allocates for all of them.
    pub(super) fn new(most: usize) -> Self {
        let ranks = Ranks::new(most);
        let peers = Vec::with_capacity(ranks.most());
        Self { peers, ranks, numbers: Numbers::default(), unsettled: 0, calling: 0 }
    }

    /// Index of the node with rank `rank`, if it is in use.
    #[inline]
    pub(super) fn find(&self, rank: u32) -> Option<u16> {
        self.ranks.find(rank)
    }

    /// Takes the node with rank `rank`, which is not in use, into it, if there is a place.
    pub(super) fn add(
        &mut self,
        rank: u32,
        pool: &mut CreditPool,
        connection: impl FnOnce(&mut Numbers) -> Connection,
    ) -> Option<u16> {
        let index = self.ranks.find_or_add(rank)?;
        pool.join();
        let connection = connection(&mut self.numbers);
        self.count(&connection, 1);
        // Those that were here before count as well: they tell how busy the network is.
        let guess = Rto::guess(self.peers.iter().map(|peer| peer.sender.rto()));
        let (sender, receiver) = (Sender::new(guess), Receiver::new());
        let (told_last, heard_last) = (Seq::FIRST, Seq::FIRST);
        let peer = Peer { rank, dead: false, connection, sender, receiver, told_last, heard_last };
        match self.peers.get_mut(usize::from(index)) {
            Some(place) => *place = peer,
            None => self.peers.push(peer),
        }
        Some(index)
    }

    /// Puts a node, whose buffers are all back, out of use.
    pub(super) fn remove(&mut self, index: u16, pool: &mut CreditPool) {
        let Some(peer) = self.peers.get(usize::from(index)) else { return };
        let (connection, used) = (peer.connection, peer.used());
        self.count(&connection, u32::MAX);
        pool.change(used, 0);
        pool.leave();
        self.ranks.remove(index);
    }

    /// Has something happen to a connection's handshake.
    #[inline]
    pub(super) fn handshake<R>(
        &mut self,
        index: u16,
        what: impl FnOnce(&mut Connection, &mut Numbers) -> R,
    ) -> Option<R> {
        let peer = self.peers.get_mut(usize::from(index))?;
        let before = peer.connection;
        let result = what(&mut peer.connection, &mut self.numbers);
        let after = peer.connection;
        self.count(&before, u32::MAX);
        self.count(&after, 1);
        Some(result)
    }

    /// One connection more, or with `u32::MAX` one less.
    fn count(&mut self, connection: &Connection, change: u32) {
        if !connection.is_open() {
            self.unsettled = self.unsettled.wrapping_add(change);
            if connection.phase() == Phase::Calling {
                self.calling = self.calling.wrapping_add(change);
            }
        }
    }

    #[inline]
    pub(super) fn get(&mut self, index: u16) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(index))
    }

    /// The peer with index `index`, if that is in use.
    pub(super) fn in_use(&self, index: u16) -> Option<&Peer> {
        self.ranks.rank(index).and(self.peers.get(usize::from(index)))
    }

    /// All indices in use are below this.
    pub(super) fn indices(&self) -> u16 {
        self.ranks.indices()
    }

    /// Number of peers in use.
    #[inline]
    pub(super) fn len(&self) -> u16 {
        self.ranks.len()
    }

    /// Most peers at once.
    pub(super) fn most(&self) -> usize {
        self.ranks.most()
    }

    /// Places that nobody uses.
    pub(super) fn free(&self) -> usize {
        self.ranks.most() - usize::from(self.len())
    }

    /// Whether this node may call another one.
    pub(super) fn may_call(&self) -> bool {
        self.free() > 0 && may_call(self.calling as usize, self.ranks.most())
    }

    /// Whether some handshake waits for an answer.
    #[inline]
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled > 0
    }
}
