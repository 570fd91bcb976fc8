//! Sets of small numbers: of ports, and of what tables about nodes are indexed by.

/// All numbers are below this.
pub(crate) const LIMIT: usize = 256;
const WORDS: usize = LIMIT / 64;

/// The lowest bit of each number below 2^[`WORDS`].
const LOWEST: [u8; 1 << WORDS] = {
    let mut lowest = [0; 1 << WORDS];
    let mut number = 1;
    while number < 1 << WORDS {
        lowest[number] = number.trailing_zeros() as u8;
        number += 1;
    }
    lowest
};

/// A set of numbers.
// Aligned so that it is copied in few pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(align(16))]
pub struct BitSet {
    words: [u64; WORDS],
    /// A bit for each word that is not 0.
    used: usize,
}

impl BitSet {
    pub(crate) const EMPTY: Self = Self { words: [0; WORDS], used: 0 };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, number: u16) {
        let number = usize::from(number) % LIMIT;
        self.words[number / 64] |= 1 << (number % 64);
        self.used |= 1 << (number / 64);
    }

    #[inline]
    pub(crate) fn remove(&mut self, number: u16) {
        if self.is_empty() {
            return;
        }
        let number = usize::from(number) % LIMIT;
        let word = &mut self.words[number / 64];
        *word &= !(1 << (number % 64));
        if *word == 0 {
            self.used &= !(1 << (number / 64));
        }
    }

    /// All of it; leaves nothing.
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        if self.is_empty() { Self::EMPTY } else { core::mem::replace(self, Self::EMPTY) }
    }

    /// The first number at or behind `from`, else the first of all.
    #[inline]
    pub(crate) fn next(&self, from: u16) -> Option<u16> {
        let (word, bit) = self.place(from)?;
        Some((word * 64 + bit) as u16)
    }

    /// The same, and takes it out.
    #[inline]
    pub(crate) fn take_next(&mut self, from: u16) -> Option<u16> {
        let (at, bit) = self.place(from)?;
        let word = &mut self.words[at];
        *word &= !(1 << bit);
        if *word == 0 {
            self.used &= !(1 << at);
        }
        Some((at * 64 + bit) as u16)
    }

    /// Word and bit of the first number at or behind `from`, else of the first of all.
    #[inline]
    fn place(&self, from: u16) -> Option<(usize, usize)> {
        if self.is_empty() {
            return None;
        }
        let (at, bit) = (usize::from(from) / 64 % WORDS, usize::from(from) % 64);
        let ahead = self.words[at] >> bit;
        if ahead != 0 {
            return Some((at, bit + ahead.trailing_zeros() as usize));
        }
        let behind = self.used & !1 << at;
        let word = usize::from(LOWEST[if behind != 0 { behind } else { self.used } % LOWEST.len()]) % WORDS;
        Some((word, self.words[word].trailing_zeros() as usize))
    }

    /// Takes the first number out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u16> {
        self.take_next(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn d4_the_next_port_is_the_next_in_the_circle(
            ports in proptest::collection::btree_set(0u16..256, 0..20), from in 0u16..256
        ) {
            let mut set = BitSet::EMPTY;
            ports.iter().for_each(|&port| set.insert(port));
            let expected = ports.range(from..).next().or(ports.first()).copied();
            prop_assert_eq!(set.next(from), expected);
            let mut taken = Vec::new();
            while let Some(port) = set.pop() {
                taken.push(port);
            }
            prop_assert!(ports.iter().eq(&taken));
        }
    }
}
