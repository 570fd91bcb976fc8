//! What an origin knows of a message that it processes.

use super::Split;
use super::recipe::{Recipe, SubOperations};
use crate::region::{RegionFault, RegionId};
use core::ops::Range;
use rings::shared::Shared;

/// A message that is being processed.
pub(crate) struct ProcessState {
    pub(crate) region: RegionId,
    /// First byte in the region.
    pub(crate) offset: u32,
    /// `None` once it is no longer read.
    pub(crate) memory: Option<Shared>,
    pub(crate) start: usize,
    pub(crate) total: u32,
    pub(crate) recipe: Recipe,
    pub(crate) split: Split,
    pub(crate) plan: Option<Bounds>,
    /// What is left for the target in any chunk that it gets.
    pub(crate) wanted: SubOperations,
    /// Since when it waits for advice, and whether it has asked.
    pub(crate) waits_since: Option<u64>,
    pub(crate) has_asked: bool,
    /// Region that the target reads the message from.
    pub(crate) lent: Option<RegionId>,
    /// What went wrong here.
    pub(crate) fault: Option<RegionFault>,
}

/// A [`Plan`](super::limit::Plan) in bytes, and how much of it is done.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) first: SubOperations,
    pub(crate) others: SubOperations,
    /// Those in front of it are processed with `first`.
    pub(crate) limit: u32,
    /// Up to where those in front are done.
    pub(crate) front: u32,
    /// Up to where the others are; they go first, so that the target has something to do.
    pub(crate) behind: u32,
}

impl ProcessState {
    /// Bytes of the message that go, or went, to the target; before it is known, all.
    pub(crate) fn sent(&self) -> Range<u32> {
        match &self.plan {
            Some(plan) if plan.first.contains(SubOperations::ADD) => plan.limit..self.total,
            _ => 0..self.total,
        }
    }

    /// Whether bytes of it go to the target that are to be added to the same ones as `range` of `other`.
    pub(crate) fn meets(&self, other: &Self, range: Range<u32>) -> bool {
        let sent = self.sent();
        self.region == other.region
            && self.offset + sent.start < other.offset + range.end
            && other.offset + range.start < self.offset + sent.end
    }

    /// Whether anything goes to the target.
    pub(crate) fn awaits(&self) -> bool {
        !self.sent().is_empty()
    }

    pub(crate) fn fault(&self) -> Option<RegionFault> {
        self.fault
    }

    /// Lets go of the message once all is queued. Returns whether its memory is the caller's again.
    pub(crate) fn all_queued(&mut self) -> bool {
        if self.lent.is_none() {
            self.memory = None;
        }
        self.lent.is_none()
    }

    /// As [`all_queued`](Self::all_queued), for good; the region that the message is lent by is to be deregistered.
    pub(crate) fn give_up(&mut self) -> Option<RegionId> {
        self.memory = None;
        self.lent.take()
    }
}
