//! Fences of a context, and its answers to those of others (SPEC F-1 to F-6).

use super::terms::{Here, Terms};
use super::{Active, Done, Operation, RemoteDone};
use crate::acks::named;
use crate::device::{OPERATIONS, Path, Port, REQUESTS, Unreachable};
use crate::endpoint::{Endpoint, TaskList};
use crate::error::{OperationError, SendError};
use crate::fence::{FenceScope, FenceState, Next, Targets};
use crate::geometry::GeometryId;
use crate::operation::{Action, Awaits, Blocked, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::transport::Queued;
use core::ops::Range;
use heapless::Vec;

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
        let path = self.transport.path_to(&self.port, target)?;
        let room = terms.room(&self.operations)?;
        self.begin_fence::<T>(room, Some(path), target, Targets::One(target), done);
        Ok(())
    }

    /// As [`fence`](Self::fence), for all contexts that the client has in each of `tasks`, this one included if its task is;
    /// all of them must be advanced. Takes one operation, however many they are. If a node among them is dead the others are
    /// fenced all the same, and the completion names it.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`] are under way, [`SendError::Unreachable`] if the job
    /// does not have one of the tasks.
    pub fn fence_tasks(&mut self, tasks: impl Into<TaskList>, done: Done<P>) -> Result<(), SendError> {
        self.fence_contexts_on((tasks.into(), None), done, Here(None))
    }

    /// As [`fence_tasks`](Self::fence_tasks), for these contexts of each task, which alone must be advanced.
    ///
    /// # Errors
    /// As there; [`SendError::Unreachable`] as well if the client does not have one of the contexts.
    pub fn fence_contexts(
        &mut self,
        tasks: impl Into<TaskList>,
        contexts: Range<u8>,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.fence_contexts_on((tasks.into(), Some(contexts)), done, Here(None))
    }

    /// Of all contexts if none are named.
    pub(crate) fn fence_contexts_on<T: Terms<P>>(
        &mut self,
        (tasks, contexts): (TaskList, Option<Range<u8>>),
        done: Done<P>,
        terms: T,
    ) -> Result<(), SendError> {
        let contexts = contexts.unwrap_or(0..self.contexts);
        if contexts.end > self.contexts || tasks.exception(|task| self.port.node_of(task).is_some()).is_some()
        {
            return Err(SendError::Unreachable);
        }
        let room = terms.room(&self.operations)?;
        let targets = Targets::Contexts(tasks, contexts);
        self.begin_fence::<T>(room, None, self.transport.me(), targets, done);
        Ok(())
    }

    /// As [`fence`](Self::fence), for a geometry that this context is in, or more: see [`FenceScope`]. Only this member
    /// calls it; all endpoints that it is over must be advanced. Takes one operation, however many they are. The geometry is
    /// not [destroyed](Self::destroy_geometry) before it ends. If a node among them is dead the others are fenced all the
    /// same, and the completion names it (SPEC F-5).
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`] are under way, [`SendError::UnknownGeometry`].
    pub fn fence_geometry(
        &mut self,
        geometry: GeometryId,
        scope: FenceScope,
        done: Done<P>,
    ) -> Result<(), SendError> {
        self.fence_geometry_on(geometry, scope, done, Here(None))
    }

    pub(crate) fn fence_geometry_on<T: Terms<P>>(
        &mut self,
        geometry: GeometryId,
        scope: FenceScope,
        done: Done<P>,
        terms: T,
    ) -> Result<(), SendError> {
        let room = terms.room(&self.operations)?;
        if !self.collectives.fence_begins(geometry) {
            return Err(SendError::UnknownGeometry(geometry));
        }
        let contexts = (scope == FenceScope::AllContexts).then_some(self.contexts);
        let targets = Targets::Geometry(geometry, contexts);
        self.begin_fence::<T>(room, None, self.transport.me(), targets, done);
        Ok(())
    }

    #[inline(always)]
    fn begin_fence<T: Terms<P>>(
        &mut self,
        room: T::Room,
        path: Option<Path>,
        target: Endpoint,
        targets: Targets,
        done: Done<P>,
    ) {
        let operation = Operation {
            path,
            target,
            order: self.transport.next_order(),
            queued: false,
            awaits: Awaits::Context,
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: RemoteDone::Done(done),
            action: Action::Fence(FenceState::new(targets)),
        };
        T::begin_fence(self, room, operation);
    }

    /// Asks as many targets as there is room for.
    #[inline]
    pub(crate) fn queue_fence(&mut self, number: u8, blocked: &Blocked) -> Queued {
        if self.acks.is_crowded() {
            self.queue_behind_asking(number, blocked)
        } else {
            self.ask_targets(number, blocked, |_| false)
        }
    }

    /// The same where those that may not have looked at an older message which asks to be let in are not to be asked.
    #[cold]
    #[inline(never)]
    fn queue_behind_asking(&mut self, number: u8, blocked: &Blocked) -> Queued {
        let order = self.operations.see(number).map_or(0, |operation| operation.order);
        let asking = bits(self.operations.asking()).filter_map(|number| self.operations.see(number));
        let older = asking.filter(|asking| asking.order < order).map(|asking| asking.target);
        let older: Vec<_, OPERATIONS> = older.collect();
        self.ask_targets(number, blocked, |target| older.contains(&target))
    }

    fn ask_targets(
        &mut self,
        number: u8,
        blocked: &Blocked,
        is_to_wait: impl Fn(Endpoint) -> bool,
    ) -> Queued {
        let origin = self.transport.me();
        let collectives = &self.collectives;
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let Action::Fence(state) = &mut operation.action else { return Queued::All };
        let mut some = false;
        let envelope =
            Envelope { kind: Kind::Fence, dispatch: 0, origin, target: origin, message, offset: 0, total: 0 };
        loop {
            let next = state.next(origin, |id| collectives.members(id));
            let target = match next {
                Next::Nobody => {
                    operation.queued = true;
                    return Queued::All;
                }
                Next::Later => return Queued::stopped(some),
                Next::Again(_, target) | Next::New(target) => target,
            };
            if is_to_wait(target) {
                return Queued::stopped(some);
            }
            let located = self.transport.locate(&self.port, target);
            // Of one that has died since the end comes by itself.
            if let Ok(path) = located {
                let envelope = Envelope { target, ..envelope };
                // What stands in line before it goes first.
                if blocked.contains(&path) || self.port.push_bcopy(path, &envelope, &[], &[]).is_err() {
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
            if owed.is_none() {
                self.transport.protocol_error();
            }
        }
    }

    /// Ends the fences that have nothing left to wait for. Returns how many.
    #[inline]
    pub(crate) fn complete_fences(&mut self) -> usize {
        if self.operations.fences() == 0 { 0 } else { self.complete_all_fences() }
    }

    #[inline(never)]
    fn complete_all_fences(&mut self) -> usize {
        let mut completed = 0;
        for number in bits(self.operations.fences()) {
            if let Some((result, geometry)) = self.fenced(number) {
                if let Some(id) = geometry {
                    self.collectives.fence_ended(id);
                }
                self.answered(number, result);
                completed += 1;
            }
        }
        completed
    }

    /// How a fence ends, if it does, and the geometry that it is of.
    fn fenced(&self, number: u8) -> Option<(Result<(), OperationError>, Option<GeometryId>)> {
        let operation = self.operations.see(number)?;
        let (order, Action::Fence(state)) = (operation.order, &operation.action) else { return None };
        let answered = operation.queued && state.all_answered();
        let members = |id| self.collectives.members(id);
        let behind = |other: &Operation<P>| state.is_behind(order, other.order, other.target, members);
        let ends = answered && !self.operations.iter().any(behind);
        ends.then(|| (operation.result, state.geometry()))
    }

    /// An operation to `target` was given up: the fences behind it say so.
    #[cold]
    pub(crate) fn spoil_fences(&mut self, order: u64, target: Endpoint, error: OperationError) {
        let collectives = &self.collectives;
        for number in bits(self.operations.fences()) {
            if let Some(operation) = self.operations.get(number)
                && let Action::Fence(state) = &operation.action
                && state.is_behind(operation.order, order, target, |id| collectives.members(id))
            {
                operation.result = Err(error);
            }
        }
    }

    /// A fence arrives.
    pub(crate) fn fence_arrived(&mut self, envelope: &Envelope) {
        let Envelope { origin, message, .. } = *envelope;
        let place = message as usize % REQUESTS;
        if place >= OPERATIONS || self.port.node_of(origin.task()).is_none() {
            self.transport.protocol_error();
            return;
        }
        if self.acks.hides(origin, message) {
            return;
        }
        let order = self.transport.next_order();
        if !self.unexpected.hold_fences(origin, order, 1 << place) {
            self.owe_fences(origin, 1 << place, order);
        }
    }
}
