//! An access, cut into pieces that the layer below can carry out.

use super::target::Target;
use crate::data::Data;
use crate::datatype::Walk;
use pami::Layout;

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

/// The pieces of an access, in the order of its bytes.
pub(super) struct Pieces<'a> {
    data: &'a Data,
    target: &'a Target,
    /// Where the target's first element has its origin in the window.
    origin: usize,
    whole: Option<Piece>,
    walks: (Walk, Walk),
    left: usize,
}

impl<'a> Pieces<'a> {
    /// The pieces of an access of `bytes` bytes that was seen to fit on both sides.
    pub(super) fn new(data: &'a Data, target: &'a Target, origin: usize, bytes: u32) -> Self {
        let there = target.datatype.layout(target.count);
        let there = there.and_then(|(first, layout)| Some((origin.checked_add_signed(first)?, layout)));
        let whole = data.layout().zip(there).map(|(here, there)| Piece { here, there, len: bytes });
        let whole = whole.filter(|_| bytes > 0);
        let walks = (Walk::new(data.datatype(), 0), Walk::new(&target.datatype, 0));
        let left = if whole.is_some() { 0 } else { bytes as usize };
        Self { data, target, origin, whole, walks, left }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.whole.is_some() {
            return self.whole.take();
        }
        if self.left == 0 {
            return None;
        }
        let (mut here, mut there) = self.walks;
        // As far as both have it in one piece.
        let (_, len) = here.next(self.data.datatype(), self.left)?;
        let (offset, len) = there.next(&self.target.datatype, len)?;
        let at = self.walks.0.next(self.data.datatype(), len)?.0;
        self.walks.1 = there;
        self.left -= len;
        let at = self.data.offset().checked_add_signed(at)?;
        let place = self.origin.checked_add_signed(offset)?;
        Some(Piece { here: (at, Layout::Contiguous), there: (place, Layout::Contiguous), len: len as u32 })
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
    let whole = target.datatype.layout(target.count);
    let whole = whole.and_then(|(first, layout)| Some((origin.checked_add_signed(first)?, layout)));
    match whole {
        Some((offset, Layout::Contiguous)) => {
            return each(Blocks { offset, block: bytes, stride: bytes, len: bytes });
        }
        Some((offset, Layout::Strided { block, stride })) => {
            return each(Blocks { offset, block, stride, len: bytes });
        }
        _ => {}
    }
    let (mut walk, mut left) = (Walk::new(&target.datatype, 0), bytes);
    while left > 0 {
        let Some((offset, len)) = walk.next(&target.datatype, left as usize) else { break };
        let len = len as u32;
        let offset = origin.wrapping_add_signed(offset);
        each(Blocks { offset, block: len, stride: len, len })?;
        left -= len;
    }
    Ok(())
}
