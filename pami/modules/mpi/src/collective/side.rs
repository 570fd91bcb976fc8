//! One of the two buffers of a collective: where PAMI finds its bytes, and what has to be packed for that.

use super::lists::BlockLists;
use crate::data::Data;
use crate::error::{Error, Result};
use pami::Shared;

/// A buffer.
pub(crate) struct Side {
    /// What is there before and has to be read.
    load: Option<Data>,
    /// What is written.
    store: Option<Data>,
    /// Blocks of it, if it is a v form's.
    list: Option<usize>,
    size: u32,
    /// Bytes in all, packed.
    bytes: usize,
    /// Where they are, if they need not be packed.
    direct: Option<(Shared, usize)>,
}

fn check(data: &Data) -> Result<()> {
    if data.datatype().is_committed() { Ok(()) } else { Err(Error::Type) }
}

impl Side {
    /// Elements that are read before, if `loads`, and written afterwards, if `stores`.
    ///
    /// # Errors
    /// [`Error::Type`] if the type is not committed.
    pub fn new(data: &Data, loads: bool, stores: bool) -> Result<Self> {
        check(data)?;
        let direct = data.contiguous().map(|offset| (data.memory().clone(), offset));
        let part = |wanted: bool| wanted.then(|| data.clone());
        Ok(Self { load: part(loads), store: part(stores), list: None, size: 0, bytes: data.bytes(), direct })
    }

    /// A block for each of `size` processes, one behind the other.
    ///
    /// # Errors
    /// [`Error::Buffer`] if there are fewer, [`Error::Type`].
    pub fn blocks(block: &Data, size: u32, loads: bool, stores: bool) -> Result<Self> {
        let count = block.count().checked_mul(size as usize).ok_or(Error::Count(block.count()))?;
        Self::new(&block.displaced(0, count)?, loads, stores)
    }

    /// Blocks of a list.
    ///
    /// # Errors
    /// [`Error::Type`].
    pub fn listed(
        data: &Data,
        lists: &BlockLists,
        list: usize,
        size: u32,
        loads: bool,
        stores: bool,
    ) -> Result<Self> {
        check(data)?;
        let direct = lists.contiguous(list, size, data).map(|offset| (data.memory().clone(), offset));
        let part = |wanted: bool| wanted.then(|| data.clone());
        Ok(Self {
            load: part(loads),
            store: part(stores),
            list: Some(list),
            size,
            bytes: lists.total(list, size),
            direct,
        })
    }

    /// With other data written than was read: the result stands at the front.
    pub fn storing(self, data: Data) -> Self {
        Self { store: Some(data), ..self }
    }

    /// Bytes of scratch memory that it needs.
    pub fn scratch(&self) -> usize {
        if self.direct.is_some() { 0 } else { self.bytes }
    }

    /// Where PAMI finds it, with `at` its place in scratch memory if it needs one.
    pub fn place(&self, scratch: &Shared, at: usize) -> (Shared, usize) {
        self.direct.clone().unwrap_or_else(|| (scratch.clone(), at))
    }

    /// Packs what has to be read.
    pub fn pack(&self, lists: &BlockLists, scratch: &Shared, at: usize) -> Result<()> {
        let (Some(data), None) = (&self.load, &self.direct) else { return Ok(()) };
        let Some(list) = self.list else { return Ok(data.pack(scratch, at).map(drop)?) };
        for part in lists.parts(list, self.size, data) {
            let (start, part) = part?;
            part.pack(scratch, at + start)?;
        }
        Ok(())
    }

    /// Unpacks what was written.
    pub fn unpack(&self, lists: &BlockLists, scratch: &Shared, at: usize) -> Result<()> {
        let (Some(data), None) = (&self.store, &self.direct) else { return Ok(()) };
        let Some(list) = self.list else { return Ok(data.unpack(scratch, at, data.bytes())?) };
        for part in lists.parts(list, self.size, data) {
            let (start, part) = part?;
            part.unpack(scratch, at + start, part.bytes())?;
        }
        Ok(())
    }

    pub fn list(&self) -> Option<usize> {
        self.list
    }
}
