//! Along a tree, upwards and downwards: signals, broadcasts and reductions, whole or in chunks.

use super::call::Call;
use super::step::{Area, Round, Span, TAG_LIMIT};
use super::tree::Tree;
use crate::operator::Order;

/// A pipeline's chunk for `len` elements: as long as `wanted`, or the shortest that keeps within the tags.
pub(super) fn chunk(wanted: usize, len: usize) -> usize {
    wanted.max(len.div_ceil(TAG_LIMIT))
}

/// First half of a barrier: every rank signals upwards once its children have.
pub(super) fn up(tree: &Tree, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    if at < children {
        out.expect(tree.child(at), 0);
        return true;
    }
    out.wait();
    if let Some(parent) = tree.parent() {
        out.signal(parent, 0);
        out.wait();
    }
    false
}

/// Second half: the root signals downwards.
pub(super) fn down(tree: &Tree, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    if at == 0
        && let Some(parent) = tree.parent()
    {
        out.expect(parent, 0);
        out.wait();
    }
    if at < children {
        out.signal(tree.child(children - 1 - at), 0);
        return true;
    }
    out.wait();
    false
}

/// Broadcast of `vector`, which is there at the root. In round `c` a rank receives chunk `c` and sends the one
/// before it to its children.
pub(super) fn broadcast(tree: &Tree, vector: Span, chunk: usize, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    let (round, place) = (at / (children + 2), at % (children + 2));
    if round > vector.len.div_ceil(chunk) {
        return false;
    }
    match (place, tree.parent(), round.checked_sub(1)) {
        (0, Some(parent), _) => out.receive(parent, round, vector.chunk(round, chunk)),
        (place, _, Some(before)) if (1..=children).contains(&place) => {
            out.send(tree.child(children - place), before, vector.chunk(before, chunk));
        }
        (place, ..) if place > children => out.wait(),
        _ => {}
    }
    true
}

/// A reduction upwards.
pub(super) struct Reduction {
    /// Where this rank's operand is.
    pub operand: Span,
    /// Where the result is to be, at ranks that have room for the vector: the tree's root and, in an allreduce, all.
    /// Others combine in scratch memory, chunk by chunk.
    pub result: Option<Span>,
    /// The rank that is to have the result of the tree's root, if it is another.
    pub heir: Option<u32>,
    /// Elements at a time.
    pub chunk: usize,
}

impl Reduction {
    /// Elements of scratch memory: a chunk that is combined and one that arrives. Who has no children combines nothing,
    /// but if it has nobody above it either, its vector has to be somewhere.
    pub(super) fn scratch(&self, tree: &Tree) -> usize {
        let chunk = self.chunk.min(self.operand.len);
        match (tree.children(), tree.parent().or(self.heir), self.result) {
            (1.., ..) => chunk.saturating_mul(2),
            (0, None, None) => chunk,
            _ => 0,
        }
    }

    /// Combines the children's vectors with this rank's, in the order of children, and hands the result up.
    pub(super) fn steps(&self, call: &Call, tree: &Tree, at: usize, out: &mut Round) -> bool {
        let children = tree.children();
        let (round, place) = (at / (children + 2), at % (children + 2));
        if round >= self.operand.len.div_ceil(self.chunk) {
            return false;
        }
        let operand = self.operand.chunk(round, self.chunk);
        let partial = match self.result {
            Some(result) => result.chunk(round, self.chunk),
            None => Span::new(Area::Scratch, 0, operand.len),
        };
        let arrival = Span::new(Area::Scratch, self.chunk.min(self.operand.len), operand.len);
        if place < children {
            // The first arrival makes the partial result, so that the operand need not be copied.
            let first = place == 0 && partial != operand;
            let into = if first { partial } else { arrival };
            out.receive(tree.child(place), round, into);
            out.wait();
            match first {
                true => out.reduce(partial, operand, Order::FromFirst),
                false => out.reduce(partial, arrival, Order::IntoFirst),
            }
        } else if place == children {
            let combined = if children > 0 { partial } else { operand };
            match tree.parent().or(self.heir) {
                Some(above) => out.send(above, round, combined),
                None => out.copy(partial, combined),
            }
            out.wait();
        } else if let (Some(result), Some(heir)) = (self.result, self.heir)
            && heir == call.rank
        {
            out.receive(0, round, result.chunk(round, self.chunk));
            out.wait();
        }
        true
    }
}
