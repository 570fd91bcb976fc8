//! Additions to numbers in words, each by a compare and swap of its own: fewer instructions than the compiler makes of the same.

use core::arch::asm;
use core::sync::atomic::AtomicU64;
use pami::addends::Addends;

/// Adds what `$load` loads to a word. A store that failed is tried again from the load that it belongs to, as the specification of
/// such loops wants it (extension A, "Eventual Success of Store-Conditional Instructions").
macro_rules! add_one {
    ($load:literal, $again:literal, $store:literal) => {
        concat!(
            $load,
            "\n",
            $again,
            ":\n",
            "ld      {old}, 0({at})\n",
            "fmv.d.x {sum}, {old}\n",
            "fadd.d  {sum}, {sum}, {new}\n",
            "fmv.x.d {bits}, {sum}\n",
            $store,
            ":\n",
            "lr.d    {seen}, ({at})\n",
            "bne     {seen}, {old}, ",
            $again,
            "b\n",
            "sc.d    {seen}, {bits}, ({at})\n",
            "bnez    {seen}, ",
            $store,
            "b\n",
            "addi    {at}, {at}, 8"
        )
    };
}

macro_rules! add_fours {
    ($words:expr, $from:expr, $fours:expr, $bytes:literal, [$first:literal, $second:literal, $third:literal, $fourth:literal]) => {
        asm!(
            "2:",
            add_one!($first, "3", "4"),
            add_one!($second, "5", "6"),
            add_one!($third, "7", "8"),
            add_one!($fourth, "9", "12"),
            concat!("addi {from}, {from}, ", $bytes),
            "addi {left}, {left}, -1",
            "bnez {left}, 2b",
            at = inout(reg) $words => _,
            from = inout(reg) $from => _,
            left = inout(reg) $fours => _,
            old = out(reg) _,
            seen = out(reg) _,
            bits = out(reg) _,
            sum = out(freg) _,
            new = out(freg) _,
            options(nostack),
        )
    };
}

/// As [`Addends::add_to`].
pub(crate) fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
    let fours = words.len().min(addends.len()) / 4;
    let (words, rest) = words.split_at(4 * fours);
    let (addends, last) = addends.split_at(4 * fours);
    last.add_to(rest);
    if fours == 0 {
        return;
    }
    // SAFETY: `4 * fours` words and as many numbers, of which nothing else is accessed. Each word is changed by a compare and swap.
    unsafe {
        match addends {
            Addends::Doubles(numbers) => add_fours!(
                words.as_ptr(),
                numbers.as_ptr(),
                fours,
                "32",
                [
                    "fld {new}, 0({from})",
                    "fld {new}, 8({from})",
                    "fld {new}, 16({from})",
                    "fld {new}, 24({from})"
                ]
            ),
            Addends::Singles(numbers) => add_fours!(
                words.as_ptr(),
                numbers.as_ptr(),
                fours,
                "16",
                [
                    "flw {new}, 0({from})\nfcvt.d.s {new}, {new}",
                    "flw {new}, 4({from})\nfcvt.d.s {new}, {new}",
                    "flw {new}, 8({from})\nfcvt.d.s {new}, {new}",
                    "flw {new}, 12({from})\nfcvt.d.s {new}, {new}"
                ]
            ),
        }
    }
}
