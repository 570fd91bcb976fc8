//! What of the memory a transfer is about, on both sides: contiguous, strided or vector (SPEC P-10).

use crate::error::Error;
use heapless::Vec;
use pami::Layout;

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

/// What is one operation of the messaging layer: up to two dimensions.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Level {
    count: u32,
    local: u32,
    remote: u32,
}

/// A shape that was looked at: rows, and the levels that cannot be told as one.
#[derive(Clone, Debug)]
pub(crate) enum Plan<'a> {
    Levels { row: u32, levels: Vec<Level, LEVELS>, none: bool },
    Vector { bytes: u32, places: &'a [(u32, u32)] },
}

/// How far a plan reaches from its start, on each side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reach {
    pub local: u64,
    pub remote: u64,
}

impl<'a> Plan<'a> {
    /// # Errors
    /// [`Error::Levels`], [`Error::TooLong`]
    pub(crate) fn new(shape: Shape<'a>) -> Result<Self, Error> {
        let (count, local, remote) = match shape {
            Shape::Vector { bytes, places } => return Ok(Self::Vector { bytes, places }),
            Shape::Contiguous(row) => {
                return Ok(Self::Levels { row, levels: Vec::new(), none: row == 0 });
            }
            Shape::Strided { count, local, remote } => (count, local, remote),
        };
        let wrong =
            Error::Levels { counts: count.len(), strides: [local.len(), remote.len()], limit: LEVELS };
        let Some((&row, counts)) = count.split_first() else { return Err(wrong) };
        if counts.len() > LEVELS || local.len() != counts.len() || remote.len() != counts.len() {
            return Err(wrong);
        }
        let none = count.contains(&0);
        let (mut row, mut levels) = (row, Vec::<Level, LEVELS>::new());
        for ((&count, &local), &remote) in counts.iter().zip(local).zip(remote) {
            if none || count == 1 {
                continue;
            }
            match levels.last_mut() {
                // Rows that lie one behind the other on both sides are one.
                None if (local, remote) == (row, row) => {
                    row = row.checked_mul(count).ok_or(Error::TooLong)?;
                }
                Some(last) if last.goes_on(local, remote) => {
                    last.count = last.count.checked_mul(count).ok_or(Error::TooLong)?;
                }
                // There are no more than there is room for.
                _ => _ = levels.push(Level { count, local, remote }),
            }
        }
        Ok(Self::Levels { row, levels, none })
    }

    /// How far it reaches.
    pub(crate) fn reach(&self) -> Reach {
        match self {
            Self::Levels { none: true, .. } => Reach::default(),
            Self::Levels { row, levels, .. } => {
                let sum = |stride: fn(&Level) -> u32| {
                    let steps = |level: &Level| u64::from(level.count - 1) * u64::from(stride(level));
                    levels.iter().map(steps).fold(u64::from(*row), u64::saturating_add)
                };
                Reach { local: sum(|level| level.local), remote: sum(|level| level.remote) }
            }
            Self::Vector { bytes: 0, .. } => Reach::default(),
            Self::Vector { bytes, places } => places.iter().fold(Reach::default(), |reach, place| {
                let end = |offset: u32| u64::from(offset) + u64::from(*bytes);
                Reach { local: reach.local.max(end(place.0)), remote: reach.remote.max(end(place.1)) }
            }),
        }
    }

    /// Whether every run starts at a multiple of `size` from the start, on the remote side, and is one long.
    pub(crate) fn is_multiple_of(&self, size: u32) -> bool {
        match self {
            Self::Levels { none: true, .. } => true,
            Self::Levels { row, levels, .. } => {
                row.is_multiple_of(size) && levels.iter().all(|level| level.remote.is_multiple_of(size))
            }
            Self::Vector { bytes, places } => {
                bytes.is_multiple_of(size) && places.iter().all(|place| place.1.is_multiple_of(size))
            }
        }
    }

    /// Calls `each` for everything that is one operation, in order.
    pub(crate) fn pieces<E>(&self, mut each: impl FnMut(Piece) -> Result<(), E>) -> Result<(), E> {
        let flat = |local, remote, len| Piece {
            local,
            remote,
            len,
            local_layout: Layout::Contiguous,
            remote_layout: Layout::Contiguous,
        };
        match self {
            Self::Levels { none: true, .. } => Ok(()),
            Self::Levels { row, levels, .. } => {
                let Some((first, outer)) = levels.split_first() else { return each(flat(0, 0, *row)) };
                // Rows that overlap are no layout of the messaging layer.
                if first.local < *row || first.remote < *row {
                    return self.runs(|local, remote, len| each(flat(local, remote, len)));
                }
                let layout = |stride| {
                    if stride == *row { Layout::Contiguous } else { Layout::Strided { block: *row, stride } }
                };
                let (local_layout, remote_layout) = (layout(first.local), layout(first.remote));
                // As many rows as have a length that can be told.
                let most = (u32::MAX / row).min(first.count);
                walk(outer, |local, remote| {
                    let mut done = 0;
                    while done < first.count {
                        let now = most.min(first.count - done);
                        let (local, remote) = (local + done * first.local, remote + done * first.remote);
                        each(Piece { local, remote, len: now * row, local_layout, remote_layout })?;
                        done += now;
                    }
                    Ok(())
                })
            }
            Self::Vector { .. } => self.runs(|local, remote, len| each(flat(local, remote, len))),
        }
    }

    /// Calls `each` with local and remote offset and length of every contiguous run, in order.
    pub(crate) fn runs<E>(&self, mut each: impl FnMut(u32, u32, u32) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::Levels { none: true, .. } => Ok(()),
            Self::Levels { row, levels, .. } => walk(levels, |local, remote| each(local, remote, *row)),
            Self::Vector { bytes: 0, .. } => Ok(()),
            Self::Vector { bytes, places } => {
                let mut places = places.iter().copied().peekable();
                while let Some((local, remote)) = places.next() {
                    let mut len = *bytes;
                    // Segments that go on where the one before ends, on both sides, go with it.
                    while let Some(longer) = len.checked_add(*bytes)
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
    }
}

impl Level {
    /// Whether a level with these strides around this one only makes it longer.
    fn goes_on(&self, local: u32, remote: u32) -> bool {
        self.count.checked_mul(self.local) == Some(local)
            && self.count.checked_mul(self.remote) == Some(remote)
    }
}

/// Calls `each` with the offsets of all that the levels count, the first level fastest. The last of them can be told in 32
/// bits, as whoever checks the reach has seen.
fn walk<E>(levels: &[Level], mut each: impl FnMut(u32, u32) -> Result<(), E>) -> Result<(), E> {
    let mut index = [0u32; LEVELS];
    loop {
        let offset = |stride: fn(&Level) -> u32| {
            index
                .iter()
                .zip(levels)
                .map(|(&at, level)| at.wrapping_mul(stride(level)))
                .fold(0, u32::wrapping_add)
        };
        each(offset(|level| level.local), offset(|level| level.remote))?;
        let mut level = 0;
        loop {
            let Some(Level { count, .. }) = levels.get(level) else { return Ok(()) };
            index[level] += 1;
            if index[level] < *count {
                break;
            }
            index[level] = 0;
            level += 1;
        }
    }
}
