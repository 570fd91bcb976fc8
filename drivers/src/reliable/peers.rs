//! The peers in use, found by rank.

use super::credit::Pool;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::ranks::Ranks;
use alloc::vec::Vec;

/// Most peers that a [`PeerSet`] can hold.
pub(super) use crate::ranks::MOST_NODES as MOST_PEERS;
/// A set of peers, by index.
pub(super) use crate::ranks::NodeSet as PeerSet;

/// Both directions between this node and another, or itself.
pub(super) struct Peer {
    pub(super) rank: u32,
    pub(super) dead: bool,
    pub(super) sender: Sender,
    pub(super) receiver: Receiver,
}

impl Peer {
    /// Receive buffers that count for the peer.
    pub(super) fn used(&self) -> u32 {
        self.receiver.promised() + self.receiver.lent
    }
}

/// The peers in use, in the order in which they came into it.
pub(super) struct Peers {
    ranks: Ranks,
    peers: Vec<Peer>,
}

impl Peers {
    /// None of at most `most`. Allocates for all of them.
    pub(super) fn new(most: usize) -> Self {
        let ranks = Ranks::new(most);
        Self { peers: Vec::with_capacity(ranks.most()), ranks }
    }

    /// Index of the node with rank `rank`, if it is in use.
    #[inline]
    pub(super) fn find(&self, rank: u32) -> Option<u16> {
        self.ranks.find(rank)
    }

    /// The same, and takes it into use if there is room for one more.
    pub(super) fn find_or_add(&mut self, rank: u32, pool: &mut Pool) -> Option<u16> {
        let index = self.ranks.find_or_add(rank)?;
        if usize::from(index) == self.peers.len() {
            pool.join();
            let (sender, receiver) = (Sender::new(pool.guarantee()), Receiver::new(pool.guarantee()));
            self.peers.push(Peer { rank, dead: false, sender, receiver });
        }
        Some(index)
    }

    #[inline]
    pub(super) fn get(&mut self, index: u16) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(index))
    }

    /// Number of peers in use.
    pub(super) fn len(&self) -> u16 {
        self.ranks.len()
    }
}
