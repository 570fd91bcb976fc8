//! The regions of the node whose words were reached last: most puts and additions of words go where the last went. All that there
//! is to check of such a one was found to be right then, but that it is still there and that the word lies in it.

use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::region::{RegionHandle, Rights};
use crate::transport::Transport;
use zerocopy::transmute;

/// A region of the node, as a context reaches it.
struct Reached<P: Port> {
    target: Endpoint,
    /// Its handle, as two words to compare.
    region: [u64; 2],
    words: P::WordAccess,
}

/// The last region that was reached for one purpose.
pub(crate) struct LastRegion<P: Port> {
    reached: Option<Reached<P>>,
    /// Where what was not reached so went last.
    missed: Option<(Endpoint, [u64; 2])>,
    wanted: Rights,
}

impl<P: Port> LastRegion<P> {
    /// None was yet that allows what is `wanted`.
    pub(crate) const fn new(wanted: Rights) -> Self {
        Self { reached: None, missed: None, wanted }
    }

    /// None was.
    pub(crate) fn forget(&mut self) {
        (self.reached, self.missed) = (None, None);
    }

    /// How to reach its words, if it is this region.
    #[inline(always)]
    pub(crate) fn to(&self, target: Endpoint, region: &RegionHandle) -> Option<&P::WordAccess> {
        let reached = self.reached.as_ref()?;
        let handle: [u64; 2] = transmute!(*region);
        (reached.target == target && reached.region == handle).then_some(&reached.words)
    }

    /// Makes a region the last if it is one of the node that can be reached so, was not already, and, where another one is, was
    /// missed the last time too: between regions in turn it costs more than it saves. Returns whether it did.
    pub(crate) fn open(
        &mut self,
        port: &mut P,
        transport: &Transport<P>,
        target: Endpoint,
        region: &RegionHandle,
    ) -> bool {
        let right = transport.is_near(target) && region.task() == target.task();
        if !right || self.to(target, region).is_some() {
            return false;
        }
        let named = (target, transmute!(*region));
        if self.reached.is_some() && self.missed.replace(named) != Some(named) {
            return false;
        }
        let Some(words) = port.reach_words(target, region, self.wanted) else { return false };
        self.reached = Some(Reached { target, region: named.1, words });
        true
    }
}
