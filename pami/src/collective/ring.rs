//! Round the ring: each rank only sends to the one ahead and receives from the one behind; blocks travel
//! `size - 1` rounds (Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication", 2007).

use super::call::Call;
use super::step::{Area, Round, Span};
use crate::operator::Order;

/// Allgather: in round `k` every rank passes on the block that it got in the round before, its own at first. All
/// blocks have their places in the output, and the own one is there.
pub(super) fn allgather(call: &Call, at: usize, out: &mut Round) -> bool {
    let round = at as u32;
    if round + 1 >= call.size {
        return false;
    }
    out.send(call.ahead(1), at, call.block(Area::Output, call.behind(round)));
    out.receive(call.behind(1), at, call.block(Area::Output, call.behind(round + 1)));
    out.wait();
    true
}

/// Elements of scratch memory that [`reduce_scatter`] takes: the block that leaves and the one that arrives.
pub(super) fn scratch(call: &Call) -> usize {
    call.blocks.longest() * 2
}

/// Reduce-scatter: block `b` starts at rank `b + 1`, and each rank on the way round to `b` adds its part. Its own
/// block ends in `own`. The operand is only read, so all it takes is two blocks of scratch memory.
pub(super) fn reduce_scatter(call: &Call, operand: Area, own: Span, at: usize, out: &mut Round) -> bool {
    let round = at as u32;
    if round + 1 >= call.size {
        if call.size == 1 {
            out.copy(own, call.block(operand, 0));
        }
        return false;
    }
    let slot = |round: usize, len| Span::new(Area::Scratch, round % 2 * call.blocks.longest(), len);
    let (leaving, arriving) = (call.behind(round + 1), call.behind(round + 2));
    let operand = |rank| call.block(operand, rank);
    let sent = if at == 0 { operand(leaving) } else { slot(at - 1, call.blocks.len(leaving)) };
    let arrival = slot(at, call.blocks.len(arriving));
    out.send(call.ahead(1), at, sent);
    out.receive(call.behind(1), at, arrival);
    out.wait();
    out.reduce(arrival, operand(arriving), Order::IntoFirst);
    if arriving == call.rank {
        out.copy(own, arrival);
    }
    true
}
