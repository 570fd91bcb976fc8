//! Where derived types live: a pool of places, each with room for so many runs.
//!
//! A place is written by whoever claimed it and only read afterwards, until its last handle is dropped. Its fields are
//! atomics so that this needs no lock; who hands a handle to another thread orders what was written before.

use super::TypeError;
use super::basic::Basic;
use super::shape::Shape;
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
pub(super) struct RunPlace {
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

/// A place for a type.
pub(super) struct Place {
    /// Handles; 0: free.
    handles: AtomicUsize,
    committed: AtomicBool,
    shape: [AtomicIsize; Shape::WORDS],
    used: AtomicUsize,
    runs: &'static [RunPlace],
}

impl Place {
    fn new(runs: &'static [RunPlace]) -> Self {
        Self {
            handles: AtomicUsize::new(0),
            committed: AtomicBool::new(false),
            shape: [const { AtomicIsize::new(0) }; Shape::WORDS],
            used: AtomicUsize::new(0),
            runs,
        }
    }
}

/// The derived datatypes of one library: a fixed number of places. Its methods make new types of others.
pub struct Types {
    places: &'static [Place],
    runs: usize,
}

impl Types {
    /// A pool of `types` derived types with at most `runs` runs each, in the node's memory.
    ///
    /// # Errors
    /// [`TypeError::Memory`].
    pub fn new<N: Node>(node: &N, types: usize, runs: usize) -> Result<Self, TypeError> {
        let bytes = types.saturating_mul(size_of::<Place>() + runs.saturating_mul(size_of::<RunPlace>()));
        let exhausted = TypeError::Memory { bytes };
        let all = types.checked_mul(runs).ok_or(exhausted)?;
        let mut rest: &'static [RunPlace] = node.memory(all, RunPlace::new).ok_or(exhausted)?;
        let place = || {
            let (own, others) = rest.split_at(runs.min(rest.len()));
            rest = others;
            Place::new(own)
        };
        Ok(Self { places: node.memory(types, place).ok_or(exhausted)?, runs })
    }

    /// A pool without a node.
    #[cfg(test)]
    pub(crate) fn on_heap(types: usize, runs: usize) -> Self {
        use std::{boxed::Box, vec::Vec};
        let place = || Place::new(Box::leak((0..runs).map(|_| RunPlace::new()).collect::<Box<[_]>>()));
        let places: Vec<_> = (0..types).map(|_| place()).collect();
        Self { places: places.leak(), runs }
    }

    /// Most derived types at a time.
    pub fn limit(&self) -> usize {
        self.places.len()
    }

    /// Most runs of a type.
    pub fn run_limit(&self) -> usize {
        self.runs
    }

    /// Derived types that are alive.
    pub fn alive(&self) -> usize {
        self.places.iter().filter(|place| place.handles.load(Ordering::Relaxed) > 0).count()
    }

    pub(super) fn claim(&self) -> Result<Handle, TypeError> {
        let take = |place: &&Place| {
            place.handles.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let place = self.places.iter().find(take).ok_or(TypeError::Types { limit: self.limit() })?;
        place.committed.store(false, Ordering::Relaxed);
        place.used.store(0, Ordering::Relaxed);
        Ok(Handle(place))
    }
}

/// A claim on a place; the last one frees it.
pub(super) struct Handle(&'static Place);

impl Handle {
    pub fn commit(&self) {
        self.0.committed.store(true, Ordering::Relaxed);
    }

    pub fn is_committed(&self) -> bool {
        self.0.committed.load(Ordering::Relaxed)
    }

    pub fn shape(&self) -> Shape {
        Shape::from_words(self.0.shape.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    pub fn set_shape(&self, shape: Shape) {
        for (place, word) in self.0.shape.iter().zip(shape.into_words()) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Number of runs.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    pub fn run(&self, index: usize) -> Option<Run> {
        (index < self.used()).then_some(())?;
        self.0.runs.get(index).map(RunPlace::get)
    }

    pub fn shorten(&self, used: usize) {
        self.0.used.store(used, Ordering::Relaxed);
    }

    /// Adds a run behind the others.
    pub fn append(&self, run: Run) -> Result<(), TypeError> {
        let used = self.used();
        let place = self.0.runs.get(used).ok_or(TypeError::Runs { limit: self.0.runs.len() })?;
        place.set(run);
        self.shorten(used + 1);
        Ok(())
    }

    pub fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // What was read through this handle was read before the place is claimed again.
        self.0.handles.fetch_sub(1, Ordering::Release);
    }
}
