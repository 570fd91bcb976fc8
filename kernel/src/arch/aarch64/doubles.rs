//! Additions to two numbers at once, by exclusive accesses to pairs of words: half as many instructions as a compare and swap of
//! each takes.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use pami::addends::Addends;

/// Bytes of a pair, and what its address is a multiple of.
const PAIR: usize = 16;

/// Two pairs of words, to which what `$load` loads from `$from` is added.
macro_rules! add_fours {
    ($words:expr, $from:expr, $fours:expr, $($load:literal),+) => {
        asm!(
            "2:",
            $($load,)+
            "3:",
            "ldxp   {a}, {b}, [{at}]",
            "fmov   {old:d}, {a}",
            "mov    {old:v}.d[1], {b}",
            "fadd   {old:v}.2d, {old:v}.2d, {new:v}.2d",
            "fmov   {a}, {old:d}",
            "mov    {b}, {old:v}.d[1]",
            "stxp   {failed:w}, {a}, {b}, [{at}]",
            "cbnz   {failed:w}, 3b",
            "add    {at}, {at}, #16",
            "4:",
            "ldxp   {a}, {b}, [{at}]",
            "fmov   {old:d}, {a}",
            "mov    {old:v}.d[1], {b}",
            "fadd   {old:v}.2d, {old:v}.2d, {next:v}.2d",
            "fmov   {a}, {old:d}",
            "mov    {b}, {old:v}.d[1]",
            "stxp   {failed:w}, {a}, {b}, [{at}]",
            "cbnz   {failed:w}, 4b",
            "add    {at}, {at}, #16",
            "subs   {left}, {left}, #1",
            "b.ne   2b",
            at = inout(reg) $words => _,
            from = inout(reg) $from => _,
            left = inout(reg) $fours => _,
            a = out(reg) _,
            b = out(reg) _,
            failed = out(reg) _,
            old = out(vreg) _,
            new = out(vreg) _,
            next = out(vreg) _,
            options(nostack),
        )
    };
}

/// As [`Addends::add_to`].
pub(crate) fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
    // Up to the first pair, four words at a time, and the rest.
    let single = usize::from(!words.as_ptr().addr().is_multiple_of(PAIR)).min(words.len());
    let (front, words) = words.split_at(single);
    let (first, addends) = addends.split_at(single);
    let fours = words.len().min(addends.len()) / 4;
    let (pairs, rest) = words.split_at(4 * fours);
    let (paired, last) = addends.split_at(4 * fours);
    first.add_to(front);
    last.add_to(rest);
    if fours == 0 {
        return;
    }
    // SAFETY: `4 * fours` words and as many numbers, of which nothing else is accessed; the first word is at a multiple of sixteen.
    // An exclusive store of a pair fails if anybody wrote to one of its words since they were loaded, so each word is changed as by
    // a compare and swap. It is normal memory, where exclusive accesses are to be had.
    unsafe {
        match paired {
            Addends::Doubles(numbers) => {
                add_fours!(pairs.as_ptr(), numbers.as_ptr(), fours, "ldp    {new:q}, {next:q}, [{from}], #32")
            }
            Addends::Singles(numbers) => add_fours!(
                pairs.as_ptr(),
                numbers.as_ptr(),
                fours,
                "ldr    {next:q}, [{from}], #16",
                "fcvtl  {new:v}.2d, {next:v}.2s",
                "fcvtl2 {next:v}.2d, {next:v}.4s"
            ),
        }
    }
}
