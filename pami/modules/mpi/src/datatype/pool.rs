//! Where derived types live: a [`pool`](crate::pool) of the cells of PAMI's tables.

use super::TypeError;
use super::shape::Shape;
use crate::pool::{self, Lacks, Memory, Pool};
use core::sync::atomic::{AtomicBool, AtomicIsize, Ordering};
use pami::Node;
use pami::layout::{Cell, Run, StrideLevel, Table, TableError};

/// What is known of a type besides its runs.
pub(crate) struct Known {
    committed: AtomicBool,
    table: Table,
    shape: [AtomicIsize; Shape::WORDS],
}

impl Known {
    fn new(cells: &'static [Cell]) -> Self {
        let shape = [const { AtomicIsize::new(0) }; Shape::WORDS];
        Self { committed: AtomicBool::new(false), table: Table::new(cells), shape }
    }
}

/// The derived datatypes of one library: so many, with so many runs and levels together. Its methods make new types of others.
pub struct Types(Pool<Cell, Known>);

impl Types {
    /// A pool of `types` derived types with `runs` runs and levels together, in the node's memory.
    ///
    /// # Errors
    /// [`TypeError::Memory`].
    pub fn new<N: Node>(node: &N, types: usize, runs: usize) -> Result<Self, TypeError> {
        Self::of_memory(node, types, runs)
    }

    fn of_memory(memory: &impl Memory, types: usize, runs: usize) -> Result<Self, TypeError> {
        let exhausted = TypeError::Memory { bytes: Pool::<Cell, Known>::bytes(types, runs) };
        let pool = Pool::new(memory, (types, Known::new), (runs, Cell::new));
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

    /// Most runs and levels of all types together.
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
        self.lengthen(to)?.set_run(run);
        Ok(())
    }

    fn lengthen(&self, to: &Handle) -> Result<&'static Cell, TypeError> {
        let used = to.used();
        to.0.lengthen(used + 1, |from, to| to.set_run(from.run())).map_err(|lacks| self.lacks(lacks))?;
        to.0.cell(used).ok_or(TypeError::Overflow)
    }

    /// The type is whole: its runs with levels around them.
    pub(super) fn close(
        &self,
        type_: &Handle,
        levels: &[StrideLevel],
        shape: Shape,
    ) -> Result<(), TypeError> {
        let runs = type_.used();
        for &level in levels {
            self.lengthen(type_)?.set_level(level);
        }
        type_.0.close();
        let known = type_.0.what();
        for (place, word) in known.shape.iter().zip(shape.into_words()) {
            place.store(word, Ordering::Relaxed);
        }
        let extent = shape.extent() as i64;
        known.table.set_written(type_.0.start(), (runs, levels.len()), extent).map_err(|error| match error {
            TableError::Cells => TypeError::Runs { limit: self.run_limit() },
            TableError::Range => TypeError::Overflow,
        })
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
pub(super) struct Handle(pool::Handle<Cell, Known>);

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

    /// Number of runs, while the type is being made.
    pub fn used(&self) -> usize {
        self.0.len()
    }

    /// A run, while the type is being made.
    pub fn run(&self, index: usize) -> Option<Run> {
        self.0.cell(index).map(Cell::run)
    }

    /// All runs and levels, once the type is whole.
    pub fn table(&self) -> &'static Table {
        &self.0.what().table
    }

    pub fn shorten(&self, used: usize) {
        self.0.shorten(used);
    }

    pub fn is_same(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}
