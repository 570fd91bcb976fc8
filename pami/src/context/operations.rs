//! Operations of a context under way: how they begin, stand in line, settle and end.

use super::{Active, ObjectMemory, Operation, RemoteDone, Sent};
use crate::device::{Completed, Path, Port, REQUESTS};
use crate::dispatch::{Completion, Fetched};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::operation::{Action, Awaits, Blocked, Ended, bits, message_number, sent};
use crate::transport::Queued;
use rings::buffer::Lease;

impl<P: Port> Active<P> {
    /// Gives `operation` a place that is free and lets it begin, if nothing on its path is in front of it.
    pub(crate) fn begin(&mut self, number: u8, operation: Operation<P>) {
        let path = operation.path;
        self.operations.put(number, operation);
        self.launch(number, path);
    }

    /// Lets the operation at a place begin, if nothing on its path is in front of it.
    #[inline(always)]
    pub(crate) fn launch(&mut self, number: u8, path: Option<Path>) {
        self.note_work();
        if self.has_to_ask(number) && self.ask_and_hold(number) {
            return;
        }
        let waits = path.is_none_or(|path| self.has_pending(path));
        if waits || self.queue(number, &Blocked::new()) != Queued::All {
            self.operations.line_up(number);
        } else {
            self.all_queued(number);
        }
    }

    /// The same for a fence, which asks nobody to be let in.
    #[inline(never)]
    pub(crate) fn launch_fence(&mut self, number: u8, path: Option<Path>) {
        self.operations.note_fence(number);
        self.note_work();
        let waits = path.is_none_or(|path| self.has_pending(path));
        if waits || self.queue_fence(number, &Blocked::new()) != Queued::All {
            self.hold_or_line_up(number);
        }
    }

    /// Gives an operation that was carried out at once a place, for its callbacks to be called by the next advance.
    #[inline(never)]
    pub(crate) fn begin_settled(&mut self, number: u8, operation: Operation<P>) {
        self.operations.put(number, operation);
        self.operations.settle(number);
        self.note_work();
    }

    /// Has the operation at a place that is free wait for the answer of node `node`'s message unit: its request is being queued,
    /// or it is [taken back](Self::take_back).
    #[inline(always)]
    pub(crate) fn await_unit(
        &mut self,
        number: u8,
        (node, target): (u32, Endpoint),
        order: u64,
        remote_done: RemoteDone<P>,
    ) {
        let (path, awaits, lease, local_done) = (Path::Torus(node), Awaits::Unit, None, None);
        self.operations
            .note_sent(number, Sent { path, target, order, awaits, lease, local_done, remote_done });
        self.note_work();
    }

    /// The request of an operation that waits for its answer found no room. Returns `false`.
    #[cold]
    #[inline(never)]
    pub(crate) fn take_back(&mut self, number: u8) -> bool {
        self.operations.free(number);
        false
    }

    /// Tells of what was carried out at once. What callbacks begin is told of by the next advance.
    #[inline(never)]
    fn tell_ended(&mut self) -> usize {
        let number = self.operations.ended_at_once();
        for _ in 0..number {
            match self.operations.next_ended() {
                None => break,
                Some(Ended::Put(target, done)) => self.tell(target, RemoteDone::Done(done), Ok(())),
                Some(Ended::Rmw(target, done, old)) => {
                    self.tell(target, RemoteDone::Fetched(done, old), Ok(()));
                }
                Some(Ended::Otherwise { target, outcome, buffer, local_done, remote_done }) => {
                    let result = outcome.map_err(OperationError::Region);
                    if let Some(done) = local_done {
                        let completion =
                            Completion { target, buffer, result: sent(result), cookie: done.cookie };
                        (done.call)(self, completion);
                    }
                    self.tell(target, remote_done, result);
                }
            }
        }
        number
    }

    /// Whether an earlier operation still has packets to queue on `path`.
    #[inline]
    pub(crate) fn has_pending(&self, path: Path) -> bool {
        self.operations.has_pending() && self.operations.has_pending_on(path)
    }

    /// Queues what has room of an operation's packets.
    fn queue(&mut self, number: u8, blocked: &Blocked) -> Queued {
        match self.operations.get(number).map(|operation| &operation.action) {
            Some(Action::Send(_)) => self.queue_send(number),
            Some(Action::Put(_)) => self.queue_put(number),
            Some(Action::PutSignal(..)) => self.queue_put_signal(number),
            Some(Action::Get(_)) => self.queue_get(number),
            Some(Action::Rmw(_)) => self.queue_rmw(number),
            Some(Action::Fence(_)) => self.queue_fence(number, blocked),
            Some(Action::Synchronization) => self.queue_synchronization(number),
            Some(Action::Process(_)) => self.queue_process(number),
            Some(Action::Over) | None => Queued::All,
        }
    }

    /// The last packet of an operation is queued. Its payload is free as soon as nobody reads it any more, which the next
    /// look at those that settle finds out; that of a rendezvous is until the target has pulled it.
    fn all_queued(&mut self, number: u8) {
        let asks = self.operations.is_asking(number);
        let Some(operation) = self.operations.get(number) else { return };
        operation.queued = true;
        let settles = match &mut operation.action {
            // It may have to go again.
            Action::Send(_) if asks => false,
            Action::Send(state) => state.all_queued(),
            Action::Put(_) | Action::PutSignal(..) => {
                // The operation itself counts as a reader while it holds the source.
                operation.action = Action::Over;
                true
            }
            Action::Get(_) | Action::Synchronization => {
                operation.action = Action::Over;
                false
            }
            Action::Rmw(_) | Action::Fence(_) => false,
            Action::Process(_) => self.process_queued(number),
            Action::Over => true,
        };
        if settles {
            self.operations.settle(number);
        }
    }

    /// Once round the line: what finds no room waits, and so does all behind it on the same path. Calls no callback, since
    /// what that sends must not come between. Returns how many operations moved.
    pub(crate) fn queue_pending(&mut self, blocked: &mut Blocked) -> usize {
        if !self.operations.has_pending() {
            return 0;
        }
        let mut pending = self.operations.take_line();
        let mut moved = 0;
        pending.retain(|&number| {
            let Some(operation) = self.operations.get(number) else { return false };
            let path = operation.path;
            if path.is_some_and(|path| blocked.contains(&path)) {
                return true;
            }
            let queued = self.queue(number, blocked);
            moved += usize::from(queued != Queued::Nothing);
            if queued == Queued::All {
                self.all_queued(number);
                return false;
            }
            if let Some(path) = path {
                let _ = blocked.push(path);
            }
            true
        });
        self.operations.keep_line(pending);
        moved
    }

    /// Ends what can be ended of the operations that settle. Returns how many did.
    pub(crate) fn settle_operations(&mut self) -> usize {
        let at_once = if self.operations.has_ended() { self.tell_ended() } else { 0 };
        at_once + bits(self.operations.settling()).filter(|&number| self.settle(number)).count()
    }

    /// Calls the local completion if the payload is back, and the remote one if only that was missing. Returns whether the
    /// payload is.
    fn settle(&mut self, number: u8) -> bool {
        // A callback before this one may have freed the place, or filled it anew.
        if !self.operations.is_settling(number) {
            return false;
        }
        let Some(operation) = self.operations.get(number) else { return false };
        let buffer = match operation.lease.take().map(Lease::reclaim) {
            None => None,
            Some(Ok(buffer)) => Some(buffer),
            Some(Err(lease)) => {
                operation.lease = Some(lease);
                return false;
            }
        };
        let (target, local_done) = (operation.target, operation.local_done.take());
        let result = operation.result;
        let mut remote_done = RemoteDone::Nobody;
        if operation.awaits.is_some() {
            self.operations.has_settled(number);
        } else {
            remote_done = operation.remote_done.take();
            self.free_operation(number);
        }
        if let Some(done) = local_done {
            (done.call)(self, Completion { target, buffer, result: sent(result), cookie: done.cookie });
        }
        self.tell(target, remote_done, result);
        true
    }

    /// The target's answer to an operation: its end there. A local completion that is still to come follows.
    pub(crate) fn answered(&mut self, number: u8, result: Result<(), OperationError>) {
        let Some(operation) = self.operations.get(number) else { return };
        operation.awaits = Awaits::Nobody;
        operation.result = result;
        let (target, remote_done) = (operation.target, operation.remote_done.take());
        if !self.operations.is_settling(number) {
            self.free_operation(number);
        }
        self.tell(target, remote_done, result);
    }

    /// Lets go of an operation. Its place goes to the one that waits longest for any.
    fn free_operation(&mut self, number: u8) {
        self.operations.free(number);
        if !self.operations.waiting().is_empty() {
            self.admit(number);
        }
    }

    fn tell(&mut self, target: Endpoint, remote_done: RemoteDone<P>, result: Result<(), OperationError>) {
        match remote_done {
            RemoteDone::Nobody => {}
            RemoteDone::Done(done) => {
                let completion = Completion { target, buffer: None, result, cookie: done.cookie };
                (done.call)(self, completion);
            }
            RemoteDone::Fetched(done, value) => {
                let result = result.map(|()| value);
                (done.call)(self, Fetched { target, result, cookie: done.cookie });
            }
        }
    }

    /// Gives an operation up: it has no packets any more and no answer comes; the next look at those that settle tells.
    pub(crate) fn give_up(&mut self, number: u8, error: OperationError) {
        let Some(operation) = self.operations.get(number) else { return };
        operation.queued = true;
        operation.awaits = Awaits::Nobody;
        operation.result = Err(error);
        let mut part = None;
        let lent = match &mut operation.action {
            Action::Send(state) => [state.give_up(), None],
            Action::Process(state) => {
                part = state.part();
                state.give_up()
            }
            action => {
                *action = Action::Over;
                [None; 2]
            }
        };
        for region in lent.into_iter().flatten() {
            self.port.deregister(region);
        }
        self.operations.give_up(number);
        self.questions.let_go(number);
        self.end_part(part, Err(error));
    }

    /// The operation at a place that a context's answer names, if it waits for one of `origin`.
    pub(crate) fn awaited(&mut self, origin: Endpoint, number: u8) -> Option<&mut Operation<P>> {
        let operation = self.operations.get(number)?;
        let awaits = operation.awaits.is_of_context();
        (operation.target == origin && operation.queued && awaits).then_some(operation)
    }

    /// A request of an operation has ended at the target's message unit.
    pub(crate) fn request_ended(&mut self, completed: Completed) {
        let number = (completed.message as usize % REQUESTS) as u8;
        let Some(operation) = self.operations.get(number) else { return };
        // One that was given up may have left its place to another.
        let message = message_number(operation.order, number.into());
        if operation.awaits != Awaits::Unit || message != completed.message {
            return;
        }
        if let Ok(old) = completed.result {
            operation.remote_done.fetched(old);
        }
        let result = completed.result.map(drop).map_err(OperationError::Region);
        self.answered(number, result);
    }
}

impl<P: Port> Active<P> {
    /// Lets an object wait for a place.
    pub(crate) fn wait_for_place(&mut self, memory: &'static ObjectMemory<P>) {
        self.operations.wait(&memory.0);
        // Nothing quick may overtake it.
        self.transport.forget_route();
    }

    /// Gives a place that is free to the object that waits longest.
    #[cold]
    #[inline(never)]
    pub(crate) fn admit(&mut self, number: u8) {
        let Some(memory) = self.operations.next_waiting() else { return };
        self.operations.lend(number, memory.resume());
        let Some(operation) = self.operations.get(number) else { return };
        let (path, target, order) = (operation.path, operation.target, operation.order);
        let fence = matches!(operation.action, Action::Fence(_));
        if operation.queued {
            // It was carried out when it was begun.
            self.operations.settle(number);
            self.note_work();
        } else if !fence && let Some(error) = self.gone_home(target) {
            self.give_up(number, error);
            self.spoil_fences(order, target, error);
            self.note_work();
        } else {
            self.launch(number, path);
        }
    }
}
