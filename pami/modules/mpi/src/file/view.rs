//! What of a file a process sees: a displacement, and tiles of a datatype behind it, one after the other.

use crate::datatype::{Basic, Datatype};
use crate::error::{Error, Result};
use core::fmt;
use core::ops::ControlFlow;
use pami::Layout;

/// A process's view of a file (`MPI_File_set_view`). Positions in it count elements of `etype`, holes left out.
#[derive(Clone)]
pub struct View {
    disp: u64,
    etype: Datatype,
    filetype: Datatype,
    /// Where a tile's lowest byte is, from its origin, and how all lie from there.
    low: u64,
    tile: Layout,
    extent: u64,
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { disp, etype, filetype, .. } = self;
        write!(f, "{etype:?} in {filetype:?} from {disp} on")
    }
}

/// A run of bytes: where it lies in the file, where among the data, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileRun {
    pub(crate) at: u64,
    pub(crate) place: usize,
    pub(crate) len: usize,
}

impl View {
    /// All bytes, one after the other.
    pub(crate) fn bytes() -> Self {
        let byte = || Datatype::from(Basic::Byte);
        Self { disp: 0, etype: byte(), filetype: byte(), low: 0, tile: Layout::Contiguous, extent: 1 }
    }

    /// The view behind byte `disp` through `filetype`.
    ///
    /// # Errors
    /// [`Error::Type`]: one is not committed or has no data, or tiles are not of whole elements, reach before their origin, or have
    /// data that does not lie in ascending order.
    pub(crate) fn new(disp: u64, etype: &Datatype, filetype: &Datatype) -> Result<Self> {
        let (unit, size) = (etype.size(), filetype.size());
        let whole = unit > 0 && size > 0 && size.is_multiple_of(unit);
        if !whole || !etype.is_committed() || !filetype.is_committed() {
            return Err(Error::Type);
        }
        let (low, tile) = filetype.layout(1).ok_or(Error::Type)?;
        let (low, extent) = (u64::try_from(low), u64::try_from(filetype.extent()));
        let (Ok(low), Ok(extent)) = (low, extent) else { return Err(Error::Type) };
        let view = Self { disp, etype: etype.clone(), filetype: filetype.clone(), low, tile, extent };
        // Within a tile, and from one to the next.
        let mut end = 0;
        let ascending = view.runs_apart(0, 2 * size, |run| {
            let follows = run.at >= end;
            end = run.at + run.len as u64;
            if follows { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        if ascending == Some(()) { Ok(view) } else { Err(Error::Type) }
    }

    /// Where it begins.
    pub fn disp(&self) -> u64 {
        self.disp
    }

    /// What positions count.
    pub fn etype(&self) -> &Datatype {
        &self.etype
    }

    /// The tile.
    pub fn filetype(&self) -> &Datatype {
        &self.filetype
    }

    /// Bytes of an element.
    pub(crate) fn unit(&self) -> usize {
        self.etype.size()
    }

    /// The byte of the file where the element at `position` begins; `None` past what a file can have.
    pub(crate) fn byte_of(&self, position: u64) -> Option<u64> {
        let mut byte = None;
        self.runs(position.checked_mul(self.unit() as u64)?, 1, |run| {
            byte = Some(run.at);
            ControlFlow::Continue(())
        })?;
        byte
    }

    /// Elements before byte `end` of the file, the last one's part for a whole.
    pub(crate) fn elements_before(&self, end: u64) -> u64 {
        let Some(within) = end.checked_sub(self.disp) else { return 0 };
        let (tiles, rest) = match within.checked_div(self.extent) {
            Some(tiles) => (tiles, within % self.extent),
            None => (0, within),
        };
        let mut bytes = tiles * self.filetype.size() as u64;
        // The first tile stands for any.
        self.runs_apart(0, self.filetype.size(), |run| {
            bytes += rest.saturating_sub(run.at - self.disp).min(run.len as u64);
            ControlFlow::Continue(())
        });
        bytes.div_ceil(self.unit() as u64)
    }

    /// Calls `each` for the runs that `len` bytes from the view's byte `from` on lie in, those that meet as one. `None` if it is told to
    /// break, or past what a file can have.
    pub(crate) fn runs(
        &self,
        from: u64,
        len: usize,
        mut each: impl FnMut(FileRun) -> ControlFlow<()>,
    ) -> Option<()> {
        let mut held: Option<FileRun> = None;
        self.runs_apart(from, len, |run| {
            if let Some(held) = &mut held
                && held.at + held.len as u64 == run.at
            {
                held.len += run.len;
                return ControlFlow::Continue(());
            }
            held.replace(run).map_or(ControlFlow::Continue(()), &mut each)
        })?;
        match held.map(each) {
            Some(ControlFlow::Break(())) => None,
            _ => Some(()),
        }
    }

    /// The same, with a run for each of a tile's.
    fn runs_apart(
        &self,
        from: u64,
        len: usize,
        mut each: impl FnMut(FileRun) -> ControlFlow<()>,
    ) -> Option<()> {
        let size = self.filetype.size() as u64;
        let (mut tile, mut place) = (from / size, 0);
        if self.is_dense() {
            let at = self.disp.checked_add(self.low)?.checked_add(from)?;
            return each(FileRun { at, place, len }).continue_value();
        }
        let mut cursor = self.tile.seek(u32::try_from(from % size).ok()?)?;
        let mut left_of_tile = (size - from % size) as usize;
        while place < len {
            let most = (len - place).min(left_of_tile);
            let (offset, run) = self.tile.next_run(&mut cursor, u32::try_from(most).ok()?)?;
            let origin = self.disp.checked_add(tile.checked_mul(self.extent)?)?;
            let at = origin.checked_add(self.low + u64::from(offset))?;
            at.checked_add(run.into())?;
            each(FileRun { at, place, len: run as usize }).continue_value()?;
            place += run as usize;
            left_of_tile -= run as usize;
            if left_of_tile == 0 {
                (tile, left_of_tile) = (tile + 1, size as usize);
                cursor = self.tile.seek(0)?;
            }
        }
        Some(())
    }

    /// Whether tiles are in one piece and meet.
    fn is_dense(&self) -> bool {
        self.tile == Layout::Contiguous && self.extent == self.filetype.size() as u64
    }
}
