//! Who has more credit than it is sure of: found without a look at all tasks (SPEC R-9).

use super::Peer;
use super::credit::CreditPool;
use crate::error::Result;
use base::fill;
use pami::client::Node;

/// Most holders that one look is at.
const LOOKS: usize = 16;

/// Tasks that were granted more than they are sure of, some of which may have given it back since.
#[derive(Default)]
pub(super) struct Holders {
    tasks: &'static mut [u32],
    count: usize,
    /// Where the next look begins.
    at: usize,
}

impl Holders {
    /// Of a pool of so many units: no more tasks than that can hold some.
    pub(super) fn new<N: Node>(node: &N, units: usize) -> Result<Self> {
        Ok(Self { tasks: fill(node, "peers", units, || 0)?, count: 0, at: 0 })
    }

    /// A task was granted more.
    pub(super) fn note(&mut self, task: u32, peers: &mut [Peer], pool: &CreditPool) {
        if peers[task as usize].holds {
            return;
        }
        if self.count == self.tasks.len() {
            // As many had less since.
            self.at = 0;
            self.look(self.count, peers, pool);
        }
        if let Some(place) = self.tasks.get_mut(self.count) {
            *place = task;
            self.count += 1;
            peers[task as usize].holds = true;
        }
    }

    /// The one that could give back most, of some; the next call looks at others. How much, and its task.
    pub(super) fn most(&mut self, peers: &mut [Peer], pool: &CreditPool) -> Option<(u16, u32)> {
        self.look(LOOKS.min(self.count), peers, pool)
    }

    fn look(&mut self, looks: usize, peers: &mut [Peer], pool: &CreditPool) -> Option<(u16, u32)> {
        let mut most = None;
        for _ in 0..looks {
            if self.at >= self.count {
                self.at = 0;
            }
            let task = *self.tasks[..self.count].get(self.at)?;
            let peer = peers.get_mut(task as usize)?;
            if pool.is_over(&peer.credit) {
                most = most.max(Some((pool.excess(&peer.credit), task)));
                self.at += 1;
            } else {
                peer.holds = false;
                self.count -= 1;
                self.tasks[self.at] = self.tasks[self.count];
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec;

    #[test]
    fn r9_who_has_most_is_found_among_the_few_that_hold_some_and_all_of_them_in_turn() {
        const TASKS: usize = 10_000;
        let mut pool = CreditPool::new(100, TASKS);
        let mut peers = vec![Peer::new(pool.first()); TASKS];
        let mut holders = Holders { tasks: Box::leak(Box::new([0; 100])), count: 0, at: 0 };
        for task in [7, 9_999] {
            assert!(pool.grant(&mut peers[task].credit));
            holders.note(task as u32, &mut peers, &pool);
            holders.note(task as u32, &mut peers, &pool);
        }
        assert!(pool.grant(&mut peers[9_999].credit));
        assert_eq!((holders.count, holders.most(&mut peers, &pool).map(|most| most.1)), (2, Some(9_999)));
        pool.peer_died(&mut peers[9_999].credit);
        assert_eq!(holders.most(&mut peers, &pool).map(|most| most.1), Some(7));
        assert_eq!((holders.count, peers[9_999].holds), (1, false));
        // Whoever held some once makes room.
        for task in 100..1_000 {
            pool.peer_died(&mut peers[task - 1].credit);
            assert!(pool.grant(&mut peers[task].credit));
            holders.note(task as u32, &mut peers, &pool);
            assert!(peers[task].holds);
        }
    }
}
