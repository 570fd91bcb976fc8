//! Waiting for words of this PE that others change.

use crate::error::Error;
use crate::library::Shmem;
use crate::number::Word;
use crate::symmetric::Sym;
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

impl<N: Node> Shmem<N> {
    /// Waits until the first element of `word` of this PE compares so with `value`. What was put before it was changed is
    /// there.
    ///
    /// # Errors
    /// [`Error::Short`]; [`Error::Operation`] if a node dies, which may be the one that is waited for.
    pub fn wait_until<T: Word>(&self, word: Sym<T>, how: Compare, value: T) -> Result<(), Error> {
        self.watch(|| Ok(self.test(word, how, value)?.then_some(())))
    }

    /// As [`wait_until`](Self::wait_until), for all elements of `words`.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub fn wait_until_all<T: Word>(&self, words: Sym<T>, how: Compare, value: T) -> Result<(), Error> {
        self.watch(|| Ok(self.test_all(words, how, value)?.then_some(())))
    }

    /// As [`wait_until`](Self::wait_until), for any element of `words` from number `from` on, round the end. Returns its
    /// number.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub fn wait_until_any<T: Word>(
        &self,
        words: Sym<T>,
        from: usize,
        how: Compare,
        value: T,
    ) -> Result<usize, Error> {
        if words.is_empty() {
            return Err(Error::Short { has: 0, wanted: 1 });
        }
        self.watch(|| self.test_any(words, from, how, value))
    }

    /// As [`wait_until`](Self::wait_until), for one element of `words` or more. Their numbers are put into `indices`, as far as
    /// there is room; returns how many they are.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until); [`Error::Short`] if there is no room at all.
    pub fn wait_until_some<T: Word>(
        &self,
        words: Sym<T>,
        indices: &mut [usize],
        how: Compare,
        value: T,
    ) -> Result<usize, Error> {
        if words.is_empty() || indices.is_empty() {
            return Err(Error::Short { has: 0, wanted: 1 });
        }
        self.watch(|| Ok(Some(self.test_some(words, indices, how, value)?).filter(|&count| count > 0)))
    }

    /// Advances the library, and says whether the first element of `word` of this PE compares so with `value`.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Finalized`]
    pub fn test<T: Word>(&self, word: Sym<T>, how: Compare, value: T) -> Result<bool, Error> {
        self.progress();
        Ok(how.holds(self.word(word, 0)?, value))
    }

    /// As [`test`](Self::test), of all elements of `words`.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn test_all<T: Word>(&self, words: Sym<T>, how: Compare, value: T) -> Result<bool, Error> {
        let mut all = true;
        self.each(words, 0, |_, word| {
            all &= how.holds(word, value);
            all
        })?;
        Ok(all)
    }

    /// As [`test`](Self::test), of any element of `words` from number `from` on, round the end. Returns its number.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn test_any<T: Word>(
        &self,
        words: Sym<T>,
        from: usize,
        how: Compare,
        value: T,
    ) -> Result<Option<usize>, Error> {
        let mut found = None;
        self.each(words, from, |index, word| {
            found = how.holds(word, value).then_some(index);
            found.is_none()
        })?;
        Ok(found)
    }

    /// As [`test`](Self::test), of each element of `words`. The numbers of those that do are put into `indices`, as far as there
    /// is room; returns how many they are.
    ///
    /// # Errors
    /// As [`test`](Self::test).
    pub fn test_some<T: Word>(
        &self,
        words: Sym<T>,
        indices: &mut [usize],
        how: Compare,
        value: T,
    ) -> Result<usize, Error> {
        let (mut count, room) = (0, indices.len());
        self.each(words, 0, |index, word| {
            if how.holds(word, value)
                && let Some(place) = indices.get_mut(count)
            {
                *place = index;
                count += 1;
            }
            count < room
        })?;
        Ok(count)
    }

    /// The word `signal` of this PE, atomically.
    ///
    /// # Errors
    /// [`Error::Short`], [`Error::Finalized`]
    pub fn signal_fetch(&self, signal: Sym<u64>) -> Result<u64, Error> {
        self.word(signal, 0)
    }

    /// As [`wait_until`](Self::wait_until), of a signal. Returns what it was then.
    ///
    /// # Errors
    /// As [`wait_until`](Self::wait_until).
    pub fn signal_wait_until(&self, signal: Sym<u64>, how: Compare, value: u64) -> Result<u64, Error> {
        self.watch(|| Ok(Some(self.word(signal, 0)?).filter(|&word| how.holds(word, value))))
    }

    /// Calls `each` with the elements' numbers and values, beginning with number `from`, until it returns false.
    fn each<T: Word>(
        &self,
        words: Sym<T>,
        from: usize,
        mut each: impl FnMut(usize, T) -> bool,
    ) -> Result<(), Error> {
        self.progress();
        let len = words.len();
        for step in 0..len {
            let index = (from % len + step) % len;
            if !each(index, self.word(words, index)?) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// An element of this PE. Acquires what the change that is seen released.
    fn word<T: Word>(&self, words: Sym<T>, index: usize) -> Result<T, Error> {
        let short = Error::Short { has: words.len(), wanted: index + 1 };
        let word = words.at(index).ok_or(short)?;
        let bits = self.memory()?.update(word.offset() as usize, T::WIDTH, Update::Or(0));
        bits.map(T::from_bits).map_err(|_| short)
    }

    /// Advances until there is what is looked for.
    pub(crate) fn watch<T>(&self, mut look: impl FnMut() -> Result<Option<T>, Error>) -> Result<T, Error> {
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
        }
    }
}
