//! Scratch memory of a context, handed out in ranges.

use crate::error::{Error, Result};
use core::ops::Range;
use pami::Shared;

/// Ranges begin at multiples of it, as the adapters' ALU and caches like it.
const ALIGN: usize = 64;

/// The memory.
#[derive(Default)]
pub(super) struct Arena(Option<Shared>);

impl Arena {
    pub fn new(memory: Shared) -> Self {
        Self(Some(memory))
    }

    pub fn memory(&self) -> Option<&Shared> {
        self.0.as_ref()
    }

    /// Where `len` bytes are free; `None` while those in use leave no room.
    ///
    /// # Errors
    /// [`Error::NoMem`] if there are not so many at all.
    pub fn find(
        &self,
        len: usize,
        used: impl Iterator<Item = Range<usize>> + Clone,
    ) -> Result<Option<usize>> {
        let limit = self.0.as_ref().map_or(0, Shared::len);
        if len > limit {
            return Err(Error::NoMem { what: "bytes of scratch memory for a collective", limit });
        }
        if len == 0 {
            return Ok(Some(0));
        }
        // A range that fits somewhere fits at the front, or right behind another.
        let starts = core::iter::once(0).chain(used.clone().map(|range| range.end.next_multiple_of(ALIGN)));
        let fits = |&start: &usize| {
            let inside = start.checked_add(len).is_some_and(|end| end <= limit);
            inside && used.clone().all(|range| range.end <= start || range.start >= start + len)
        };
        Ok(starts.filter(fits).min())
    }
}

/// The sum of lengths, each rounded up so that the next begins aligned.
pub(super) fn together(lens: [usize; 3]) -> Option<(usize, [usize; 3])> {
    let mut starts = [0; 3];
    let mut total = 0usize;
    for (start, len) in starts.iter_mut().zip(lens) {
        *start = total;
        total = total.checked_add(len.checked_next_multiple_of(ALIGN)?)?;
    }
    // The last one's end need not be aligned, and a short memory is used whole.
    let end = starts.iter().zip(lens).map(|(start, len)| start + len).max().unwrap_or(0);
    Some((end, starts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn ranges_do_not_meet_and_gaps_are_used() {
        let memory = pami::Buffer::new(vec![0u8; 1024].leak()).unwrap().share();
        let limit = memory.len();
        let arena = Arena::new(memory);
        let find = |len, used: &[[usize; 2]]| arena.find(len, used.iter().map(|&[start, end]| start..end));
        assert_eq!(find(limit, &[]), Ok(Some(0)));
        assert!(matches!(find(limit + 1, &[]), Err(Error::NoMem { limit: of, .. }) if of == limit));
        assert_eq!(find(100, &[[0, 70]]), Ok(Some(128)));
        assert_eq!(find(64, &[[0, 64], [128, 192]]), Ok(Some(64)));
        assert_eq!(find(65, &[[0, 64], [128, 192]]), Ok(Some(192)));
        assert_eq!(find(limit - 64, &[[0, 64], [128, 192]]), Ok(None));
        assert_eq!(find(0, &[[0, limit]]), Ok(Some(0)));
        assert_eq!(together([1, 0, 65]), Some((129, [0, 64, 64])));
        assert_eq!(together([usize::MAX, 1, 1]), None);
    }
}
