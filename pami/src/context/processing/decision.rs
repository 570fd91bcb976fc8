//! The origin's decision who does what (SPEC L-2, L-4).

use crate::balance::Split;
use crate::balance::advice::{ADVICE_TIMEOUT_NS, Advice, Rule, Wanted};
use crate::balance::chunk::{CHUNK_BYTES, ChunkHeader};
use crate::balance::cost::StepCosts;
use crate::balance::limit;
use crate::balance::limit::{Plan, Way, Workloads};
use crate::balance::recipe::{Recipe, SubOperations};
use crate::balance::state::{Bounds, ProcessRequest, ProcessState};
use crate::context::{Active, Operation};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::operation::{Action, Awaits, bits};
use crate::region::{Memory, Rights};

/// Bytes of a message that are at least left to a target for them to be lent instead of copied.
const LEND_FROM: u32 = 512;

impl<P: Port> Active<P> {
    /// Bytes of the elements of a chunk with which `done` is done: those for which a packet has room.
    pub(super) fn chunk_bytes(&self, recipe: &Recipe, done: SubOperations) -> u32 {
        let room = self.port.mtu().saturating_sub(size_of::<ChunkHeader>()).min(CHUNK_BYTES as usize);
        // Whole words, some of which go as a half, and some twice.
        let words = 2 * room / recipe.wire_bytes(16, done);
        (8 * words as u32).max(8)
    }

    /// What the registered function of a recipe costs; 0 without one.
    fn additions(&self, recipe: &Recipe) -> u16 {
        let own = self.processing.functions.of(recipe).ok().flatten();
        own.map_or(0, |own| own.additions.max(1))
    }

    /// Decides who does what; `None` while advice is missing.
    pub(super) fn find_bounds(
        &mut self,
        state: &mut ProcessState,
        path: Path,
        (target, order): (Endpoint, u64),
    ) -> Option<Bounds> {
        if let Some(plan) = state.plan() {
            return Some(plan);
        }
        self.merge_next(state, (target, order));
        let way = if matches!(path, Path::Local(_)) { Way::Local } else { Way::Torus };
        let ProcessRequest { total, recipe, split, .. } = *state.message();
        let chunk = self.chunk_bytes(&recipe, SubOperations::empty());
        let chunks = total.div_ceil(chunk);
        let most = limit::most(&recipe, way);
        let at_target = Plan { first: SubOperations::empty(), limit: 0, others: SubOperations::empty() };
        // Two messages go as one, whoever is to do the rest; a rule says nothing of what they are merged by.
        let merged = state.part().map_or(SubOperations::empty(), |_| SubOperations::COMBINE);
        let Plan { mut first, mut limit, mut others } = match split {
            Split::TargetOnly => at_target,
            Split::OriginOnly => Plan { first: most, limit: chunks, others: most },
            Split::Rules(rules) => {
                let fits = |rule: &&Rule| {
                    rule.element.is_none_or(|element| element == recipe.element()) && rule.from_bytes <= total
                };
                rules.iter().find(fits).map_or(at_target, |rule| Plan {
                    first: recipe.prefix(rule.origin | merged).intersection(most),
                    limit: (u64::from(chunks) * u64::from(rule.chunks.min(1000)) / 1000) as u32,
                    others: recipe.prefix(rule.others.difference(SubOperations::ADD) | merged),
                })
            }
            Split::Advice => match self.find_advice(state, path, target)? {
                Some(Advice { available, idle }) => {
                    let workloads = Workloads { origin: self.advice().idle, target: idle, available };
                    let additions = self.additions(&recipe);
                    let Self { processing, port, .. } = self;
                    let costs = processing
                        .costs
                        .get_or_insert_with(|| StepCosts::measure(|| port.now_ns(), P::add_numbers));
                    limit::balance((&recipe, additions), way, (costs, &workloads), chunks)
                }
                None => at_target,
            },
        };
        if others.contains(SubOperations::ADD) {
            (first, limit) = (others, chunks);
        }
        [first, others] = [first, others].map(|done| recipe.prefix(done | merged));
        let limit = limit.saturating_mul(chunk).min(total);
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
        // Of another node's memory nothing is held: the target may die over it.
        let lives_here = self.port.node_of(target.task()) == self.port.node_of(self.transport.me().task());
        if way == Way::Local
            && lives_here
            && others.is_empty()
            && total - limit >= LEND_FROM
            && state.can_be_named()
            && let Some(memory) = state.memory()
        {
            let operand = state.operand().map(|operand| operand.memory.clone());
            let mut lend = |memory| self.port.register(Memory::Shared(memory), Rights::READ).ok();
            let message = lend(memory.clone());
            let other = operand.clone().filter(|_| message.is_some()).and_then(&mut lend);
            if other.is_some() == operand.is_some() {
                state.lend([message, other]);
            } else if let Some(message) = message {
                self.port.deregister(message);
            }
        }
        // What is added here does not go to the target.
        let front = if limit > 0 { first } else { others };
        let behind = if limit < total { others } else { first };
        let done = if front.contains(SubOperations::ADD) { behind } else { front.intersection(behind) };
        state.wants(recipe.sub_operations().difference(done));
        Some(Bounds::new(first, limit, others))
    }

    /// Has the next message to the same target for an operand, if it is to be added to the same elements in the same way.
    fn merge_next(&mut self, state: &mut ProcessState, (target, order): (Endpoint, u64)) {
        if state.part().is_some() || !state.message().recipe.merges() {
            return;
        }
        let later = bits(self.operations.used()).filter_map(|number| {
            let operation = self.operations.see(number)?;
            (operation.target == target && operation.order > order).then_some((operation.order, number))
        });
        let Some((order, number)) = later.min() else { return };
        let Some(operation) = self.operations.get(number) else { return };
        if let Action::Process(other) = &operation.action
            && state.takes(other)
        {
            state.take(other, (number, order));
            operation.awaits = Awaits::Other;
        }
    }

    /// The target's advice: `None` while it is waited for, nothing in it if it does not come.
    fn find_advice(
        &mut self,
        state: &mut ProcessState,
        path: Path,
        target: Endpoint,
    ) -> Option<Option<Advice>> {
        let now = self.port.now_ns();
        let since = state.waits_since(now);
        match self.processing.advices.look(target, now) {
            Wanted::Known(advice) => Some(Some(advice)),
            Wanted::None => Some(None),
            // Its answer was forgotten for others', or there was no room to ask all the time.
            Wanted::Ask if state.has_asked() => Some(None),
            _ if now.saturating_sub(since) > ADVICE_TIMEOUT_NS => Some(None),
            Wanted::Wait => None,
            Wanted::Ask => {
                state.note_asked(self.ask_advice(path, target));
                None
            }
        }
    }
}
