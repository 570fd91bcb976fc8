//! Fences: all that was sent before has been received (SPEC F-1 to F-6).
//!
//! ```text
//! origin                         target
//!   FENCE  ---------------------->  behind all earlier packets to this endpoint; unexpected messages keep it waiting
//!          <----------------------  GET of nothing, behind the gets of all earlier rendezvous
//!   GetLast of nothing ---------->  the origin's unit has sent all that was asked for before
//!          <----------------------  FENCE-ack
//!   done, once no older operation of this context to the target is under way
//! ```
//!
//! Nothing is counted and no send leaves a trace for a fence to find (SPEC F-4): order on the path says the most, and the
//! context's places of operations, which are there anyhow, the rest: a rendezvous, a get, a put that is to be answered. Within
//! a node there is nothing to get, so FENCE and FENCE-ack are all.
//!
//! A fence that arrives is a bit: of the last unexpected message of its origin, while there is one, then of what is owed to the
//! origin (`acks`). So there is room for all that can come, and those of one origin that wait for the same are answered
//! together. Behind a message that was refused ([`crate::admission`]) it is not looked at; the origin asks again.

use crate::endpoint::{ContextOffset, Endpoint, TaskList};
use crate::error::OperationError;
use crate::geometry::{GeometryId, Members};
use core::ops::Range;
use heapless::Vec;

/// Targets of one fence that are asked at once.
pub const FENCED_AT_ONCE: usize = 16;

/// Which contexts a fence of a geometry is over.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FenceScope {
    /// The geometry's endpoints.
    Members,
    /// All contexts that the client has in each task which has one of them.
    AllContexts,
}

/// A fence under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FenceState {
    targets: Targets,
    /// How many of the targets were asked.
    asked: usize,
    /// Those of them that have not answered.
    owed: Vec<Endpoint, FENCED_AT_ONCE>,
    /// Bit set of those of these that have to be asked again.
    again: u16,
}

const _: () = assert!(FENCED_AT_ONCE <= u16::BITS as usize);

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Targets {
    One(Endpoint),
    /// These contexts of each task.
    Contexts(TaskList, Range<u8>),
    /// The endpoints of a geometry; or if it is some, this many contexts of each of its tasks.
    Geometry(GeometryId, Option<u8>),
}

impl Targets {
    /// Target number `index`; `Some(None)` if that number is nobody's and others may follow. `members` finds a geometry's.
    #[inline]
    fn get<'a>(
        &self,
        index: usize,
        like: Endpoint,
        members: impl FnOnce(GeometryId) -> Option<&'a Members<'static>>,
    ) -> Option<Option<Endpoint>> {
        match self {
            Self::One(target) => (index == 0).then_some(Some(*target)),
            Self::Contexts(tasks, contexts) => {
                let each = contexts.len();
                let place = behind(like.task(), index.checked_div(each)?, tasks.len())?;
                let context = ContextOffset(contexts.start + (index % each) as u8);
                Some(Some(Endpoint::from_parts(like.client(), tasks.get(place)?, context)))
            }
            Self::Geometry(id, contexts) => of_geometry(members(*id)?, *contexts, index, like),
        }
    }

    #[inline]
    fn contains<'a>(
        &self,
        target: Endpoint,
        members: impl FnOnce(GeometryId) -> Option<&'a Members<'static>>,
    ) -> bool {
        match self {
            Self::One(one) => *one == target,
            Self::Contexts(tasks, contexts) => {
                contexts.contains(&target.context().0) && tasks.contains(target.task())
            }
            Self::Geometry(id, None) => members(*id).is_some_and(|members| members.rank(target).is_some()),
            Self::Geometry(id, Some(_)) => {
                members(*id).is_some_and(|members| members.has_task(target.task()))
            }
        }
    }
}

/// Number `index` of those that are counted from behind one on: everyone begins behind itself, so nobody is everybody's first.
fn behind(own: u32, index: usize, len: usize) -> Option<usize> {
    (index < len).then(|| (own as usize % len + 1 + index) % len)
}

/// Target number `index` of a geometry, as [`Targets::get`].
#[inline(never)]
fn of_geometry(
    members: &Members<'static>,
    contexts: Option<u8>,
    index: usize,
    me: Endpoint,
) -> Option<Option<Endpoint>> {
    let each = contexts.map_or(1, usize::from);
    let own = members.rank(me).unwrap_or(0);
    let rank = behind(own, index.checked_div(each)?, members.size() as usize)? as u32;
    let member = members.endpoint(rank)?;
    if contexts.is_none() {
        return Some(Some(member));
    }
    let context = ContextOffset((index % each) as u8);
    // Once for each task.
    let leads = members.leads_task(rank);
    Some(leads.then(|| Endpoint::from_parts(me.client(), member.task(), context)))
}

/// Whom a fence asks next.
#[derive(Clone, Copy)]
pub(crate) enum Next {
    /// One that was asked already, by its place among those.
    Again(usize, Endpoint),
    New(Endpoint),
    /// Some of those that were asked have to answer first.
    Later,
    Nobody,
}

impl FenceState {
    /// Asks nobody yet.
    pub(crate) fn new(targets: Targets) -> Self {
        Self { targets, asked: 0, owed: Vec::new(), again: 0 }
    }

    /// Of one endpoint, for tests of the protocol.
    #[cfg(test)]
    pub(crate) fn of(target: Endpoint) -> Self {
        Self::new(Targets::One(target))
    }

    /// Of the first context of all tasks below this number, for tests of the protocol.
    #[cfg(test)]
    pub(crate) fn of_all(tasks: u32) -> Self {
        Self::new(Targets::Contexts((0..tasks).into(), 0..1))
    }

    /// The geometry whose fence it is, if it is one's.
    pub(crate) fn geometry(&self) -> Option<GeometryId> {
        match self.targets {
            Targets::Geometry(id, _) => Some(id),
            _ => None,
        }
    }

    /// Whom to ask next. `like` is this context's endpoint, and `members` finds those of a geometry.
    #[inline]
    pub(crate) fn next<'a>(
        &mut self,
        like: Endpoint,
        members: impl Fn(GeometryId) -> Option<&'a Members<'static>>,
    ) -> Next {
        if self.again != 0 {
            let at = self.again.trailing_zeros() as usize;
            return self.owed.get(at).map_or(Next::Nobody, |&target| Next::Again(at, target));
        }
        loop {
            return match self.targets.get(self.asked, like, &members) {
                None => Next::Nobody,
                Some(None) => {
                    self.asked += 1;
                    continue;
                }
                Some(_) if self.owed.is_full() => Next::Later,
                Some(Some(target)) => Next::New(target),
            };
        }
    }

    /// The one that was to be asked again was.
    pub(crate) fn asked_again(&mut self, at: usize) {
        self.again &= !(1 << at);
    }

    /// The next target was asked; `None` if it cannot be, and does not have to answer.
    #[inline]
    pub(crate) fn asked(&mut self, target: Option<Endpoint>) {
        if let Some(target) = target {
            let _ = self.owed.push(target);
        }
        self.asked += 1;
    }

    /// A target has answered. Returns whether it had to.
    pub(crate) fn answered(&mut self, target: Endpoint) -> bool {
        let at = self.owed.iter().position(|&owed| owed == target);
        at.inspect(|&at| self.settle(at)).is_some()
    }

    /// Whether it does not end before another operation to `target`. The numbers are those in the context's order.
    pub(crate) fn is_behind<'a>(
        &self,
        own: u64,
        other: u64,
        target: Endpoint,
        members: impl Fn(GeometryId) -> Option<&'a Members<'static>>,
    ) -> bool {
        other < own && self.targets.contains(target, members)
    }

    /// Takes those that died off those that have to answer. Returns the first of their nodes.
    pub(crate) fn forget_gone(
        &mut self,
        dead: impl Fn(Endpoint) -> Option<OperationError>,
    ) -> Option<OperationError> {
        let first = self.owed.iter().find_map(|&target| dead(target));
        while let Some(at) = self.owed.iter().position(|&target| dead(target).is_some()) {
            self.settle(at);
        }
        first
    }

    /// Takes one off those that have to answer.
    fn settle(&mut self, at: usize) {
        let last = self.owed.len() - 1;
        self.owed.swap_remove(at);
        let moved = self.again >> last & 1;
        self.again &= !(1 << last | 1 << at);
        if at < last {
            self.again |= moved << at;
        }
    }

    /// What `target` was asked it did not look at: it is to be asked again. Returns whether it was asked.
    pub(crate) fn ask_again(&mut self, target: Endpoint) -> bool {
        let at = self.owed.iter().position(|&owed| owed == target);
        at.inspect(|at| self.again |= 1 << at).is_some()
    }

    /// Whether `target` was asked, and not in vain, and has not answered.
    pub(crate) fn waits_for(&self, target: Endpoint) -> bool {
        let at = self.owed.iter().position(|&owed| owed == target);
        at.is_some_and(|at| self.again >> at & 1 == 0)
    }

    /// Those that were asked and have not answered.
    pub(crate) fn owed(&self) -> &[Endpoint] {
        &self.owed
    }

    /// Whether all that were asked have answered: all targets, once [`next`](Self::next) has found [`Next::Nobody`].
    pub(crate) fn all_answered(&self) -> bool {
        self.owed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::ClientId;

    #[test]
    fn f2_r1_who_is_to_be_asked_again_stays_so_when_others_answer() {
        let target = |task| Endpoint::from_parts(ClientId(0), task, ContextOffset(0));
        for answers in 0..4 {
            for again in 0..16u32 {
                let mut fence = FenceState::of_all(4);
                (0..4).for_each(|task| fence.asked(Some(target(task))));
                let is_again = |task: u32| again >> task & 1 == 1;
                (0..4).filter(|&task| is_again(task)).for_each(|task| assert!(fence.ask_again(target(task))));
                assert!(fence.answered(target(answers)) && !fence.answered(target(answers)));
                assert!(!fence.ask_again(target(answers)));
                let mut asked = 0;
                while let Next::Again(at, target) = fence.next(target(0), |_| None) {
                    asked |= 1 << target.task();
                    fence.asked_again(at);
                }
                assert_eq!(asked, again & !(1 << answers), "{again:04b} without {answers}");
                (0..4).filter(|&task| task != answers).for_each(|task| assert!(fence.answered(target(task))));
                assert!(fence.all_answered() && fence.again == 0);
            }
        }
    }
}
