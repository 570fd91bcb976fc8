//! What of the memory a transfer is about, on both sides: contiguous, strided or vector (SPEC P-10).

use crate::error::Error;
use pami::Layout;
use pami::layout::{Cell, Cursor, Levels, Run, Table};

/// Most stride levels of a transfer.
pub const LEVELS: usize = 7;

/// Which bytes a transfer moves, from a local place and a global address on. Units are bytes.
#[derive(Clone, Copy, Debug)]
pub enum Shape<'a> {
    /// So many bytes in a row.
    Contiguous(u32),
    /// `count[0]` bytes in a row, `count[1]` of these rows at each first stride, `count[2]` of those at each second one,
    /// and so on: one count more than there are strides, [`LEVELS`] strides at most.
    Strided {
        /// Bytes of a row, then how many there are at each level.
        count: &'a [u32],
        /// From the start of one to that of the next in local memory, by level.
        local: &'a [u32],
        /// The same in the global address's slab.
        remote: &'a [u32],
    },
    /// Segments of one length each.
    Vector {
        /// Bytes of each.
        bytes: u32,
        /// Offset from the local place, and from the global address, of each.
        places: &'a [(u32, u32)],
    },
}

impl From<u32> for Shape<'_> {
    fn from(bytes: u32) -> Self {
        Self::Contiguous(bytes)
    }
}

impl Shape<'_> {
    /// Whether every run starts at a multiple of `size` from the start, on the remote side, and is one long.
    pub(crate) fn is_multiple_of(&self, size: u32) -> bool {
        match *self {
            Self::Contiguous(row) => row.is_multiple_of(size),
            Self::Strided { count, remote, .. } => {
                let row = count.first().is_none_or(|row| row.is_multiple_of(size));
                let mut levels = count.iter().skip(1).zip(remote);
                count.contains(&0)
                    || row && levels.all(|(&count, stride)| count == 1 || stride.is_multiple_of(size))
            }
            Self::Vector { bytes, places } => {
                bytes.is_multiple_of(size) && places.iter().all(|place| place.1.is_multiple_of(size))
            }
        }
    }
}

/// What is one operation of the messaging layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// From the local place on.
    pub local: u32,
    /// From the global address on.
    pub remote: u32,
    /// Bytes of data.
    pub len: u32,
    pub local_layout: Layout,
    pub remote_layout: Layout,
}

/// Where the layouts of a call lie that strides alone do not tell: local, remote.
pub(crate) struct Tables([Table; 2]);

impl Tables {
    /// Cells that they take: on each side a run, with the first stride, and the other levels.
    pub(crate) const CELLS: usize = 2 * LEVELS;

    /// In so many cells, or they have room for less.
    pub(crate) fn new(cells: &'static [Cell]) -> Self {
        let (local, remote) = cells.split_at(cells.len().min(LEVELS));
        Self([Table::new(local), Table::new(remote)])
    }
}

/// A shape that was looked at.
#[derive(Clone, Debug)]
pub(crate) struct Plan<'a> {
    /// All of it, unless it is a vector.
    whole: Piece,
    /// Bytes and places of segments.
    segments: (u32, &'a [(u32, u32)]),
    /// How far it reaches.
    pub reach: Reach,
}

/// How far a plan reaches from its start, on each side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reach {
    pub local: u64,
    pub remote: u64,
}

fn flat(local: u32, remote: u32, len: u32) -> Piece {
    let (local_layout, remote_layout) = (Layout::Contiguous, Layout::Contiguous);
    Piece { local, remote, len, local_layout, remote_layout }
}

/// One side of `counts` rows at strides.
fn side(table: &'static Table, row: u32, counts: &[u32], strides: &[u32]) -> Result<Layout, Error> {
    let (mut run, mut levels) = (Run::of(row), Levels::default());
    for (&count, &stride) in counts.iter().zip(strides) {
        // There is room for as many as there are strides.
        let _ = levels.put_around(Some(&mut run), count, stride.into());
    }
    if let Some(layout) = run.layout().filter(|_| levels.as_slice().is_empty()) {
        return Ok(layout);
    }
    table.set(&[run], levels.as_slice(), 0).map_err(|_| Error::TooLong)?;
    Ok(Layout::Table(table, 1))
}

impl<'a> Plan<'a> {
    /// What a call is to move, with its layouts in `tables` until it has ended.
    ///
    /// # Errors
    /// [`Error::Levels`], [`Error::TooLong`]
    pub(crate) fn new(shape: Shape<'a>, tables: &'static Tables) -> Result<Self, Error> {
        let mut plan = Self { whole: flat(0, 0, 0), segments: (0, &[]), reach: Reach::default() };
        match shape {
            Shape::Vector { bytes: 0, .. } => {}
            Shape::Vector { bytes, places } => {
                plan.segments = (bytes, places);
                for place in places {
                    let end = |offset: u32| u64::from(offset) + u64::from(bytes);
                    let Reach { local, remote } = plan.reach;
                    plan.reach = Reach { local: local.max(end(place.0)), remote: remote.max(end(place.1)) };
                }
            }
            Shape::Contiguous(row) => {
                plan.whole.len = row;
                plan.reach = Reach { local: row.into(), remote: row.into() };
            }
            Shape::Strided { count, local, remote } => {
                let strides = [local.len(), remote.len()];
                let wrong = Error::Levels { counts: count.len(), strides, limit: LEVELS };
                let Some((&row, counts)) = count.split_first() else { return Err(wrong) };
                if counts.len() > LEVELS || strides != [counts.len(); 2] {
                    return Err(wrong);
                }
                if count.contains(&0) {
                    return Ok(plan);
                }
                let long = Error::TooLong;
                let len = counts.iter().try_fold(row, |len, &count| len.checked_mul(count)).ok_or(long)?;
                let [here, there] = &tables.0;
                let (local_layout, remote_layout) =
                    (side(here, row, counts, local)?, side(there, row, counts, remote)?);
                plan.whole = Piece { len, local_layout, remote_layout, ..plan.whole };
                let reach = |layout: Layout| layout.reach(len).map(u64::from).ok_or(Error::TooLong);
                plan.reach = Reach { local: reach(local_layout)?, remote: reach(remote_layout)? };
            }
        }
        Ok(plan)
    }

    /// Calls `each` for everything that is one operation, in order.
    pub(crate) fn pieces<E>(&self, mut each: impl FnMut(Piece) -> Result<(), E>) -> Result<(), E> {
        if self.whole.len > 0 {
            return each(self.whole);
        }
        self.runs(|local, remote, len| each(flat(local, remote, len)))
    }

    /// Calls `each` with local and remote offset and length of every contiguous run, in order.
    pub(crate) fn runs<E>(&self, mut each: impl FnMut(u32, u32, u32) -> Result<(), E>) -> Result<(), E> {
        let Piece { local_layout, remote_layout, len: mut left, .. } = self.whole;
        let (mut here, mut there) = (Cursor::default(), Cursor::default());
        while left > 0
            && let Some((local, remote, len)) =
                Layout::next_pair((&local_layout, &mut here), (&remote_layout, &mut there), left)
        {
            each(local, remote, len)?;
            left -= len;
        }
        let (bytes, places) = self.segments;
        let mut places = places.iter().copied().peekable();
        while let Some((local, remote)) = places.next() {
            let mut len = bytes;
            // Segments that go on where the one before ends, on both sides, go with it.
            while let Some(longer) = len.checked_add(bytes)
                && let Some(end) = local.checked_add(len).zip(remote.checked_add(len))
                && places.next_if_eq(&end).is_some()
            {
                len = longer;
            }
            each(local, remote, len)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::iter;
    use std::vec::Vec;

    fn tables() -> &'static Tables {
        let cells: Vec<_> = iter::repeat_with(Cell::new).take(Tables::CELLS).collect();
        Box::leak(Box::new(Tables::new(cells.leak())))
    }

    fn pieces(shape: Shape) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let each = |piece| {
            pieces.push(piece);
            Ok::<_, ()>(())
        };
        Plan::new(shape, tables()).unwrap().pieces(each).unwrap();
        pieces
    }

    #[test]
    fn q2_strides_of_all_levels_are_one_operation() {
        let count = [3, 2, 2, 2, 2, 2, 2, 2];
        let (local, remote) = ([4, 9, 20, 41, 90, 200, 410], [3, 7, 15, 31, 63, 127, 300]);
        for levels in 1..=LEVELS {
            let (count, local, remote) = (&count[..=levels], &local[..levels], &remote[..levels]);
            let made = pieces(Shape::Strided { count, local, remote });
            assert_eq!(made.len(), 1, "{levels} levels");
            assert_eq!(made[0].len, count.iter().product());
        }
        // Rows that overlap too.
        let made = pieces(Shape::Strided { count: &[4, 3], local: &[2], remote: &[4] });
        assert_eq!((made.len(), made[0].remote_layout), (1, Layout::Contiguous));
        assert_eq!(pieces(Shape::Strided { count: &[4, 0], local: &[2], remote: &[4] }), []);
    }
}
