//! Sets of small numbers: of ports, and of what tables about nodes are indexed by.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

/// All numbers are below this.
pub(crate) const LIMIT: usize = 256;
const WORDS: usize = LIMIT / 64;

/// A set of ports that any hart adds to and one takes from.
pub(crate) struct Doorbells(Box<[AtomicU64]>);

/// One of them, quickly rung.
#[derive(Clone, Copy)]
pub(crate) struct Doorbell {
    word: &'static AtomicU64,
    bit: u64,
}

impl Doorbell {
    /// As [`Doorbells::ring`].
    #[inline]
    pub(crate) fn ring(self) {
        self.word.fetch_or(self.bit, Ordering::Release);
    }
}

impl Doorbells {
    /// For ports below `ports`. Allocates.
    pub(crate) fn new(ports: usize) -> Self {
        Self((0..ports.min(LIMIT).div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// The word of `port`, and its bit there.
    #[inline]
    fn place(&self, port: u16) -> (&AtomicU64, u64) {
        (&self.0[usize::from(port) / 64], 1 << (port % 64))
    }

    /// Adds `port`. What was published before is seen by whoever takes it.
    #[inline]
    pub(crate) fn ring(&self, port: u16) {
        let (word, bit) = self.place(port);
        word.fetch_or(bit, Ordering::Release);
    }

    /// The doorbell of `port`.
    pub(crate) fn of(&'static self, port: u16) -> Doorbell {
        let (word, bit) = self.place(port);
        Doorbell { word, bit }
    }

    /// Takes `port` out.
    pub(crate) fn clear(&self, port: u16) {
        let (word, bit) = self.place(port);
        word.fetch_and(!bit, Ordering::Relaxed);
    }

    /// Whether `port` is in.
    #[inline]
    pub(crate) fn contains(&self, port: u16) -> bool {
        let (word, bit) = self.place(port);
        word.load(Ordering::Relaxed) & bit != 0
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Takes all ports out, and does `what` with each.
    #[inline]
    pub(crate) fn take(&self, mut what: impl FnMut(u16)) {
        for (at, word) in self.0.iter().enumerate() {
            if word.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut rung = word.swap(0, Ordering::Acquire);
            while rung != 0 {
                what((at * 64) as u16 + rung.trailing_zeros() as u16);
                // Without the lowest bit.
                rung &= rung - 1;
            }
        }
    }
}

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

    #[test]
    fn d4_a_doorbell_is_its_own_ports_alone() {
        let bells = Doorbells::new(LIMIT);
        for port in 0..LIMIT as u16 {
            assert!(!bells.contains(port) && bells.is_empty());
            bells.ring(port);
            let rung: Vec<_> = (0..LIMIT as u16).filter(|&at| bells.contains(at)).collect();
            assert_eq!(rung, [port]);
            let neighbour = port ^ 1;
            bells.ring(neighbour);
            bells.clear(port);
            let mut taken = Vec::new();
            bells.take(|port| taken.push(port));
            assert_eq!((taken, bells.is_empty()), (std::vec![neighbour], true));
        }
    }

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
