//! Datatypes: which bytes of memory are the values of a message, and of what type (MPI chapter 4).
//!
//! A [`Datatype`] is a basic type or a derived one. Derived types are made by the methods of [`Types`], and become runs of
//! equally spaced blocks with levels around them as they are made: tables of PAMI's, which it walks. A vector of numbers is one
//! run, whatever its length, and so is a box of an array. They live in places of their pool; clones of a handle name the same
//! type, and the place is free when the last is dropped. So `MPI_Type_dup` is `clone`, `MPI_Type_free` is `drop`, and what is
//! under way keeps its own handle.

mod basic;
mod build;
mod pool;
mod shape;

pub use basic::{Basic, Native};
pub use pool::Types;

use core::fmt;
use pami::Layout;
use pami::layout::{Run, StrideLevel};
use pool::Handle;
use shape::Shape;

/// Why a datatype is refused. The caller is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeError {
    /// The node has not so many bytes for the pool.
    Memory {
        /// Bytes that the pool takes.
        bytes: usize,
    },
    /// So many derived types are alive; the settings allow no more.
    Types {
        /// How many.
        limit: usize,
    },
    /// All types together fall into more runs than the settings allow.
    Runs {
        /// How many there may be.
        limit: usize,
    },
    /// A size or a bound is over what an `isize` holds.
    Overflow,
    /// Lists of a constructor have these different lengths.
    Lists(usize, usize),
    /// A subarray reaches over the edge of this dimension, or has none.
    Subarray(usize),
}

impl fmt::Display for TypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { bytes } => {
                write!(f, "the node has not {bytes} bytes for datatypes: lower the settings' limits")
            }
            Self::Types { limit } => {
                write!(
                    f,
                    "{limit} derived types are alive: free some, or raise the settings' number of types"
                )
            }
            Self::Runs { limit } => {
                write!(
                    f,
                    "types have over {limit} runs: free some, or raise the settings' number of runs of types"
                )
            }
            Self::Overflow => f.write_str("the type's size or bounds are too large to be counted"),
            Self::Lists(a, b) => write!(f, "the lists have {a} and {b} entries: give as many of each"),
            Self::Subarray(dimension) => {
                write!(f, "the subarray must lie inside dimension {dimension} of its array")
            }
        }
    }
}

impl core::error::Error for TypeError {}

#[derive(Clone)]
enum Definition {
    Basic(Basic),
    Derived(Handle),
}

/// A datatype: a small handle, see the module. Two are equal if they are handles of one type.
#[derive(Clone)]
pub struct Datatype(Definition);

impl From<Basic> for Datatype {
    fn from(basic: Basic) -> Self {
        Self::basic(basic)
    }
}

impl PartialEq for Datatype {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Definition::Basic(a), Definition::Basic(b)) => a == b,
            (Definition::Derived(a), Definition::Derived(b)) => a.is_same(b),
            _ => false,
        }
    }
}

impl Eq for Datatype {}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Definition::Basic(basic) => basic.fmt(f),
            Definition::Derived(_) => write!(f, "Datatype({} B in {} B)", self.size(), self.extent()),
        }
    }
}

impl Datatype {
    /// A basic type; it is committed.
    pub const fn basic(basic: Basic) -> Self {
        Self(Definition::Basic(basic))
    }

    /// The basic type of a number.
    pub const fn of<T: Native>() -> Self {
        Self::basic(T::BASIC)
    }

    fn shape(&self) -> Shape {
        match &self.0 {
            Definition::Basic(basic) => Shape::of(*basic),
            Definition::Derived(handle) => handle.shape(),
        }
    }

    fn runs(&self) -> impl Iterator<Item = Run> + Clone + use<> {
        let (basic, table) = match &self.0 {
            Definition::Basic(basic) => {
                (Some(Run { tag: *basic as u32, ..Run::of(basic.bytes() as u32) }), None)
            }
            Definition::Derived(handle) => (None, Some(handle.table())),
        };
        basic.into_iter().chain(table.into_iter().flat_map(|table| table.runs()))
    }

    /// What is around the runs.
    fn levels(&self) -> impl Iterator<Item = StrideLevel> + Clone + use<> {
        let table = match &self.0 {
            Definition::Basic(_) => None,
            Definition::Derived(handle) => Some(handle.table()),
        };
        table.into_iter().flat_map(|table| table.levels())
    }

    /// All the data, if it is one run.
    fn only_run(&self) -> Option<Run> {
        let mut runs = self.runs();
        let first = runs.next()?;
        (runs.next().is_none() && self.levels().next().is_none()).then_some(first)
    }

    /// How often levels repeat the runs.
    fn repetitions(&self) -> usize {
        // No more than there are bytes, which could be counted.
        self.levels().map(|level| level.count as usize).product()
    }

    /// Where the runs begin each time, from the element's origin.
    fn origins(&self) -> impl Iterator<Item = i64> + use<'_> {
        (0..self.repetitions()).map(|number| {
            let step = |(origin, number): (i64, usize), level: StrideLevel| {
                let (count, at) = (level.count as usize, (number % level.count as usize) as i64);
                (origin + at * level.stride, number / count)
            };
            self.levels().fold((0, number), step).0
        })
    }

    /// Number of runs that the type consists of, whatever levels repeat them.
    pub fn run_count(&self) -> usize {
        self.runs().count()
    }

    /// Bytes of data in an element (`MPI_Type_size`).
    pub fn size(&self) -> usize {
        self.shape().size
    }

    /// Bytes from the start of an element to that of the next (`MPI_Type_get_extent`).
    pub fn extent(&self) -> isize {
        self.shape().extent()
    }

    /// The lower bound.
    pub fn lb(&self) -> isize {
        self.shape().lb
    }

    /// The upper bound.
    pub fn ub(&self) -> isize {
        self.shape().ub
    }

    /// The first byte of data, and bytes from there to the end of the last (`MPI_Type_get_true_extent`).
    pub fn true_extent(&self) -> (isize, isize) {
        let shape = self.shape();
        (shape.true_lb, shape.true_ub.wrapping_sub(shape.true_lb))
    }

    /// Says that the type is complete: only then it may be communicated with (`MPI_Type_commit`).
    pub fn commit(&self) {
        if let Definition::Derived(handle) = &self.0 {
            handle.commit();
        }
    }

    /// Whether it may be communicated with.
    #[inline]
    pub fn is_committed(&self) -> bool {
        match &self.0 {
            Definition::Basic(_) => true,
            Definition::Derived(handle) => handle.is_committed(),
        }
    }

    /// The basic type, if it is none that was derived.
    pub fn as_basic(&self) -> Option<Basic> {
        match self.0 {
            Definition::Basic(basic) => Some(basic),
            Definition::Derived(_) => None,
        }
    }

    /// The basic type that all values are of, if there is one.
    pub fn uniform(&self) -> Option<Basic> {
        let first = self.runs().next()?.tag;
        self.runs().all(|run| run.tag == first).then(|| Basic::from_number(first as u8))
    }

    /// Basic values in an element.
    pub fn elements(&self) -> usize {
        self.shape().elements
    }

    /// The type signature of an element: so many values of each type, in order.
    pub fn signature(&self) -> impl Iterator<Item = (Basic, usize)> + '_ {
        let values = |run: Run| {
            let basic = Basic::from_number(run.tag as u8);
            (basic, run.block as usize / basic.bytes() * run.count as usize)
        };
        (0..self.repetitions()).flat_map(move |_| self.runs().map(values))
    }

    /// Whether the values of `count` elements are those of `other_count` of another type, one by one. Bytes and packed
    /// data match everything of their length.
    pub fn matches(&self, count: usize, other: &Self, other_count: usize) -> bool {
        let bytes = |datatype: &Self, count: usize| datatype.size().checked_mul(count);
        if bytes(self, count) != bytes(other, other_count) {
            return false;
        }
        let plain = |basic: Option<Basic>| matches!(basic, Some(Basic::Byte | Basic::Packed));
        if plain(self.uniform()) || plain(other.uniform()) || self.size() == 0 {
            return true;
        }
        if let (Some(a), Some(b)) = (self.uniform(), other.uniform()) {
            return a == b;
        }
        let mut a = (0..count).flat_map(|_| self.signature());
        let mut b = (0..other_count).flat_map(|_| other.signature());
        let (mut left_a, mut left_b) = (None, None);
        loop {
            let (Some((basic_a, len_a)), Some((basic_b, len_b))) =
                (left_a.take().or_else(|| a.next()), left_b.take().or_else(|| b.next()))
            else {
                return true;
            };
            if basic_a != basic_b {
                return false;
            }
            let len: usize = len_a.min(len_b);
            left_a = (len_a > len).then(|| (basic_a, len_a - len));
            left_b = (len_b > len).then(|| (basic_b, len_b - len));
        }
    }

    /// How many elements `bytes` are (`MPI_Get_count`); `None` is `MPI_UNDEFINED`.
    pub fn get_count(&self, bytes: usize) -> Option<usize> {
        match self.size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then_some(bytes / size),
        }
    }

    /// How many basic values `bytes` are (`MPI_Get_elements`); `None` is `MPI_UNDEFINED`.
    pub fn get_elements(&self, bytes: usize) -> Option<usize> {
        let Some(whole) = bytes.checked_div(self.size()) else {
            return (bytes == 0).then_some(0);
        };
        let (mut elements, mut rest) = (whole * self.elements(), bytes % self.size());
        let repetitions = self.repetitions();
        elements += rest / (self.size() / repetitions) * (self.elements() / repetitions);
        rest %= self.size() / repetitions;
        for run in self.runs() {
            let (all, each) = (run.bytes() as usize, Basic::from_number(run.tag as u8).bytes());
            if rest < all {
                return rest.is_multiple_of(each).then_some(elements + rest / each);
            }
            elements += all / each;
            rest -= all;
        }
        Some(elements)
    }

    /// Bytes that `count` elements take when they are packed (`MPI_Pack_size`).
    pub fn pack_size(&self, count: usize) -> Option<usize> {
        self.size().checked_mul(count)
    }

    /// Where the lowest byte of `count` elements is, in bytes from their origin, and how all lie from there, as PAMI takes it.
    /// `None` if there are too many. A table is to be used only while there is a handle of the type.
    pub fn layout(&self, count: usize) -> Option<(isize, Layout)> {
        let shape = self.shape();
        let table = match &self.0 {
            Definition::Derived(handle) if shape.size > 0 && count > 0 => handle.table(),
            _ => return Some((0, Layout::Contiguous)),
        };
        let count = u32::try_from(count).ok()?;
        let all = self.only_run().and_then(|run| run.repeated(count, shape.extent() as i64));
        let plain = all.and_then(|run| Some((run.offset, run.layout()?)));
        let (low, layout) = match plain {
            Some(plain) => plain,
            None => (table.low(count)?, Layout::Table(table, count)),
        };
        Some((isize::try_from(low).ok()?, layout))
    }

    /// The bytes that `count` elements reach over, from the origin: the first, and one past the last.
    pub(crate) fn reach(&self, count: usize) -> Option<(isize, isize)> {
        let shape = self.shape();
        let Some(last) = count.checked_sub(1).filter(|_| shape.size > 0) else { return Some((0, 0)) };
        let last = isize::try_from(last).ok()?.checked_mul(shape.extent())?;
        Some((shape.true_lb.checked_add(last.min(0))?, shape.true_ub.checked_add(last.max(0))?))
    }
}

#[cfg(test)]
mod tests;
