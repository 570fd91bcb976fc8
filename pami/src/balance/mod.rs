//! Processing of messages, balanced between origin and target (SPEC L-1 to L-5, seed 004).
//!
//! ```text
//! origin                            target
//!   ASK-ADVICE  ------------------->  (if the split wants advice, and that at hand is too old)
//!          <-----------------------  ADVICE: sub-operations available, share of the last 10 ms idle
//!   CHUNK: sub-operations left ---->  does them with the chunk's elements, into the region
//!   ...                               ...
//!   last CHUNK  ------------------->
//!          <-----------------------  Ack, or REFUSED
//! ```
//!
//! A [`Process`] adds the elements of a message to those in a region of another task, scaled or with their bytes swapped before:
//! its [`Recipe`]. The origin cuts the message into chunks and decides for each which sub-operations it does itself; the
//! [`ChunkHeader`] names those that are left. Within a node it reaches the region's memory, and can do the addition too; and a
//! chunk of which it does nothing need not be copied: the target reads it where it lies. How the decision is made is the
//! [`Split`]'s matter; by advice, `limit` computes it.
//!
//! Results are the same bit for bit however a message was split (SPEC L-5), but for which NaN a NaN is. Elements are updated
//! atomically, so several tasks may add to the same ones at once. What one context adds to an element by several operations to
//! one endpoint is added in their order; puts and gets do not wait for that, but behind a completion or a fence.

mod advice;
mod arithmetic;
mod chunk;
mod limit;
mod recipe;
mod window;

pub(crate) use advice::Advices;
pub use advice::{ADVICE_NS, Advice, Rule};
pub use chunk::{CHUNK_BYTES, ChunkHeader};
pub use recipe::{Element, Factor, Foreign, Recipe, SubOperations};
pub use window::{WINDOW_NS, Window};

use crate::context::Active;
use crate::device::{Path, Port};
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::error::{OperationError, SendError};
use crate::operation::{Action, Operation, Queued, message_number};
use crate::packet::{Envelope, Kind};
use crate::region::{Memory, RegionFault, RegionHandle, RegionId, Rights};
use advice::Wanted;
use arithmetic::Source;
use chunk::{Instruction, LentChunk, is_piece};
use core::ops::Range;
use limit::{Plan, Way, Workloads};
use rings::shared::Shared;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of a message that are at least left to a target for them to be lent instead of copied.
const LEND_FROM: u32 = 512;
/// Bytes that are added in place by one advance at most.
const PLACED_AT_ONCE: u32 = 64 << 10;

/// Who does which sub-operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Split {
    /// The target does all.
    TargetOnly,
    /// The origin does all that it can: everything within a node; all but the addition over the torus.
    OriginOnly,
    /// The first rule that fits says; if none does, the target does all.
    Rules(&'static [Rule]),
    /// The target is asked, and who has less to do does more.
    #[default]
    Advice,
}

/// A message to be processed into a region.
pub struct Process<P: Port> {
    /// The endpoint whose context does the target's part; it is one of the task that the region belongs to.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::UPDATE`].
    pub region: RegionHandle,
    /// Where in the region the first element belongs, in bytes; a multiple of an element's size.
    pub offset: u32,
    /// Where the message is. It is read until the local completion, as it is then.
    pub memory: Shared,
    /// The message's bytes in it: whole elements.
    pub range: Range<usize>,
    /// What is done.
    pub recipe: Recipe,
    /// Who does it.
    pub split: Split,
    /// Called when the message's memory is no longer read.
    pub local_done: Option<Done<P>>,
    /// Called when the region has all of it, or it was refused. Without it a refusal is not told.
    pub remote_done: Option<Done<P>>,
}

/// What a context knows of processing.
pub(crate) struct Processing {
    /// What its client does for others.
    pub(crate) available: SubOperations,
    advices: Advices,
    /// Time spent on messages.
    spent: Window,
}

impl Processing {
    pub(crate) const fn new(available: SubOperations) -> Self {
        Self { available, advices: Advices::new(), spent: Window::new() }
    }
}

/// A message that is being processed.
pub(crate) struct ProcessState {
    region: RegionId,
    /// First byte in the region.
    offset: u32,
    /// `None` once it is no longer read.
    memory: Option<Shared>,
    start: usize,
    total: u32,
    recipe: Recipe,
    split: Split,
    plan: Option<Bounds>,
    /// Region that the target reads the message from.
    lent: Option<RegionId>,
    /// What went wrong here.
    fault: Option<RegionFault>,
}

/// A [`Plan`] in bytes, and how much of it is done.
#[derive(Clone, Copy)]
struct Bounds {
    first: SubOperations,
    others: SubOperations,
    /// Those in front of it are processed with `first`.
    limit: u32,
    /// Up to where those in front are done.
    front: u32,
    /// Up to where the others are; they go first, so that the target has something to do.
    behind: u32,
}

impl ProcessState {
    /// Bytes of the message that go, or went, to the target; before it is known, all.
    fn sent(&self) -> Range<u32> {
        match &self.plan {
            Some(plan) if plan.first.contains(SubOperations::ADD) => plan.limit..self.total,
            _ => 0..self.total,
        }
    }

    /// Whether bytes of it go to the target that are to be added to the same ones as `range` of `other`.
    fn meets(&self, other: &Self, range: Range<u32>) -> bool {
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

/// Adds what `source` has, `at` bytes into a message of `total`, to memory that is a region.
fn add_chunk(
    memory: &Memory,
    (recipe, steps): (&Recipe, SubOperations),
    source: Source<'_>,
    len: usize,
    (offset, at, total): (u32, u32, u32),
) -> Result<(), RegionFault> {
    let Memory::Shared(memory) = memory else { return Err(RegionFault::Rights) };
    // All of the message is looked at, so that every chunk of it fails if one does.
    let end = offset as usize + total as usize;
    if end > memory.len() {
        return Err(RegionFault::Bounds);
    }
    if end.next_multiple_of(size_of::<u64>()) > memory.len() {
        return Err(RegionFault::Unaligned);
    }
    Ok(arithmetic::add(recipe, steps, source, len, (memory, offset as usize + at as usize))?)
}

impl<P: Port> Active<P> {
    /// Processes a message into a region of another task, some of it here and the rest there. It is ordered on its path as
    /// sends are, and [`fence`](Self::fence)s cover it. No callback is called before the next advance.
    ///
    /// # Errors
    /// [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way, or what is wrong with it:
    /// [`SendError::Range`] if `range` is not whole elements inside the memory, [`SendError::Region`] with
    /// [`RegionFault::Unaligned`] if they would not be aligned in the region.
    pub fn process(&mut self, process: Process<P>) -> Result<(), SendError> {
        let Process { target, region, offset, memory, range, recipe, split, local_done, remote_done } =
            process;
        let path = self.path_to(target)?;
        let size = recipe.element().bytes();
        let inside = range.start <= range.end && range.end <= memory.len();
        let len = range.end.wrapping_sub(range.start);
        if !inside || !len.is_multiple_of(size) {
            return Err(SendError::Range);
        }
        let total = u32::try_from(len).map_err(|_| SendError::TooLong)?;
        region.check(target.task(), offset, total).map_err(SendError::Region)?;
        if !(offset as usize).is_multiple_of(size) {
            return Err(SendError::Region(RegionFault::Unaligned));
        }
        let number = self.operations.free_place().ok_or(SendError::Again)?;
        let state = ProcessState {
            region: region.id,
            offset,
            memory: Some(memory),
            start: range.start,
            total,
            recipe,
            split,
            plan: None,
            lent: None,
            fault: None,
        };
        let operation = Operation {
            path: Some(path),
            target,
            order: self.next_order(),
            queued: false,
            awaits: true,
            result: Ok(()),
            lease: None,
            local_done,
            remote_done,
            action: Action::Process(state),
        };
        self.begin(number, operation);
        Ok(())
    }

    /// Goes on with what of a message is to be done here, and queues what is left to its target.
    pub(crate) fn queue_process(&mut self, number: u8) -> Queued {
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let (target, order) = (operation.target, operation.order);
        let message = message_number(order, number.into());
        let (Some(path), Action::Process(_)) = (operation.path, &operation.action) else {
            return Queued::All;
        };
        // The state is taken out for as long as the rest of the context has a part in it.
        let Action::Process(mut state) = core::mem::replace(&mut operation.action, Action::Over) else {
            return Queued::All;
        };
        let queued = match self.find_bounds(&mut state, path, (target, order)) {
            Some(mut bounds) => {
                let queued = self.queue_chunks(&mut state, &mut bounds, path, target, message);
                state.plan = Some(bounds);
                queued
            }
            None => Queued::Nothing,
        };
        if let Some(operation) = self.operations.get(number) {
            operation.action = Action::Process(state);
        }
        queued
    }

    /// Bytes of a chunk's elements: as many as a packet has room for.
    fn chunk_bytes(&self) -> u32 {
        let room = self.port.mtu().saturating_sub(size_of::<ChunkHeader>());
        CHUNK_BYTES.min((room - room % 8) as u32)
    }

    /// Decides who does what; `None` while advice is missing.
    fn find_bounds(
        &mut self,
        state: &mut ProcessState,
        path: Path,
        (target, order): (Endpoint, u64),
    ) -> Option<Bounds> {
        if state.plan.is_some() {
            return state.plan;
        }
        let way = if matches!(path, Path::Local(_)) { Way::Local } else { Way::Torus };
        let (recipe, chunk) = (state.recipe, self.chunk_bytes());
        let chunks = state.total.div_ceil(chunk);
        let most = limit::most(&recipe, way);
        let at_target = Plan { first: SubOperations::empty(), limit: 0, others: SubOperations::empty() };
        let Plan { mut first, mut limit, others } = match state.split {
            Split::TargetOnly => at_target,
            Split::OriginOnly => Plan { first: most, limit: chunks, others: most },
            Split::Rules(rules) => {
                let fits = |rule: &&Rule| {
                    rule.element.is_none_or(|element| element == recipe.element())
                        && rule.from_bytes <= state.total
                };
                rules.iter().find(fits).map_or(at_target, |rule| Plan {
                    first: recipe.prefix(rule.origin).intersection(most),
                    limit: (u64::from(chunks) * u64::from(rule.chunks.min(1000)) / 1000) as u32,
                    ..at_target
                })
            }
            Split::Advice => match self.find_advice(path, target)? {
                Some(Advice { available, idle }) => {
                    let workloads = Workloads { origin: self.advice().idle, target: idle, available };
                    limit::balance(&recipe, way, &workloads, chunks)
                }
                None => at_target,
            },
        };
        if others.contains(SubOperations::ADD) {
            (first, limit) = (others, chunks);
        }
        let limit = limit.saturating_mul(chunk).min(state.total);
        // An element must not be added here before one that is on its way to the same place.
        let is_earlier = |operation: &Operation<P>| match &operation.action {
            Action::Process(other) => {
                (operation.target, operation.order < order) == (target, true) && other.meets(state, 0..limit)
            }
            _ => false,
        };
        if first.contains(SubOperations::ADD) && self.operations.iter().any(is_earlier) {
            first.remove(SubOperations::ADD);
        }
        if way == Way::Local
            && others.is_empty()
            && state.total - limit >= LEND_FROM
            && let Some(memory) = &state.memory
        {
            // Without a region it is copied.
            state.lent = self.port.register(Memory::Shared(memory.clone()), Rights::READ).ok();
        }
        Some(Bounds { first, others, limit, front: 0, behind: limit })
    }

    /// The target's advice: `None` while it is waited for, nothing in it if it does not come.
    fn find_advice(&mut self, path: Path, target: Endpoint) -> Option<Option<Advice>> {
        let now = self.port.now_ns();
        match self.processing.advices.look(target, now) {
            Wanted::Known(advice) => Some(Some(advice)),
            Wanted::None => Some(None),
            Wanted::Wait => None,
            Wanted::Ask => {
                self.ask_advice(path, target);
                None
            }
        }
    }

    fn queue_chunks(
        &mut self,
        state: &mut ProcessState,
        bounds: &mut Bounds,
        path: Path,
        target: Endpoint,
        message: u32,
    ) -> Queued {
        let placed = bounds.first.contains(SubOperations::ADD);
        let chunk = self.chunk_bytes();
        let mut some = false;
        while bounds.behind < state.total {
            let end = state.total.min(bounds.behind + chunk);
            let last = end == state.total && (placed || bounds.limit == 0);
            let piece = bounds.behind..end;
            if !self.push_chunk(state, (bounds.others, last), piece, path, target, message) {
                // There may be something to do here meanwhile.
                let done = placed && self.place_some(state, bounds, target);
                return Queued::stopped(some || done);
            }
            bounds.behind = end;
            some = true;
        }
        if placed {
            self.place_some(state, bounds, target);
            return if bounds.front < bounds.limit { Queued::stopped(true) } else { Queued::All };
        }
        while bounds.front < bounds.limit {
            let end = bounds.limit.min(bounds.front + chunk);
            let piece = bounds.front..end;
            if !self.push_chunk(state, (bounds.first, end == bounds.limit), piece, path, target, message) {
                return Queued::stopped(some);
            }
            bounds.front = end;
            some = true;
        }
        Queued::All
    }

    /// Adds here what is to be added here, up to a limit; consecutive chunks at once. Returns whether there was any.
    fn place_some(&mut self, state: &mut ProcessState, bounds: &mut Bounds, target: Endpoint) -> bool {
        let at = bounds.front;
        let len = (bounds.limit - at).min(PLACED_AT_ONCE);
        let Some(memory) = state.memory.as_ref().filter(|_| len > 0) else { return false };
        let started = self.port.now_ns();
        let source = Source::Shared(memory, state.start + at as usize);
        let (steps, place) = ((&state.recipe, bounds.first), (state.offset, at, state.total));
        let placed = self.port.reach(target, state.region, Rights::UPDATE, |region| {
            add_chunk(region, steps, source, len as usize, place)
        });
        if let Err(fault) = placed.flatten() {
            state.fault = Some(fault);
        }
        self.processing.spent.note(started, self.port.now_ns());
        self.counters.placed_bytes += u64::from(len);
        bounds.front += len;
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
        let Some(memory) = &state.memory else { return true };
        let lent = state.lent.filter(|_| steps.is_empty());
        let instruction = Instruction {
            region: state.region,
            offset: state.offset,
            recipe: state.recipe,
            left: state.recipe.sub_operations().difference(steps),
            last,
            lent: lent.is_some(),
        };
        let (origin, offset, total) = (self.me, piece.start, state.total);
        let envelope = Envelope { kind: Kind::Chunk, dispatch: 0, origin, target, message, offset, total };
        let header = instruction.encode();
        let (start, len) = (state.start + piece.start as usize, piece.end - piece.start);
        let pushed = match lent {
            Some(region) => {
                let lent = LentChunk { region, offset: (start as u32).into(), len: len.into() };
                self.port.push_copy(path, &envelope, header.as_bytes(), lent.as_bytes())
            }
            None => {
                let started = self.port.now_ns();
                let pushed =
                    self.port.push_filled(path, &envelope, header.as_bytes(), len as usize, |into| {
                        // It was seen to lie inside.
                        let _ = arithmetic::prepare(&state.recipe, steps, (memory, start), into);
                    });
                if !steps.is_empty() {
                    self.processing.spent.note(started, self.port.now_ns());
                }
                pushed
            }
        };
        pushed.is_ok()
    }

    /// A chunk arrives. Returns `false` if its message was refused and no place is free to say so.
    pub(crate) fn chunk_arrived(&mut self, envelope: &Envelope, header: &[u8], data: &[u8]) -> bool {
        let instruction = Instruction::decode(header);
        let lent = instruction.filter(|instruction| instruction.lent);
        let lent = lent.and_then(|_| LentChunk::read_from_bytes(data).ok());
        let len = lent.map_or(data.len(), |lent| lent.len.get() as usize);
        let Some(instruction) = instruction
            .filter(|instruction| instruction.lent == lent.is_some() && is_piece(envelope, instruction, len))
        else {
            self.counters.strays += 1;
            return true;
        };
        let started = self.port.now_ns();
        let added = self.add_arrived(envelope, &instruction, lent, data, len);
        self.processing.spent.note(started, self.port.now_ns());
        if added.is_ok() {
            self.counters.processed_bytes += len as u64;
        }
        match added {
            _ if !instruction.last => true,
            Ok(()) => {
                self.owe_ack(envelope.origin, envelope.message);
                true
            }
            Err(fault) => self.answer_with(envelope, Kind::Refused, fault as u8, 0),
        }
    }

    fn add_arrived(
        &mut self,
        envelope: &Envelope,
        instruction: &Instruction,
        lent: Option<LentChunk>,
        data: &[u8],
        len: usize,
    ) -> Result<(), RegionFault> {
        if !self.processing.available.contains(instruction.left) {
            return Err(RegionFault::Rights);
        }
        // A handle of its own: the region is not to be held while another is waited for.
        let from = match lent {
            Some(lent) => {
                Some((self.reach_shared(envelope.origin, lent.region)?, lent.offset.get() as usize))
            }
            None => None,
        };
        let source = match &from {
            Some((memory, offset)) => {
                if offset.checked_add(len).is_none_or(|end| end > memory.len()) {
                    return Err(RegionFault::Bounds);
                }
                Source::Shared(memory, *offset)
            }
            None => Source::Bytes(data),
        };
        let (recipe, place) =
            ((&instruction.recipe, instruction.left), (instruction.offset, envelope.offset, envelope.total));
        self.port
            .reach(self.me, instruction.region, Rights::UPDATE, |region| {
                add_chunk(region, recipe, source, len, place)
            })
            .flatten()
    }

    /// Memory that a task of this node lends.
    fn reach_shared(&mut self, owner: Endpoint, region: RegionId) -> Result<Shared, RegionFault> {
        self.port
            .reach(owner, region, Rights::READ, |memory| match memory {
                Memory::Shared(memory) => Ok(memory.clone()),
                Memory::Lent(_) => Err(RegionFault::Rights),
            })
            .flatten()
    }

    /// The target has all of a message, or refused it.
    pub(crate) fn processed(&mut self, origin: Endpoint, message: u32, result: Result<(), RegionFault>) {
        let Some((number, Operation { action: Action::Process(state), .. })) = self.awaited(origin, message)
        else {
            self.counters.strays += 1;
            return;
        };
        let result = result.and(state.fault().map_or(Ok(()), Err));
        if let Some(region) = state.give_up() {
            self.port.deregister(region);
            self.operations.settling |= 1 << number;
        }
        self.answered(number, result.map_err(OperationError::Region));
    }

    /// A target's refusal.
    pub(crate) fn refusal_arrived(&mut self, envelope: &Envelope) {
        match RegionFault::from_byte(envelope.dispatch) {
            Some(fault) => self.processed(envelope.origin, envelope.message, Err(fault)),
            None => self.counters.strays += 1,
        }
    }
}
