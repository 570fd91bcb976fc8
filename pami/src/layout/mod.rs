//! Non-contiguous data: where the bytes of a message lie in memory (SPEC P-10, Q-2).
//!
//! A [`Layout`] is small and `Copy`, whatever it describes: what is larger than a stride lies in a [`Table`], which its owner
//! keeps until operations that use it have ended. One walker, [`Layout::next_run`], serves them all: payloads, puts, gets,
//! what messages are scattered to, and the packing of the libraries above.

mod table;

pub use table::{Cell, LEVELS, Levels, Run, StrideLevel, Table, TableError};

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
    /// So many elements of a table, relative to the lowest byte of them all.
    Table(&'static Table, u32),
}

/// How far a walk along a [`Layout`] has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    /// Which run, counted over all repetitions.
    index: u32,
    /// Bytes of its data that are behind.
    within: u32,
}

impl Layout {
    /// The run with this number, and what its offset is relative to. `None` behind the last.
    fn run(&self, index: u32) -> Option<(i64, Run)> {
        match *self {
            Self::Contiguous => (index == 0).then_some((0, Run::of(u32::MAX))),
            Self::Strided { block, stride } => {
                let run = Run { stride: stride.into(), count: u32::MAX, ..Run::of(block) };
                (index == 0 && block > 0).then_some((0, run))
            }
            Self::Indexed(runs) => {
                let &(offset, len) = runs.get(index as usize)?;
                Some((offset.into(), Run::of(len)))
            }
            Self::Table(table, count) => table.nth(index, count),
        }
    }

    /// The next run of at most `most` bytes from `cursor` on: its offset and length. `None` where the layout ends.
    #[inline]
    pub fn next_run(&self, cursor: &mut Cursor, most: u32) -> Option<(u32, u32)> {
        if let Self::Contiguous = self {
            let offset = cursor.within;
            cursor.within = offset.checked_add(most)?;
            return Some((offset, most));
        }
        self.next_apart(cursor, most)
    }

    #[inline(never)]
    fn next_apart(&self, cursor: &mut Cursor, most: u32) -> Option<(u32, u32)> {
        loop {
            let (base, run) = self.run(cursor.index)?;
            if let Some((offset, left)) = run.place(cursor.within) {
                let offset = u32::try_from(base.checked_add(offset)?).ok()?;
                let len = left.min(most);
                cursor.within = cursor.within.checked_add(len)?;
                return Some((offset, len));
            }
            *cursor = Cursor { index: cursor.index.checked_add(1)?, within: 0 };
        }
    }

    /// The cursor behind the first `bytes` bytes; `None` if the layout has fewer.
    pub fn seek(&self, bytes: u32) -> Option<Cursor> {
        // Whole repetitions of a table's runs need not be walked.
        let (mut index, mut within) = match self {
            Self::Contiguous => return Some(Cursor { index: 0, within: bytes }),
            Self::Table(table, count) if table.bytes(*count).is_some_and(|all| all < bytes) => return None,
            Self::Table(table, _) => table.skip(bytes)?,
            _ => (0, bytes),
        };
        while within > 0 {
            let bytes = self.run(index)?.1.bytes();
            if u64::from(within) < bytes {
                break;
            }
            within -= bytes as u32;
            index = index.checked_add(1)?;
        }
        Some(Cursor { index, within })
    }

    /// Bytes of data that lie in `extent` bytes of memory: all of a list, and as much of the blocks as there is.
    /// `None` if a list reaches beyond, or if blocks that no list counts are empty or overlap.
    #[inline(always)]
    pub fn bytes_within(&self, extent: u32) -> Option<u32> {
        // What most ask: no call for it.
        if let Self::Contiguous = self { Some(extent) } else { self.bytes_apart(extent) }
    }

    #[inline(never)]
    fn bytes_apart(&self, extent: u32) -> Option<u32> {
        match *self {
            Self::Contiguous => Some(extent),
            Self::Strided { block, stride } => {
                (block > 0 && stride >= block).then(|| extent / stride * block + (extent % stride).min(block))
            }
            Self::Indexed(runs) => runs.iter().try_fold(0u32, |sum, &(start, run)| {
                let inside = start.checked_add(run)? <= extent;
                inside.then_some(sum)?.checked_add(run)
            }),
            Self::Table(table, count) => {
                table.bytes(count).filter(|_| table.span(count).is_some_and(|span| span <= extent))
            }
        }
    }

    /// The next run that both layouts have in one piece, of at most `most` bytes: its offset in each, and its length.
    pub fn next_pair(
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
    #[inline(always)]
    pub fn reach(&self, len: u32) -> Option<u32> {
        if let Self::Contiguous = self { Some(len) } else { self.reach_apart(len) }
    }

    #[inline(never)]
    fn reach_apart(&self, len: u32) -> Option<u32> {
        match self {
            // The usual case: the table knows.
            Self::Table(table, count) if table.bytes(*count) == Some(len) => return table.span(*count),
            Self::Table(table, count) if table.bytes(*count).is_some_and(|bytes| bytes < len) => return None,
            _ => {}
        }
        let (mut left, mut end, mut index) = (len, 0, 0u32);
        while left > 0 {
            let (base, run) = self.run(index)?;
            let taken = run.bytes().min(left.into()) as u32;
            if taken > 0 {
                end = end.max(base.checked_add(run.end(taken)?)?);
            }
            left -= taken;
            index = index.checked_add(1)?;
        }
        u32::try_from(end).ok()
    }
}

#[cfg(test)]
mod tests;
