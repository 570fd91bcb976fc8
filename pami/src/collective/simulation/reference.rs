//! What each collective is to give, by plain loops.

use super::{Operator, POISON};
use crate::collective::{Call, Collective};
use std::vec;
use std::vec::Vec;

/// An element of a rank's contribution: odd in both halves, so that no operator of the tests loses it.
pub(crate) fn value(rank: u32, index: usize) -> u64 {
    let mut mixed = (u64::from(rank) << 32 | index as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ mixed >> 31) | 1 << 32 | 1
}

/// The first elements of a rank's contribution.
pub(crate) fn values(rank: u32, len: usize) -> Vec<u64> {
    (0..len).map(|index| value(rank, index)).collect()
}

/// Number of elements that a rank contributes.
fn operand_len(call: &Call) -> usize {
    let total = call.blocks.start(call.size);
    match call.collective {
        Collective::Barrier => 0,
        Collective::Broadcast if call.rank == call.root => call.blocks.len(0),
        Collective::Scatter if call.rank == call.root => total,
        Collective::Broadcast | Collective::Scatter => 0,
        Collective::ReduceScatter | Collective::Alltoall => total,
        Collective::Gather | Collective::Allgather => call.blocks.len(call.rank),
        _ => call.blocks.len(0),
    }
}

/// Input and output of a rank before the start.
pub(crate) fn memory(call: &Call, contribution: fn(u32, usize) -> Vec<u64>) -> [Vec<u64>; 2] {
    let operand = contribution(call.rank, operand_len(call));
    let mut output = vec![POISON; output_len(call)];
    let in_place = call.in_place && (!call.collective.is_rooted() || call.rank == call.root);
    if !in_place {
        return [operand, output];
    }
    match call.collective {
        Collective::Scatter => return [operand, vec![]],
        Collective::ReduceScatter => output = operand,
        Collective::Gather | Collective::Allgather => {
            let start = call.blocks.start(call.rank);
            output[start..start + operand.len()].copy_from_slice(&operand);
        }
        _ => output.copy_from_slice(&operand),
    }
    [vec![], output]
}

fn output_len(call: &Call) -> usize {
    let root = call.rank == call.root;
    match call.collective {
        Collective::Barrier => 0,
        Collective::Reduce if !root => 0,
        Collective::Gather if !root => 0,
        Collective::Gather | Collective::Allgather => call.blocks.start(call.size),
        Collective::Alltoall => call.sources.start(call.size),
        Collective::Scatter | Collective::ReduceScatter => call.blocks.len(call.rank),
        _ => call.blocks.len(0),
    }
}

/// What a rank is to find: its output's first elements. `calls` are those of all ranks.
pub(crate) fn expected(calls: &[Call], rank: u32, operator: Operator) -> Vec<u64> {
    let call = &calls[rank as usize];
    let (size, len, blocks) = (call.size, call.blocks.len(0), &call.blocks);
    let combined = |ranks: std::ops::Range<u32>, index: usize| {
        ranks.map(|rank| value(rank, index)).reduce(operator).unwrap_or(POISON)
    };
    let block = |owner: &Call, of: u32| {
        let (owner, start, len) = (owner.rank, owner.blocks.start(of), owner.blocks.len(of));
        (start..start + len).map(move |index| value(owner, index)).collect::<Vec<_>>()
    };
    match call.collective {
        Collective::Barrier => vec![],
        Collective::Broadcast => values(call.root, len),
        Collective::Reduce if rank != call.root => vec![],
        Collective::Reduce | Collective::Allreduce => {
            (0..len).map(|index| combined(0..size, index)).collect()
        }
        Collective::ReduceScatter => {
            let start = blocks.start(rank);
            (start..start + blocks.len(rank)).map(|index| combined(0..size, index)).collect()
        }
        Collective::Gather if rank != call.root => vec![],
        Collective::Gather | Collective::Allgather => {
            (0..size).flat_map(|rank| values(rank, blocks.len(rank))).collect()
        }
        Collective::Scatter if rank == call.root && call.in_place => vec![],
        Collective::Scatter => block(&calls[call.root as usize], rank),
        Collective::Alltoall => calls.iter().flat_map(|owner| block(owner, rank)).collect(),
        Collective::Scan => (0..len).map(|index| combined(0..rank + 1, index)).collect(),
        Collective::Exscan if rank == 0 && call.in_place => values(0, len),
        Collective::Exscan => (0..len).map(|index| combined(0..rank, index)).collect(),
    }
}
