//! Layouts that are made at run time: lists of runs, repeated at any number of levels.

use super::Layout;
use core::fmt;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use heapless::Vec;

/// Most levels around the runs of a table. A run has one of its own, the elements that a layout counts are another.
pub const LEVELS: usize = 7;

/// `count` blocks of `block` bytes each, at every `stride` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first block's, in bytes from the element's origin.
    pub offset: i64,
    /// Bytes of a block.
    pub block: u32,
    /// Number of blocks.
    pub count: u32,
    /// Bytes from the start of one block to that of the next.
    pub stride: i64,
    /// For whoever made the list: it means nothing here.
    pub tag: u32,
}

/// What is inside, `count` times, at every `stride` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StrideLevel {
    /// How many times.
    pub count: u32,
    /// Bytes from the start of one to that of the next.
    pub stride: i64,
}

impl Run {
    /// `block` bytes in one piece.
    pub const fn of(block: u32) -> Self {
        Self { offset: 0, block, count: 1, stride: block as i64, tag: 0 }
    }

    /// Bytes of data.
    #[inline]
    pub fn bytes(&self) -> u64 {
        u64::from(self.block) * u64::from(self.count)
    }

    /// What names its data from the lowest byte on without a table, if there is such a layout: for blocks one behind the
    /// other, or at distances over their length.
    pub fn layout(&self) -> Option<Layout> {
        if self.count == 1 {
            return Some(Layout::Contiguous);
        }
        let stride = u32::try_from(self.stride).ok().filter(|&stride| stride >= self.block)?;
        (self.count > 0 && self.block > 0).then_some(Layout::Strided { block: self.block, stride })
    }

    /// This `count` times at every `stride` bytes, if that is a run as well.
    pub fn repeated(self, count: u32, stride: i64) -> Option<Self> {
        if count == 1 {
            return Some(self);
        }
        if self.count > 1 {
            let goes_on = self.stride.checked_mul(self.count.into()) == Some(stride);
            return Some(Self { count: self.count.checked_mul(count)?, ..self }).filter(|_| goes_on);
        }
        let dense = self.block.checked_mul(count).filter(|_| stride == i64::from(self.block));
        Some(match dense {
            Some(block) => Self { block, stride: block.into(), ..self },
            None => Self { count, stride, ..self },
        })
    }

    /// Where the byte behind the first `within` lies, and how many follow it in its block. `None` if there is none.
    #[inline]
    pub(super) fn place(&self, within: u32) -> Option<(i64, u32)> {
        let (number, part) = (within.checked_div(self.block)?, within % self.block);
        let start = self.stride.checked_mul(number.into()).filter(|_| number < self.count)?;
        Some((self.offset.checked_add(start)?.checked_add(part.into())?, self.block - part))
    }

    /// One past the furthest of the first `bytes` bytes, of which there is one at least.
    pub(super) fn end(&self, bytes: u32) -> Option<i64> {
        let last = bytes.checked_sub(1)?;
        let (before, part) = (i64::from(last.checked_div(self.block)?), i64::from(last % self.block + 1));
        let mut end = self.stride.checked_mul(before)?.checked_add(part)?;
        if let Some(whole) = before.checked_sub(1).filter(|&whole| whole >= 0) {
            // Where blocks overlap or go backwards another one may reach further.
            let block = i64::from(self.block);
            end = end.max(self.stride.checked_mul(whole)?.checked_add(block)?).max(block);
        }
        self.offset.checked_add(end)
    }
}

/// Levels as they are put around each other, from the innermost on.
#[derive(Clone, Debug, Default)]
pub struct Levels(Vec<StrideLevel, LEVELS>);

impl Levels {
    /// None but these.
    pub fn of(levels: impl IntoIterator<Item = StrideLevel>) -> Self {
        Self(levels.into_iter().take(LEVELS).collect())
    }

    /// From the innermost on.
    pub fn as_slice(&self) -> &[StrideLevel] {
        &self.0
    }

    /// Puts a level around what there is. It makes the last one longer if it only goes on with it, and a `run` that stands
    /// alone if that is a run then. Returns whether there was room.
    #[must_use]
    pub fn put_around(&mut self, run: Option<&mut Run>, count: u32, stride: i64) -> bool {
        if count == 1 {
            return true;
        }
        match (self.0.last_mut(), run) {
            (Some(last), _) if last.stride.checked_mul(last.count.into()) == Some(stride) => {
                if let Some(count) = last.count.checked_mul(count) {
                    last.count = count;
                    return true;
                }
            }
            (None, Some(run)) => {
                if let Some(longer) = run.repeated(count, stride) {
                    *run = longer;
                    return true;
                }
            }
            _ => {}
        }
        self.0.push(StrideLevel { count, stride }).is_ok()
    }
}

/// Room for a run or a level of a [`Table`].
#[derive(Default)]
pub struct Cell {
    offset: AtomicI64,
    stride: AtomicI64,
    block: AtomicU32,
    count: AtomicU32,
    tag: AtomicU32,
}

impl Cell {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            offset: AtomicI64::new(0),
            stride: AtomicI64::new(0),
            block: AtomicU32::new(0),
            count: AtomicU32::new(0),
            tag: AtomicU32::new(0),
        }
    }

    /// The run that was written to it.
    pub fn run(&self) -> Run {
        Run {
            offset: self.offset.load(Ordering::Relaxed),
            block: self.block.load(Ordering::Relaxed),
            count: self.count.load(Ordering::Relaxed),
            stride: self.stride.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed),
        }
    }

    /// The level that was written to it.
    pub fn level(&self) -> StrideLevel {
        StrideLevel { count: self.count.load(Ordering::Relaxed), stride: self.stride.load(Ordering::Relaxed) }
    }

    /// Writes a run.
    pub fn set_run(&self, run: Run) {
        self.offset.store(run.offset, Ordering::Relaxed);
        self.block.store(run.block, Ordering::Relaxed);
        self.tag.store(run.tag, Ordering::Relaxed);
        self.set_level(StrideLevel { count: run.count, stride: run.stride });
    }

    /// Writes a level.
    pub fn set_level(&self, level: StrideLevel) {
        self.count.store(level.count, Ordering::Relaxed);
        self.stride.store(level.stride, Ordering::Relaxed);
    }
}

/// Why a table is refused. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableError {
    /// There are fewer cells than runs and levels.
    Cells,
    /// A run is empty, or something lies too far off to be counted.
    Range,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cells => "the table has fewer cells than the layout has runs and levels: give it more",
            Self::Range => "a layout's runs have data, and offsets, strides and counts that can be counted",
        })
    }
}

impl core::error::Error for TableError {}

/// Runs with levels around them, and the extent at which the whole is repeated. Offsets and strides may be negative.
///
/// It lies in memory that its owner took for good, and may be set anew. While an operation uses it, it must stay as it is:
/// the operation would move other bytes of the same memory, end with some of them missing, or not end.
pub struct Table {
    cells: &'static [Cell],
    /// The first of its cells; the runs, and behind them the levels.
    start: AtomicUsize,
    runs: AtomicU32,
    levels: AtomicU32,
    /// Bytes of the runs, once.
    bytes: AtomicU64,
    /// How far an element reaches, from its origin.
    low: AtomicI64,
    high: AtomicI64,
    extent: AtomicI64,
}

impl Table {
    /// An empty one.
    pub const fn new(cells: &'static [Cell]) -> Self {
        Self {
            cells,
            start: AtomicUsize::new(0),
            runs: AtomicU32::new(0),
            levels: AtomicU32::new(0),
            bytes: AtomicU64::new(0),
            low: AtomicI64::new(0),
            high: AtomicI64::new(0),
            extent: AtomicI64::new(0),
        }
    }

    /// Writes runs, and the levels around them from the innermost on, to its cells. Runs without data are left out.
    ///
    /// # Errors
    /// [`TableError`]; the table is empty then.
    pub fn set(&self, runs: &[Run], levels: &[StrideLevel], extent: i64) -> Result<(), TableError> {
        self.clear();
        let mut cells = self.cells.iter();
        let mut used = 0;
        for &run in runs.iter().filter(|run| run.bytes() > 0) {
            cells.next().ok_or(TableError::Cells)?.set_run(run);
            used += 1;
        }
        for &level in levels {
            cells.next().ok_or(TableError::Cells)?.set_level(level);
        }
        self.set_written(0, (used, levels.len()), extent)
    }

    /// Makes it consist of runs, and levels behind them, that are in its cells from `start` on already.
    ///
    /// # Errors
    /// [`TableError`]; the table is empty then.
    pub fn set_written(
        &self,
        start: usize,
        (runs, levels): (usize, usize),
        extent: i64,
    ) -> Result<(), TableError> {
        self.clear();
        let cells = self.cells.get(start..).and_then(|cells| cells.get(..runs.checked_add(levels)?));
        let (of_runs, of_levels) = cells.ok_or(TableError::Cells)?.split_at(runs);
        let range = TableError::Range;
        let (mut bytes, mut low, mut high) = (0u64, i64::MAX, i64::MIN);
        for run in of_runs.iter().map(Cell::run) {
            if run.bytes() == 0 {
                return Err(range);
            }
            bytes = bytes.checked_add(run.bytes()).ok_or(range)?;
            let last = run.stride.checked_mul(i64::from(run.count - 1)).ok_or(range)?;
            low = low.min(run.offset.checked_add(last.min(0)).ok_or(range)?);
            let end = last.max(0).checked_add(run.block.into());
            high = high.max(end.and_then(|end| run.offset.checked_add(end)).ok_or(range)?);
        }
        if runs == 0 {
            (low, high) = (0, 0);
        }
        for StrideLevel { count, stride } in of_levels.iter().map(Cell::level) {
            let last = stride.checked_mul(i64::from(count) - 1).filter(|_| count > 0).ok_or(range)?;
            low = low.checked_add(last.min(0)).ok_or(range)?;
            high = high.checked_add(last.max(0)).ok_or(range)?;
        }
        self.low.store(low, Ordering::Relaxed);
        self.high.store(high, Ordering::Relaxed);
        self.extent.store(extent, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.levels.store(u32::try_from(levels).map_err(|_| range)?, Ordering::Relaxed);
        self.runs.store(u32::try_from(runs).map_err(|_| range)?, Ordering::Relaxed);
        self.bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn clear(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.runs.store(0, Ordering::Relaxed);
        self.levels.store(0, Ordering::Relaxed);
    }

    fn cells(&self, from: u32, count: u32) -> &'static [Cell] {
        let start = self.start.load(Ordering::Relaxed).saturating_add(from as usize);
        let cells = self.cells.get(start..).unwrap_or_default();
        cells.get(..count as usize).unwrap_or_default()
    }

    /// Its runs.
    pub fn runs(&self) -> impl Iterator<Item = Run> + Clone + use<> {
        self.cells(0, self.runs.load(Ordering::Relaxed)).iter().map(Cell::run)
    }

    /// The levels around them, from the innermost on.
    pub fn levels(&self) -> impl Iterator<Item = StrideLevel> + Clone + use<> {
        self.cells(self.runs.load(Ordering::Relaxed), self.levels.load(Ordering::Relaxed))
            .iter()
            .map(Cell::level)
    }

    /// Bytes from the origin of an element to that of the next.
    pub fn extent(&self) -> i64 {
        self.extent.load(Ordering::Relaxed)
    }

    /// How often the levels repeat the runs.
    pub fn repetitions(&self) -> Option<u64> {
        self.levels().try_fold(1u64, |product, level| product.checked_mul(level.count.into()))
    }

    /// Bytes of data that so many elements have; `None` if that is over `u32::MAX`.
    pub fn bytes(&self, count: u32) -> Option<u32> {
        let runs = self.bytes.load(Ordering::Relaxed);
        if runs == 0 {
            return Some(0);
        }
        let all = self.repetitions()?.checked_mul(count.into())?.checked_mul(runs)?;
        u32::try_from(all).ok()
    }

    /// The lowest byte of so many elements, from the first one's origin: where their layout begins.
    pub fn low(&self, count: u32) -> Option<i64> {
        let last = self.extent().checked_mul(i64::from(count.saturating_sub(1)))?;
        self.low.load(Ordering::Relaxed).checked_add(last.min(0))
    }

    /// Bytes from there to the end of the highest.
    pub(super) fn span(&self, count: u32) -> Option<u32> {
        if self.bytes(count)? == 0 {
            return Some(0);
        }
        let last = self.extent().checked_mul(i64::from(count.checked_sub(1)?))?;
        let high = self.high.load(Ordering::Relaxed).checked_add(last.max(0))?;
        u32::try_from(high.checked_sub(self.low(count)?)?).ok()
    }

    /// The run with this number of all that `count` elements have, and where the element of the runs begins that it is of.
    pub(super) fn nth(&self, index: u32, count: u32) -> Option<(i64, Run)> {
        let runs = self.runs.load(Ordering::Relaxed);
        let (mut outer, number) = (index.checked_div(runs)?, index % runs);
        let mut base = 0i64.checked_sub(self.low(count)?)?;
        for StrideLevel { count, stride } in self.levels() {
            base = base.checked_add(stride.checked_mul(outer.checked_rem(count)?.into())?)?;
            outer /= count;
        }
        base = base.checked_add(self.extent().checked_mul(outer.into())?).filter(|_| outer < count)?;
        Some((base, self.cells(number, 1).first()?.run())).filter(|(_, run)| run.bytes() > 0)
    }

    /// Number of the first run of the repetition that this byte is in, and the byte's number in it.
    pub(super) fn skip(&self, bytes: u32) -> Option<(u32, u32)> {
        let each = self.bytes.load(Ordering::Relaxed);
        if each == 0 {
            return (bytes == 0).then_some((0, 0));
        }
        let (whole, rest) = (u64::from(bytes) / each, u64::from(bytes) % each);
        let index = whole.checked_mul(self.runs.load(Ordering::Relaxed).into())?;
        Some((u32::try_from(index).ok()?, rest as u32))
    }
}

/// Tables are the same if they are one.
impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        core::ptr::eq(self, other)
    }
}

impl Eq for Table {}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.runs()).entries(self.levels()).finish()
    }
}
