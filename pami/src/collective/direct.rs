//! Through memory that all reach: each rank says where its vectors lie, reads what it needs of others' where it is, and combines what is
//! in their memory straight away (SPEC H-5, A-4; Hashmi, Chakraborty, Bayatpour, Subramoni, Panda, "Designing efficient shared address
//! space reduction collectives", 2018). Nothing is sent, and nothing is copied but to where it belongs.
//!
//! | stage of a rank | means |
//! |---|---|
//! | shown | its operand is there |
//! | 1 | its part of the result is there; of others' operands it reads nothing more |
//! | 2 | of others' results it reads nothing more |
//!
//! A vector is divided: each rank combines one part of it, in the order of ranks, and reads the others'. Before it reads anything
//! each sees that all ranks' memory is reached; if not, all take [another algorithm](instead).

use super::bulletin::combine;
use super::call::{Algorithm, Call, Collective};
use super::step::{Area, Round, Shown, Span};
use crate::partition::Partition;
use rings::bulletin::PAGE_BYTES;

/// What is there of the result is read by others.
const COMBINED: u8 = 1;
/// Others may write what was read.
const READ: u8 = 2;

/// The algorithm that ranks take if memory of one is not reached: it takes no more memory, or goes in runs.
pub(super) fn instead(collective: Collective) -> Algorithm {
    match collective {
        Collective::Allgather => Algorithm::Ring,
        Collective::Alltoall | Collective::ReduceScatter => Algorithm::Pairwise,
        Collective::Allreduce => Algorithm::RecursiveDoubling,
        _ => Algorithm::Binomial,
    }
}

/// Elements of scratch memory for vectors or blocks of `len` elements among so many ranks: an operand that comes, and one that is
/// kept or combined. Never less than [`instead`] takes for few.
pub(super) fn demand(collective: Collective, len: usize, ranks: usize, in_place: bool) -> usize {
    match collective {
        Collective::Allreduce | Collective::Reduce => 2 * len.div_ceil(ranks.max(1)).max(len.min(PAGE_BYTES)),
        Collective::ReduceScatter => 2 * len,
        Collective::Alltoall if in_place => len * ranks,
        _ => 0,
    }
}

/// The same at this rank.
pub(super) fn scratch(call: &Call) -> usize {
    let len = if call.collective.is_of_vectors() { call.len() } else { call.blocks.longest() };
    demand(call.collective, len, call.size as usize, call.in_place)
}

/// What a rank combines of a vector.
fn part(call: &Call, rank: u32) -> Span {
    if call.collective == Collective::ReduceScatter {
        return call.block(call.operand(), rank);
    }
    let part = Partition::new(call.len(), call.size).range(rank);
    Span::new(Area::Output, part.start, part.len())
}

/// Elements of scratch memory in front of those that keep or combine.
fn arrivals(call: &Call) -> usize {
    scratch(call) / 2
}

/// Where a rank combines its part: in the result, if it has that and nobody reads there meanwhile.
fn combined(call: &Call) -> Span {
    let own = part(call, call.rank);
    if call.collective == Collective::Allreduce || call.collective == Collective::Reduce && call.is_root() {
        own
    } else {
        Span::new(Area::Scratch, arrivals(call), own.len)
    }
}

/// The own operand of that: where the caller has it, or where it was kept from the result.
fn own_operand(call: &Call) -> Span {
    let own = part(call, call.rank);
    match (call.operand(), combined(call).area) {
        (Area::Output, Area::Output) => Span::new(Area::Scratch, arrivals(call), own.len),
        (area, _) => Span { area, ..own },
    }
}

/// One round of each: the rank says where its vectors lie; it looks at each rank in turn, then reads of each, then waits for each.
pub(super) fn steps(call: &Call, at: usize, out: &mut Round) -> bool {
    let size = call.size as usize;
    if at == 0 {
        expose(call, out);
        return true;
    }
    let (round, of) = ((at - 1) / size, (at - 1) % size);
    let turned = call.ahead(of as u32);
    let theirs = turned != call.rank;
    match (call.collective, round) {
        (Collective::Broadcast, _) if !call.is_root() => {
            out.pull(call.root, Shown::Operand, 0, call.vector(Area::Output));
            out.reach(READ);
            return false;
        }
        (Collective::Broadcast, _) => {
            if theirs {
                out.await_stage(turned, READ);
            }
            return of + 1 < size;
        }
        (_, 0) if theirs => out.look(turned),
        (Collective::Allgather, 1) if theirs => {
            out.pull(turned, Shown::Operand, 0, call.block(Area::Output, turned));
        }
        (Collective::Alltoall, 1) if theirs => {
            let from = call.blocks.start(call.rank);
            out.pull(turned, Shown::Operand, from, call.sources.span(Area::Output, turned));
        }
        (what, 1) if what.reduces() => {
            let (part, ordered) = (part(call, call.rank), of as u32);
            let spans = [combined(call), own_operand(call), Span::new(Area::Scratch, 0, part.len)];
            let read = |out: &mut Round, into| out.pull(ordered, Shown::Operand, part.offset, into);
            combine(call, ordered, spans, read, out);
        }
        (Collective::Allreduce, 2) if theirs => collect(call, turned, out),
        (Collective::Reduce, 2) if theirs && call.is_root() => collect(call, turned, out),
        (_, 2) if theirs => out.await_stage(turned, COMBINED),
        (Collective::Allreduce, 3) if theirs => out.await_stage(turned, READ),
        (Collective::Reduce, 3) if theirs && turned == call.root => out.await_stage(turned, READ),
        _ => {}
    }
    let last = of + 1 == size;
    if last && round == 1 {
        out.reach(COMBINED);
    }
    let reads_results = matches!(call.collective, Collective::Allreduce | Collective::Reduce);
    if last && round == 2 {
        if reads_results {
            out.reach(READ);
        } else if call.collective == Collective::ReduceScatter {
            out.copy(call.own_result(), combined(call));
        }
    }
    !last || round < if reads_results { 3 } else { 2 }
}

/// Says where the operand and the part of the result are, and does what takes nobody else.
fn expose(call: &Call, out: &mut Round) {
    match call.collective {
        Collective::Broadcast if !call.is_root() => out.begin(),
        Collective::Broadcast => {
            let operand = call.vector(call.operand());
            out.copy(call.vector(Area::Output), operand);
            out.expose(operand, operand);
        }
        Collective::Allgather => {
            let own = call.own_operand();
            out.copy(call.block(Area::Output, call.rank), own);
            out.expose(own, own);
        }
        Collective::Alltoall => {
            let mut operand = Span::new(call.operand(), 0, call.total());
            if call.operand() == Area::Output {
                let kept = Span { area: Area::Scratch, ..operand };
                out.copy(kept, operand);
                operand = kept;
            }
            let own = call.block(operand.area, call.rank);
            out.copy(call.sources.span(Area::Output, call.rank), own);
            out.expose(operand, operand);
        }
        _ => {
            let operand = match call.collective {
                Collective::ReduceScatter => Span::new(call.operand(), 0, call.total()),
                _ => call.vector(call.operand()),
            };
            let (own, kept) = (Span { area: operand.area, ..part(call, call.rank) }, own_operand(call));
            out.copy(kept, own);
            out.expose(operand, combined(call));
        }
    }
}

/// Reads the part of the result that a rank has.
fn collect(call: &Call, of: u32, out: &mut Round) {
    out.await_stage(of, COMBINED);
    out.pull(of, Shown::Result, 0, part(call, of));
}
