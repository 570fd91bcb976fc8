//! Fences: all that was sent before has been received (SPEC F-1 to F-6).
//!
//! ```text
//! origin                         target
//!   FENCE  ---------------------->  behind all earlier packets to this endpoint; kept messages keep it waiting
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
//! A fence that arrives is a bit: of the last kept message of its origin, while there is one, then of what is owed to the
//! origin (`acks`). So there is room for all that can come, and those of one origin that wait for the same are answered
//! together. Behind a message that was refused ([`crate::admission`]) it is not looked at; the origin asks again.

use crate::acks::named;
use crate::context::{Active, Done};
use crate::device::{Path, Port, REQUESTS, Unreachable};
use crate::endpoint::{ContextOffset, Endpoint, TaskList};
use crate::error::{OperationError, SendError};
use crate::factory::terms::{Here, Terms};
use crate::operation::{Action, Blocked, OPERATIONS, Operation, Queued, RemoteDone, bits, message_number};
use crate::packet::{Envelope, Kind};
use heapless::Vec;

/// Targets of one fence that are asked at once.
pub const FENCED_AT_ONCE: usize = 16;

/// Bytes that a fence under way takes of its operation's place.
pub const STATE_BYTES: usize = size_of::<FenceState>();

// A fence lies where a send would: it makes no operation larger (SPEC F-4).
const _: () = assert!(STATE_BYTES <= crate::send::STATE_BYTES);

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
enum Targets {
    One(Endpoint),
    /// This many contexts of each task.
    Contexts(TaskList, u8),
}

impl Targets {
    /// Target number `index`.
    fn get(&self, index: usize, like: Endpoint) -> Option<Endpoint> {
        match self {
            Self::One(target) => (index == 0).then_some(*target),
            Self::Contexts(tasks, contexts) => {
                let each = usize::from(*contexts).max(1);
                let task = tasks.get(index / each)?;
                Some(Endpoint::from_parts(like.client(), task, ContextOffset((index % each) as u8)))
            }
        }
    }

    fn contains(&self, target: Endpoint) -> bool {
        match self {
            Self::One(one) => *one == target,
            Self::Contexts(tasks, _) => tasks.contains(target.task()),
        }
    }
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
    fn new(targets: Targets) -> Self {
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
        Self::new(Targets::Contexts((0..tasks).into(), 1))
    }

    /// Whom to ask next. `like` is an endpoint of the same client.
    #[inline]
    pub(crate) fn next(&self, like: Endpoint) -> Next {
        if self.again != 0 {
            let at = self.again.trailing_zeros() as usize;
            return self.owed.get(at).map_or(Next::Nobody, |&target| Next::Again(at, target));
        }
        match self.targets.get(self.asked, like) {
            None => Next::Nobody,
            Some(_) if self.owed.is_full() => Next::Later,
            Some(target) => Next::New(target),
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
    pub(crate) fn is_behind(&self, own: u64, other: u64, target: Endpoint) -> bool {
        other < own && self.targets.contains(target)
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

    /// Those that were asked and have not answered.
    pub(crate) fn owed(&self) -> &[Endpoint] {
        &self.owed
    }

    /// Whether every target was asked and has answered.
    pub(crate) fn all_answered(&self, like: Endpoint) -> bool {
        self.owed.is_empty() && self.targets.get(self.asked, like).is_none()
    }
}

impl<P: Port> Active<P> {
    /// Calls `done` when all operations to `target` that were started on this context before are done on both sides: sends
    /// received, kept ones included; puts, gets and updates carried out. Other traffic goes on. The callback is not called
    /// before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`] are under way, or why the target has no path.
    pub fn fence(&mut self, target: Endpoint, done: Done<P>) -> Result<(), SendError> {
        self.fence_on(target, done, Here(None))
    }

    #[inline(always)]
    pub(crate) fn fence_on<T: Terms<P>>(
        &mut self,
        target: Endpoint,
        done: Done<P>,
        terms: T,
    ) -> Result<(), SendError> {
        let path = self.path_to(target)?;
        self.begin_fence(Some(path), target, Targets::One(target), done, terms)
    }

    /// As [`fence`](Self::fence), for all contexts that the client has in each of `tasks`, this one included; all of them
    /// must be advanced. Takes one operation, however many they are. If a node among them is dead the others are fenced all
    /// the same, and the completion names it.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`] are under way, [`SendError::Unreachable`] if the job
    /// does not have one of the tasks.
    pub fn fence_tasks(&mut self, tasks: impl Into<TaskList>, done: Done<P>) -> Result<(), SendError> {
        self.fence_tasks_on(tasks.into(), done, Here(None))
    }

    pub(crate) fn fence_tasks_on<T: Terms<P>>(
        &mut self,
        tasks: TaskList,
        done: Done<P>,
        terms: T,
    ) -> Result<(), SendError> {
        if tasks.exception(|task| self.transport.port.node_of(task).is_some()).is_some() {
            return Err(SendError::Unreachable);
        }
        let targets = Targets::Contexts(tasks, self.contexts);
        self.begin_fence(None, self.transport.me, targets, done, terms)
    }

    #[inline(always)]
    fn begin_fence<T: Terms<P>>(
        &mut self,
        path: Option<Path>,
        target: Endpoint,
        targets: Targets,
        done: Done<P>,
        terms: T,
    ) -> Result<(), SendError> {
        let room = terms.room(&self.operations)?;
        let operation = Operation {
            path,
            target,
            order: self.transport.next_order(),
            queued: false,
            awaits: true,
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: RemoteDone::Done(done),
            action: Action::Fence(FenceState::new(targets)),
        };
        T::begin_fence(self, room, operation);
        Ok(())
    }

    /// Asks as many targets as there is room for.
    pub(crate) fn queue_fence(&mut self, number: u8, blocked: &Blocked) -> Queued {
        let origin = self.transport.me;
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let Action::Fence(state) = &mut operation.action else { return Queued::All };
        let mut some = false;
        let envelope =
            Envelope { kind: Kind::Fence, dispatch: 0, origin, target: origin, message, offset: 0, total: 0 };
        loop {
            let next = state.next(origin);
            let target = match next {
                Next::Nobody => return Queued::All,
                Next::Later => return Queued::stopped(some),
                Next::Again(_, target) | Next::New(target) => target,
            };
            let located = self.transport.locate(target);
            // Of one that has died since the end comes by itself.
            if let Ok(path) = located {
                let envelope = Envelope { target, ..envelope };
                // What stands in line before it goes first.
                if blocked.contains(&path)
                    || self.transport.port.push_copy(path, &envelope, &[], &[]).is_err()
                {
                    return Queued::stopped(some);
                }
            }
            some = true;
            if let Next::Again(at, _) = next {
                state.asked_again(at);
                continue;
            }
            if let Err(Unreachable::Gone(node, gone)) = located {
                operation.result = Err(OperationError::gone(node, gone));
            }
            // Where there is no such endpoint nothing was ever sent.
            state.asked(located.ok().map(|_| target));
        }
    }

    /// A target's answer to fences.
    pub(crate) fn fences_acked(&mut self, origin: Endpoint, data: &[u8]) {
        for number in bits(named(data).unwrap_or_default()) {
            let owed = self.operations.get(number).and_then(|operation| {
                let Action::Fence(state) = &mut operation.action else { return None };
                state.answered(origin).then_some(())
            });
            self.transport.counters.strays += u64::from(owed.is_none());
        }
    }

    /// Ends the fences that have nothing left to wait for. Returns how many.
    pub(crate) fn complete_fences(&mut self) -> usize {
        let mut completed = 0;
        for number in bits(self.operations.fences) {
            if self.is_fenced(number) {
                let result = self.operations.get(number).map_or(Ok(()), |operation| operation.result);
                self.answered(number, result);
                completed += 1;
            }
        }
        completed
    }

    fn is_fenced(&self, number: u8) -> bool {
        let Some(operation) = self.operations.see(number) else { return false };
        let (order, Action::Fence(state)) = (operation.order, &operation.action) else { return false };
        let answered = operation.queued && state.all_answered(self.transport.me);
        answered && !self.operations.iter().any(|other| state.is_behind(order, other.order, other.target))
    }

    /// An operation to `target` was given up: the fences behind it say so.
    #[cold]
    pub(crate) fn spoil_fences(&mut self, order: u64, target: Endpoint, error: OperationError) {
        for number in bits(self.operations.fences) {
            if let Some(operation) = self.operations.get(number)
                && let Action::Fence(state) = &operation.action
                && state.is_behind(operation.order, order, target)
            {
                operation.result = Err(error);
            }
        }
    }

    /// A fence arrives.
    pub(crate) fn fence_arrived(&mut self, envelope: &Envelope) {
        let Envelope { origin, message, .. } = *envelope;
        let place = message as usize % REQUESTS;
        if place >= OPERATIONS || self.transport.port.node_of(origin.task()).is_none() {
            self.transport.stray();
            return;
        }
        if self.acks.hides(origin, message) {
            return;
        }
        let order = self.transport.next_order();
        if !self.kept.hold_fences(origin, order, 1 << place) {
            self.owe_fences(origin, 1 << place, order);
        }
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
                while let Next::Again(at, target) = fence.next(target(0)) {
                    asked |= 1 << target.task();
                    fence.asked_again(at);
                }
                assert_eq!(asked, again & !(1 << answers), "{again:04b} without {answers}");
                (0..4).filter(|&task| task != answers).for_each(|task| assert!(fence.answered(target(task))));
                assert!(fence.all_answered(target(0)) && fence.again == 0);
            }
        }
    }
}
