//! Sets of small numbers: of ports, and of what tables about nodes are indexed by.

use core::sync::atomic::{AtomicU64, Ordering};

/// All numbers are below this.
pub(crate) const LIMIT: usize = 256;
const WORDS: usize = LIMIT / 64;

/// A set of ports that any hart adds to and one takes from.
pub(crate) struct Doorbells([AtomicU64; WORDS]);

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
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; WORDS])
    }

    /// Adds `port`. What was published before is seen by whoever takes it.
    #[inline]
    pub(crate) fn ring(&self, port: u16) {
        let port = usize::from(port) % LIMIT;
        self.0[port / 64].fetch_or(1 << (port % 64), Ordering::Release);
    }

    /// The doorbell of `port`.
    pub(crate) fn of(&'static self, port: u16) -> Doorbell {
        let port = usize::from(port) % LIMIT;
        Doorbell { word: &self.0[port / 64], bit: 1 << (port % 64) }
    }

    /// Takes `port` out.
    pub(crate) fn clear(&self, port: u16) {
        let port = usize::from(port) % LIMIT;
        self.0[port / 64].fetch_and(!(1 << (port % 64)), Ordering::Relaxed);
    }

    /// Whether `port` is in.
    pub(crate) fn contains(&self, port: u16) -> bool {
        let port = usize::from(port) % LIMIT;
        self.0[port / 64].load(Ordering::Relaxed) & 1 << (port % 64) != 0
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Moves all ports into `set`.
    #[inline]
    pub(crate) fn take(&self, set: &mut BitSet) {
        for (at, (word, taken)) in self.0.iter().zip(&mut set.words).enumerate() {
            if word.load(Ordering::Relaxed) != 0 {
                *taken |= word.swap(0, Ordering::Acquire);
                set.used |= 1 << at;
            }
        }
    }
}

/// A set of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BitSet {
    words: [u64; WORDS],
    /// A bit for each word that is not 0.
    used: u32,
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
        let number = usize::from(number) % LIMIT;
        let word = &mut self.words[number / 64];
        *word &= !(1 << (number % 64));
        if *word == 0 {
            self.used &= !(1 << (number / 64));
        }
    }

    /// Adds all of `other`.
    #[inline]
    pub(crate) fn join(&mut self, other: &Self) {
        if !other.is_empty() {
            self.words.iter_mut().zip(other.words).for_each(|(word, more)| *word |= more);
            self.used |= other.used;
        }
    }

    /// The first number at or behind `from`, else the first of all.
    #[inline]
    pub(crate) fn next(&self, from: u16) -> Option<u16> {
        if self.is_empty() {
            return None;
        }
        let from = usize::from(from) % LIMIT;
        let ahead = self.words[from / 64] >> (from % 64);
        if ahead != 0 {
            return Some((from + ahead.trailing_zeros() as usize) as u16);
        }
        let behind = self.used & u32::MAX << (from / 64 + 1);
        let word = if behind != 0 { behind } else { self.used }.trailing_zeros() as usize % WORDS;
        Some((word * 64 + self.words[word].trailing_zeros() as usize) as u16)
    }

    /// Takes the first number out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u16> {
        let number = self.next(0)?;
        self.remove(number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn d4_a_doorbell_is_its_own_ports_alone() {
        let bells = Doorbells::new();
        for port in 0..LIMIT as u16 {
            assert!(!bells.contains(port) && bells.is_empty());
            bells.ring(port);
            let rung: Vec<_> = (0..LIMIT as u16).filter(|&at| bells.contains(at)).collect();
            assert_eq!(rung, [port]);
            let neighbour = port ^ 1;
            bells.ring(neighbour);
            bells.clear(port);
            let mut taken = BitSet::EMPTY;
            bells.take(&mut taken);
            assert_eq!((taken.pop(), taken.pop(), bells.is_empty()), (Some(neighbour), None, true));
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
