//! How a vector is cut into one block for each rank.

use super::step::{Area, Span};
use crate::partition::{Partition, PartitionAround};
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The block boundaries make no partition of a vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAscending;

impl fmt::Display for NotAscending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("block boundaries must not be empty, and each must be at least the one before it")
    }
}

impl core::error::Error for NotAscending {}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout<'a> {
    Equal(usize),
    Split { partition: Partition, unit: usize },
    Around { partition: PartitionAround, unit: usize },
    Listed { bounds: &'a [usize], longest: usize },
    Pooled { bounds: PooledBounds<'a>, longest: usize },
}

/// Boundaries in memory that is used again.
#[derive(Clone, Copy, Debug)]
struct PooledBounds<'a>(&'a [AtomicUsize]);

impl PooledBounds<'_> {
    fn get(self, index: usize) -> Option<usize> {
        self.0.get(index).map(|bound| bound.load(Ordering::Relaxed))
    }

    fn all(self) -> impl Iterator<Item = usize> + Clone {
        self.0.iter().map(|bound| bound.load(Ordering::Relaxed))
    }
}

impl PartialEq for PooledBounds<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.all().eq(other.all())
    }
}

impl Eq for PooledBounds<'_> {}

/// One block for each rank, one behind the other in the order of ranks. Lengths are elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks<'a> {
    layout: Layout<'a>,
    first: u32,
    gap: Option<u32>,
    /// Of each block, only so many elements from the first of these on.
    cut: Option<(usize, usize)>,
}

impl<'a> Blocks<'a> {
    const fn of(layout: Layout<'a>) -> Self {
        Self { layout, first: 0, gap: None, cut: None }
    }

    /// Blocks of `len` elements each.
    pub const fn equal(len: usize) -> Self {
        Self::of(Layout::Equal(len))
    }

    /// `partition` of a vector whose things are `unit` elements long.
    pub const fn split(partition: Partition, unit: usize) -> Self {
        Self::of(Layout::Split { partition, unit })
    }

    /// The same, of a partition around one of its things.
    pub const fn split_around(partition: PartitionAround, unit: usize) -> Self {
        Self::of(Layout::Around { partition, unit })
    }

    /// Blocks of any length, as the v forms have them: block `i` runs from `bounds[i]` to `bounds[i + 1]`.
    ///
    /// # Errors
    /// [`NotAscending`].
    pub fn listed(bounds: &'a [usize]) -> Result<Self, NotAscending> {
        let ascending = !bounds.is_empty() && bounds.windows(2).all(|pair| pair[0] <= pair[1]);
        let longest = bounds.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0);
        if ascending { Ok(Self::of(Layout::Listed { bounds, longest })) } else { Err(NotAscending) }
    }

    /// As [`listed`](Self::listed), in memory that the caller uses again. It must stay as it is until the collective
    /// is done: until then a change makes blocks of other lengths, though none outside the caller's memory.
    ///
    /// # Errors
    /// [`NotAscending`].
    pub fn pooled(bounds: &'a [AtomicUsize]) -> Result<Self, NotAscending> {
        let bounds = PooledBounds(bounds);
        let mut longest = 0;
        for (start, end) in bounds.all().zip(bounds.all().skip(1)) {
            longest = longest.max(end.checked_sub(start).ok_or(NotAscending)?);
        }
        if bounds.0.is_empty() { Err(NotAscending) } else { Ok(Self::of(Layout::Pooled { bounds, longest })) }
    }

    /// The length of all blocks, if they were made by [`equal`](Self::equal).
    pub(super) fn only_len(&self) -> Option<usize> {
        match self.layout {
            Layout::Equal(len) if self.first == 0 && self.gap.is_none() && self.cut.is_none() => Some(len),
            _ => None,
        }
    }

    /// Leaves out the blocks before `first`, and puts an empty one at place `gap` if there is one.
    pub const fn window(self, first: u32, gap: Option<u32>) -> Self {
        Self { first: self.first + first, gap, ..self }
    }

    /// Of each block only the `most` elements from `from` on, if it has so many. They stay where they are. Algorithms that send
    /// several blocks as one take what is between them, too: name one that sends each by itself, such as flat or ring.
    pub const fn cut(self, from: usize, most: usize) -> Self {
        Self { cut: Some((from, most)), ..self }
    }

    /// Elements of a block of `whole` before those that count.
    fn cut_from(&self, whole: usize) -> usize {
        self.cut.map_or(0, |(from, _)| from.min(whole))
    }

    /// Elements that count of a block of `whole`.
    fn cut_len(&self, whole: usize) -> usize {
        self.cut.map_or(whole, |(from, most)| whole.saturating_sub(from).min(most))
    }

    /// Whether there are blocks for `ranks` ranks.
    pub(super) fn suffice(&self, ranks: u32) -> bool {
        let last = self.index(ranks) as usize;
        match self.layout {
            Layout::Equal(_) => true,
            Layout::Split { partition, .. } => last <= partition.parts() as usize,
            Layout::Around { partition, .. } => last <= partition.parts() as usize,
            Layout::Listed { bounds, .. } => last < bounds.len(),
            Layout::Pooled { bounds, .. } => last < bounds.0.len(),
        }
    }

    /// Whether all blocks have the same length, for whatever number of ranks.
    pub fn are_equal(&self) -> bool {
        matches!(self.layout, Layout::Equal(_)) && self.gap.is_none()
    }

    #[inline]
    fn index(&self, rank: u32) -> u32 {
        self.first + rank - u32::from(self.gap.is_some_and(|gap| rank > gap))
    }

    /// The length of all of them, if they have one.
    #[inline]
    fn every(&self) -> Option<usize> {
        match self.layout {
            Layout::Equal(len) if self.gap.is_none() => Some(len),
            _ => None,
        }
    }

    fn bound(&self, index: u32) -> usize {
        match self.layout {
            Layout::Equal(len) => index as usize * len,
            Layout::Split { partition, unit } => partition.start(index) * unit,
            Layout::Around { partition, unit } => partition.start(index) * unit,
            Layout::Listed { bounds, .. } => bounds.get(index as usize).copied().unwrap_or(0),
            Layout::Pooled { bounds, .. } => bounds.get(index as usize).unwrap_or(0),
        }
    }

    /// Elements before the block of `rank`.
    #[inline]
    pub fn start(&self, rank: u32) -> usize {
        if let Some(len) = self.every() {
            return rank as usize * len;
        }
        self.bound(self.index(rank)) - self.bound(self.first)
    }

    #[inline]
    fn whole_len(&self, rank: u32) -> usize {
        if let Some(len) = self.every() {
            return len;
        }
        self.bound(self.index(rank + 1)) - self.bound(self.index(rank))
    }

    /// Elements of the block of `rank`.
    pub fn len(&self, rank: u32) -> usize {
        self.cut_len(self.whole_len(rank))
    }

    /// The block of `rank` in an area where all lie one behind the other.
    pub(super) fn span(&self, area: Area, rank: u32) -> Span {
        let whole = self.whole_len(rank);
        Span::new(area, self.start(rank) + self.cut_from(whole), self.cut_len(whole))
    }

    /// The block of `rank` in scratch memory for all of them, and no more than that.
    pub(super) fn packed(&self, rank: u32) -> Span {
        match self.cut {
            Some(_) => Span::new(Area::Scratch, rank as usize * self.longest(), self.len(rank)),
            None => self.span(Area::Scratch, rank),
        }
    }

    /// Elements of the longest block, or a little more.
    pub fn longest(&self) -> usize {
        let whole = match self.layout {
            Layout::Equal(len) => len,
            Layout::Split { partition, unit } => (partition.range(0).len()) * unit,
            Layout::Around { partition, unit } => partition.longest() * unit,
            Layout::Listed { longest, .. } | Layout::Pooled { longest, .. } => longest,
        };
        self.cut_len(whole)
    }

    /// Elements of the `count` blocks from `origin` on, round the end of `size` ranks.
    pub(super) fn round_len(&self, origin: u32, count: u32, size: u32) -> usize {
        let [head, tail] = around(origin, count, size);
        self.start(head.end) - self.start(head.start) + self.start(tail.end) - self.start(tail.start)
    }
}

/// The `count` ranks from `start` on, round the end of `size`: at most two ranges, the second starting at 0.
pub(super) fn around(start: u32, count: u32, size: u32) -> [Range<u32>; 2] {
    let head = count.min(size - start);
    [start..start + head, 0..count - head]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g3_boundaries_that_fall_are_refused() {
        assert_eq!(Blocks::listed(&[]), Err(NotAscending));
        assert_eq!(Blocks::listed(&[0, 2, 1]), Err(NotAscending));
        let blocks = Blocks::listed(&[0, 2, 2, 5]).unwrap();
        assert_eq!((0..3).map(|rank| blocks.len(rank)).collect::<std::vec::Vec<_>>(), [2, 0, 3]);
        assert!(blocks.suffice(3) && !blocks.suffice(4));
    }

    #[test]
    fn g3_pooled_boundaries_are_as_listed_ones() {
        let pool = [0, 2, 2, 5].map(AtomicUsize::new);
        let (pooled, listed) = (Blocks::pooled(&pool).unwrap(), Blocks::listed(&[0, 2, 2, 5]).unwrap());
        assert_eq!((pooled.longest(), pooled.are_equal(), pooled.suffice(4)), (3, false, false));
        for rank in 0..3 {
            assert_eq!((pooled.start(rank), pooled.len(rank)), (listed.start(rank), listed.len(rank)));
        }
        pool[2].store(1, Ordering::Relaxed);
        assert_eq!((Blocks::pooled(&pool), Blocks::pooled(&[])), (Err(NotAscending), Err(NotAscending)));
    }

    #[test]
    fn g4_a_window_leaves_out_what_is_before_it_and_can_hold_an_empty_block() {
        let blocks = Blocks::listed(&[0, 2, 5, 9, 14]).unwrap().window(1, Some(0));
        assert_eq!((0..4).map(|rank| blocks.len(rank)).collect::<std::vec::Vec<_>>(), [0, 3, 4, 5]);
        assert_eq!((0..4).map(|rank| blocks.start(rank)).collect::<std::vec::Vec<_>>(), [0, 0, 3, 7]);
        assert!(blocks.suffice(4) && !blocks.suffice(5));
    }
}
