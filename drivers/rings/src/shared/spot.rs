//! Memory in shared use with one word of it, which is looked for once.

use super::Shared;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;

/// A handle of memory in shared use that knows where one word of it lies: who reads or writes that need not check each time
/// whether it is one.
#[derive(Clone)]
pub struct Spot {
    memory: Shared,
    word: Option<NonNull<AtomicU64>>,
}

// SAFETY: it is a handle of memory, and the address of an atomic in it.
unsafe impl Send for Spot {}
// SAFETY: as above.
unsafe impl Sync for Spot {}

impl Spot {
    /// Memory, and no word of it.
    pub fn of(memory: Shared) -> Self {
        Self { memory, word: None }
    }

    /// Memory, and the word at `offset` if one lies whole there, at a multiple of eight.
    pub fn at(memory: Shared, offset: usize) -> Self {
        let word = memory.place_of_word(offset);
        Self { memory, word }
    }

    /// The memory.
    #[inline]
    pub fn memory(&self) -> &Shared {
        &self.memory
    }

    /// The word, if there is one.
    #[inline(always)]
    pub fn word(&self) -> Option<&AtomicU64> {
        // SAFETY: it was found in the memory whose handle lies beside it for good, so that stays where it is; and it is whole and
        // at a multiple of eight, so it is only ever accessed as an atomic of this size.
        self.word.map(|word| unsafe { word.as_ref() })
    }
}
