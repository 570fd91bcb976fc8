//! Values of any length that come and go: datatypes' runs, groups' lists.
//!
//! A pool has places for values and cells for what they consist of, all taken when the library is set up. Values are held
//! by counted handles; the last one that is dropped gives place and cells back. Whoever claimed a place writes it, and it is
//! only read afterwards. Cells and places are atomics so that this needs no lock, but for the list of which cells are taken;
//! who hands a handle to another thread orders what was written before.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use spin::Mutex;

/// Items that somebody has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Piece {
    start: u32,
    len: u32,
}

/// Which of a number of items are taken, in pieces: first fit. The pieces are listed by rising start, so what is free is
/// what lies between them.
#[derive(Default)]
pub(crate) struct Ranges {
    limit: u32,
    pieces: &'static mut [Piece],
    used: usize,
}

impl Ranges {
    /// `limit` free items; at most as many pieces as there are places for.
    pub(crate) fn new(limit: usize, pieces: &'static mut [Piece]) -> Self {
        Self { limit: u32::try_from(limit).unwrap_or(u32::MAX), pieces, used: 0 }
    }

    /// Takes `len` items, at least one. Returns the first.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        let len = u32::try_from(len).ok().filter(|&len| len > 0)?;
        if self.used == self.pieces.len() {
            return None;
        }
        let (mut start, mut at) = (0, self.used);
        for (index, piece) in self.pieces[..self.used].iter().enumerate() {
            if piece.start - start >= len {
                at = index;
                break;
            }
            start = piece.start + piece.len;
        }
        if self.limit - start < len {
            return None;
        }
        self.pieces[at..=self.used].rotate_right(1);
        self.pieces[at] = Piece { start, len };
        self.used += 1;
        Some(start as usize)
    }

    fn find(&self, start: usize) -> Option<usize> {
        let start = u32::try_from(start).ok()?;
        self.pieces[..self.used].binary_search_by_key(&start, |piece| piece.start).ok()
    }

    /// Makes a piece longer where it is, up to `len` items, or shorter. Returns how long it is.
    pub(crate) fn resize(&mut self, start: usize, len: usize) -> usize {
        let Some(at) = self.find(start) else { return 0 };
        let next = self.pieces[..self.used].get(at + 1).map_or(self.limit, |next| next.start);
        let room = next - self.pieces[at].start;
        let len = u32::try_from(len).unwrap_or(u32::MAX).clamp(1, room);
        self.pieces[at].len = len;
        len as usize
    }

    /// Gives a piece back.
    pub(crate) fn free(&mut self, start: usize) {
        if let Some(at) = self.find(start) {
            self.pieces[at..self.used].rotate_left(1);
            self.used -= 1;
        }
    }
}

/// The cells of a pool.
pub(crate) struct Cells<C: 'static> {
    cells: &'static [C],
    taken: Mutex<Ranges>,
}

/// A place for a value; `W` is what is known of it besides its cells.
pub(crate) struct Place<C: 'static, W> {
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
    places: &'static [Place<C, W>],
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
    /// A pool of `places` values, which have `cells` cells together.
    pub(crate) fn new(
        memory: &impl Memory,
        (places, mut what): (usize, impl FnMut() -> W),
        (cells, cell): (usize, impl FnMut() -> C),
    ) -> Option<Self> {
        // While a value moves it has two.
        let pieces = memory.fill(places + 1, Piece::default)?;
        let all = Cells { cells: memory.fill(cells, cell)?, taken: Mutex::new(Ranges::new(cells, pieces)) };
        let mut all = Some(all);
        let cells_of: &'static [Option<Cells<C>>] = memory.fill(1, || all.take())?;
        let cells_of = cells_of.first()?.as_ref()?;
        let place = || Place {
            taken: AtomicBool::new(false),
            handles: AtomicUsize::new(0),
            start: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            what: what(),
            cells: cells_of,
        };
        Some(Self { places: memory.fill(places, place)?, limit: cells })
    }

    /// Bytes that such a pool takes.
    pub(crate) fn bytes(places: usize, cells: usize) -> usize {
        let each = size_of::<Place<C, W>>() + size_of::<Piece>();
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
        let take = |place: &&Place<C, W>| {
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
pub(crate) struct Handle<C: 'static, W: 'static>(&'static Place<C, W>);

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
                let found = [wanted, len].into_iter().find_map(|room| Some((taken.take(room)?, room)));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn pieces_never_meet_and_the_first_gap_is_taken(
            steps in prop::collection::vec((0u32..4, 0usize..70), 1..300)
        ) {
            const LIMIT: usize = 500;
            let mut ranges = Ranges::new(LIMIT, vec![Piece::default(); 16].leak());
            let mut model: Vec<(usize, usize)> = Vec::new();
            for (step, number) in steps {
                if step == 0 && !model.is_empty() {
                    let (start, _) = model.swap_remove(number % model.len());
                    ranges.free(start);
                } else if step == 1 && !model.is_empty() {
                    let index = number % model.len();
                    let start = model[index].0;
                    let next = model.iter().map(|piece| piece.0).filter(|&other| other > start).min();
                    let len = number.clamp(1, next.unwrap_or(LIMIT) - start);
                    prop_assert_eq!(ranges.resize(start, number), len);
                    model[index].1 = len;
                } else {
                    let meets = |start: usize| {
                        model.iter().any(|&(at, len)| start < at + len && at < start + number)
                    };
                    let first = (0..LIMIT).find(|&start| start + number <= LIMIT && !meets(start));
                    let first = first.filter(|_| model.len() < 16 && number > 0);
                    prop_assert_eq!(ranges.take(number), first);
                    model.extend(first.map(|start| (start, number)));
                }
            }
        }
    }
}
