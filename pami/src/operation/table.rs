//! The table of a context's operations, with the line of those that have packets to queue and the sets of those that settle,
//! fence or ask.
//!
//! It is no [`SlotTable`](rings::slot_table::SlotTable). What that takes in it takes whole, and an operation is over 300 bytes of
//! which most sends write a few where an older one lay; and which places are free is one of several sets over the same numbers,
//! a word each, that are looked at together. Names need no generation: message numbers count operations.

use super::{Action, Ended, Operation, Sent, bits};
use crate::device::{OPERATIONS, Path};
use crate::endpoint::Endpoint;
use crate::object::{CallerMemory, Loan, WaitingLine};
use heapless::Vec;

/// What is known of the questions after one operation; of one that has ended or gone again since, nothing.
#[derive(Clone, Copy, Default)]
pub(crate) struct Watched {
    /// The end of the operation's number.
    pub(super) order: u32,
    /// The last question: no answer to an earlier one counts. There is none with number 0.
    pub(super) question: u32,
    /// Looks for an answer, in vain.
    pub(super) looks: u16,
}

impl Watched {
    /// The same, if it is of that operation.
    fn of(self, order: u64) -> Self {
        let order = order as u32;
        if self.order == order { self } else { Self { order, ..Self::default() } }
    }
}

/// One place for an operation; its size is what a context's memory is reckoned by.
pub(crate) struct OperationSlot<A: 'static> {
    /// Over, if there is none or it is lent.
    own: Operation<A>,
    /// The caller's memory, if the operation lies there (SPEC M-3).
    lent: Option<Loan<Operation<A>>>,
    /// One that was carried out at once, and is no matter of this place otherwise.
    ended: Ended<A>,
    watched: Watched,
}

impl<A: 'static> OperationSlot<A> {
    pub(crate) fn new() -> Self {
        // Whose it is nobody asks while it is in no use.
        let target = Endpoint::from_bits(0);
        let watched = Watched::default();
        Self { own: Operation::over(target), lent: None, ended: Ended::nothing(target), watched }
    }

    /// The operation at a place that is in use.
    #[inline]
    pub(crate) fn see(&self) -> &Operation<A> {
        self.lent.as_ref().and_then(|loan| loan.as_ref()).unwrap_or(&self.own)
    }

    /// The same.
    #[inline]
    pub(crate) fn get(&mut self) -> &mut Operation<A> {
        if self.lent.is_some() { self.get_lent() } else { &mut self.own }
    }

    /// Off the way of those that lie in places of their own.
    #[cold]
    #[inline(never)]
    pub(crate) fn get_lent(&mut self) -> &mut Operation<A> {
        self.lent.as_mut().and_then(|loan| loan.as_mut()).unwrap_or(&mut self.own)
    }
}

/// Room for the end of one more operation that is carried out at once.
pub(crate) struct NextEnd<'a, A: 'static> {
    place: &'a mut Ended<A>,
    ended: &'a mut usize,
    number: usize,
}

impl<A: 'static> NextEnd<'_, A> {
    /// Notes what is to be told of it.
    #[inline(always)]
    pub(crate) fn note(self, ended: Ended<A>) {
        *self.place = ended;
        *self.ended = self.number;
    }
}

/// The operations of one context.
pub(crate) struct Operations<A: 'static> {
    places: &'static mut [OperationSlot<A>],
    /// Bit set of places in use.
    used: u64,
    /// Those with packets to queue, oldest first.
    pending: Vec<u8, OPERATIONS>,
    /// Bit set of those whose payload is on its way back, or whose end only has to be told.
    settling: u64,
    /// Bit set of fences that wait for answers or for older operations.
    fences: u64,
    /// Bit set of sends that ask to be let in ([`crate::admission`]) and are not known to be.
    asking: u64,
    /// Those in their callers' memory that found no place. While there are any, no place is free.
    waiting: WaitingLine<Operation<A>>,
    /// Those that were carried out at once have their ends in the places from the first of these on, up to the second; what lies in
    /// front was told since all were. Both are 0 while there are none.
    told: usize,
    ended: usize,
}

impl<A: 'static> Operations<A> {
    /// Takes at most [`OPERATIONS`] places.
    pub(crate) fn new(places: &'static mut [OperationSlot<A>]) -> Self {
        Self {
            places,
            used: 0,
            pending: Vec::new(),
            settling: 0,
            fences: 0,
            asking: 0,
            waiting: WaitingLine::EMPTY,
            told: 0,
            ended: 0,
        }
    }

    pub(crate) fn into_places(self) -> &'static mut [OperationSlot<A>] {
        self.places
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.used | self.ended as u64 == 0
    }

    /// Room for the end of one more that is carried out at once, if it is there at once.
    #[inline(always)]
    pub(crate) fn next_end(&mut self) -> Option<NextEnd<'_, A>> {
        let Self { places, ended, .. } = self;
        let number = *ended + 1;
        places.get_mut(*ended).map(|place| NextEnd { place: &mut place.ended, ended, number })
    }

    /// The same, if there is any: that of those that were told is made room first.
    pub(crate) fn make_end(&mut self) -> Option<NextEnd<'_, A>> {
        if self.ended == self.places.len() && self.told > 0 {
            for (to, from) in (self.told..self.ended).enumerate() {
                if let Ok([to, from]) = self.places.get_disjoint_mut([to, from]) {
                    core::mem::swap(&mut to.ended, &mut from.ended);
                }
            }
            (self.told, self.ended) = (0, self.ended_at_once());
        }
        self.next_end()
    }

    /// The oldest of those, if there is one; the next is the oldest then.
    pub(crate) fn next_ended(&mut self) -> Option<Ended<A>> {
        let oldest = self.places.get_mut(self.told).filter(|_| self.told < self.ended)?;
        let ended = core::mem::replace(&mut oldest.ended, Ended::nothing(oldest.own.target));
        self.told += 1;
        if self.told == self.ended {
            (self.told, self.ended) = (0, 0);
        }
        Some(ended)
    }

    /// Whether what goes to `target` now has nothing in front of it that waits.
    #[inline]
    pub(crate) fn lets_pass(&self) -> bool {
        self.pending.is_empty() && self.waiting.is_empty() && self.asking == 0
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    /// Whether any was carried out at once and not told of.
    #[inline]
    pub(crate) fn has_ended(&self) -> bool {
        self.ended != 0
    }

    /// How many were.
    #[inline]
    pub(crate) fn ended_at_once(&self) -> usize {
        self.ended - self.told
    }

    /// Whether any has packets to queue.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether any has packets to queue on `path`.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_pending_on(&self, path: Path) -> bool {
        let pending = self.pending.iter().filter_map(|&number| self.see(number));
        pending.into_iter().any(|operation| operation.path == Some(path))
    }

    /// It stands in line, behind all others that have packets to queue.
    #[inline]
    pub(crate) fn line_up(&mut self, number: u8) {
        // As long as there are operations.
        let _ = self.pending.push(number);
    }

    /// It stands in line again if it does not: where it was, once the line is [in order](Self::order_line).
    pub(crate) fn line_up_again(&mut self, number: u8) {
        if !self.pending.contains(&number) {
            self.line_up(number);
        }
    }

    /// Puts the line in the order in which they began.
    pub(crate) fn order_line(&mut self) {
        let mut line = core::mem::take(&mut self.pending);
        line.sort_unstable_by_key(|&number| self.see(number).map_or(0, |operation| operation.order));
        self.pending = line;
    }

    /// Those that stand in line, while they are gone through.
    #[inline]
    pub(crate) fn take_line(&mut self) -> Vec<u8, OPERATIONS> {
        core::mem::take(&mut self.pending)
    }

    /// What is left of it.
    #[inline]
    pub(crate) fn keep_line(&mut self, line: Vec<u8, OPERATIONS>) {
        self.pending = line;
    }

    /// Those whose payload is on its way back, or whose end only has to be told.
    #[inline]
    pub(crate) fn settling(&self) -> u64 {
        self.settling
    }

    #[inline]
    pub(crate) fn is_settling(&self, number: u8) -> bool {
        self.settling & 1 << number != 0
    }

    /// Its payload is on its way back, or its end only has to be told.
    #[inline]
    pub(crate) fn settle(&mut self, number: u8) {
        self.settling |= 1 << number;
    }

    /// Its payload is back; it waits for an answer.
    #[inline]
    pub(crate) fn has_settled(&mut self, number: u8) {
        self.settling &= !(1 << number);
    }

    /// It has no packets any more and asks nobody; its end only has to be told.
    pub(crate) fn give_up(&mut self, number: u8) {
        self.settle(number);
        self.let_in(number);
        self.pending.retain(|&other| other != number);
    }

    /// Fences that wait for answers or for older operations.
    #[inline]
    pub(crate) fn fences(&self) -> u64 {
        self.fences
    }

    /// It is a fence.
    #[inline]
    pub(crate) fn note_fence(&mut self, number: u8) {
        self.fences |= 1 << number;
    }

    /// Sends that ask to be let in and are not known to be.
    #[inline]
    pub(crate) fn asking(&self) -> u64 {
        self.asking
    }

    #[inline]
    pub(crate) fn is_asking(&self, number: u8) -> bool {
        self.asking >> number & 1 == 1
    }

    /// It asks to be let in ([`crate::admission`]).
    #[inline]
    pub(crate) fn ask(&mut self, number: u8) {
        self.asking |= 1 << number;
    }

    /// It is let in.
    pub(crate) fn let_in(&mut self, number: u8) {
        self.asking &= !(1 << number);
    }

    /// Those in their callers' memory that found no place.
    #[inline]
    pub(crate) fn waiting(&self) -> &WaitingLine<Operation<A>> {
        &self.waiting
    }

    /// Whether one of them is to go over `path`, or to many targets.
    pub(crate) fn waits_on(&self, path: Path) -> bool {
        self.waiting.any(|operation| operation.path.is_none_or(|way| way == path))
    }

    /// One more found no place.
    pub(crate) fn wait(&mut self, memory: &'static CallerMemory<Operation<A>>) {
        self.waiting.push(memory);
    }

    /// Takes the one that waits longest.
    pub(crate) fn next_waiting(&mut self) -> Option<&'static CallerMemory<Operation<A>>> {
        self.waiting.pop()
    }

    /// A place that is in no use.
    #[inline]
    pub(crate) fn free_place(&self) -> Option<u8> {
        let number = (!self.used).trailing_zeros() as usize;
        (number < self.places.len()).then_some(number as u8)
    }

    #[inline]
    pub(crate) fn is_used(&self, number: u8) -> bool {
        self.used.checked_shr(number.into()).unwrap_or(0) & 1 == 1
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u8) -> Option<&mut Operation<A>> {
        if !self.is_used(number) {
            return None;
        }
        self.places.get_mut(usize::from(number)).map(OperationSlot::get)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Operation<A>> {
        bits(self.used).filter_map(|number| self.see(number))
    }

    /// Whether a send to `target` asks to be let in and is not known to be.
    #[inline]
    pub(crate) fn asks(&self, target: Endpoint) -> bool {
        self.asking != 0 && self.any_asks(target)
    }

    /// Whether one does over this path: what goes over another one has no order with it.
    #[inline]
    pub(crate) fn asks_on(&self, path: Option<Path>, target: Endpoint) -> bool {
        self.asking != 0 && self.any_asks_on(path, target)
    }

    #[cold]
    #[inline(never)]
    fn any_asks_on(&self, path: Option<Path>, target: Endpoint) -> bool {
        let mut asking = bits(self.asking).filter_map(|number| self.see(number));
        asking.any(|asking| asking.target == target && asking.path == path)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn any_asks(&self, target: Endpoint) -> bool {
        bits(self.asking).any(|number| self.see(number).is_some_and(|asking| asking.target == target))
    }

    /// Whether one that asks to be let in, or is a fence of one target, is behind an older one to that target that asks.
    pub(crate) fn is_behind_asking(&self, number: u8) -> bool {
        let moves = (self.asking | self.fences) >> number & 1 == 1;
        let operation = self.see(number).filter(|operation| moves && operation.path.is_some());
        operation.is_some_and(|operation| self.asks_before(operation.order, operation.target))
    }

    /// Whether a message to `target` asks that is older than the operation with this number.
    fn asks_before(&self, order: u64, target: Endpoint) -> bool {
        let mut asking = bits(self.asking).filter_map(|number| self.see(number));
        asking.any(|asking| asking.target == target && asking.order < order)
    }

    /// What is known of the questions after the operation at a place.
    pub(crate) fn watched(&self, number: u8) -> Watched {
        let watched = self.places.get(usize::from(number)).map(|place| place.watched).unwrap_or_default();
        self.see(number).map_or(watched, |operation| watched.of(operation.order))
    }

    /// Notes what is known of them.
    pub(crate) fn watch(&mut self, number: u8, watched: Watched) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.watched = watched;
        }
    }

    #[inline]
    pub(crate) fn see(&self, number: u8) -> Option<&Operation<A>> {
        if !self.is_used(number) {
            return None;
        }
        self.places.get(usize::from(number)).map(OperationSlot::see)
    }

    /// Builds an operation in a free place, where it is compiled: to move it there costs as much as to carry a short put out.
    #[inline(always)]
    pub(crate) fn put(&mut self, number: u8, operation: Operation<A>) {
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.own = operation;
        }
        self.used |= 1 << number;
    }

    /// Notes one whose only packet is queued in a free place, with nothing to do but to wait and to tell. It is written field
    /// by field, where it lies: most of an operation never is.
    #[inline(always)]
    pub(crate) fn note_sent(&mut self, number: u8, sent: Sent<A>) {
        self.used |= 1 << number;
        let Sent { path, target, order, awaits, lease, local_done, remote_done } = sent;
        if !awaits.is_some() || local_done.is_some() || lease.is_some() {
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

    pub(crate) fn free(&mut self, number: u8) {
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
    pub(crate) fn lend(&mut self, number: u8, loan: Loan<Operation<A>>) {
        self.used |= 1 << number;
        if let Some(Operation { action: Action::Fence(_), .. }) = &*loan {
            self.fences |= 1 << number;
        }
        if let Some(place) = self.places.get_mut(usize::from(number)) {
            place.lent = Some(loan);
        }
    }
}
