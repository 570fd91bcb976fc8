//! Where derived types live: a [`pool`](crate::pool) of runs.

use super::TypeError;
use super::basic::Basic;
use super::shape::Shape;
use crate::pool::{self, Lacks, Memory, Pool};
use core::sync::atomic::{AtomicBool, AtomicIsize, AtomicU8, AtomicUsize, Ordering};
use pami::Node;

/// `count` blocks of `block` bytes each, `stride` bytes from the start of one to that of the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// Of the first block, in bytes from the element's origin.
    pub offset: isize,
    /// Whole values of `basic`, at least one.
    pub block: usize,
    pub stride: isize,
    pub count: usize,
    pub basic: Basic,
}

/// A run that was or will be written.
pub(crate) struct RunPlace {
    offset: AtomicIsize,
    block: AtomicUsize,
    stride: AtomicIsize,
    count: AtomicUsize,
    basic: AtomicU8,
}

impl RunPlace {
    const fn new() -> Self {
        Self {
            offset: AtomicIsize::new(0),
            block: AtomicUsize::new(0),
            stride: AtomicIsize::new(0),
            count: AtomicUsize::new(0),
            basic: AtomicU8::new(0),
        }
    }

    fn get(&self) -> Run {
        Run {
            offset: self.offset.load(Ordering::Relaxed),
            block: self.block.load(Ordering::Relaxed),
            stride: self.stride.load(Ordering::Relaxed),
            count: self.count.load(Ordering::Relaxed),
            basic: Basic::from_number(self.basic.load(Ordering::Relaxed)),
        }
    }

    fn set(&self, run: Run) {
        self.offset.store(run.offset, Ordering::Relaxed);
        self.block.store(run.block, Ordering::Relaxed);
        self.stride.store(run.stride, Ordering::Relaxed);
        self.count.store(run.count, Ordering::Relaxed);
        self.basic.store(run.basic as u8, Ordering::Relaxed);
    }
}

/// What is known of a type besides its runs.
pub(crate) struct Known {
    committed: AtomicBool,
    shape: [AtomicIsize; Shape::WORDS],
}

impl Known {
    const fn new() -> Self {
        Self { committed: AtomicBool::new(false), shape: [const { AtomicIsize::new(0) }; Shape::WORDS] }
    }
}

/// The derived datatypes of one library: so many, with so many runs together. Its methods make new types of others.
pub struct Types(Pool<RunPlace, Known>);

impl Types {
    /// A pool of `types` derived types with `runs` runs together, in the node's memory.
    ///
    /// # Errors
    /// [`TypeError::Memory`].
    pub fn new<N: Node>(node: &N, types: usize, runs: usize) -> Result<Self, TypeError> {
        Self::of_memory(node, types, runs)
    }

    fn of_memory(memory: &impl Memory, types: usize, runs: usize) -> Result<Self, TypeError> {
        let exhausted = TypeError::Memory { bytes: Pool::<RunPlace, Known>::bytes(types, runs) };
        let pool = Pool::new(memory, (types, Known::new), (runs, RunPlace::new));
        pool.map(Self).ok_or(exhausted)
    }

    /// A pool without a node.
    #[cfg(test)]
    pub(crate) fn on_heap(types: usize, runs: usize) -> Self {
        Self::of_memory(&pool::Heap, types, runs).unwrap()
    }

    /// Most derived types at a time.
    pub fn limit(&self) -> usize {
        self.0.limit()
    }

    /// Most runs of all types together.
    pub fn run_limit(&self) -> usize {
        self.0.cell_limit()
    }

    /// Derived types that are alive.
    pub fn alive(&self) -> usize {
        self.0.used()
    }

    pub(super) fn claim(&self) -> Result<Handle, TypeError> {
        let handle = self.0.claim().map_err(|lacks| self.lacks(lacks))?;
        handle.what().committed.store(false, Ordering::Relaxed);
        Ok(Handle(handle))
    }

    /// Adds a run to a type behind its others.
    pub(super) fn append(&self, to: &Handle, run: Run) -> Result<(), TypeError> {
        let used = to.used();
        to.0.lengthen(used + 1, |from, to| to.set(from.get())).map_err(|lacks| self.lacks(lacks))?;
        if let Some(place) = to.0.cell(used) {
            place.set(run);
        }
        Ok(())
    }

    fn lacks(&self, lacks: Lacks) -> TypeError {
        match lacks {
            Lacks::Places => TypeError::Types { limit: self.limit() },
            Lacks::Cells => TypeError::Runs { limit: self.run_limit() },
        }
    }
}

/// A handle of a type.
#[derive(Clone)]
pub(super) struct Handle(pool::Handle<RunPlace, Known>);

impl Handle {
    pub fn commit(&self) {
        self.0.what().committed.store(true, Ordering::Relaxed);
    }

    pub fn is_committed(&self) -> bool {
        self.0.what().committed.load(Ordering::Relaxed)
    }

    pub fn shape(&self) -> Shape {
        Shape::from_words(self.0.what().shape.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// The type is whole.
    pub fn close(&self, shape: Shape) {
        self.0.close();
        for (place, word) in self.0.what().shape.iter().zip(shape.into_words()) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Number of runs.
    pub fn used(&self) -> usize {
        self.0.len()
    }

    pub fn run(&self, index: usize) -> Option<Run> {
        self.0.cell(index).map(RunPlace::get)
    }

    pub fn shorten(&self, used: usize) {
        self.0.shorten(used);
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}
