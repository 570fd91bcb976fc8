//! Waiting for words of this PE that others change.

use crate::error::{Error, Result};
use crate::library::Shmem;
use crate::symmetric::{Sym, Word};
use pami::{Node, OperationError, Update};

/// What is put into memory wakes nobody: between two looks at it a hart sleeps no longer.
const LOOK_NS: u64 = 100_000;

/// How a word is compared with a value, which stands on the right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in OpenSHMEM")]
pub enum Compare {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

impl Compare {
    fn holds<T: PartialOrd>(self, word: T, value: T) -> bool {
        match self {
            Self::Eq => word == value,
            Self::Ne => word != value,
            Self::Gt => word > value,
            Self::Ge => word >= value,
            Self::Lt => word < value,
            Self::Le => word <= value,
        }
    }
}

/// Those that wait do so until the comparison holds: what was put before the word was changed is there then. They end with
/// [`Error::Operation`] if a node dies, which may be the one that is waited for.
impl<N: Node> Shmem<N> {
    /// Waits until the first element of `word` of this PE compares so with `value`.
    pub fn wait_until<T: Word>(&self, word: Sym<T>, how: Compare, value: T) -> Result {
        self.watch(|| Ok(self.test(word, how, value)?.then_some(())))
    }

    /// Waits until all elements of `words` do.
    pub fn wait_until_all<T: Word>(&self, words: Sym<T>, how: Compare, value: T) -> Result {
        self.watch(|| Ok(self.test_all(words, how, value)?.then_some(())))
    }

    /// Waits until any element of `words` from number `from` on, round the end, does. Returns its number.
    pub fn wait_until_any<T: Word>(
        &self,
        words: Sym<T>,
        from: usize,
        how: Compare,
        value: T,
    ) -> Result<usize> {
        words.first(1)?;
        self.watch(|| self.test_any(words, from, how, value))
    }

    /// Waits until one element of `words` or more do. Their numbers are put into `indices`, as far as there is room; returns
    /// how many they are.
    pub fn wait_until_some<T: Word>(
        &self,
        words: Sym<T>,
        indices: &mut [usize],
        how: Compare,
        value: T,
    ) -> Result<usize> {
        words.first(usize::from(!indices.is_empty())).and(words.first(1))?;
        self.watch(|| Ok(Some(self.test_some(words, indices, how, value)?).filter(|&count| count > 0)))
    }

    /// Advances the library, and says whether the first element of `word` of this PE compares so with `value`.
    pub fn test<T: Word>(&self, word: Sym<T>, how: Compare, value: T) -> Result<bool> {
        self.test_all(word.first(1)?, how, value)
    }

    /// Says whether all elements of `words` do.
    pub fn test_all<T: Word>(&self, words: Sym<T>, how: Compare, value: T) -> Result<bool> {
        Ok(self.find(words, 0, |word| !how.holds(word, value))?.is_none())
    }

    /// Says which element of `words` from number `from` on, round the end, does, if any.
    pub fn test_any<T: Word>(
        &self,
        words: Sym<T>,
        from: usize,
        how: Compare,
        value: T,
    ) -> Result<Option<usize>> {
        self.find(words, from, |word| how.holds(word, value))
    }

    /// Puts the numbers of those elements of `words` that do into `indices`, as far as there is room. Returns how many they
    /// are.
    pub fn test_some<T: Word>(
        &self,
        words: Sym<T>,
        indices: &mut [usize],
        how: Compare,
        value: T,
    ) -> Result<usize> {
        self.progress();
        let (mut count, mut places) = (0, indices.iter_mut());
        for index in 0..words.len() {
            if how.holds(self.word(words, index)?, value) {
                let Some(place) = places.next() else { break };
                (*place, count) = (index, count + 1);
            }
        }
        Ok(count)
    }

    /// The word `signal` of this PE, atomically.
    pub fn signal_fetch(&self, signal: Sym<u64>) -> Result<u64> {
        self.word(signal, 0)
    }

    /// As [`wait_until`](Self::wait_until), of a signal. Returns what it was then.
    pub fn signal_wait_until(&self, signal: Sym<u64>, how: Compare, value: u64) -> Result<u64> {
        self.watch(|| Ok(Some(self.word(signal, 0)?).filter(|&word| how.holds(word, value))))
    }

    /// Advances, and looks for a word, beginning with number `from`.
    fn find<T: Word>(&self, words: Sym<T>, from: usize, is: impl Fn(T) -> bool) -> Result<Option<usize>> {
        self.progress();
        let len = words.len();
        for index in (0..len).map(|step| (from % len + step) % len) {
            if is(self.word(words, index)?) {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// An element of this PE. Acquires what the change that is seen released.
    fn word<T: Word>(&self, words: Sym<T>, index: usize) -> Result<T> {
        let short = Error::Short { has: words.len(), wanted: index + 1 };
        let word = words.at(index).ok_or(short)?;
        let bits = self.memory()?.update(word.offset() as usize, T::WIDTH, Update::Or(0));
        bits.map(T::from_bits).map_err(|_| short)
    }

    /// Advances until there is what is looked for.
    pub(crate) fn watch<T>(&self, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            let (mut found, mut dead) = (Ok(None), None);
            self.advance_for(LOOK_NS, |active| {
                found = look();
                dead = active.dead_node();
                !matches!(found, Ok(None))
            })?;
            if let Some(found) = found? {
                return Ok(found);
            }
            if let Some(node) = dead {
                return Err(Error::Operation(OperationError::NodeDead(node)));
            }
            // What is waited for may hang on what this PE began elsewhere.
            self.progress();
        }
    }
}
