//! Prefix reductions by recursive doubling (Hillis, Steele, "Data parallel algorithms", 1986).

use super::call::Call;
use super::step::{Area, Round};
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
