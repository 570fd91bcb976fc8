//! Through bulletins: each rank shows what it contributes to all that reach its memory, and reads what others show (Graham, Shipman,
//! "MPI support for multi-core architectures: optimized shared memory collectives", 2008). Nothing is sent.

use super::call::{Call, Collective};
use super::step::{Area, Round, Span};
use crate::operator::Order;

/// The own operand of a reduction: where the caller has it, or where it was saved from the result.
fn own_operand(call: &Call) -> Span {
    let len = call.len();
    match call.operand() {
        Area::Output => Span::new(Area::Scratch, len, len),
        area => call.vector(area),
    }
}

/// Whether the rank has the result of a reduction.
fn has_result(call: &Call) -> bool {
    call.collective == Collective::Allreduce || call.is_root()
}

/// Elements of scratch memory: what comes, and the operand that would be overwritten.
pub(super) fn scratch(call: &Call) -> usize {
    if !call.collective.reduces() || !has_result(call) {
        return 0;
    }
    if call.operand() == Area::Output { 2 * call.len() } else { call.len() }
}

/// First the rank shows its part; then it reads that of one rank in each round, in the order of ranks.
pub(super) fn steps(call: &Call, at: usize, out: &mut Round) -> bool {
    let Some(of) = at.checked_sub(1) else {
        show(call, out);
        return call.size > 1;
    };
    let of = of as u32;
    let theirs = of != call.rank;
    match call.collective {
        Collective::Barrier if theirs => out.look(of),
        Collective::Broadcast if theirs && of == call.root => out.fetch(of, 0, call.vector(Area::Output)),
        Collective::Reduce | Collective::Allreduce if has_result(call) => {
            let spans = [call.vector(Area::Output), own_operand(call), call.vector(Area::Scratch)];
            combine(call, of, spans, |out, into| out.fetch(of, 0, into), out);
        }
        Collective::Allgather if theirs => out.fetch(of, 0, call.block(Area::Output, of)),
        Collective::Alltoall if theirs => {
            out.fetch(of, call.blocks.start(call.rank), call.sources.span(Area::Output, of));
        }
        _ => {}
    }
    of + 1 < call.size
}

fn show(call: &Call, out: &mut Round) {
    match call.collective {
        Collective::Broadcast if call.is_root() => {
            let operand = call.vector(call.operand());
            out.show(operand);
            out.copy(call.vector(Area::Output), operand);
        }
        Collective::Reduce | Collective::Allreduce => {
            let operand = call.vector(call.operand());
            out.show(operand);
            if has_result(call) {
                out.copy(own_operand(call), operand);
                if call.size == 1 {
                    out.copy(call.vector(Area::Output), own_operand(call));
                }
            }
        }
        Collective::Allgather => {
            out.show(call.own_operand());
            out.copy(call.block(Area::Output, call.rank), call.own_operand());
        }
        Collective::Alltoall => {
            let (all, own) =
                (Span::new(call.operand(), 0, call.total()), call.block(call.operand(), call.rank));
            out.show(all);
            out.copy(call.sources.span(Area::Output, call.rank), own);
        }
        Collective::Barrier => out.show(Span::new(Area::Scratch, 0, 0)),
        // Nobody looks for it.
        _ => out.begin(),
    }
}

/// Combines the operand of one rank more, behind those of the ranks before it, into `result`. The own one is `own`; the others are
/// read into `arrival`, the first straight away into the result.
pub(super) fn combine(
    call: &Call,
    of: u32,
    [result, own, arrival]: [Span; 3],
    read: impl FnOnce(&mut Round, Span),
    out: &mut Round,
) {
    match (of, of == call.rank) {
        (0, true) => out.copy(result, own),
        (0, false) => read(out, result),
        (_, true) => out.reduce(result, own, Order::IntoFirst),
        (_, false) => {
            read(out, arrival);
            out.reduce(result, arrival, Order::IntoFirst);
        }
    }
}
