//! An access, cut into pieces that the layer below can carry out.

use super::target::Target;
use crate::data::Data;
use pami::Layout;
use pami::layout::Cursor;

/// A part of an access that has a layout on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// First byte in the memory of the data, and how the others lie from there.
    pub here: (usize, Layout),
    /// First byte in the target's window, and how the others lie from there.
    pub there: (usize, Layout),
    /// Bytes of data.
    pub len: u32,
}

/// The pieces of an access, in the order of its bytes: one, if both layouts are told by their values. Tables are the types',
/// which may go as soon as the call returns; the pieces are as far as both sides have it in one.
pub(super) struct Pieces {
    here: (usize, Layout, Cursor),
    there: (usize, Layout, Cursor),
    left: u32,
}

/// Where the lowest byte of the target's elements is in the window, and how they lie from there.
fn layout(target: &Target, origin: usize) -> Option<(usize, Layout)> {
    let (low, layout) = target.datatype.layout(target.count)?;
    Some((origin.checked_add_signed(low)?, layout))
}

impl Pieces {
    /// The pieces of an access of `bytes` bytes that was seen to fit on both sides. The target's first element has its
    /// origin at `origin` in the window.
    pub(super) fn new(data: &Data, target: &Target, origin: usize, bytes: u32) -> Option<Self> {
        let ((here, from), (there, to)) = (data.layout(), layout(target, origin)?);
        let start = Cursor::default();
        Some(Self { here: (here, from, start), there: (there, to, start), left: bytes })
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let Self { here: (here, from, at_from), there: (there, to, at_to), left } = self;
        if *left == 0 {
            return None;
        }
        if !matches!((&from, &to), (Layout::Table(..), _) | (_, Layout::Table(..))) {
            let len = core::mem::take(left);
            return Some(Piece { here: (*here, *from), there: (*there, *to), len });
        }
        let (at, place, len) = Layout::next_pair((from, at_from), (to, at_to), *left)?;
        *left -= len;
        let (at, place) = (here.checked_add(at as usize)?, there.checked_add(place as usize)?);
        Some(Piece { here: (at, Layout::Contiguous), there: (place, Layout::Contiguous), len })
    }
}

/// Consecutive bytes of an access: in the target's window, blocks of a length at a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// The first block's first byte.
    pub offset: usize,
    pub block: u32,
    pub stride: u32,
    /// Bytes of data.
    pub len: u32,
}

/// Calls `each` for the target's blocks of an access.
///
/// # Errors
/// What `each` returns.
pub(super) fn each_blocks<E>(
    target: &Target,
    origin: usize,
    bytes: u32,
    mut each: impl FnMut(Blocks) -> Result<(), E>,
) -> Result<(), E> {
    let Some((offset, layout)) = layout(target, origin) else { return Ok(()) };
    match layout {
        Layout::Contiguous => return each(Blocks { offset, block: bytes, stride: bytes, len: bytes }),
        Layout::Strided { block, stride } => return each(Blocks { offset, block, stride, len: bytes }),
        Layout::Indexed(_) | Layout::Table(..) => {}
    }
    let (mut cursor, mut left) = (Cursor::default(), bytes);
    while left > 0 {
        let Some((place, len)) = layout.next_run(&mut cursor, left) else { break };
        each(Blocks { offset: offset.wrapping_add(place as usize), block: len, stride: len, len })?;
        left -= len;
    }
    Ok(())
}
