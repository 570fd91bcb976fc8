//! Additions to numbers in words, as the compiler makes them: x86-64 has nothing that takes fewer instructions.

use core::sync::atomic::AtomicU64;
use pami::addends::Addends;

/// As [`Addends::add_to`].
pub(crate) fn add_numbers(words: &[AtomicU64], addends: Addends<'_>) {
    addends.add_to(words);
}
