//! How receive buffers are promised to peers.
//!
//! A buffer counts for a peer from when the peer was allowed to send the packet until the packet's context gave the
//! buffer back. All that counts, plus a guarantee for each peer that could come, is never more than the buffers but
//! for a reserve, so:
//!
//! - a packet that was allowed finds a buffer, whatever contexts stall;
//! - acknowledgements find one too, in the reserve, since they give it back at once;
//! - a peer gets its guarantee, at least one packet, however much others were given and do not use.
//!
//! At most half of the buffers are guaranteed, so there are no more peers at once than that is. What is left is shared
//! evenly among the peers in use. A promise is never taken back while the peer is in use; while a peer has none because
//! of others, these get no more than their guarantee.
//!
//! Of its share a peer gets the last quarter only if it asks, or has packets `aside`.

/// Most packets from one node to another that may be on the way or held.
pub(super) const WINDOW: u32 = 64;
/// Most packets that a node may send before it heard of its peer.
const MOST_GUARANTEED: u32 = 16;

/// Of a peer's buffers one in so many is spared for packets to contexts that take theirs, see `aside`.
const SPARED: u32 = 4;

/// Of `buffers` buffers, those that are promised.
fn total(buffers: usize) -> u32 {
    (buffers - buffers / 8).max(1) as u32
}

/// Most peers at once that `buffers` buffers suffice for, of `nodes` nodes: two at least, if there are as many nodes.
pub(super) fn most_peers(buffers: usize, nodes: u32) -> u32 {
    nodes.clamp(1, (total(buffers) / 2).max(2))
}

/// The receive buffers of a node.
#[derive(Debug)]
pub(super) struct CreditPool {
    total: u32,
    guarantee: u32,
    /// Buffers that count for each peer, or its guarantee if that is more, summed over all that could come.
    committed: u32,
    active: u32,
    share: u32,
}

impl CreditPool {
    /// `buffers` buffers for up to `peers` nodes at once.
    pub(super) fn new(buffers: usize, peers: u32) -> Self {
        let total = total(buffers);
        let guarantee = (total / 2 / peers.max(1)).clamp(1, MOST_GUARANTEED);
        Self { total, guarantee, committed: peers * guarantee, active: 0, share: WINDOW }
    }

    /// Packets that a peer may always be allowed.
    #[inline]
    pub(super) fn guarantee(&self) -> u32 {
        self.guarantee
    }

    /// One more peer is in use.
    pub(super) fn join(&mut self) {
        self.active += 1;
        self.divide();
    }

    /// One less is.
    pub(super) fn leave(&mut self) {
        self.active = self.active.saturating_sub(1);
        self.divide();
    }

    fn divide(&mut self) {
        self.share = (self.total / self.active.max(1)).clamp(self.guarantee, WINDOW);
    }

    /// Buffers that may count for one peer.
    #[inline]
    pub(super) fn share(&self) -> u32 {
        self.share
    }

    /// The same, all of them or without those that are spared.
    #[inline]
    pub(super) fn most(&self, all: bool) -> u32 {
        self.share - if all { 0 } else { self.share / SPARED }
    }

    /// Packets more that a peer may be allowed, of which `promised` can still come and `lent` were not given back; of `all`
    /// its buffers, or without those that are spared.
    #[inline(always)]
    pub(super) fn grant(&self, promised: u32, lent: u32, all: bool) -> u32 {
        let used = promised + lent;
        let left = self.most(all).saturating_sub(used);
        if left == 0 {
            return 0;
        }
        let spare = self.guarantee.saturating_sub(used) + self.total.saturating_sub(self.committed);
        let window = self.patience(lent).min(WINDOW).saturating_sub(promised);
        spare.min(left).min(window)
    }

    /// Of the buffers that are spared, how many a context may get without taking any, if `lent` of the peer's are not back:
    /// half of those that are left, for other contexts to have some. `u32::MAX` before there is need.
    #[inline]
    pub(super) fn patience(&self, lent: u32) -> u32 {
        if lent > self.most(false) { (self.share.saturating_sub(lent) / 2).max(1) } else { u32::MAX }
    }

    /// `before` buffers counted for a peer, now `after` do.
    #[inline]
    pub(super) fn change(&mut self, before: u32, after: u32) {
        let [before, after] = [before, after].map(|used| used.max(self.guarantee));
        self.committed = (self.committed + after).saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn d8_a_few_nodes_have_full_windows_and_many_have_one_packet_at_least() {
        for (nodes, guarantee) in [(2, 16), (8, 14), (27, 4), (64, 1), (224, 1), (1_000_000, 1)] {
            let pool = CreditPool::new(256, most_peers(256, nodes));
            assert_eq!(pool.guarantee(), guarantee, "{nodes} nodes");
            assert!(pool.committed <= pool.total);
        }
        assert_eq!(CreditPool::new(256, 2).share(), WINDOW);
    }

    #[test]
    fn d8_peers_in_use_share_alike_and_leave_their_shares_to_others() {
        let mut pool = CreditPool::new(256, 8);
        let mut shares = |change: fn(&mut CreditPool)| {
            change(&mut pool);
            pool.share()
        };
        let joining = [0; 8].map(|_| shares(CreditPool::join));
        assert_eq!(joining, [64, 64, 64, 56, 44, 37, 32, 28]);
        assert_eq!([0; 8].map(|_| shares(CreditPool::leave)), [32, 37, 44, 56, 64, 64, 64, 64]);
    }

    /// Every step looks at all peers.
    const MOST: usize = if cfg!(miri) { 30 } else { 300 };
    const STEPS: usize = if cfg!(miri) { 20 } else { 400 };

    proptest! {
        #[test]
        fn d8_what_is_promised_never_exceeds_the_buffers(
            nodes in 1..MOST as u32, buffers in 2..MOST,
            steps in proptest::collection::vec((any::<u8>(), 0u8..5), 0..STEPS)
        ) {
            let count = most_peers(buffers, nodes) as usize;
            let mut pool = CreditPool::new(buffers, count as u32);
            // Promised and lent, by peer; some leave and come again.
            let mut peers: Vec<Option<(u32, u32)>> = std::vec![None; count];
            for (peer, step) in steps {
                let peer = &mut peers[usize::from(peer) % count];
                if let (4, Some((promised, 0))) = (step, *peer) {
                    pool.change(promised, 0);
                    pool.leave();
                    *peer = None;
                    continue;
                }
                let (promised, lent) = peer.get_or_insert_with(|| {
                    pool.join();
                    (0, 0)
                });
                match step {
                    0 => {
                        let more = pool.grant(*promised, *lent, true);
                        pool.change(*promised + *lent, *promised + *lent + more);
                        *promised += more;
                    }
                    1 | 2 if *promised > 0 => (*promised, *lent) = (*promised - 1, *lent + 1),
                    _ if *lent > 0 => {
                        pool.change(*promised + *lent, *promised + *lent - 1);
                        *lent -= 1;
                    }
                    _ => {}
                }
                prop_assert!(*promised <= WINDOW);
                let used = |&peer: &Option<(u32, u32)>| peer.map_or(pool.guarantee(), |(p, l)| p + l);
                prop_assert!(peers.iter().map(used).sum::<u32>() <= pool.total.max(count as u32 * pool.guarantee));
                prop_assert!((pool.total as usize) < buffers || buffers < 8);
                // Whoever holds nothing can send at least one packet.
                for peer in peers.iter().flatten().filter(|peer| **peer == (0, 0)) {
                    prop_assert!(pool.grant(peer.0, peer.1, false) >= 1);
                }
            }
        }
    }
}
