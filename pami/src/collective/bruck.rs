//! Few rounds for small blocks (Bruck, Ho, Kipnis, Upfal, Weathersby, "Efficient algorithms for all-to-all
//! communications in multiport message-passing systems", 1997).

use super::call::Call;
use super::step::{Area, Round, Span};

/// Number of rounds: log2 of the size, rounded up.
fn rounds(size: u32) -> u32 {
    size.next_power_of_two().ilog2()
}

/// Allgather, of any size and block lengths: in round `k` a rank gets from the one `2^k` ahead the blocks that that
/// one has, and puts them behind its own. Blocks so stand from the rank's own on, round the end, in scratch memory,
/// and are turned into the output at the end. The own block is in its place in the output or in the input.
pub(super) fn allgather(call: &Call, at: usize, out: &mut Round) -> bool {
    let (blocks, size, rank) = (&call.blocks, call.size, call.rank);
    let rounds = rounds(size) as usize;
    if at == 0 {
        let own = match call.operand() {
            Area::Output => call.block(Area::Output, rank),
            area => Span::new(area, 0, blocks.len(rank)),
        };
        out.copy(Span::new(Area::Scratch, 0, blocks.len(rank)), own);
    } else if at <= rounds {
        let distance = 1u32 << (at - 1);
        let count = distance.min(size - distance);
        let len = |first, count| blocks.round_len(first, count, size);
        let (behind, ahead) = (call.behind(distance), call.ahead(distance));
        out.send(behind, at, Span::new(Area::Scratch, 0, len(rank, count)));
        out.receive(ahead, at, Span::new(Area::Scratch, len(rank, distance), len(ahead, count)));
        out.wait();
    } else if at == rounds + 1 {
        let (before, total) = (blocks.start(rank), call.total());
        let turned = Span::new(Area::Scratch, 0, total);
        out.copy(Span::new(Area::Output, before, total - before), turned.first(total - before));
        out.copy(Span::new(Area::Output, 0, before), turned.part(total - before, before));
    } else {
        return false;
    }
    true
}

/// Elements of scratch memory of [`alltoall`]: all blocks, and what leaves and arrives in a round.
pub(super) fn scratch(call: &Call) -> usize {
    let packed = (call.size as usize).div_ceil(2) * call.blocks.len(0);
    call.total() + 2 * packed
}

/// Alltoall of equal blocks. Block `i` of a rank is for the one `i` ahead. In round `k` those blocks whose number
/// has bit `k` travel `2^k` ranks in one message; so each arrives after as many hops as its number has bits.
pub(super) fn alltoall(call: &Call, at: usize, out: &mut Round) -> bool {
    let (size, len, total) = (call.size, call.blocks.len(0), call.total());
    let blocks =
        |first: u32, count: u32| Span::new(Area::Scratch, first as usize * len, count as usize * len);
    if at == 0 {
        // Turned, so that the own block is first.
        let own = call.blocks.start(call.rank);
        let input = Span::new(call.operand(), 0, total);
        out.copy(blocks(0, size - call.rank), input.part(own, total - own));
        out.copy(blocks(size - call.rank, call.rank), input.first(own));
        return true;
    }
    let mut at = at - 1;
    for round in 0..rounds(size) {
        // Blocks with the bit stand in runs of `distance`, one every two.
        let distance = 1u32 << round;
        let runs = (size - distance).div_ceil(2 * distance) as usize;
        if at > 2 * runs {
            at -= 2 * runs + 1;
            continue;
        }
        let run = |index: usize| {
            let first = distance + index as u32 * 2 * distance;
            let run = blocks(first, distance.min(size - first));
            (run, index * distance as usize * len)
        };
        let (last, before) = run(runs - 1);
        let packed = Span::new(Area::Scratch, total, before + last.len);
        let arrived = packed.part((size as usize).div_ceil(2) * len, packed.len);
        if at < runs {
            let (run, before) = run(at);
            out.copy(packed.part(before, run.len), run);
        } else if at == runs {
            out.send(call.ahead(distance), round as usize, packed);
            out.receive(call.behind(distance), round as usize, arrived);
            out.wait();
        } else {
            let (run, before) = run(at - runs - 1);
            out.copy(run, arrived.part(before, run.len));
        }
        return true;
    }
    // What came `i` ranks is block `i`, and is for the place of the rank that it came from.
    let Some(distance) = u32::try_from(at).ok().filter(|&distance| distance < size) else { return false };
    out.copy(call.block(Area::Output, call.behind(distance)), blocks(distance, 1));
    true
}
