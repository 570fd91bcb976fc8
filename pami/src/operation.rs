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
use crate::region::RegionFault;
use crate::send::SendState;
use heapless::Vec;
use rings::buffer::{Buffer, Lease};

/// Operations of one context that can be under way at once: sends, puts, gets, updates, fences
/// and messages to be processed.
pub const OPERATIONS: usize = 64;

/// Paths that had no room in this pass; one for each operation or reception at most.
pub(crate) type Blocked = Vec<Path, OPERATIONS>;

const _: () = assert!(OPERATIONS <= u64::BITS as usize, "one bit for each operation");

/// What an operation does.
pub(crate) enum Action {
    Send(SendState),
    Put(PutState),
    Get(GetState),
    Fetch(FetchState),
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
    pub(crate) remote_done: RemoteDone<P>,
    pub(crate) action: Action,
}

/// An operation whose only packet is queued.
pub(crate) struct Sent<P: Port> {
    pub(crate) path: Path,
    pub(crate) target: Endpoint,
    pub(crate) order: u64,
    pub(crate) awaits: bool,
    pub(crate) lease: Option<Lease>,
    pub(crate) local_done: Option<Done<P>>,
    pub(crate) remote_done: RemoteDone<P>,
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
    /// Over, if there is none or it is lent.
    own: Operation<P>,
    /// The caller's memory, if the operation lies there (SPEC M-3).
    lent: Option<Loan<P>>,
    /// One that was carried out at once, and is no matter of this place otherwise.
    ended: Ended<P>,
}

impl<P: Port> Place<P> {
    pub(crate) fn new() -> Self {
        // Whose it is nobody asks while it is in no use.
        let target = Endpoint::from_bits(0);
        let ended =
            Ended { target, result: Ok(()), buffer: None, local_done: None, remote_done: RemoteDone::Nobody };
        Self { own: Operation::over(target), lent: None, ended }
    }

    /// The operation at a place that is in use.
    #[inline]
    fn see(&self) -> &Operation<P> {
        self.lent.as_ref().and_then(|loan| loan.as_ref()).unwrap_or(&self.own)
    }

    /// The same.
    #[inline]
    fn get(&mut self) -> &mut Operation<P> {
        if self.lent.is_some() { self.get_lent() } else { &mut self.own }
    }

    /// Off the way of those that lie in places of their own.
    #[cold]
    #[inline(never)]
    fn get_lent(&mut self) -> &mut Operation<P> {
        self.lent.as_mut().and_then(|loan| loan.as_mut()).unwrap_or(&mut self.own)
    }
}

/// Who is told of an operation's end at the target.
pub(crate) enum RemoteDone<P: Port> {
    Nobody,
    Done(Done<P>),
    /// And what the word was.
    Fetched(OnFetched<P>, u64),
}

impl<P: Port> From<Option<Done<P>>> for RemoteDone<P> {
    #[inline]
    fn from(done: Option<Done<P>>) -> Self {
        done.map_or(Self::Nobody, Self::Done)
    }
}

impl<P: Port> RemoteDone<P> {
    #[inline]
    pub(crate) fn is_some(&self) -> bool {
        !matches!(self, Self::Nobody)
    }

    /// Notes what the word was.
    pub(crate) fn fetched(&mut self, old: u64) {
        if let Self::Fetched(_, value) = self {
            *value = old;
        }
    }
}

impl<P: Port> Clone for RemoteDone<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P: Port> Copy for RemoteDone<P> {}

/// An operation that was carried out at once: what is left to tell. It is written field by field, where it lies: to build it
/// elsewhere and move it costs as much as to carry it out.
struct Ended<P: Port> {
    target: Endpoint,
    result: Result<(), OperationError>,
    buffer: Option<Buffer>,
    local_done: Option<Done<P>>,
    remote_done: RemoteDone<P>,
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
    /// How many were carried out at once and not told of, and where the oldest of them is: as many as there are places.
    ended: [usize; 2],
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
        Self {
            places,
            used: 0,
            line: Vec::new(),
            settling: 0,
            fences: 0,
            asking: 0,
            waiting: Waiting::new(),
            ended: [0; 2],
        }
    }

    pub(crate) fn into_places(self) -> &'static mut [Place<P>] {
        self.places
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used | self.ended[0] as u64 == 0
    }

    /// Whether one more that is carried out at once can be told of.
    #[inline]
    pub(crate) fn may_end_at_once(&self) -> bool {
        self.ended[0] < self.places.len()
    }

    /// Where the next one of those is noted, which there is room for.
    #[inline(always)]
    fn end_next(&mut self) -> Option<&mut Ended<P>> {
        let [number, oldest] = self.ended;
        self.ended[0] = number + 1;
        let at = oldest + number;
        let at = if at < self.places.len() { at } else { at - self.places.len() };
        self.places.get_mut(at).map(|place| &mut place.ended)
    }

    /// The oldest of those, if there is one; the next is the oldest then.
    fn next_ended(&mut self) -> Option<&mut Ended<P>> {
        let [number, oldest] = self.ended;
        let left = number.checked_sub(1)?;
        self.ended = [left, if oldest + 1 < self.places.len() { oldest + 1 } else { 0 }];
        self.places.get_mut(oldest).map(|place| &mut place.ended)
    }

    /// Whether what goes to `target` now has nothing in front of it that waits.
    #[inline]
    pub(crate) fn lets_pass(&self) -> bool {
        self.line.is_empty() && self.waiting.is_empty() && self.asking == 0
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
    fn is_used(&self, number: u8) -> bool {
        self.used.checked_shr(number.into()).unwrap_or(0) & 1 == 1
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u8) -> Option<&mut Operation<P>> {
        if !self.is_used(number) {
            return None;
        }
        self.places.get_mut(usize::from(number)).map(Place::get)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation<P>> {
        bits(self.used).filter_map(|number| self.see(number))
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
        if !self.is_used(number) {
            return None;
        }
        self.places.get(usize::from(number)).map(Place::see)
    }

    /// Builds an operation in a free place, where it is compiled: to move it there costs as much as to carry a short put out.
    #[inline(always)]
    pub(crate) fn put(&mut self, number: u8, operation: Operation<P>) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.own = operation;
        }
        self.used |= 1 << number;
    }

    /// Notes one whose only packet is queued in a free place, with nothing to do but to wait and to tell. It is written field
    /// by field, where it lies: most of an operation never is.
    #[inline(always)]
    pub(crate) fn note_sent(&mut self, number: u8, sent: Sent<P>) {
        self.used |= 1 << number;
        let Sent { path, target, order, awaits, lease, local_done, remote_done } = sent;
        if !awaits || local_done.is_some() || lease.is_some() {
            self.settling |= 1 << number;
        }
        let operation = self.places.get_mut(usize::from(number)).map(|place| &mut place.own);
        let Some(operation) = operation else { return };
        operation.path = Some(path);
        operation.target = target;
        operation.order = order;
        operation.queued = true;
        operation.awaits = awaits;
        operation.result = Ok(());
        operation.lease = lease;
        operation.local_done = local_done;
        operation.remote_done = remote_done;
    }

    fn free(&mut self, number: u8) {
        let bit = 1 << number;
        self.used &= !bit;
        self.settling &= !bit;
        self.fences &= !bit;
        self.asking &= !bit;
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            if let Some(mut loan) = place.lent.take() {
                *loan = None;
            } else {
                (place.own.action, place.own.lease) = (Action::Over, None);
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

/// What the local completion is told: what the target's unit refused was sent all the same.
fn sent(result: Result<(), OperationError>) -> Result<(), OperationError> {
    match result {
        Err(OperationError::Region(_)) => Ok(()),
        other => other,
    }
}

impl<P: Port> Operation<P> {
    /// One that nothing is left of.
    fn over(target: Endpoint) -> Self {
        Self {
            path: None,
            target,
            order: 0,
            queued: true,
            awaits: false,
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: RemoteDone::Nobody,
            action: Action::Over,
        }
    }

    /// Who is to be told now, and nobody again.
    fn take_remote_done(&mut self) -> RemoteDone<P> {
        core::mem::replace(&mut self.remote_done, RemoteDone::Nobody)
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
        self.operations.put(number, operation);
        self.operations.settling |= 1 << number;
        self.stir();
    }

    /// Has the next advance tell of what was carried out at once. There is room for it.
    #[inline(always)]
    pub(crate) fn end_at_once(
        &mut self,
        target: Endpoint,
        outcome: Result<(), RegionFault>,
        buffer: Option<Buffer>,
        local_done: Option<Done<P>>,
        remote_done: RemoteDone<P>,
    ) {
        if let Some(ended) = self.operations.end_next() {
            ended.target = target;
            ended.result = outcome.map_err(OperationError::Region);
            ended.buffer = buffer;
            ended.local_done = local_done;
            ended.remote_done = remote_done;
        }
        self.stir();
    }

    /// Tells of what was carried out at once. What callbacks begin is told of by the next advance.
    #[inline(never)]
    fn tell_ended(&mut self) -> usize {
        let [number, _] = self.operations.ended;
        for _ in 0..number {
            let Some(ended) = self.operations.next_ended() else { break };
            let (target, result, remote_done) = (ended.target, ended.result, ended.remote_done);
            let (buffer, local_done) = (ended.buffer.take(), ended.local_done);
            if let Some(done) = local_done {
                let completion = Completion { target, buffer, result: sent(result), cookie: done.cookie };
                (done.call)(self, completion);
            }
            self.tell(target, remote_done, result);
        }
        number
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
        let at_once = if self.operations.ended[0] == 0 { 0 } else { self.tell_ended() };
        at_once + bits(self.operations.settling).filter(|&number| self.settle(number)).count()
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
        let result = operation.result;
        let mut remote_done = RemoteDone::Nobody;
        if operation.awaits {
            self.operations.settling &= !(1 << number);
        } else {
            remote_done = operation.take_remote_done();
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
        operation.awaits = false;
        operation.result = result;
        let (target, remote_done) = (operation.target, operation.take_remote_done());
        if self.operations.settling & 1 << number == 0 {
            self.free_operation(number);
        }
        self.tell(target, remote_done, result);
    }

    /// Lets go of an operation. Its place goes to the one that waits longest for any.
    fn free_operation(&mut self, number: u8) {
        self.operations.free(number);
        if !self.operations.waiting.is_empty() {
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
        let number = (completed.message as usize % REQUESTS) as u8;
        let Some(operation) = self.operations.get(number) else { return };
        // One that was given up may have left its place to another.
        if !operation.awaits || message_number(operation.order, number.into()) != completed.message {
            return;
        }
        if let Ok(old) = completed.result {
            operation.remote_done.fetched(old);
        }
        let result = completed.result.map(drop).map_err(OperationError::Region);
        self.answered(number, result);
    }
}
