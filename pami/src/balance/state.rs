//! What an origin knows of a message that it processes.

use super::recipe::{Combination, Recipe, SubOperations};
use super::{Operand, Split};
use crate::region::{RegionFault, RegionId};
use core::ops::Range;
use rings::shared::Shared;

/// A message, and what is to be done with it.
#[derive(Clone, Copy)]
pub(crate) struct ProcessRequest {
    pub(crate) region: RegionId,
    /// First byte in the region.
    pub(crate) offset: u32,
    /// First byte in the memory.
    pub(crate) start: usize,
    pub(crate) total: u32,
    pub(crate) recipe: Recipe,
    pub(crate) split: Split,
}

/// A message that is being processed.
pub(crate) struct ProcessState {
    message: ProcessRequest,
    /// `None` once it is no longer read.
    memory: Option<Shared>,
    operand: Option<Operand>,
    plan: Option<Bounds>,
    /// What is left for the target in any chunk that it gets.
    wanted: SubOperations,
    /// Since when it waits for advice, and whether it has asked.
    waits_since: Option<u64>,
    has_asked: bool,
    /// Whether the target's answer to its last chunk is waited for.
    answered: bool,
    /// Regions that the target reads the message and its operand from.
    lent: [Option<RegionId>; 2],
    /// What went wrong here.
    fault: Option<RegionFault>,
    /// The operation that has become its operand, and that one's order.
    part: Option<(u8, u64)>,
}

/// A [`Plan`](super::limit::Plan) in bytes, and how much of it is done.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    first: SubOperations,
    others: SubOperations,
    /// Those in front of it are processed with `first`.
    limit: u32,
    /// Up to where those in front are done.
    front: u32,
    /// Up to where the others are; they go first, so that the target has something to do.
    behind: u32,
}

impl Bounds {
    /// Nothing is done: bytes in front of `limit` will be with `first`, the rest with `others`.
    pub(crate) fn new(first: SubOperations, limit: u32, others: SubOperations) -> Self {
        Self { first, others, limit, front: 0, behind: limit }
    }

    /// What is done here with bytes in front of the limit.
    pub(crate) fn first(&self) -> SubOperations {
        self.first
    }

    /// What is done here with the rest.
    pub(crate) fn others(&self) -> SubOperations {
        self.others
    }

    /// Whether bytes in front of the limit are added here, and do not go to the target.
    pub(crate) fn adds_here(&self) -> bool {
        self.first.contains(SubOperations::ADD)
    }

    /// Whether there are none in front of the limit.
    pub(crate) fn has_no_front(&self) -> bool {
        self.limit == 0
    }

    /// The next bytes in front of the limit, at most so many.
    pub(crate) fn front(&self, most: u32) -> Range<u32> {
        self.front..self.limit.min(self.front.saturating_add(most))
    }

    /// Whether a piece in front of the limit that ends here is the last.
    pub(crate) fn ends_front(&self, end: u32) -> bool {
        end == self.limit
    }

    /// They are done.
    pub(crate) fn front_done(&mut self, end: u32) {
        self.front = end;
    }

    /// The next of the other bytes of a message of `total`, at most so many.
    pub(crate) fn behind(&self, total: u32, most: u32) -> Range<u32> {
        self.behind..total.min(self.behind.saturating_add(most))
    }

    /// They are done.
    pub(crate) fn behind_done(&mut self, end: u32) {
        self.behind = end;
    }
}

impl ProcessState {
    /// One of which nothing is decided.
    pub(crate) fn new(message: ProcessRequest, memory: Shared, operand: Option<Operand>) -> Self {
        Self {
            message,
            memory: Some(memory),
            operand,
            plan: None,
            wanted: SubOperations::empty(),
            waits_since: None,
            has_asked: false,
            answered: true,
            lent: [None; 2],
            fault: None,
            part: None,
        }
    }

    /// What it is.
    pub(crate) fn message(&self) -> &ProcessRequest {
        &self.message
    }

    /// Where it is, while it is read.
    pub(crate) fn memory(&self) -> Option<&Shared> {
        self.memory.as_ref()
    }

    /// What it is combined with, while that is read.
    pub(crate) fn operand(&self) -> Option<&Operand> {
        self.operand.as_ref()
    }

    /// Whether `other`, which is to be done behind it, can be done with it at once: nothing is decided of either.
    pub(crate) fn takes(&self, other: &Self) -> bool {
        let (mine, theirs) = (&self.message, &other.message);
        let same = (mine.region, mine.offset, mine.total) == (theirs.region, theirs.offset, theirs.total)
            && mine.recipe == theirs.recipe
            && mine.split == theirs.split;
        same && mine.recipe.merges()
            && mine.split != Split::TargetOnly
            && self.plan.is_none()
            && other.plan.is_none()
            && other.memory.is_some()
    }

    /// The message of `other`, at place `number` with this order, is its operand from now on.
    pub(crate) fn take(&mut self, other: &Self, (number, order): (u8, u64)) {
        let memory = other.memory.clone();
        self.operand = memory.map(|memory| Operand { memory, start: other.message.start });
        self.message.recipe = self.message.recipe.combined(Combination::Sum);
        self.part = Some((number, order));
    }

    /// The operation that it has taken, and that one's order.
    pub(crate) fn part(&self) -> Option<(u8, u64)> {
        self.part
    }

    /// Who does what, if that is decided, and how much is done.
    pub(crate) fn plan(&self) -> Option<Bounds> {
        self.plan
    }

    /// It is decided, or more is done.
    pub(crate) fn goes_by(&mut self, plan: Bounds) {
        self.plan = Some(plan);
    }

    /// What is left for the target in any chunk that it gets.
    pub(crate) fn wanted(&self) -> SubOperations {
        self.wanted
    }

    /// The target is wanted for this, in some chunk.
    pub(crate) fn wants(&mut self, wanted: SubOperations) {
        self.wanted = wanted;
    }

    /// Whether chunks of it and its operand can be named by where they are in their memory.
    pub(crate) fn can_be_named(&self) -> bool {
        let starts = [self.message.start, self.operand.as_ref().map_or(0, |operand| operand.start)];
        starts.iter().all(|start| u32::try_from(start.saturating_add(self.message.total as usize)).is_ok())
    }

    /// The regions that the target reads it and its operand from, if it is lent.
    pub(crate) fn lent(&self) -> [Option<RegionId>; 2] {
        self.lent
    }

    /// It is lent by these regions; without any it is copied.
    pub(crate) fn lend(&mut self, regions: [Option<RegionId>; 2]) {
        self.lent = regions;
    }

    /// Since when it waits for advice: from now on, if it did not.
    pub(crate) fn waits_since(&mut self, now: u64) -> u64 {
        *self.waits_since.get_or_insert(now)
    }

    /// Whether its target was asked for advice.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// Its target was asked, if there was room.
    pub(crate) fn note_asked(&mut self, asked: bool) {
        self.has_asked = asked;
    }

    /// Whether the target is to answer its last chunk.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// It is, or is not.
    pub(crate) fn set_answered(&mut self, answered: bool) {
        self.answered = answered;
    }

    /// Something went wrong here.
    pub(crate) fn note_fault(&mut self, fault: RegionFault) {
        self.fault = Some(fault);
    }

    /// Bytes of the message that go, or went, to the target; before it is known, all.
    pub(crate) fn sent(&self) -> Range<u32> {
        match &self.plan {
            Some(plan) if plan.adds_here() => plan.limit..self.message.total,
            _ => 0..self.message.total,
        }
    }

    /// Whether bytes of it go to the target that are to be added to the same ones as `range` of `other`.
    pub(crate) fn meets(&self, other: &Self, range: Range<u32>) -> bool {
        let sent = self.sent();
        let (mine, theirs) = (&self.message, &other.message);
        mine.region == theirs.region
            && mine.offset + sent.start < theirs.offset + range.end
            && theirs.offset + range.start < mine.offset + sent.end
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
        let lent = self.lent[0].is_some();
        if !lent {
            (self.memory, self.operand) = (None, None);
        }
        !lent
    }

    /// As [`all_queued`](Self::all_queued), for good; the regions that the message is lent by are to be deregistered.
    pub(crate) fn give_up(&mut self) -> [Option<RegionId>; 2] {
        (self.memory, self.operand) = (None, None);
        core::mem::take(&mut self.lent)
    }
}
