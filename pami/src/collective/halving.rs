//! Reduce-scatter by halving, and what Rabenseifner built on it ("Optimization of collective reduction operations",
//! 2004). Sizes that are no powers of two are folded (see [`Fold`]).

use super::blocks::Blocks;
use super::call::Call;
use super::doubling::Fold;
use super::step::{Area, Round, Span};
use crate::operator::Order;
use crate::partition::Partition;

/// Elements of scratch memory of [`reduce_scatter`]: a vector that is combined and one that arrives.
pub(super) fn scratch(call: &Call) -> usize {
    call.total() * 2
}

/// Reduce-scatter: partners half the core apart exchange the halves that the other keeps, then a quarter, and so on.
/// The operand is only read. A rank's block ends in `own`, which is its block in scratch memory or elsewhere.
pub(super) fn reduce_scatter(call: &Call, operand: Area, own: Span, at: usize, out: &mut Round) -> bool {
    let (fold, total) = (Fold::new(call.size), call.total());
    let (partial, arrival) = (Span::new(Area::Scratch, 0, total), Span::new(Area::Scratch, total, total));
    let number = fold.number(call.rank);
    if at == 0 {
        let operand = Span::new(operand, 0, total);
        if number.is_some() {
            out.copy(partial, operand);
        }
        fold.merge(call.rank, operand, partial, arrival, out);
    } else if at <= fold.rounds() {
        let Some(number) = number else { return true };
        let width = fold.core() >> at;
        // What the ranks of a run of `width` numbers keep.
        let kept = |number: u32| {
            let first = number & !(width - 1);
            let [start, end] = [first, first + width].map(|number| call.blocks.start(fold.rank(number)));
            partial.part(start, end - start)
        };
        let partner = number ^ width;
        let (rank, keeps) = (fold.rank(partner), kept(number));
        out.send(rank, at, kept(partner));
        out.receive(rank, at, arrival.first(keeps.len));
        out.wait();
        out.reduce(keeps, arrival.first(keeps.len), Order::by_rank(call.rank, rank));
    } else if at == fold.rounds() + 1 {
        let block = |rank| call.block(Area::Scratch, rank);
        fold.unfold(call.rank, at, block(fold.twin(call.rank).unwrap_or(0)), own, out);
        if number.is_some() {
            out.copy(own, block(call.rank));
        }
    } else {
        return false;
    }
    true
}

/// Allreduce, in order: partners 1, 2, 4, ... ranks apart exchange the halves of what they have that the other
/// keeps; then the blocks that result come together the same way back. `operand` and result are whole vectors.
pub(super) fn allreduce(call: &Call, at: usize, out: &mut Round) -> bool {
    let fold = Fold::new(call.size);
    let (operand, result) = (call.vector(call.operand()), call.vector(Area::Output));
    let arrival = call.vector(Area::Scratch);
    let number = fold.number(call.rank);
    let rounds = fold.rounds();
    if at == 0 {
        if number.is_some() {
            out.copy(result, operand);
        }
        fold.merge(call.rank, operand, result, arrival, out);
    } else if at <= 2 * rounds {
        let Some(number) = number else { return true };
        let (depth, gathers) = if at <= rounds { (at, false) } else { (2 * rounds + 1 - at, true) };
        let blocks = Blocks::split(Partition::new(call.len(), fold.core()), 1);
        // What a rank keeps once it has halved `depth` times: the lowest bit of its number chose first.
        let kept = |number: u32| {
            let first =
                number.reverse_bits().checked_shr(32 - rounds as u32).unwrap_or(0) >> (rounds - depth);
            let [start, end] = [first, first + 1].map(|part| blocks.start(part << (rounds - depth)));
            result.part(start, end - start)
        };
        let partner = number ^ 1 << (depth - 1);
        let (rank, mine, other) = (fold.rank(partner), kept(number), kept(partner));
        if gathers {
            out.send(rank, at, mine);
            out.receive(rank, at, other);
            out.wait();
        } else {
            let arrival = arrival.first(mine.len);
            out.send(rank, at, other);
            out.receive(rank, at, arrival);
            out.wait();
            out.reduce(mine, arrival, Order::by_rank(call.rank, rank));
        }
    } else if at == 2 * rounds + 1 {
        fold.unfold(call.rank, at, result, result, out);
    } else {
        return false;
    }
    true
}
