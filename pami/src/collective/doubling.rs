//! Recursive doubling: partners are 1, 2, 4, ... ranks apart (Thakur, Rabenseifner, Gropp, "Optimization of
//! collective communication operations in MPICH", 2005).

use super::call::Call;
use super::step::{Area, Round, Span};
use crate::operator::Order;

/// A power of two of ranks, made by merging the first ranks in pairs.
///
/// With `2^k + extra` ranks, the odd one of each of the first `extra` pairs hands its operand to the even one and
/// sits out. Those that remain, the core, are numbered in the order of ranks, so operands stay in order.
#[derive(Clone, Copy)]
pub(super) struct Fold {
    extra: u32,
    rounds: u32,
}

impl Fold {
    pub(super) fn new(size: u32) -> Self {
        let rounds = size.ilog2();
        Self { extra: size - (1 << rounds), rounds }
    }

    /// Number of rounds in the core, log2 of its size.
    pub(super) fn rounds(self) -> usize {
        self.rounds as usize
    }

    /// Number of ranks in the core.
    pub(super) fn core(self) -> u32 {
        1 << self.rounds
    }

    /// The rank's number in the core, or `None` if it sits out.
    pub(super) fn number(self, rank: u32) -> Option<u32> {
        if rank >= 2 * self.extra {
            Some(rank - self.extra)
        } else {
            rank.is_multiple_of(2).then_some(rank / 2)
        }
    }

    /// The rank with this number in the core. The ranks from it to the next one's are those it stands for.
    pub(super) fn rank(self, number: u32) -> u32 {
        if number < self.extra { 2 * number } else { number + self.extra }
    }

    /// The other rank of the pair, if the rank is in one.
    pub(super) fn twin(self, rank: u32) -> Option<u32> {
        (rank < 2 * self.extra).then_some(rank ^ 1)
    }

    /// Merges the operands of a pair in `partial` of the even rank. `operand` is where the odd one has its own.
    pub(super) fn merge(self, rank: u32, operand: Span, partial: Span, arrival: Span, out: &mut Round) {
        let Some(twin) = self.twin(rank) else { return };
        if self.number(rank).is_none() {
            out.send(twin, 0, operand);
            out.wait();
        } else {
            out.receive(twin, 0, arrival);
            out.wait();
            out.reduce(partial, arrival, Order::IntoFirst);
        }
    }

    /// Gives the odd ranks what the even ones have.
    pub(super) fn unfold(self, rank: u32, number: usize, has: Span, gets: Span, out: &mut Round) {
        let Some(twin) = self.twin(rank) else { return };
        match self.number(rank) {
            Some(_) => out.send(twin, number, has),
            None => out.receive(twin, number, gets),
        }
        out.wait();
    }
}

/// Allreduce, of any size and in order: in round `k`, ranks `2^k` apart in the core exchange what they have and
/// combine. `partial` is where; `arrival` takes what comes. Then the ranks that sat out get the result.
pub(super) fn allreduce(
    call: &Call,
    operand: Span,
    partial: Span,
    arrival: Span,
    at: usize,
    out: &mut Round,
) -> bool {
    let fold = Fold::new(call.size);
    let number = fold.number(call.rank);
    if at == 0 {
        if number.is_some() {
            out.copy(partial, operand);
        }
        fold.merge(call.rank, operand, partial, arrival, out);
    } else if at <= fold.rounds() {
        if let Some(number) = number {
            let partner = fold.rank(number ^ 1 << (at - 1));
            out.send(partner, at, partial);
            out.receive(partner, at, arrival);
            out.wait();
            out.reduce(partial, arrival, Order::by_rank(call.rank, partner));
        }
    } else if at == fold.rounds() + 1 {
        fold.unfold(call.rank, at, partial, partial, out);
    } else {
        return false;
    }
    true
}

/// Allgather, of a power of two: in round `k`, ranks `2^k` apart exchange the `2^k` blocks that each has.
pub(super) fn allgather(call: &Call, at: usize, out: &mut Round) -> bool {
    if at as u32 >= call.size.ilog2() {
        return false;
    }
    let partner = call.rank ^ 1 << at;
    let blocks = |rank: u32| {
        let first = rank >> at << at;
        let start = call.blocks.start(first);
        Span::new(Area::Output, start, call.blocks.start(first + (1 << at)) - start)
    };
    out.send(partner, at, blocks(call.rank));
    out.receive(partner, at, blocks(partner));
    out.wait();
    true
}
