//! Nodes that are gone, and what becomes of what was under way with them (SPEC R-2).

use super::{Core, Reliable};
use crate::adapter::{Adapter, Outcome};

impl<A: Adapter, C: Core> Reliable<A, C> {
    /// Whether node `node` is gone. Only who is no peer yet has to ask: peers know.
    #[cold]
    pub(super) fn is_gone(&self, node: u32) -> bool {
        self.gone.get(node as usize / 64).is_some_and(|word| word & 1 << (node % 64) != 0)
    }

    /// The network says that node `node` is gone.
    #[cold]
    pub(super) fn note_gone(&mut self, node: u32) {
        if let Some(word) = self.gone.get_mut(node as usize / 64) {
            *word |= 1 << (node % 64);
        }
        if let Some(index) = self.peers.find(node) {
            self.give_up(index);
        }
    }

    /// Gives a peer up.
    #[cold]
    fn give_up(&mut self, index: u16) {
        let Some(peer) = self.peers.get(index).filter(|peer| !peer.dead) else { return };
        peer.dead = true;
        let before = peer.used();
        let outstanding = peer.sender.give_up(&mut self.flights);
        self.outstanding -= outstanding;
        self.busy -= u32::from(outstanding > 0);
        let rank = peer.rank;
        self.put_off.retain(|put_off| put_off.rank != rank);
        for aside in self.aside.extract_if(.., |aside| aside.rank() == rank) {
            self.flights.resolve(aside.cookie(), Outcome::Failed);
        }
        while let Some(buffer) = peer.receiver.give_up() {
            self.inner.recycle(buffer);
        }
        self.pool.change(before, peer.used());
        self.reliability.dead_peers += 1;
        self.acks_due.remove(index);
        self.sendable.remove(index);
        self.starving.remove(index);
        self.news = true;
        self.vacate_dead(index);
    }
}
