//! Along the tree network: the ranks of a node meet at one of them, its *leader*, and the leaders in the network
//! (SPEC D-3, G-7).
//!
//! A node is in a class route once, however many ranks it has. So one rank speaks for it: the lowest of the node, or
//! the only one. Up to the leader and down from it vectors go along the affinity domains within the node; without
//! domains every rank is alone on its node. A root that does not lead hands its vector to its leader, or gets it from
//! there, so that a node's contributions to a class route come from one endpoint, in one order.
//!
//! The network has no operation that gathers. An allgather is a combination by bitwise or, to which each leader brings its node's
//! blocks, and zeros in the place of all others.

use super::call::{Algorithm, Call, Collective};
use super::fan::Reduction;
use super::gather::Store;
use super::leaders;
use super::phase::Phase;
use super::step::{Area, Span};
use super::tree::Tree;

/// Whether the call's rank hands a vector, or a barrier's nothing, to the network.
pub(super) fn speaks(call: &Call) -> bool {
    let leads = leader(call, call.rank) == call.rank;
    let anything = match call.collective {
        Collective::Barrier => true,
        Collective::Allgather => call.total() > 0,
        _ => call.len() > 0,
    };
    call.algorithm == Algorithm::TreeNetwork && leads && anything
}

/// The rank that speaks for the node of `rank`.
fn leader(call: &Call, rank: u32) -> u32 {
    call.domains.map_or(rank, |domains| domains.leader(rank))
}

/// The blocks of the node that the call's rank leads, whose ranks follow each other.
fn of_node(call: &Call) -> Span {
    let start = call.blocks.start(call.rank);
    let ranks = call.domains.map_or(1, |domains| domains.per_node());
    let end = call.blocks.start(call.rank + ranks);
    Span::new(Area::Output, start, end - start)
}

/// The phase with this number of a barrier, broadcast, allgather, reduce or allreduce. Writes the tree that it goes along, if any.
pub(super) fn phase<'a>(call: &Call<'a>, index: u8, tree: &mut Tree<'a>) -> Option<Phase> {
    let leads = leader(call, call.rank) == call.rank;
    let output = call.vector(Area::Output);
    let mut along = |phase| {
        *tree = leaders::within(call);
        Some(phase)
    };
    match call.collective {
        Collective::Barrier => match index {
            0 => along(Phase::Up),
            1 if leads => Some(Phase::Combine(output.first(0))),
            1 => Some(Phase::NOTHING),
            2 => along(Phase::Down),
            _ => None,
        },
        Collective::Broadcast => {
            let speaker = leader(call, call.root);
            match index {
                0 if call.is_root() => {
                    Some(Phase::Copy { into: output, from: Span { area: call.operand(), ..output } })
                }
                0 => Some(Phase::NOTHING),
                1 => Some(Phase::Hand { from: (call.root, output), to: (speaker, output) }),
                2 if leads => Some(Phase::Spread { span: output, source: call.rank == speaker }),
                2 => Some(Phase::NOTHING),
                3 => along(Phase::Broadcast { vector: output, chunk: output.len.max(1) }),
                _ => None,
            }
        }
        Collective::Allgather => {
            let all = Span::new(Area::Output, 0, call.total());
            match index {
                0 => along(Phase::Gather { store: Store::Whole(Area::Output), own: call.own_operand() }),
                1 if leads => Some(Phase::Assemble { span: all, own: of_node(call) }),
                1 => Some(Phase::NOTHING),
                2 => along(Phase::Broadcast { vector: all, chunk: all.len.max(1) }),
                _ => None,
            }
        }
        _ => reduction(call, output, leads, index, along),
    }
}

fn reduction(
    call: &Call,
    output: Span,
    leads: bool,
    index: u8,
    mut along: impl FnMut(Phase) -> Option<Phase>,
) -> Option<Phase> {
    let all = call.collective == Collective::Allreduce;
    // Who has no room for the result has it where the reduction leaves it.
    let result = (all || call.is_root()).then_some(output);
    let combined = |rank| if all || rank == call.root { output } else { call.vector(Area::Scratch) };
    match index {
        0 => {
            let operand = Span { area: call.operand(), ..output };
            let reduction = Reduction { operand, result, heir: None, chunk: output.len.max(1) };
            along(Phase::Reduction(reduction))
        }
        1 if leads => Some(Phase::Combine(combined(call.rank))),
        1 => Some(Phase::NOTHING),
        2 if all => along(Phase::Broadcast { vector: output, chunk: output.len.max(1) }),
        2 => {
            let speaker = leader(call, call.root);
            Some(Phase::Hand { from: (speaker, combined(speaker)), to: (call.root, output) })
        }
        _ => None,
    }
}
