//! The peers in use, found by rank.

use super::credit::Pool;
use super::receiver::Receiver;
use super::sender::Sender;
use crate::unit::bits::MOST_PORTS;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Most peers that a [`PeerSet`] can hold.
pub(super) const MOST_PEERS: usize = MOST_PORTS;
/// A set of peers, by index.
pub(super) use crate::unit::bits::PortSet as PeerSet;

const FREE: u16 = u16::MAX;

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
    peers: Vec<Peer>,
    most: usize,
    /// Indices by rank, at the rank modulo the length or at the next free place behind it; at least half are free.
    places: Box<[u16]>,
}

impl Peers {
    /// None of at most `most`. Allocates for all of them.
    pub(super) fn new(most: usize) -> Self {
        let most = most.min(MOST_PEERS);
        Self {
            peers: Vec::with_capacity(most),
            most,
            places: (0..(2 * most).next_power_of_two()).map(|_| FREE).collect(),
        }
    }

    /// The place of `rank` in the table: its own, or the free one where it would be.
    fn place(&self, rank: u32) -> usize {
        let mask = self.places.len() - 1;
        let mut place = rank as usize & mask;
        loop {
            match self.peers.get(usize::from(self.places[place])) {
                Some(peer) if peer.rank != rank => place = (place + 1) & mask,
                _ => return place,
            }
        }
    }

    /// Index of the node with rank `rank`, if it is in use.
    #[inline]
    pub(super) fn find(&self, rank: u32) -> Option<u16> {
        let index = self.places[self.place(rank)];
        (index != FREE).then_some(index)
    }

    /// The same, and takes it into use if there is room for one more.
    pub(super) fn find_or_add(&mut self, rank: u32, pool: &mut Pool) -> Option<u16> {
        let place = self.place(rank);
        if self.places[place] != FREE {
            return Some(self.places[place]);
        }
        if self.peers.len() == self.most {
            return None;
        }
        let index = self.peers.len() as u16;
        self.places[place] = index;
        pool.join();
        let (sender, receiver) = (Sender::new(pool.guarantee()), Receiver::new(pool.guarantee()));
        self.peers.push(Peer { rank, dead: false, sender, receiver });
        Some(index)
    }

    #[inline]
    pub(super) fn get(&mut self, index: u16) -> Option<&mut Peer> {
        self.peers.get_mut(usize::from(index))
    }

    /// Number of peers in use.
    pub(super) fn len(&self) -> u16 {
        self.peers.len() as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn d8_each_rank_has_a_place_of_its_own_until_there_is_none(
            ranks in proptest::collection::vec(prop_oneof![0u32..300, any::<u32>()], 0..400), most in 1usize..300
        ) {
            let mut pool = Pool::new(256, most as u32);
            let mut peers = Peers::new(most);
            let capacity = peers.peers.capacity();
            let mut known: std::vec::Vec<u32> = std::vec::Vec::new();
            for rank in ranks {
                let expected = known.iter().position(|&one| one == rank);
                prop_assert_eq!(peers.find(rank).map(usize::from), expected);
                let added = peers.find_or_add(rank, &mut pool).map(usize::from);
                if expected.is_none() && known.len() < most.min(MOST_PEERS) {
                    known.push(rank);
                    prop_assert_eq!(added, Some(known.len() - 1));
                } else {
                    prop_assert_eq!(added, expected);
                }
            }
            prop_assert_eq!(peers.peers.capacity(), capacity);
        }
    }
}
