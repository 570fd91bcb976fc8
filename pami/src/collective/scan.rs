//! Prefix reductions by recursive doubling (Hillis, Steele, "Data parallel algorithms", 1986), and along a tree whose subtrees are
//! ranges of ranks (Blelloch, "Prefix sums and their applications", 1990).

use super::call::Call;
use super::step::{Area, Round, Span};
use super::tree::Tree;
use crate::operator::Order;

/// Scan over the ranks from `first` on: in round `k`, a rank hands what it has to the rank `2^k` ahead, which puts
/// it before its own. The operands are in the output.
pub(super) fn steps(call: &Call, first: u32, at: usize, out: &mut Round) -> bool {
    if at as u32 >= (call.size - first).next_power_of_two().ilog2() {
        return false;
    }
    let (distance, own) = (1u32 << at, call.vector(Area::Output));
    if call.rank < first {
        return true;
    }
    if call.rank + distance < call.size {
        out.send(call.rank + distance, at, own);
    }
    let arrival = call.vector(Area::Scratch);
    let before = call.rank.checked_sub(distance).filter(|&rank| rank >= first);
    if let Some(rank) = before {
        out.receive(rank, at, arrival);
    }
    out.wait();
    if before.is_some() {
        out.reduce(own, arrival, Order::FromFirst);
    }
    true
}

/// Hands every operand to the next rank, so that a scan over all but the first rank leaves out each rank's own.
/// The first rank's output stays as it is. In place, the operand has to make room for what arrives.
pub(super) fn shift(call: &Call, at: usize, out: &mut Round) -> bool {
    if at > 0 {
        return false;
    }
    let output = call.vector(Area::Output);
    let mut operand = call.vector(call.operand());
    if operand == output {
        operand = call.vector(Area::Scratch);
        out.copy(operand, output);
    }
    if call.rank + 1 < call.size {
        out.send(call.rank + 1, 0, operand);
    }
    if call.rank > 0 {
        out.receive(call.rank - 1, 0, output);
    }
    out.wait();
    true
}

/// One of the vectors in scratch memory. At first each child's, then what the ranks from this one to the end of its subtree have
/// together; behind those of the children what the ranks before this one have, and what they have with this one.
fn slot(call: &Call, index: usize) -> Span {
    Span::new(Area::Scratch, index * call.len(), call.len())
}

/// What this rank and those below its first `children` children have together.
fn sum(call: &Call, children: usize) -> Span {
    children.checked_sub(1).map_or(call.vector(call.operand()), |last| slot(call, last))
}

/// First half: every rank hands up what its subtree has, and keeps what it has up to the end of each child's.
pub(super) fn up(call: &Call, tree: &Tree, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    if at < children {
        out.receive(tree.child(at), 0, slot(call, at));
    } else if at == children {
        out.wait();
    } else if let Some(child) = Some(at - children - 1).filter(|&child| child < children) {
        out.reduce(slot(call, child), sum(call, child), Order::FromFirst);
    } else {
        if let Some(parent) = tree.parent() {
            out.send(parent, 0, sum(call, children));
        }
        out.wait();
        return false;
    }
    true
}

/// Elements of scratch memory of [`up`] and [`down`].
pub(super) fn scratch(call: &Call, tree: &Tree, exclusive: bool) -> usize {
    let slots = match (tree.children(), tree.parent()) {
        (children, None) => children,
        (0, _) if exclusive => 0,
        (children, _) => children + 1 + usize::from(exclusive),
    };
    slots * call.len()
}

/// Second half: every rank hands each child what the ranks before that one have. Exclusive, the output is what the ranks before
/// this one have, and is left as it is if there are none; else its own is in it.
pub(super) fn down(call: &Call, tree: &Tree, exclusive: bool, at: usize, out: &mut Round) -> bool {
    let children = tree.children();
    let (output, operand) = (call.vector(Area::Output), call.vector(call.operand()));
    let before = if exclusive && children == 0 { output } else { slot(call, children) };
    let with_own = match (exclusive, tree.parent()) {
        (true, None) => operand,
        (true, Some(_)) => slot(call, children + 1),
        (false, _) => output,
    };
    if at == 0 {
        if !exclusive || children > 0 {
            out.copy(with_own, operand);
        }
        let Some(parent) = tree.parent() else { return true };
        out.receive(parent, 0, before);
        out.wait();
        if !exclusive || children > 0 {
            out.reduce(with_own, before, Order::FromFirst);
        }
        if exclusive && children > 0 {
            out.copy(output, before);
        }
    } else if at <= children {
        // What a child hears is what it and those before it had, but for what was before this rank.
        let heard = at.checked_sub(2).map(|last| slot(call, last));
        if let (Some(heard), Some(_)) = (heard, tree.parent()) {
            out.reduce(heard, before, Order::FromFirst);
        }
        out.send(tree.child(at - 1), 0, heard.unwrap_or(with_own));
    } else {
        out.wait();
        return false;
    }
    true
}
