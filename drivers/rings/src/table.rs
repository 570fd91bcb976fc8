//! A table whose entries many look at while others come and go: the node's memory regions (SPEC P-8).
//!
//! An entry is named by its place and by a generation that no other entry of that place ever has, so a key that outlived its
//! entry finds nothing; a place is used up after 2^31 entries. Looking costs two atomic additions; nobody waits but who removes an
//! entry, and only for those that look at this very entry.
//!
//! Who may end at any moment, as a process does, is not counted, as nobody could take that back: it shows what it looks at by a
//! [`Hazard`] of its own (Michael, Hazard Pointers, 2004), and whoever removes the entry asks that of those that live.
//!
//! | bits of a place's state | what |
//! |---|---|
//! | 32..64 | generation; odd while there is an entry |
//! | 0..32 | lookers, and those who are about to find that they came too late |

use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering, UnsafeCell, const_fn, fence, spin_loop};
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::NonNull;

const GENERATION: u64 = 1 << 32;
/// No place, in the list of free ones.
const END: u32 = u32::MAX;

/// Room for one entry, in cache lines of its own: who looks at it writes its state.
#[repr(C, align(64))]
pub struct EntryCell<T> {
    state: AtomicU64,
    /// The next free place, while this one is.
    next: AtomicU32,
    entry: UnsafeCell<Option<T>>,
}

impl<T> EntryCell<T> {
    const_fn! {
        /// An empty place.
        pub fn new() -> Self {
            Self { state: AtomicU64::new(0), next: AtomicU32::new(END), entry: UnsafeCell::new(None) }
        }
    }
}

impl<T> EntryCell<T> {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

impl<T> Default for EntryCell<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Names an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its place.
    pub index: u32,
    /// Which of the entries that were ever there it is; odd.
    pub generation: u32,
}

/// The table.
pub struct Table<T: 'static> {
    places: &'static [EntryCell<T>],
    /// The first free place, and above it a count of changes.
    free: AtomicU64,
}

// SAFETY: an entry is written by one thread while nobody has a guard, and shared by those that have one.
unsafe impl<T: Send + Sync> Sync for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Table<T> {}

impl<T: Send + Sync> Table<T> {
    /// An empty table of `places`, less than 2^32.
    pub fn new(places: &'static mut [EntryCell<T>]) -> Self {
        let count = places.len().min(END as usize) as u32;
        let places = &places[..count as usize];
        for (next, place) in (1..).zip(places) {
            place.next.store(if next < count { next } else { END }, Ordering::Relaxed);
        }
        let first = if count == 0 { END } else { 0 };
        Self { places, free: AtomicU64::new(first.into()) }
    }

    /// Entries that there can be.
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Puts an entry into a free place.
    ///
    /// # Errors
    /// The entry, when there is none.
    pub fn insert(&self, entry: T) -> Result<Key, T> {
        let Some((index, place)) = self.take_free() else { return Err(entry) };
        // SAFETY: a place that is free has no entry, so there are no guards, and taking it from the list made it this
        // thread's alone.
        place.entry.with_mut(|cell| unsafe { *cell = Some(entry) });
        let state = place.state.fetch_add(GENERATION, Ordering::Release).wrapping_add(GENERATION);
        Ok(Key { index, generation: (state >> 32) as u32 })
    }

    /// The entry, for as long as the guard lives; who removes it waits for that.
    #[inline(always)]
    pub fn get(&self, key: Key) -> Option<Guard<'static, T>> {
        self.place(key)?.get()
    }

    /// Where the entry is, or was.
    #[inline(always)]
    pub fn place(&self, key: Key) -> Option<Place<T>> {
        let cell = self.places.get(key.index as usize)?;
        (!key.generation.is_multiple_of(2)).then_some(Place { cell, generation: key.generation.into() })
    }

    /// Whether this is a place of the table's.
    pub fn contains(&self, place: Place<T>) -> bool {
        self.places.as_ptr_range().contains(&core::ptr::from_ref(place.cell))
    }

    /// Takes an entry out, once nobody looks at it any more; nobody finds it from when this is called. A thread that
    /// itself holds a guard of the entry would wait for ever.
    pub fn remove(&self, key: Key) -> Option<T> {
        let place = self.end(key)?;
        // Acquire: all that others did with the entry.
        while place.state.load(Ordering::Acquire) as u32 != 0 {
            spin_loop();
        }
        self.take(key, place)
    }

    /// The same, also once nobody [shows](Hazard) that it looks at the entry: `is_shown` asks them all. `order` passes the fence that
    /// belongs to [theirs](Hazard::owned), if any of those who look at this entry have another than a full one, and says whether it
    /// did.
    pub fn remove_unless(
        &self,
        key: Key,
        order: impl FnOnce(&T) -> bool,
        mut is_shown: impl FnMut(&dyn Fn(&Hazard) -> bool) -> bool,
    ) -> Option<T> {
        let place = self.end(key)?;
        // Either who shows it has done so before this, or it finds that the generation is over.
        fence(Ordering::SeqCst);
        let shows = |hazard: &Hazard| hazard.0.load(Ordering::Acquire) == place.address();
        let mut wait = || {
            while place.state.load(Ordering::Acquire) as u32 != 0 || is_shown(&shows) {
                spin_loop();
            }
        };
        wait();
        // SAFETY: this thread ended the generation and takes the entry out only below; all others only share it.
        if place.entry.with(|cell| unsafe { (*cell).as_ref() }).is_some_and(order) {
            wait();
        }
        self.take(key, place)
    }

    /// Ends the generation of an entry.
    fn end(&self, key: Key) -> Option<&EntryCell<T>> {
        let place = self.places.get(key.index as usize)?;
        let mut state = place.state.load(Ordering::Relaxed);
        loop {
            if (state >> 32) as u32 != key.generation || key.generation.is_multiple_of(2) {
                return None;
            }
            let after = state.wrapping_add(GENERATION);
            match place.state.compare_exchange_weak(state, after, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(place),
                Err(now) => state = now,
            }
        }
    }

    /// Takes the entry out whose generation is over, and at which nobody looks.
    fn take(&self, key: Key, place: &EntryCell<T>) -> Option<T> {
        // SAFETY: the generation is over, so no guard comes any more, and there is none; this thread ended it.
        let entry = place.entry.with_mut(|cell| unsafe { (*cell).take() });
        // The next one would have the generation of the first.
        if key.generation != u32::MAX {
            self.give_free(key.index, place);
        }
        entry
    }

    fn take_free(&self) -> Option<(u32, &EntryCell<T>)> {
        let mut free = self.free.load(Ordering::Acquire);
        loop {
            let index = free as u32;
            let place = self.places.get(index as usize)?;
            let next = place.next.load(Ordering::Relaxed);
            match self.free.compare_exchange_weak(
                free,
                changed(free, next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some((index, place)),
                Err(now) => free = now,
            }
        }
    }

    fn give_free(&self, index: u32, place: &EntryCell<T>) {
        let mut free = self.free.load(Ordering::Relaxed);
        loop {
            place.next.store(free as u32, Ordering::Relaxed);
            match self.free.compare_exchange_weak(
                free,
                changed(free, index),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => free = now,
            }
        }
    }
}

/// The head of the free list with another first place.
fn changed(free: u64, first: u32) -> u64 {
    (free & !u64::from(u32::MAX)).wrapping_add(GENERATION) | u64::from(first)
}

/// An entry's place, and which of those that were ever there it is. What holds it holds no entry.
pub struct Place<T: 'static> {
    cell: &'static EntryCell<T>,
    /// Odd.
    generation: u64,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

// SAFETY: as for a `Table`: entries are only shared, by guards that are counted.
unsafe impl<T: Send + Sync> Sync for Place<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Send for Place<T> {}

impl<T: Send + Sync> Place<T> {
    /// The entry, if it is still there, for as long as the guard lives; who removes it waits for that.
    #[inline(always)]
    pub fn get(&self) -> Option<Guard<'static, T>> {
        let cell = self.cell;
        // Acquire: the entry was written before the place had this generation.
        let state = cell.state.fetch_add(1, Ordering::Acquire);
        let looker = Looker(&cell.state);
        // SAFETY: this looker is counted until it is dropped.
        unsafe { self.guard(state, looker) }
    }

    /// The entry, if it is still there, for as long as the guard lives: it is shown so long.
    #[inline(always)]
    pub fn get_shown<'a>(&self, hazard: HazardOwner<'a>) -> Option<Shown<'a, T>> {
        let cell = self.cell;
        // Release: who sees this entry here sees that the one before is not looked at.
        hazard.hazard.0.store(cell.address(), Ordering::Release);
        // Either whoever removes it sees that, or the generation is seen to be over.
        (hazard.order)();
        let looker = Shows(hazard);
        // Acquire: as in `get`.
        let state = cell.state.load(Ordering::Acquire);
        // SAFETY: this looker is shown until it is dropped.
        unsafe { self.guard(state, looker) }
    }

    /// The entry, for one that looks at it since before the place was in this state.
    ///
    /// # Safety
    /// Who removes the entry waits for `looker` to be dropped.
    #[inline(always)]
    unsafe fn guard<'a, L>(&self, state: u64, looker: L) -> Option<Guard<'a, T, L>> {
        let Self { cell, generation } = *self;
        if state >> 32 != generation {
            return None;
        }
        // SAFETY: the generation is odd, so there is an entry, and it was the place's while there was the looker: the entry stays
        // until that is gone.
        let entry = cell.entry.with(|cell| unsafe { (*cell).as_ref().unwrap_unchecked() });
        Some(Guard { entry: NonNull::from(entry), cell: &cell.entry, _looker: looker, _shared: PhantomData })
    }
}

/// Where one that looks at entries shows which, one at a time: its owner writes it, others read it. 0 is none.
pub struct Hazard(AtomicUsize);

impl Hazard {
    const_fn! {
        /// One that shows no entry.
        pub fn new() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// It, as its owner has it, with the fence between showing an entry and looking at it: a full one, or the light one of two that
    /// belong together, of which [`Table::remove_unless`] has the other.
    ///
    /// # Safety
    /// The caller is the owner, and nobody else has this as long as the caller does.
    #[inline(always)]
    pub const unsafe fn owned(&self, order: fn()) -> HazardOwner<'_> {
        HazardOwner { hazard: self, order }
    }
}

/// A [`Hazard`] as its owner has it.
pub struct HazardOwner<'a> {
    hazard: &'a Hazard,
    order: fn(),
}

impl Default for Hazard {
    fn default() -> Self {
        Self::new()
    }
}

/// One that shows an entry.
pub struct Shows<'a>(HazardOwner<'a>);

impl Drop for Shows<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was done with the entry was done before it is removed.
        self.0.hazard.0.store(0, Ordering::Release);
    }
}

/// One of those counted in a place's state.
pub struct Looker<'a>(&'a AtomicU64);

impl Drop for Looker<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: what was done with the entry was done before it is removed.
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// A guard of one that shows the entry.
pub type Shown<'a, T> = Guard<'a, T, Shows<'a>>;

/// An entry that stays while this lives, which counts or shows who looks at it.
pub struct Guard<'a, T, L = Looker<'a>> {
    /// No reference: one would be valid until the end of a function that drops the guard, and the entry may go before.
    entry: NonNull<T>,
    /// Shows loom who looks at the entry, and when.
    cell: &'a UnsafeCell<Option<T>>,
    _looker: L,
    _shared: PhantomData<&'a T>,
}

impl<T, L> Deref for Guard<'_, T, L> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.cell.with(|_| ());
        // SAFETY: the entry stays while this looker is there, and is only shared.
        unsafe { self.entry.as_ref() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
