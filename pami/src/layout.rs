//! Non-contiguous data: where the bytes of a message lie in memory (SPEC P-10).

use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A run of bytes, as it travels in front of scattered data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Segment {
    /// The first byte's place.
    pub offset: U32,
    /// Number of bytes.
    pub len: U32,
}

/// Where the bytes of some data lie, relative to the place that the operation names. Units are bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Layout {
    /// One behind the other.
    #[default]
    Contiguous,
    /// `block` bytes, at every `stride` bytes.
    Strided {
        /// Bytes of a block, over 0.
        block: u32,
        /// From the start of one block to that of the next.
        stride: u32,
    },
    /// Runs of bytes: offset and length of each.
    Indexed(&'static [(u32, u32)]),
}

/// How far a walk along a [`Layout`] has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    block: u32,
    within: u32,
}

impl Layout {
    /// The next run of at most `most` bytes from `cursor` on: its offset and length. `None` where an index ends.
    pub fn next_run(&self, cursor: &mut Cursor, most: u32) -> Option<(u32, u32)> {
        match *self {
            Self::Contiguous => {
                let offset = cursor.within;
                cursor.within = offset.checked_add(most)?;
                Some((offset, most))
            }
            Self::Strided { block, stride } => {
                let offset = cursor.block.checked_mul(stride)?.checked_add(cursor.within)?;
                let len = block.checked_sub(cursor.within)?.min(most);
                cursor.step(len, block);
                Some((offset, len)).filter(|_| block > 0)
            }
            Self::Indexed(runs) => loop {
                let &(start, run) = runs.get(cursor.block as usize)?;
                let len = run.checked_sub(cursor.within)?.min(most);
                let offset = start.checked_add(cursor.within)?;
                cursor.step(len, run);
                if len > 0 || most == 0 {
                    return Some((offset, len));
                }
            },
        }
    }

    /// Bytes of data that lie in `extent` bytes of memory: all of an index, and as much of the blocks as there is.
    /// `None` if an index reaches beyond, or if blocks are empty or overlap.
    pub fn bytes_within(&self, extent: u32) -> Option<u32> {
        match *self {
            Self::Contiguous => Some(extent),
            Self::Strided { block, stride } => {
                (block > 0 && stride >= block).then(|| extent / stride * block + (extent % stride).min(block))
            }
            Self::Indexed(runs) => runs.iter().try_fold(0u32, |sum, &(start, run)| {
                let inside = start.checked_add(run)? <= extent;
                inside.then_some(sum)?.checked_add(run)
            }),
        }
    }

    /// The next run that both layouts have in one piece, of at most `most` bytes: its offset in each, and its length.
    pub(crate) fn next_pair(
        (a, at_a): (&Self, &mut Cursor),
        (b, at_b): (&Self, &mut Cursor),
        most: u32,
    ) -> Option<(u32, u32, u32)> {
        let mut ahead = *at_a;
        let (_, len) = a.next_run(&mut ahead, most)?;
        let (in_b, len) = b.next_run(at_b, len)?;
        let (in_a, len) = a.next_run(at_a, len)?;
        Some((in_a, in_b, len))
    }

    /// How far from the start `len` bytes reach; `None` if the layout has fewer, or reaches too far to count.
    pub fn reach(&self, len: u32) -> Option<u32> {
        match *self {
            Self::Contiguous => Some(len),
            Self::Strided { block, stride } => {
                let Some(last) = len.checked_sub(1) else { return Some(0) };
                let (blocks, part) = (last.checked_div(block)?, last % block);
                let end = blocks.checked_mul(stride)?.checked_add(part)?.checked_add(1)?;
                // Where blocks overlap the last whole one may reach further.
                let Some(whole) = blocks.checked_sub(1) else { return Some(end) };
                Some(whole.checked_mul(stride)?.checked_add(block)?.max(end))
            }
            Self::Indexed(runs) => {
                let (mut left, mut end) = (len, 0);
                for &(start, run) in runs {
                    let taken = run.min(left);
                    if taken > 0 {
                        end = end.max(start.checked_add(taken)?);
                    }
                    left -= taken;
                }
                (left == 0).then_some(end)
            }
        }
    }
}

impl Cursor {
    fn step(&mut self, len: u32, block: u32) {
        self.within += len;
        if self.within >= block {
            *self = Self { block: self.block + 1, within: 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn walk(layout: Layout, len: u32, most: u32) -> Vec<u32> {
        let (mut cursor, mut left, mut places) = (Cursor::default(), len, Vec::new());
        while left > 0 {
            let Some((offset, run)) = layout.next_run(&mut cursor, left.min(most)) else { break };
            places.extend(offset..offset + run);
            left -= run;
        }
        places
    }

    #[test]
    fn p10_every_layout_names_its_bytes_in_order_whatever_the_steps() {
        let strided = Layout::Strided { block: 3, stride: 5 };
        let indexed = Layout::Indexed(&[(4, 2), (9, 0), (0, 3)]);
        for most in 1..9 {
            assert_eq!(walk(Layout::Contiguous, 4, most), [0, 1, 2, 3]);
            assert_eq!(walk(strided, 8, most), [0, 1, 2, 5, 6, 7, 10, 11]);
            assert_eq!(walk(indexed, 5, most), [4, 5, 0, 1, 2]);
            assert_eq!(walk(indexed, 9, most), [4, 5, 0, 1, 2], "an index has an end");
        }
    }

    #[test]
    fn p10_the_bytes_within_memory_are_those_whose_places_it_has() {
        let strided = Layout::Strided { block: 3, stride: 5 };
        for extent in 0..40 {
            let bytes = strided.bytes_within(extent).unwrap();
            assert!(strided.reach(bytes).unwrap() <= extent, "{extent}");
            assert!(strided.reach(bytes + 1).unwrap() > extent, "{extent}");
        }
        assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).bytes_within(6), Some(5));
        assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).bytes_within(5), None);
        assert_eq!(Layout::Indexed(&[(u32::MAX, 2)]).bytes_within(u32::MAX), None);
        assert_eq!(Layout::Strided { block: 5, stride: 4 }.bytes_within(9), None);
        assert_eq!(Layout::Strided { block: 0, stride: 0 }.bytes_within(9), None);
    }

    #[test]
    fn p10_runs_of_two_layouts_pair_up() {
        let (a, b) = (Layout::Strided { block: 3, stride: 5 }, Layout::Indexed(&[(4, 2), (9, 0), (0, 6)]));
        let (mut at_a, mut at_b, mut left) = (Cursor::default(), Cursor::default(), 8);
        let mut pairs = Vec::new();
        while let Some((in_a, in_b, len)) = Layout::next_pair((&a, &mut at_a), (&b, &mut at_b), left) {
            pairs.extend((0..len).map(|n| (in_a + n, in_b + n)));
            left -= len;
            if left == 0 {
                break;
            }
        }
        assert_eq!(pairs, [(0, 4), (1, 5), (2, 0), (5, 1), (6, 2), (7, 3), (10, 4), (11, 5)]);
    }

    #[test]
    fn p10_the_reach_is_one_past_the_furthest_byte() {
        let strided = Layout::Strided { block: 3, stride: 5 };
        assert_eq!(strided.reach(8), Some(12));
        assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).reach(5), Some(6));
        assert_eq!(Layout::Indexed(&[(4, 2), (0, 3)]).reach(6), None);
        assert_eq!(Layout::Strided { block: 0, stride: 5 }.reach(8), None);
        assert_eq!(Layout::Strided { block: 1, stride: u32::MAX }.reach(8), None);
        assert_eq!(Layout::Contiguous.reach(7), Some(7));
        // Also where blocks overlap.
        for (block, stride, len) in [(10, 1, 15), (10, 0, 11), (4, 3, 4), (4, 3, 5), (4, 3, 12)] {
            let layout = Layout::Strided { block, stride };
            let furthest = walk(layout, len, len).into_iter().max().unwrap();
            assert_eq!(layout.reach(len), Some(furthest + 1), "{len} bytes of {layout:?}");
        }
        let far = Layout::Strided { block: u32::MAX, stride: 1 };
        assert_eq!(
            (far.reach(u32::MAX), Layout::Strided { block: u32::MAX - 1, stride: 2 }.reach(u32::MAX)),
            (Some(u32::MAX), Some(u32::MAX - 1))
        );
    }
}
