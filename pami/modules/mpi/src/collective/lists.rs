//! Counts and displacements of the v forms, kept while their collective is under way.

use super::arguments::Blocks;
use crate::data::Data;
use crate::error::{Error, Result};
use base::fill;
use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use pami::client::Node;
use pami::collective;
use rings::slot_table::{Slot, SlotTable};

/// A list of blocks.
struct List {
    /// Where block `i` starts among the packed ones, and, one further, ends.
    bounds: &'static [AtomicUsize],
    displacements: &'static [AtomicIsize],
}

/// The lists of a context, each with room for a block of every task of the job.
#[derive(Default)]
pub(crate) struct BlockLists {
    lists: &'static [List],
    /// Which of them are in use.
    used: SlotTable<()>,
}

impl BlockLists {
    pub fn new<N: Node>(node: &N, count: usize) -> Result<Self> {
        let ranks = node.tasks() as usize;
        let mut bounds: &'static [_] =
            fill(node, "lists of counts", count * (ranks + 1), || AtomicUsize::new(0))?;
        let mut displacements: &'static [_] =
            fill(node, "lists of counts", count * ranks, || AtomicIsize::new(0))?;
        let lists: &'static [List] = fill(node, "lists of counts", count, || {
            let ((own, others), (places, rest)) = (bounds.split_at(ranks + 1), displacements.split_at(ranks));
            (bounds, displacements) = (others, rest);
            List { bounds: own, displacements: places }
        })?;
        Ok(Self { lists, used: SlotTable::new(fill(node, "lists of counts", count, Slot::new)?) })
    }

    /// Keeps a block of each of `size` processes, with lengths in `unit`s of which an element is. Returns the list's number.
    ///
    /// # Errors
    /// [`Error::Arg`], [`Error::Count`], [`Error::NoMem`].
    pub fn keep(
        &mut self,
        size: u32,
        counts: &[usize],
        displacements: &[isize],
        unit: usize,
    ) -> Result<usize> {
        let size = size as usize;
        if counts.len() != size {
            return Err(Error::Arg("there must be a count for each process"));
        }
        if displacements.len() != size && !displacements.is_empty() {
            return Err(Error::Arg("there must be a displacement for each process"));
        }
        let limit = self.lists.len();
        let full = Error::NoMem { what: "lists of counts of collectives", limit };
        let number = self.used.vacant().ok_or(full)?.index as usize;
        let list = self.lists.get(number).ok_or(full)?;
        if list.displacements.len() < size {
            return Err(Error::NoMem { what: "counts in a list", limit: list.displacements.len() });
        }
        let mut bound = 0usize;
        list.bounds[0].store(0, Ordering::Relaxed);
        for (&count, place) in counts.iter().zip(&list.bounds[1..]) {
            let end = count.checked_mul(unit).and_then(|len| len.checked_add(bound));
            bound = end.ok_or(Error::Count(count))?;
            place.store(bound, Ordering::Relaxed);
        }
        for (&displacement, place) in displacements.iter().zip(list.displacements) {
            place.store(displacement, Ordering::Relaxed);
        }
        self.used.insert(()).map_err(|()| full)?;
        Ok(number)
    }

    /// As [`keep`](Self::keep), in bytes; every block must lie in its memory.
    ///
    /// # Errors
    /// Besides, [`Error::Buffer`].
    pub fn keep_blocks(&mut self, size: u32, blocks: Blocks) -> Result<usize> {
        if blocks.displacements.len() != size as usize {
            return Err(Error::Arg("there must be a displacement for each process"));
        }
        for (&count, &displacement) in blocks.counts.iter().zip(blocks.displacements) {
            blocks.data.displaced(displacement, count)?;
        }
        self.keep(size, blocks.counts, blocks.displacements, blocks.data.datatype().size())
    }

    pub fn release(&mut self, number: usize) {
        self.used.remove(number as u32);
    }

    /// The blocks of `size` processes, as PAMI takes them.
    pub fn blocks(&self, number: usize, size: u32) -> Result<collective::Blocks<'static>> {
        let bounds = self.lists.get(number).and_then(|list| list.bounds.get(..=size as usize));
        collective::Blocks::pooled(bounds.ok_or(Error::Arg("there is no such list of counts"))?)
            .map_err(|_| Error::Arg("counts do not add up"))
    }

    /// Length of all blocks of `size` processes together.
    pub fn total(&self, number: usize, size: u32) -> usize {
        let bound = self.lists.get(number).and_then(|list| list.bounds.get(size as usize));
        bound.map_or(0, |bound| bound.load(Ordering::Relaxed))
    }

    /// Each block of `size` processes: where it starts among the packed ones, and its data. `data` is what displacements
    /// are from.
    pub fn parts<'a>(
        &'a self,
        number: usize,
        size: u32,
        data: &'a Data,
    ) -> impl Iterator<Item = Result<(usize, Data)>> + 'a {
        let list = &self.lists[number];
        let unit = data.datatype().size().max(1);
        (0..size as usize).map(move |rank| {
            let (start, end) =
                (list.bounds[rank].load(Ordering::Relaxed), list.bounds[rank + 1].load(Ordering::Relaxed));
            let displacement = list.displacements[rank].load(Ordering::Relaxed);
            Ok((start, data.displaced(displacement, (end - start) / unit)?))
        })
    }

    /// Where the first block is, if all lie one behind the other without gaps.
    pub fn contiguous(&self, number: usize, size: u32, data: &Data) -> Option<usize> {
        let mut first = None;
        for part in self.parts(number, size, data) {
            let (start, part) = part.ok()?;
            if part.bytes() == 0 {
                continue;
            }
            let place = part.contiguous()?;
            match first {
                None => first = Some(place),
                // Whatever comes before the first block is empty.
                Some(first) if first + start == place => {}
                Some(_) => return None,
            }
        }
        Some(first.unwrap_or(data.offset()))
    }
}
