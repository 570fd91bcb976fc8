//! The constructors of derived types.

use super::pool::{Handle, Types};
use super::shape::Shape;
use super::{Datatype, Definition, TypeError};
use pami::layout::{Levels, Run};

/// A type that is being made.
struct Draft<'a> {
    types: &'a Types,
    handle: Handle,
    levels: Levels,
    shape: Shape,
}

fn times(stride: isize, count: usize) -> Result<isize, TypeError> {
    let product = isize::try_from(count).ok().and_then(|count| count.checked_mul(stride));
    product.ok_or(TypeError::Overflow)
}

/// The run further on.
fn moved(run: Run, by: i64) -> Result<Run, TypeError> {
    Ok(Run { offset: run.offset.checked_add(by).ok_or(TypeError::Overflow)?, ..run })
}

/// The two runs as one, if that is a run and the values come in the same order.
fn joined(a: Run, b: Run) -> Option<Run> {
    if a.tag != b.tag {
        return None;
    }
    let gap = b.offset.checked_sub(a.offset)?;
    if a.count == 1 && b.count == 1 && gap == i64::from(a.block) {
        return Some(Run { block: a.block.checked_add(b.block)?, ..a });
    }
    let stride = match (a.count, b.count) {
        (1, 1) => gap,
        (1, _) => b.stride,
        _ => a.stride,
    };
    let even = a.block == b.block && (b.count == 1 || b.stride == stride);
    let follows = stride.checked_mul(a.count.into())? == gap;
    (even && follows).then_some(Run { stride, count: a.count.checked_add(b.count)?, ..a })
}

impl<'a> Draft<'a> {
    fn new(types: &'a Types) -> Result<Self, TypeError> {
        Ok(Self { types, handle: types.claim()?, levels: Levels::default(), shape: Shape::EMPTY })
    }

    /// Adds a run behind the others, or to the last.
    fn push(&mut self, mut run: Run) -> Result<(), TypeError> {
        // What has grown may go on from the one before.
        while let Some(last) = self.handle.used().checked_sub(1)
            && let Some(one) = self.handle.run(last).and_then(|before| joined(before, run))
        {
            self.handle.shorten(last);
            run = one;
        }
        self.types.append(&self.handle, run)
    }

    /// Notes how far `count` blocks of `len` elements each reach, the first at `first` and the others every `stride` bytes.
    /// Returns whether they have data.
    fn extend(
        &mut self,
        old: &Datatype,
        (len, count): (usize, usize),
        first: isize,
        stride: isize,
    ) -> Result<bool, TypeError> {
        let part = old.shape();
        let block = Shape::EMPTY.with(&part, 0, part.extent(), len)?;
        // What is empty has no bounds either.
        let count = if len == 0 { 0 } else { count };
        self.shape = self.shape.with(&block, first, stride, count)?;
        Ok(block.size > 0 && count > 0)
    }

    /// Adds the data of `len` elements, the first at `at`.
    fn elements(&mut self, old: &Datatype, len: usize, at: isize) -> Result<(), TypeError> {
        let (at, extent) = (at as i64, old.extent() as i64);
        if let (Some(run), Ok(len)) = (old.only_run(), u32::try_from(len))
            && let Some(row) = run.repeated(len, extent)
        {
            return self.push(moved(row, at)?);
        }
        for element in 0..len as i64 {
            let first = extent.checked_mul(element).and_then(|within| at.checked_add(within));
            for origin in old.origins() {
                let origin = first.and_then(|first| first.checked_add(origin)).ok_or(TypeError::Overflow)?;
                old.runs().try_for_each(|run| self.push(moved(run, origin)?))?;
            }
        }
        Ok(())
    }

    /// Adds `len` elements at `at` behind what there is.
    fn append(&mut self, old: &Datatype, len: usize, at: isize) -> Result<(), TypeError> {
        if self.extend(old, (len, 1), at, 0)? { self.elements(old, len, at) } else { Ok(()) }
    }

    /// All there is: `count` blocks of `len` elements each, the first at `first` and the others every `stride` bytes. What is
    /// in an element becomes no more runs by it, as long as there are levels.
    fn blocks(
        &mut self,
        old: &Datatype,
        (len, count): (usize, usize),
        first: isize,
        stride: isize,
    ) -> Result<(), TypeError> {
        if !self.extend(old, (len, count), first, stride)? {
            return Ok(());
        }
        let (mut only, mut levels) = (old.only_run(), Levels::of(old.levels()));
        let mut around = |count: usize, stride: isize| {
            u32::try_from(count).is_ok_and(|count| levels.put_around(only.as_mut(), count, stride as i64))
        };
        if around(len, old.extent()) && around(count, stride) {
            self.levels = levels;
            return match only {
                Some(run) => self.push(moved(run, first as i64)?),
                None => old.runs().try_for_each(|run| self.push(moved(run, first as i64)?)),
            };
        }
        for number in 0..count {
            let at = times(stride, number)?.checked_add(first).ok_or(TypeError::Overflow)?;
            self.elements(old, len, at)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<Datatype, TypeError> {
        self.types.close(&self.handle, self.levels.as_slice(), self.shape.closed()?)?;
        Ok(Datatype(Definition::Derived(self.handle)))
    }
}

fn same_length(a: usize, b: usize) -> Result<(), TypeError> {
    if a == b { Ok(()) } else { Err(TypeError::Lists(a, b)) }
}

/// Constructors. Each takes other types and makes a new one, which is to be [committed](Datatype::commit) before it is
/// communicated with.
///
/// All fail with [`TypeError::Types`] if there are too many types, [`TypeError::Runs`] if they have too many runs, and
/// [`TypeError::Overflow`].
impl Types {
    /// `count` elements, one behind the other (`MPI_Type_contiguous`).
    ///
    /// # Errors
    /// See [`Types`].
    pub fn contiguous(&self, count: usize, old: &Datatype) -> Result<Datatype, TypeError> {
        self.hvector(1, count, 0, old)
    }

    /// `count` blocks of `len` elements, `stride` elements from the start of one to that of the next (`MPI_Type_vector`).
    ///
    /// # Errors
    /// See [`Types`].
    pub fn vector(
        &self,
        count: usize,
        len: usize,
        stride: isize,
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        let stride = stride.checked_mul(old.extent()).ok_or(TypeError::Overflow)?;
        self.hvector(count, len, stride, old)
    }

    /// As [`vector`](Self::vector), with a stride in bytes (`MPI_Type_create_hvector`).
    ///
    /// # Errors
    /// See [`Types`].
    pub fn hvector(
        &self,
        count: usize,
        len: usize,
        stride: isize,
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        let mut draft = Draft::new(self)?;
        draft.blocks(old, (len, count), 0, stride)?;
        draft.finish()
    }

    /// Blocks of elements: how many, at which displacement in units, and of which type.
    fn listed<'b>(
        &self,
        blocks: impl Iterator<Item = (usize, isize, &'b Datatype)> + Clone,
        unit: isize,
    ) -> Result<Datatype, TypeError> {
        let mut draft = Draft::new(self)?;
        let blocks = blocks.filter(|block| block.0 > 0);
        let alone = blocks.clone().nth(1).is_none();
        for (len, displacement, old) in blocks {
            let at = displacement.checked_mul(unit).ok_or(TypeError::Overflow)?;
            if alone {
                draft.blocks(old, (len, 1), at, 0)?;
            } else {
                draft.append(old, len, at)?;
            }
        }
        draft.finish()
    }

    /// Blocks of `lens` elements at `displacements`, in elements (`MPI_Type_indexed`).
    ///
    /// # Errors
    /// [`TypeError::Lists`], and see [`Types`].
    pub fn indexed(
        &self,
        lens: &[usize],
        displacements: &[isize],
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        same_length(lens.len(), displacements.len())?;
        self.listed(lens.iter().zip(displacements).map(|(&len, &at)| (len, at, old)), old.extent())
    }

    /// As [`indexed`](Self::indexed), with displacements in bytes (`MPI_Type_create_hindexed`).
    ///
    /// # Errors
    /// [`TypeError::Lists`], and see [`Types`].
    pub fn hindexed(
        &self,
        lens: &[usize],
        displacements: &[isize],
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        same_length(lens.len(), displacements.len())?;
        self.listed(lens.iter().zip(displacements).map(|(&len, &at)| (len, at, old)), 1)
    }

    /// Blocks of `len` elements each at `displacements`, in elements (`MPI_Type_create_indexed_block`).
    ///
    /// # Errors
    /// See [`Types`].
    pub fn indexed_block(
        &self,
        len: usize,
        displacements: &[isize],
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        self.listed(displacements.iter().map(|&at| (len, at, old)), old.extent())
    }

    /// As [`indexed_block`](Self::indexed_block), with displacements in bytes (`MPI_Type_create_hindexed_block`).
    ///
    /// # Errors
    /// See [`Types`].
    pub fn hindexed_block(
        &self,
        len: usize,
        displacements: &[isize],
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        self.listed(displacements.iter().map(|&at| (len, at, old)), 1)
    }

    /// Fields: so many elements of a type at a displacement in bytes (`MPI_Type_create_struct`). The extent is rounded up to
    /// the strictest alignment of the fields, as a compiler does it.
    ///
    /// # Errors
    /// See [`Types`].
    pub fn structure(&self, fields: &[(usize, isize, &Datatype)]) -> Result<Datatype, TypeError> {
        self.listed(fields.iter().copied(), 1)
    }

    /// The same data with other bounds (`MPI_Type_create_resized`).
    ///
    /// # Errors
    /// See [`Types`].
    pub fn resized(&self, old: &Datatype, lb: isize, extent: isize) -> Result<Datatype, TypeError> {
        let mut draft = Draft::new(self)?;
        draft.blocks(old, (1, 1), 0, 0)?;
        let ub = lb.checked_add(extent).ok_or(TypeError::Overflow)?;
        draft.shape = Shape { lb, ub, marked: true, ..old.shape() };
        draft.finish()
    }

    /// Part of an array of `sizes` elements, `subsizes` of them from `starts` on in each dimension
    /// (`MPI_Type_create_subarray`); the last dimension is the one whose elements are neighbours (`MPI_ORDER_C`). The extent
    /// is the whole array's.
    ///
    /// # Errors
    /// [`TypeError::Lists`], [`TypeError::Subarray`], and see [`Types`].
    pub fn subarray(
        &self,
        sizes: &[usize],
        subsizes: &[usize],
        starts: &[usize],
        old: &Datatype,
    ) -> Result<Datatype, TypeError> {
        same_length(sizes.len(), subsizes.len())?;
        same_length(sizes.len(), starts.len())?;
        if sizes.is_empty() {
            return Err(TypeError::Subarray(0));
        }
        let (mut part, mut first, mut row) = (old.clone(), 0isize, old.extent());
        // From the last dimension on, each adds rows of what there is.
        for dimension in (0..sizes.len()).rev() {
            let (size, subsize, start) = (sizes[dimension], subsizes[dimension], starts[dimension]);
            if subsize == 0 || start.checked_add(subsize).is_none_or(|end| end > size) {
                return Err(TypeError::Subarray(dimension));
            }
            first = first.checked_add(times(row, start)?).ok_or(TypeError::Overflow)?;
            part = self.hvector(subsize, 1, row, &part)?;
            row = times(row, size)?;
        }
        let moved = self.hindexed(&[1], &[first], &part)?;
        self.resized(&moved, 0, row)
    }
}
