//! The origin's side: what it does itself, and the chunks that it queues (SPEC L-1, L-3).

use super::arrival::add_chunk;
use crate::acks::named;
use crate::balance::Operand;
use crate::balance::arithmetic;
use crate::balance::arithmetic::{Source, Sources, Steps};
use crate::balance::chunk::{Instruction, LentChunk};
use crate::balance::recipe::SubOperations;
use crate::balance::state::{Bounds, ProcessRequest, ProcessState};
use crate::context::terms::{Here, Terms};
use crate::context::{Active, Operation, Process};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::error::{OperationError, SendError};
use crate::operation::{Action, Awaits, bits, message_number};
use crate::packet::{Envelope, Kind};
use crate::region::{RegionFault, Rights};
use crate::transport::Queued;
use core::ops::Range;
use rings::shared::Shared;
use zerocopy::IntoBytes;

/// Bytes that are added in place by one advance at most.
const PLACED_AT_ONCE: u32 = 64 << 10;

/// A message from `start` on, and its operand from `at` bytes on.
fn sources<'a>(memory: &'a Shared, start: usize, operand: Option<&'a Operand>, at: u32) -> Sources<'a> {
    let operand = operand.map(|operand| Source::Shared(&operand.memory, operand.start + at as usize));
    Sources { message: Source::Shared(memory, start), operand }
}

impl<P: Port> Active<P> {
    /// Processes a message into a region of another task, some of it here and the rest there. It is ordered on its path as
    /// sends are, and [`fence`](Self::fence)s cover it. No callback is called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or what is wrong with it:
    /// [`SendError::Range`] if `range` is not whole elements inside the memory, [`SendError::Region`] with
    /// [`RegionFault::Unaligned`] if they would not be aligned in the region; [`SendError::Operand`] and
    /// [`SendError::SubOperation`] if what the recipe combines is not there.
    pub fn process(&mut self, process: Process<P>) -> Result<(), SendError> {
        self.process_on(process, Here(None))
    }

    pub(crate) fn process_on<T: Terms<P>>(&mut self, process: Process<P>, terms: T) -> Result<(), SendError> {
        let Process {
            target,
            region,
            offset,
            memory,
            range,
            operand,
            recipe,
            split,
            local_done,
            remote_done,
        } = process;
        let path = terms.path(self, target)?;
        let size = recipe.element().bytes();
        let inside = range.start <= range.end && range.end <= memory.len();
        let len = range.end.wrapping_sub(range.start);
        if !inside || !len.is_multiple_of(size) {
            return Err(SendError::Range);
        }
        let reaches =
            |operand: &Operand| operand.start.checked_add(len).is_some_and(|end| end <= operand.memory.len());
        if operand.is_some() != recipe.has_operand() || !operand.as_ref().is_none_or(reaches) {
            return Err(SendError::Operand);
        }
        self.processing.functions.of(&recipe).map_err(SendError::SubOperation)?;
        let total = u32::try_from(len).map_err(|_| SendError::TooLong)?;
        region.check(target.task(), offset, total).map_err(SendError::Region)?;
        if !(offset as usize).is_multiple_of(size) {
            return Err(SendError::Region(RegionFault::Unaligned));
        }
        let room = terms.room(&self.operations)?;
        let message = ProcessRequest { region: region.id, offset, start: range.start, total, recipe, split };
        let state = ProcessState::new(message, memory, operand);
        let operation = Operation {
            path: Some(path),
            target,
            order: self.transport.next_order(),
            queued: false,
            awaits: Awaits::Context,
            result: Ok(()),
            lease: None,
            local_done,
            remote_done: remote_done.into(),
            action: Action::Process(state),
        };
        T::begin(self, room, operation);
        Ok(())
    }

    /// Goes on with what of a message is to be done here, and queues what is left to its target.
    pub(crate) fn queue_process(&mut self, number: u8) -> Queued {
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let (target, order, told) = (operation.target, operation.order, operation.remote_done.is_some());
        let message = message_number(order, number.into());
        let (Some(path), Action::Process(_)) = (operation.path, &operation.action) else {
            return Queued::All;
        };
        if operation.awaits == Awaits::Other {
            return Queued::All;
        }
        // The state is taken out for as long as the rest of the context has a part in it.
        let Action::Process(mut state) = core::mem::replace(&mut operation.action, Action::Over) else {
            return Queued::All;
        };
        let queued = match self.find_bounds(&mut state, path, (target, order)) {
            Some(mut bounds) => {
                let told = told
                    || state
                        .part()
                        .and_then(|part| self.part(part))
                        .is_some_and(|part| part.remote_done.is_some());
                // Within the node what is added here waits for what is on its way, and memory is lent.
                state.set_answered(told || matches!(path, Path::Local(_)));
                let queued = self.queue_chunks(&mut state, &mut bounds, path, target, message);
                state.goes_by(bounds);
                queued
            }
            None => Queued::Nothing,
        };
        if let Some(operation) = self.operations.get(number) {
            operation.action = Action::Process(state);
        }
        queued
    }

    fn queue_chunks(
        &mut self,
        state: &mut ProcessState,
        bounds: &mut Bounds,
        path: Path,
        target: Endpoint,
        message: u32,
    ) -> Queued {
        let placed = bounds.adds_here();
        let ProcessRequest { total, recipe, .. } = *state.message();
        // Of what is lent nothing is in the packet, neither of the message nor of its operand.
        let lent = if state.lent()[0].is_some() { SubOperations::COMBINE } else { SubOperations::empty() };
        let chunk = self.chunk_bytes(&recipe, bounds.others() | lent);
        let mut some = false;
        loop {
            let places = placed && !bounds.front(chunk).is_empty();
            let piece = bounds.behind(total, chunk);
            let last = piece.end == total && (placed || bounds.has_no_front());
            // The target's answer ends the operation: what asks for it goes when there is nothing more to do here.
            let goes = !last || !places;
            if goes && !piece.is_empty() {
                if !self.push_chunk(state, (bounds.others(), last), piece.clone(), path, target, message) {
                    // There may be something to do here meanwhile.
                    let done = places && self.place_some(state, bounds, target);
                    return Queued::stopped(some || done);
                }
                bounds.behind_done(piece.end);
                some = true;
            } else if places {
                some |= self.place_some(state, bounds, target);
                if !bounds.front(chunk).is_empty() {
                    return Queued::stopped(some);
                }
            } else {
                break;
            }
        }
        if placed {
            return Queued::All;
        }
        let chunk = self.chunk_bytes(&recipe, bounds.first());
        loop {
            let piece = bounds.front(chunk);
            if piece.is_empty() {
                return Queued::All;
            }
            let last = bounds.ends_front(piece.end);
            if !self.push_chunk(state, (bounds.first(), last), piece.clone(), path, target, message) {
                return Queued::stopped(some);
            }
            bounds.front_done(piece.end);
            some = true;
        }
    }

    /// Adds here what is to be added here, up to a limit; consecutive chunks at once. Returns whether there was any.
    fn place_some(&mut self, state: &mut ProcessState, bounds: &mut Bounds, target: Endpoint) -> bool {
        let piece = bounds.front(PLACED_AT_ONCE);
        let (at, len) = (piece.start, piece.end - piece.start);
        let Some(memory) = state.memory().filter(|_| len > 0) else { return false };
        let started = self.port.now_ns();
        let ProcessRequest { region, offset, start, total, recipe, .. } = state.message();
        let sources = sources(memory, start + at as usize, state.operand(), at);
        let steps = Steps { recipe, steps: bounds.first(), functions: &self.processing.functions };
        let place = (*offset, at, *total);
        let placed = self.port.reach(target, *region, Rights::UPDATE, |region| {
            add_chunk::<P>(region, steps, sources, len as usize, place)
        });
        if let Err(fault) = placed.flatten() {
            state.note_fault(fault);
        }
        self.note_processing(started);
        self.transport.note_placed(len.into());
        bounds.front_done(piece.end);
        true
    }

    /// Queues a chunk with which `steps` were done here. Returns whether there was room.
    fn push_chunk(
        &mut self,
        state: &ProcessState,
        (steps, last): (SubOperations, bool),
        piece: Range<u32>,
        path: Path,
        target: Endpoint,
        message: u32,
    ) -> bool {
        let Some(memory) = state.memory() else { return true };
        let ProcessRequest { region, offset, start, total, recipe, .. } = *state.message();
        let lent = if steps.is_empty() { state.lent() } else { [None; 2] };
        let instruction = Instruction {
            region,
            offset,
            recipe,
            left: recipe.sub_operations().difference(steps),
            wanted: state.wanted(),
            last: last && state.is_answered(),
            lent: lent[0].is_some(),
        };
        let (origin, offset) = (self.transport.me(), piece.start);
        let envelope = Envelope { kind: Kind::Chunk, dispatch: 0, origin, target, message, offset, total };
        let header = instruction.encode();
        let (start, len) = (start + piece.start as usize, piece.end - piece.start);
        let lend =
            |region, start: usize| LentChunk { region, offset: (start as u32).into(), len: len.into() };
        let pushed = match (lent, state.operand()) {
            ([Some(message), Some(other)], Some(operand)) => {
                let lent = [lend(message, start), lend(other, operand.start + piece.start as usize)];
                self.port.push_bcopy(path, &envelope, header.as_bytes(), lent.as_bytes())
            }
            ([Some(message), _], _) => {
                self.port.push_bcopy(path, &envelope, header.as_bytes(), lend(message, start).as_bytes())
            }
            _ => {
                let started = self.port.now_ns();
                let sources = sources(memory, start, state.operand(), piece.start);
                let work = Steps { recipe: &recipe, steps, functions: &self.processing.functions };
                let (len, bytes) = (len as usize, recipe.wire_bytes(len as usize, steps));
                let pushed = self.port.push_packed(path, &envelope, header.as_bytes(), bytes, |into| {
                    // It was seen to lie inside.
                    let _ = arithmetic::prepare(work, sources, len, into);
                });
                if !steps.is_empty() {
                    self.note_processing(started);
                }
                pushed
            }
        };
        pushed.is_ok()
    }

    /// The target has all of a message, or refused it.
    pub(crate) fn processed(&mut self, origin: Endpoint, number: u8, result: Result<(), RegionFault>) {
        let state = match self.awaited(origin, number).map(|operation| &mut operation.action) {
            Some(Action::Process(state)) => state,
            // Of a put with signal.
            Some(Action::Over) if result.is_err() => {
                return self.answered(number, result.map_err(OperationError::Region));
            }
            _ => return self.transport.protocol_error(),
        };
        let result = result.and(state.fault().map_or(Ok(()), Err));
        let (lent, part) = (state.give_up(), state.part());
        self.end_part(part, result.map_err(OperationError::Region));
        for region in lent.into_iter().flatten() {
            self.port.deregister(region);
        }
        if lent[0].is_some() {
            self.operations.settle(number);
        }
        self.answered(number, result.map_err(OperationError::Region));
    }

    /// The last chunk of a message is queued. Returns whether its memory is no longer read; that of one that another has taken is
    /// once that is sent.
    pub(crate) fn process_queued(&mut self, number: u8) -> bool {
        let Some(operation) = self.operations.get(number) else { return false };
        let Action::Process(state) = &mut operation.action else { return false };
        if operation.awaits == Awaits::Other {
            return state.memory().is_none();
        }
        let (part, ended) = (state.part(), !state.awaits() || !state.is_answered());
        let result = state.fault().map_or(Ok(()), |fault| Err(OperationError::Region(fault)));
        let sent = state.all_queued();
        if ended {
            (operation.awaits, operation.result) = (Awaits::Nobody, result);
            self.end_part(part, result);
        } else if sent && let Some(part) = part {
            self.part_is_sent(part);
        }
        sent
    }

    /// The operation at a place that another has taken, if it is still that.
    fn part(&mut self, (number, order): (u8, u64)) -> Option<&mut Operation<P>> {
        let operation = self.operations.get(number)?;
        (operation.order == order && operation.awaits == Awaits::Other).then_some(operation)
    }

    /// The memory of an operation that another has taken is no longer read.
    pub(crate) fn part_is_sent(&mut self, part: (u8, u64)) {
        let Some(operation) = self.part(part) else { return };
        if let Action::Process(state) = &mut operation.action {
            state.give_up();
        }
        if operation.queued {
            self.operations.settle(part.0);
        }
    }

    /// Ends the operation that another, which has ended so, had taken; the next look at those that settle tells.
    pub(crate) fn end_part(&mut self, part: Option<(u8, u64)>, result: Result<(), OperationError>) {
        let Some(part) = part else { return };
        let Some(operation) = self.part(part) else { return };
        (operation.awaits, operation.result) = (Awaits::Nobody, result);
        // With its memory. One that still stands in the line settles when it leaves that.
        operation.action = Action::Over;
        if operation.queued {
            self.operations.settle(part.0);
        }
    }

    /// A target's refusals.
    pub(crate) fn refusals_arrived(&mut self, envelope: &Envelope, data: &[u8]) {
        let Some(fault) = RegionFault::from_byte(envelope.dispatch) else {
            self.transport.protocol_error();
            return;
        };
        for number in bits(named(data).unwrap_or_default()) {
            self.processed(envelope.origin, number, Err(fault));
        }
    }
}
