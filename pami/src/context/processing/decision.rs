//! The origin's decision who does what (SPEC L-2, L-4).

use crate::balance::Split;
use crate::balance::advice::{ADVICE_TIMEOUT_NS, Advice, Rule, Wanted};
use crate::balance::chunk::{CHUNK_BYTES, ChunkHeader};
use crate::balance::limit;
use crate::balance::limit::{Plan, Way, Workloads};
use crate::balance::recipe::SubOperations;
use crate::balance::state::{Bounds, ProcessRequest, ProcessState};
use crate::context::{Active, Operation};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::operation::Action;
use crate::region::{Memory, Rights};

/// Bytes of a message that are at least left to a target for them to be lent instead of copied.
const LEND_FROM: u32 = 512;

impl<P: Port> Active<P> {
    /// Bytes of a chunk's elements: as many as a packet has room for.
    pub(super) fn chunk_bytes(&self) -> u32 {
        let room = self.port.mtu().saturating_sub(size_of::<ChunkHeader>());
        ((room - room % 8) as u32).clamp(8, CHUNK_BYTES)
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
        let way = if matches!(path, Path::Local(_)) { Way::Local } else { Way::Torus };
        let ProcessRequest { total, recipe, split, .. } = *state.message();
        let chunk = self.chunk_bytes();
        let chunks = total.div_ceil(chunk);
        let most = limit::most(&recipe, way);
        let at_target = Plan { first: SubOperations::empty(), limit: 0, others: SubOperations::empty() };
        let Plan { mut first, mut limit, others } = match split {
            Split::TargetOnly => at_target,
            Split::OriginOnly => Plan { first: most, limit: chunks, others: most },
            Split::Rules(rules) => {
                let fits = |rule: &&Rule| {
                    rule.element.is_none_or(|element| element == recipe.element()) && rule.from_bytes <= total
                };
                rules.iter().find(fits).map_or(at_target, |rule| Plan {
                    first: recipe.prefix(rule.origin).intersection(most),
                    limit: (u64::from(chunks) * u64::from(rule.chunks.min(1000)) / 1000) as u32,
                    ..at_target
                })
            }
            Split::Advice => match self.find_advice(state, path, target)? {
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
            && let Some(memory) = state.memory()
        {
            let lent = self.port.register(Memory::Shared(memory.clone()), Rights::READ).ok();
            state.lend(lent);
        }
        // What is added here does not go to the target.
        let front = if limit > 0 { first } else { others };
        let behind = if limit < total { others } else { first };
        let done = if front.contains(SubOperations::ADD) { behind } else { front.intersection(behind) };
        state.wants(recipe.sub_operations().difference(done));
        Some(Bounds::new(first, limit, others))
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
