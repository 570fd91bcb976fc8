//! Counts and displacements of the v forms, kept while their collective is under way.

use super::arguments::Blocks;
use crate::data::Data;
use crate::error::{Error, Result};
use base::fill;
use core::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use pami::client::Node;
use pami::collective;
use rings::first_fit::{FirstFit, Span};
use rings::slot_table::{Slot, SlotTable};

const NO_LIST: &str = "there is no such list of counts";

/// A list of blocks: the first of its places, of which it has one for each block and one more.
struct List {
    start: usize,
    blocks: usize,
}

/// The lists of a context, in places that they have together.
#[derive(Default)]
pub(crate) struct BlockLists {
    lists: SlotTable<List>,
    /// Where block `i` starts among the packed ones, and, one further, ends.
    bounds: &'static [AtomicUsize],
    displacements: &'static [AtomicIsize],
    /// Which places are a list's.
    taken: FirstFit,
}

impl BlockLists {
    /// So many lists, with so many counts together: no more than all lists of all tasks have.
    pub fn new<N: Node>(node: &N, count: usize, most: usize) -> Result<Self> {
        const WHAT: &str = "lists of counts";
        // Each list has one place more than it has counts.
        let places = most.saturating_add(count).min(count.saturating_mul(node.tasks() as usize + 1));
        Ok(Self {
            lists: SlotTable::new(fill(node, WHAT, count, Slot::new)?),
            bounds: fill(node, WHAT, places, || AtomicUsize::new(0))?,
            displacements: fill(node, WHAT, places, || AtomicIsize::new(0))?,
            taken: FirstFit::new(places, fill(node, WHAT, count, Span::default)?),
        })
    }

    /// The bounds and displacements of a list.
    fn of(&self, number: usize) -> Option<(&'static [AtomicUsize], &'static [AtomicIsize])> {
        let &List { start, blocks } = self.lists.get(number as u32)?;
        let bounds = self.bounds.get(start..=start + blocks)?;
        Some((bounds, self.displacements.get(start..start + blocks)?))
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
        let what = "lists of counts of collectives";
        let full = Error::NoMem { what, limit: self.lists.capacity() };
        self.lists.vacant().ok_or(full)?;
        let what = "counts of collectives, all lists together";
        let limit = self.bounds.len() - self.lists.capacity();
        let start = self.taken.allocate(size + 1).ok_or(Error::NoMem { what, limit })?;
        let number = self.lists.insert(List { start, blocks: size }).map_err(|_| full)?.index as usize;
        let kept = self.write(number, counts, displacements, unit);
        kept.map(|()| number).inspect_err(|_| self.release(number))
    }

    fn write(&self, number: usize, counts: &[usize], displacements: &[isize], unit: usize) -> Result<()> {
        let Some(([first, bounds @ ..], places)) = self.of(number) else {
            return Err(Error::Arg(NO_LIST));
        };
        let mut bound = 0usize;
        first.store(0, Ordering::Relaxed);
        for (&count, place) in counts.iter().zip(bounds) {
            let end = count.checked_mul(unit).and_then(|len| len.checked_add(bound));
            bound = end.ok_or(Error::Count(count))?;
            place.store(bound, Ordering::Relaxed);
        }
        for (&displacement, place) in displacements.iter().zip(places) {
            place.store(displacement, Ordering::Relaxed);
        }
        Ok(())
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
        if let Some(list) = self.lists.remove(number as u32) {
            self.taken.free(list.start);
        }
    }

    /// The blocks of `size` processes, as PAMI takes them.
    pub fn blocks(&self, number: usize, size: u32) -> Result<collective::Blocks<'static>> {
        let bounds = self.of(number).and_then(|(bounds, _)| bounds.get(..=size as usize));
        collective::Blocks::pooled(bounds.ok_or(Error::Arg(NO_LIST))?)
            .map_err(|_| Error::Arg("counts do not add up"))
    }

    /// Length of all blocks of `size` processes together.
    pub fn total(&self, number: usize, size: u32) -> usize {
        let bound = self.of(number).and_then(|(bounds, _)| bounds.get(size as usize));
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
        let (bounds, displacements) = self.of(number).unwrap_or_default();
        let unit = data.datatype().size().max(1);
        let ends = bounds.iter().zip(bounds.iter().skip(1)).zip(displacements);
        ends.take(size as usize).map(move |((start, end), displacement)| {
            let (start, end) = (start.load(Ordering::Relaxed), end.load(Ordering::Relaxed));
            let displacement = displacement.load(Ordering::Relaxed);
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
