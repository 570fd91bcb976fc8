//! Values of any length that come and go: datatypes' runs, groups' lists.
//!
//! A pool has places for values and cells for what they consist of, all taken when the library is set up. Values are held
//! by counted handles; the last one that is dropped gives place and cells back. Whoever claimed a place writes it, and it is
//! only read afterwards. Cells and places are atomics so that this needs no lock, but for the list of which cells are taken;
//! who hands a handle to another thread orders what was written before.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rings::first_fit::{FirstFit, Span};
use spin::Mutex;

/// The cells of a pool.
pub(crate) struct Cells<C: 'static> {
    cells: &'static [C],
    taken: Mutex<FirstFit>,
}

/// A place for a value; `W` is what is known of it besides its cells.
pub(crate) struct ValueSlot<C: 'static, W> {
    taken: AtomicBool,
    handles: AtomicUsize,
    /// First cell, how many there are, and how many of them are the value's.
    start: AtomicUsize,
    room: AtomicUsize,
    len: AtomicUsize,
    what: W,
    cells: &'static Cells<C>,
}

/// A pool, see the module.
pub(crate) struct Pool<C: 'static, W: 'static> {
    places: &'static [ValueSlot<C, W>],
    limit: usize,
}

/// What there is too little of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lacks {
    Places,
    Cells,
}

/// Where a pool takes its memory from.
pub(crate) trait Memory {
    /// `len` values.
    fn fill<T: Send>(&self, len: usize, value: impl FnMut() -> T) -> Option<&'static mut [T]>;
}

impl<N: pami::Node> Memory for N {
    fn fill<T: Send>(&self, len: usize, value: impl FnMut() -> T) -> Option<&'static mut [T]> {
        self.memory(len, value)
    }
}

impl<C: Send + Sync, W: Send + Sync> Pool<C, W> {
    /// A pool of `places` values, which have `cells` cells together. What is known of a value may name them all.
    pub(crate) fn new(
        memory: &impl Memory,
        (places, mut what): (usize, impl FnMut(&'static [C]) -> W),
        (cells, cell): (usize, impl FnMut() -> C),
    ) -> Option<Self> {
        // While a value moves it has two.
        let spans = memory.fill(places + 1, Span::default)?;
        let all = Cells { cells: memory.fill(cells, cell)?, taken: Mutex::new(FirstFit::new(cells, spans)) };
        let mut all = Some(all);
        let cells_of: &'static [Option<Cells<C>>] = memory.fill(1, || all.take())?;
        let cells_of = cells_of.first()?.as_ref()?;
        let place = || ValueSlot {
            taken: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            what: what(cells_of.cells),
            cells: cells_of,
        };
        Some(Self { places: memory.fill(places, place)?, limit: cells })
    }

    /// Bytes that such a pool takes.
    pub(crate) fn bytes(places: usize, cells: usize) -> usize {
        let each = size_of::<ValueSlot<C, W>>() + size_of::<Span>();
        let places = places.saturating_mul(each);
        cells.saturating_mul(size_of::<C>()).saturating_add(places).saturating_add(size_of::<Cells<C>>())
    }

    /// Most values at a time.
    pub(crate) fn limit(&self) -> usize {
        self.places.len()
    }

    /// Cells of all values together.
    pub(crate) fn cell_limit(&self) -> usize {
        self.limit
    }

    /// Values that there are.
    pub(crate) fn used(&self) -> usize {
        self.places.iter().filter(|place| place.taken.load(Ordering::Relaxed)).count()
    }

    /// Claims a place, for a value that has no cells so far.
    pub(crate) fn claim(&self) -> Result<Handle<C, W>, Lacks> {
        let take = |place: &&ValueSlot<C, W>| {
            !place.taken.load(Ordering::Relaxed)
                && place.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let place = self.places.iter().find(take).ok_or(Lacks::Places)?;
        place.handles.store(1, Ordering::Relaxed);
        place.room.store(0, Ordering::Relaxed);
        place.len.store(0, Ordering::Relaxed);
        Ok(Handle(place))
    }
}

/// A claim on a place; the last one frees it.
pub(crate) struct Handle<C: 'static, W: 'static>(&'static ValueSlot<C, W>);

impl<C, W> Handle<C, W> {
    /// What is known of the value besides its cells.
    pub(crate) fn what(&self) -> &'static W {
        &self.0.what
    }

    /// The value's cells.
    pub(crate) fn cells(&self) -> &'static [C] {
        let (start, len) = (self.0.start.load(Ordering::Relaxed), self.len());
        self.0.cells.cells.get(start..start + len).unwrap_or_default()
    }

    pub(crate) fn cell(&self, index: usize) -> Option<&'static C> {
        if index < self.len() {
            self.0.cells.cells.get(self.0.start.load(Ordering::Relaxed) + index)
        } else {
            None
        }
    }

    /// The first of its cells.
    pub(crate) fn start(&self) -> usize {
        self.0.start.load(Ordering::Relaxed)
    }

    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.0.len.load(Ordering::Relaxed)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.0, other.0)
    }

    /// Makes the value shorter.
    pub(crate) fn shorten(&self, len: usize) {
        self.0.len.store(len.min(self.len()), Ordering::Relaxed);
    }

    /// Makes the value longer, to this many cells. `copy` takes what a cell has to another one, if it has to move.
    pub(crate) fn lengthen(&self, len: usize, copy: impl Fn(&C, &C)) -> Result<(), Lacks> {
        let place = self.0;
        let (start, room) = (place.start.load(Ordering::Relaxed), place.room.load(Ordering::Relaxed));
        if len > room {
            let mut taken = place.cells.taken.lock();
            let wanted = len.max(room.saturating_mul(2));
            let grown = if room == 0 { 0 } else { taken.resize(start, wanted) };
            if grown >= len {
                place.room.store(grown, Ordering::Relaxed);
            } else {
                if grown > 0 {
                    taken.resize(start, room);
                }
                let found = [wanted, len].into_iter().find_map(|room| Some((taken.allocate(room)?, room)));
                let (new, more) = found.ok_or(Lacks::Cells)?;
                let cells = place.cells.cells;
                for (from, to) in self.cells().iter().zip(cells.get(new..).unwrap_or_default()) {
                    copy(from, to);
                }
                if room > 0 {
                    taken.free(start);
                }
                place.start.store(new, Ordering::Relaxed);
                place.room.store(more, Ordering::Relaxed);
            }
        }
        place.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    /// The value has all its cells.
    pub(crate) fn close(&self) {
        let place = self.0;
        let (start, room, len) =
            (place.start.load(Ordering::Relaxed), place.room.load(Ordering::Relaxed), self.len());
        if len < room {
            let mut taken = place.cells.taken.lock();
            if len == 0 {
                taken.free(start);
            } else {
                taken.resize(start, len);
            }
            place.room.store(len, Ordering::Relaxed);
        }
    }
}

impl<C, W> Clone for Handle<C, W> {
    fn clone(&self) -> Self {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0)
    }
}

impl<C, W> Drop for Handle<C, W> {
    // Most data is of types that need none: what drops these stays short.
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        let place = self.0;
        // What was read through all handles was read before the place is claimed again.
        if place.handles.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        if place.room.load(Ordering::Relaxed) > 0 {
            place.cells.taken.lock().free(place.start.load(Ordering::Relaxed));
        }
        place.taken.store(false, Ordering::Release);
    }
}

/// Memory of tests.
#[cfg(test)]
pub(crate) struct Heap;

#[cfg(test)]
impl Memory for Heap {
    fn fill<T: Send>(&self, len: usize, value: impl FnMut() -> T) -> Option<&'static mut [T]> {
        use std::vec::Vec;
        Some(core::iter::repeat_with(value).take(len).collect::<Vec<_>>().leak())
    }
}
