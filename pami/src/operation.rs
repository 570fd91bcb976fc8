//! Operations under way: the table, the line of those that still have packets to queue, and their ends.
//!
//! An operation has a place from its start to its last callback. Its number in the order of the context's operations is
//! the message number of its packets, with the place in the lower bits, so an answer finds its operation at once.
//! Operations stand in line while packets are to be queued, and never overtake an earlier one on the same path.
//!
//! Nothing here knows of fences: a fence looks at the places when it needs to (SPEC F-4).

use crate::balance::ProcessState;
use crate::context::{Active, Done, OnFetched};
use crate::device::{Completed, Path, Port, REQUESTS};
use crate::dispatch::{Completion, Fetched};
use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::factory::object::{Loan, Waiting};
use crate::fence::FenceState;
use crate::fetch::FetchState;
use crate::get::GetState;
use crate::put::PutState;
use crate::send::SendState;
use heapless::Vec;
use rings::buffer::Lease;

/// Operations of one context that can be under way at once: sends, puts, gets, updates, fences
/// and messages to be processed.
pub const OPERATIONS: usize = 64;

/// Paths that had no room in this pass; one for each operation or reception at most.
pub(crate) type Blocked = Vec<Path, OPERATIONS>;

const _: () = assert!(OPERATIONS <= u64::BITS as usize, "one bit for each operation");

/// What an operation does.
pub(crate) enum Action<P: Port> {
    Send(SendState),
    Put(PutState),
    Get(GetState),
    Fetch(FetchState<P>),
    Fence(FenceState),
    Process(ProcessState),
    /// Nothing any more: only its callbacks are left.
    Over,
}

/// An operation's state.
pub(crate) struct Operation<P: Port> {
    /// Where its packets go; `None` for those with many targets.
    pub(crate) path: Option<Path>,
    pub(crate) target: Endpoint,
    /// Counts the context's operations.
    pub(crate) order: u64,
    /// Every packet is.
    pub(crate) queued: bool,
    /// The target's answer has not come.
    pub(crate) awaits: bool,
    pub(crate) result: Result<(), OperationError>,
    pub(crate) lease: Option<Lease>,
    pub(crate) local_done: Option<Done<P>>,
    pub(crate) remote_done: Option<Done<P>>,
    pub(crate) action: Action<P>,
}

/// How much of what an operation has to send found room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queued {
    All,
    Part,
    Nothing,
}

impl Queued {
    /// For an operation of one packet.
    pub(crate) fn whole(queued: bool) -> Self {
        if queued { Self::All } else { Self::Nothing }
    }

    /// For one that stopped, after some packets or none.
    pub(crate) fn stopped(some: bool) -> Self {
        if some { Self::Part } else { Self::Nothing }
    }
}

/// One place for an operation; its size is what a context's memory is reckoned by.
pub(crate) struct Place<P: Port> {
    own: Option<Operation<P>>,
    /// The caller's memory, if the operation lies there (SPEC M-3).
    lent: Option<Loan<P>>,
}

impl<P: Port> Place<P> {
    pub(crate) fn new() -> Self {
        Self { own: None, lent: None }
    }

    #[inline]
    fn get(&self) -> Option<&Operation<P>> {
        self.own.as_ref().or_else(|| self.lent.as_ref()?.as_ref())
    }

    #[inline]
    fn get_mut(&mut self) -> Option<&mut Operation<P>> {
        match &mut self.own {
            Some(operation) => Some(operation),
            None => lent(&mut self.lent),
        }
    }
}

/// Off the way of those that lie in places of their own.
#[cold]
#[inline(never)]
fn lent<P: Port>(loan: &mut Option<Loan<P>>) -> Option<&mut Operation<P>> {
    loan.as_mut()?.as_mut()
}

/// The operations of one context.
pub(crate) struct Operations<P: Port> {
    places: &'static mut [Place<P>],
    /// Bit set of places in use.
    used: u64,
    /// Those with packets to queue, oldest first.
    pub(crate) line: Vec<u8, OPERATIONS>,
    /// Bit set of those whose payload is on its way back, or whose end only has to be told.
    pub(crate) settling: u64,
    /// Bit set of fences that wait for answers or for older operations.
    pub(crate) fences: u64,
    /// Bit set of sends that ask to be let in ([`crate::admission`]) and are not known to be.
    pub(crate) asking: u64,
    /// Those in their callers' memory that found no place. While there are any, no place is free.
    pub(crate) waiting: Waiting<P>,
}

/// The message number of the operation or reception at place `index`.
#[inline]
pub(crate) fn message_number(order: u64, index: usize) -> u32 {
    (order as u32).wrapping_mul(REQUESTS as u32).wrapping_add(index as u32)
}

/// The numbers of the bits that are set.
pub(crate) fn bits(mut set: u64) -> impl Iterator<Item = u8> {
    core::iter::from_fn(move || {
        (set != 0).then(|| {
            let number = set.trailing_zeros() as u8;
            set &= set - 1;
            number
        })
    })
}

impl<P: Port> Operations<P> {
    /// Takes at most [`OPERATIONS`] places.
    pub(crate) fn new(places: &'static mut [Place<P>]) -> Self {
        Self { places, used: 0, line: Vec::new(), settling: 0, fences: 0, asking: 0, waiting: Waiting::new() }
    }

    pub(crate) fn into_places(self) -> &'static mut [Place<P>] {
        self.places
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// A place that is in no use.
    #[inline]
    pub(crate) fn free_place(&self) -> Option<u8> {
        let number = (!self.used).trailing_zeros() as usize;
        (number < self.places.len()).then_some(number as u8)
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u8) -> Option<&mut Operation<P>> {
        self.places.get_mut(usize::from(number))?.get_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation<P>> {
        self.places.iter().filter_map(Place::get)
    }

    /// Whether a send to `target` asks to be let in and is not known to be.
    #[inline]
    pub(crate) fn asks(&self, target: Endpoint) -> bool {
        self.asking != 0 && self.any_asks(target)
    }

    #[cold]
    #[inline(never)]
    fn any_asks(&self, target: Endpoint) -> bool {
        bits(self.asking).any(|number| self.see(number).is_some_and(|asking| asking.target == target))
    }

    #[inline]
    pub(crate) fn see(&self, number: u8) -> Option<&Operation<P>> {
        self.places.get(usize::from(number))?.get()
    }

    /// Builds an operation in a free place, where it is compiled: to move it there costs as much as to carry a short put out.
    #[inline(always)]
    pub(crate) fn put(&mut self, number: u8, operation: Operation<P>) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.own = Some(operation);
        }
        self.used |= 1 << number;
    }

    fn free(&mut self, number: u8) {
        let bit = 1 << number;
        self.used &= !bit;
        self.settling &= !bit;
        self.fences &= !bit;
        self.asking &= !bit;
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.own = None;
            if let Some(mut loan) = place.lent.take() {
                *loan = None;
            }
        }
    }

    /// Gives an operation in its caller's memory a place that is free.
    pub(crate) fn lend(&mut self, number: u8, loan: Loan<P>) {
        self.used |= 1 << number;
        if let Some(Operation { action: Action::Fence(_), .. }) = &*loan {
            self.fences |= 1 << number;
        }
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.lent = Some(loan);
        }
    }
}

/// The callback that tells of an operation's end at the target.
enum Ending<P: Port> {
    Done(Done<P>, Result<(), OperationError>),
    Fetched(OnFetched<P>, Result<u64, OperationError>),
}

impl<P: Port> Operation<P> {
    fn ending(&mut self) -> Option<Ending<P>> {
        if let Action::Fetch(FetchState { done, value, .. }) = &mut self.action {
            let value = self.result.map(|()| *value);
            return done.take().map(|done| Ending::Fetched(done, value));
        }
        self.remote_done.take().map(|done| Ending::Done(done, self.result))
    }
}

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
        self.stir();
        self.ask_if_needed(number);
        let waits = path.is_none_or(|path| self.is_in_line(path));
        if waits || self.queue(number, &Blocked::new()) != Queued::All {
            // As long as there are operations.
            let _ = self.operations.line.push(number);
        } else {
            self.all_queued(number);
        }
    }

    /// The same for a fence, which asks nobody to be let in.
    #[inline(never)]
    pub(crate) fn launch_fence(&mut self, number: u8, path: Option<Path>) {
        self.operations.fences |= 1 << number;
        self.stir();
        let waits = path.is_none_or(|path| self.is_in_line(path));
        if waits || self.queue_fence(number, &Blocked::new()) != Queued::All {
            // As long as there are operations.
            let _ = self.operations.line.push(number);
        } else if let Some(operation) = self.operations.get(number) {
            operation.queued = true;
        }
    }

    /// Gives an operation that was carried out at once a place, for its callbacks to be called by the next advance.
    #[inline(never)]
    pub(crate) fn begin_settled(&mut self, number: u8, operation: Operation<P>) {
        self.begin_over(number, operation);
    }

    /// The same for one that has nothing left but its callbacks.
    #[inline(always)]
    pub(crate) fn begin_over(&mut self, number: u8, operation: Operation<P>) {
        self.operations.put(number, operation);
        self.operations.settling |= 1 << number;
        self.stir();
    }

    /// Whether an earlier operation still has packets to queue on `path`.
    #[inline]
    pub(crate) fn is_in_line(&self, path: Path) -> bool {
        !self.operations.line.is_empty() && self.stands_in_line(path)
    }

    #[cold]
    #[inline(never)]
    fn stands_in_line(&self, path: Path) -> bool {
        let operation = |&number: &u8| self.operations.see(number);
        self.operations.line.iter().filter_map(operation).any(|operation| operation.path == Some(path))
    }

    /// Queues what has room of an operation's packets.
    fn queue(&mut self, number: u8, blocked: &Blocked) -> Queued {
        match self.operations.get(number).map(|operation| &operation.action) {
            Some(Action::Send(_)) => self.queue_send(number),
            Some(Action::Put(_)) => self.queue_put(number),
            Some(Action::Get(_)) => self.queue_get(number),
            Some(Action::Fetch(_)) => self.queue_fetch(number),
            Some(Action::Fence(_)) => self.queue_fence(number, blocked),
            Some(Action::Process(_)) => self.queue_process(number),
            Some(Action::Over) | None => Queued::All,
        }
    }

    /// The last packet of an operation is queued. Its payload is free as soon as nobody reads it any more, which the next
    /// pass over those that settle finds out; that of a rendezvous is until the target has pulled it.
    fn all_queued(&mut self, number: u8) {
        let asks = self.operations.asking >> number & 1 == 1;
        let Some(operation) = self.operations.get(number) else { return };
        operation.queued = true;
        let settles = match &mut operation.action {
            // It may have to go again.
            Action::Send(_) if asks => false,
            Action::Send(state) => state.all_queued(),
            Action::Put(_) => {
                // The operation itself counts as a reader while it holds the source.
                operation.action = Action::Over;
                true
            }
            Action::Get(_) => {
                operation.action = Action::Over;
                false
            }
            Action::Fetch(_) | Action::Fence(_) => false,
            Action::Process(state) => {
                if !state.awaits() {
                    operation.awaits = false;
                    operation.result =
                        state.fault().map_or(Ok(()), |fault| Err(OperationError::Region(fault)));
                }
                state.all_queued()
            }
            Action::Over => true,
        };
        if settles {
            self.operations.settling |= 1 << number;
        }
    }

    /// Once round the line: what finds no room waits, and so does all behind it on the same path. Calls no callback, since
    /// what that sends must not come between. Returns how many operations moved.
    pub(crate) fn queue_line(&mut self, blocked: &mut Blocked) -> usize {
        if self.operations.line.is_empty() {
            return 0;
        }
        let mut line = core::mem::take(&mut self.operations.line);
        let mut moved = 0;
        line.retain(|&number| {
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
        self.operations.line = line;
        moved
    }

    /// Ends what can be ended of the operations that settle. Returns how many did.
    pub(crate) fn settle_operations(&mut self) -> usize {
        bits(self.operations.settling).filter(|&number| self.settle(number)).count()
    }

    /// Calls the local completion if the payload is back, and the remote one if only that was missing. Returns whether the
    /// payload is.
    fn settle(&mut self, number: u8) -> bool {
        // A callback before this one may have freed the place, or filled it anew.
        if self.operations.settling & 1 << number == 0 {
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
        // What the target's unit refused was sent all the same.
        let sent = operation.result.or_else(|error| match error {
            OperationError::Region(_) => Ok(()),
            dead => Err(dead),
        });
        let mut ending = None;
        if operation.awaits {
            self.operations.settling &= !(1 << number);
        } else {
            ending = operation.ending();
            self.free_operation(number);
        }
        if let Some(done) = local_done {
            (done.call)(self, Completion { target, buffer, result: sent, cookie: done.cookie });
        }
        self.tell(target, ending);
        true
    }

    /// The target's answer to an operation: its end there. A local completion that is still to come follows.
    pub(crate) fn answered(&mut self, number: u8, result: Result<(), OperationError>) {
        let Some(operation) = self.operations.get(number) else { return };
        operation.awaits = false;
        operation.result = result;
        let (target, ending) = (operation.target, operation.ending());
        if self.operations.settling & 1 << number == 0 {
            self.free_operation(number);
        }
        self.tell(target, ending);
    }

    /// Lets go of an operation. Its place goes to the one that waits longest for any.
    fn free_operation(&mut self, number: u8) {
        self.operations.free(number);
        if !self.operations.waiting.is_empty() {
            self.admit(number);
        }
    }

    fn tell(&mut self, target: Endpoint, ending: Option<Ending<P>>) {
        match ending {
            None => {}
            Some(Ending::Done(done, result)) => {
                let completion = Completion { target, buffer: None, result, cookie: done.cookie };
                (done.call)(self, completion);
            }
            Some(Ending::Fetched(done, result)) => {
                (done.call)(self, Fetched { target, result, cookie: done.cookie });
            }
        }
    }

    /// Gives an operation up: it has no packets any more and no answer comes; the next pass over those that settle tells.
    pub(crate) fn give_up(&mut self, number: u8, error: OperationError) {
        let Some(operation) = self.operations.get(number) else { return };
        operation.queued = true;
        operation.awaits = false;
        operation.result = Err(error);
        match &mut operation.action {
            Action::Send(state) => {
                if let Some(region) = state.give_up() {
                    self.transport.port.deregister(region);
                }
            }
            Action::Process(state) => {
                if let Some(region) = state.give_up() {
                    self.transport.port.deregister(region);
                }
            }
            // Its callback is in it.
            Action::Fetch(_) => {}
            action => *action = Action::Over,
        }
        self.operations.settling |= 1 << number;
        self.operations.asking &= !(1 << number);
        self.operations.line.retain(|&other| other != number);
    }

    /// The operation at a place that an answer names, if it waits for one of `origin`.
    pub(crate) fn awaited(&mut self, origin: Endpoint, number: u8) -> Option<&mut Operation<P>> {
        let operation = self.operations.get(number)?;
        (operation.target == origin && operation.queued && operation.awaits).then_some(operation)
    }

    /// A request of an operation has ended at the target's message unit.
    pub(crate) fn request_ended(&mut self, completed: Completed) {
        let number = completed.message as usize % REQUESTS;
        let Some(operation) = self.operations.places.get_mut(number).and_then(Place::get_mut) else { return };
        // One that was given up may have left its place to another.
        if !operation.awaits || message_number(operation.order, number) != completed.message {
            return;
        }
        if let (Action::Fetch(state), Ok(old)) = (&mut operation.action, completed.result) {
            state.value = old;
        }
        let result = completed.result.map(drop).map_err(OperationError::Region);
        self.answered(number as u8, result);
    }
}
