//! Pairwise exchange: in round `k` every rank sends to the one `k` ahead and receives from the one `k` behind, so
//! that no rank is met by two at a time.

use super::call::Call;
use super::step::{Area, Round, Span};
use crate::operator::Order;

/// Elements of scratch memory of [`save`].
pub(super) fn saved(call: &Call) -> usize {
    call.size.checked_sub(1).map_or(0, |last| call.blocks.packed(last).end())
}

/// The blocks of an alltoall in place go to scratch memory.
pub(super) fn save(call: &Call, at: usize, out: &mut Round) -> bool {
    let rank = at as u32;
    if rank < call.size {
        out.copy(call.blocks.packed(rank), call.block(Area::Output, rank));
    }
    rank < call.size
}

/// Alltoall, with blocks of any lengths, from the input, or where they were saved.
pub(super) fn alltoall(call: &Call, at: usize, out: &mut Round) -> bool {
    if at as u32 >= call.size {
        return false;
    }
    let (ahead, behind) = (call.ahead(at as u32), call.behind(at as u32));
    let leaving = if call.in_place { call.blocks.packed(ahead) } else { call.block(Area::Input, ahead) };
    let arriving = call.sources.span(Area::Output, behind);
    if at == 0 {
        out.copy(arriving, leaving);
    } else {
        out.send(ahead, at, leaving);
        out.receive(behind, at, arriving);
        out.wait();
    }
    true
}

/// Elements of scratch memory of [`reduce_scatter`].
pub(super) fn scratch(call: &Call) -> usize {
    call.blocks.len(call.rank) * call.size as usize
}

/// Reduce-scatter: every rank gets its block from each other one, and then combines them in the order of ranks.
pub(super) fn reduce_scatter(call: &Call, at: usize, out: &mut Round) -> bool {
    let (round, size) = (at as u32, call.size);
    let len = call.blocks.len(call.rank);
    let arrival = |rank: u32| Span::new(Area::Scratch, rank as usize * len, len);
    let own = call.own_result();
    let operand = |rank| call.block(call.operand(), rank);
    if round == 0 {
        out.copy(arrival(call.rank), operand(call.rank));
    } else if round < size {
        let (ahead, behind) = (call.ahead(round), call.behind(round));
        out.send(ahead, at, operand(ahead));
        out.receive(behind, at, arrival(behind));
        out.wait();
    } else if round == size {
        out.copy(own, arrival(0));
    } else if round < 2 * size {
        out.reduce(own, arrival(round - size), Order::IntoFirst);
    } else {
        return false;
    }
    true
}
