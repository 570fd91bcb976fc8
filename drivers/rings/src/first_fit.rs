//! Which items of a range are free: the first that are enough (first fit).
//!
//! What is allocated is known, so what is free lies between: neighbours that are freed are one gap at once.

use core::ops::Range;

/// The lowest multiple of `align`, which is not 0, at which `len` items lie below `limit` and meet none of `used`, in
/// whatever order these are. Of ranges that rise each is looked at twice.
pub fn first_fit(
    len: usize,
    limit: usize,
    align: usize,
    used: impl Iterator<Item = Range<usize>> + Clone,
) -> Option<usize> {
    let (mut start, mut before) = (0usize, None);
    while before != Some(start) {
        before = Some(start);
        for range in used.clone() {
            if range.start.max(start) < range.end.min(start.saturating_add(len)) {
                start = range.end.checked_next_multiple_of(align)?;
            }
        }
    }
    (limit.checked_sub(start)? >= len).then_some(start)
}

/// Items that are allocated together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Span {
    start: u32,
    len: u32,
}

impl Span {
    fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }
}

/// A number of items and, by rising start, which of them are allocated.
#[derive(Default)]
pub struct FirstFit {
    limit: usize,
    spans: &'static mut [Span],
    used: usize,
}

impl FirstFit {
    /// `limit` free items, of which less than 2^32 are used; `spans` is as many places as there can be allocations.
    pub fn new(limit: usize, spans: &'static mut [Span]) -> Self {
        Self { limit: limit.min(u32::MAX as usize), spans, used: 0 }
    }

    fn spans(&self) -> &[Span] {
        &self.spans[..self.used]
    }

    fn find(&self, start: usize) -> Option<usize> {
        self.spans().binary_search_by_key(&start, |span| span.start as usize).ok()
    }

    /// Takes `len` items, at least one. Returns the first.
    pub fn allocate(&mut self, len: usize) -> Option<usize> {
        self.allocate_aligned(len, 1)
    }

    /// As [`allocate`](Self::allocate); the first is a multiple of `align`, which is not 0.
    pub fn allocate_aligned(&mut self, len: usize, align: usize) -> Option<usize> {
        if len == 0 || self.used == self.spans.len() {
            return None;
        }
        let start = first_fit(len, self.limit, align, self.spans().iter().map(Span::range))?;
        let at = self.spans().partition_point(|span| (span.start as usize) < start);
        self.spans[at..=self.used].rotate_right(1);
        self.spans[at] = Span { start: start as u32, len: len as u32 };
        self.used += 1;
        Some(start)
    }

    /// Whether an allocation starts at `start`.
    pub fn contains(&self, start: usize) -> bool {
        self.find(start).is_some()
    }

    /// Makes an allocation longer where it is, up to `len` items, or shorter, but never empty. Returns how long it is,
    /// 0 if there is none.
    pub fn resize(&mut self, start: usize, len: usize) -> usize {
        let Some(at) = self.find(start) else { return 0 };
        let end = self.spans().get(at + 1).map_or(self.limit, |next| next.start as usize);
        let len = len.clamp(1, end - start);
        self.spans[at].len = len as u32;
        len
    }

    /// Gives an allocation back. Returns whether there was one.
    pub fn free(&mut self, start: usize) -> bool {
        let Some(at) = self.find(start) else { return false };
        self.spans[at..self.used].rotate_left(1);
        self.used -= 1;
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
