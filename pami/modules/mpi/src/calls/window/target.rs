//! Where an access goes, and whether it may.

use crate::data::Data;
use crate::datatype::{Basic, Datatype};
use crate::envelope::PROC_NULL;
use crate::error::{Error, Result};
use crate::window::peer::WindowPeer;

/// Elements in the window of a process: the standard's rank, displacement, count and datatype of the target.
#[derive(Clone, Debug)]
pub struct Target {
    /// The process, or [`PROC_NULL`](crate::PROC_NULL).
    pub rank: i32,
    /// Where the first element has its origin: steps of the target's displacement unit from its window's base.
    pub disp: usize,
    /// Number of elements.
    pub count: usize,
    /// What they are.
    pub datatype: Datatype,
}

impl Target {
    /// Elements of a type.
    pub fn new(rank: i32, disp: usize, count: usize, datatype: impl Into<Datatype>) -> Self {
        Self { rank, disp, count, datatype: datatype.into() }
    }

    /// As many elements as some data has, of its type.
    pub fn like(rank: i32, disp: usize, data: &Data) -> Self {
        Self::new(rank, disp, data.count(), data.datatype().clone())
    }

    /// The rank of the process, if it is one of `size`; `None` for [`PROC_NULL`](crate::PROC_NULL).
    ///
    /// # Errors
    /// [`Error::Rank`].
    pub(super) fn rank(&self, size: u32) -> Result<Option<u32>> {
        rank(self.rank, size)
    }

    /// Bytes of data.
    ///
    /// # Errors
    /// [`Error::Count`].
    pub(super) fn bytes(&self) -> Result<u32> {
        let bytes = self.datatype.pack_size(self.count);
        bytes.and_then(|bytes| u32::try_from(bytes).ok()).ok_or(Error::Count(self.count))
    }

    /// Whether the data of a buffer fits these elements one by one.
    ///
    /// # Errors
    /// [`Error::Type`], [`Error::Count`].
    pub(super) fn check(&self, data: &Data) -> Result<()> {
        let committed = self.datatype.is_committed() && data.datatype().is_committed();
        self.bytes()?;
        let matches = self.datatype.matches(self.count, data.datatype(), data.count());
        if committed && matches { Ok(()) } else { Err(Error::Type) }
    }

    /// The basic type that all elements are made of: what values are combined as.
    ///
    /// # Errors
    /// [`Error::Type`] if there is none.
    pub(super) fn basic(&self) -> Result<Basic> {
        self.datatype.uniform().filter(|_| self.datatype.is_committed()).ok_or(Error::Type)
    }

    /// Where the first element has its origin, in bytes of the window of that process.
    ///
    /// # Errors
    /// [`Error::RmaRange`] if not all elements lie in it.
    pub(super) fn origin(&self, peer: &WindowPeer) -> Result<usize> {
        let size = usize::try_from(peer.info.size.get()).map_err(|_| Error::RmaRange)?;
        let unit = peer.info.unit.get() as usize;
        let origin = self.disp.checked_mul(unit).ok_or(Error::RmaRange)?;
        let (first, end) = self.datatype.reach(self.count).ok_or(Error::RmaRange)?;
        let first = origin.checked_add_signed(first);
        let inside = first.is_some() && origin.checked_add_signed(end).is_some_and(|end| end <= size);
        if inside && origin <= size { Ok(origin) } else { Err(Error::RmaRange) }
    }
}

/// The rank of a process, if it is one of `size`; `None` for [`PROC_NULL`](crate::PROC_NULL).
///
/// # Errors
/// [`Error::Rank`].
pub(super) fn rank(rank: i32, size: u32) -> Result<Option<u32>> {
    match u32::try_from(rank) {
        Ok(rank) if rank < size => Ok(Some(rank)),
        _ if rank == PROC_NULL => Ok(None),
        _ => Err(Error::Rank(rank.into())),
    }
}
