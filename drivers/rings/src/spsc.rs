//! A bounded ring that one end pushes to and the other pops from (SPEC D-4).
//!
//! Each end keeps a copy of the other's index and looks at the shared one only when the copy says that the ring
//! is full or empty, so in steady flow the two ends seldom touch the same cache line.

use crate::CachePadded;
use crate::sync::{AtomicU8, AtomicUsize, Ordering, UnsafeCell, const_fn};
use core::mem::MaybeUninit;

/// Room for one element of a ring.
pub struct Entry<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Entry<T> {
    const_fn! {
        /// An empty entry.
        pub fn new() -> Self {
            Self(UnsafeCell::new(MaybeUninit::uninit()))
        }
    }
}

impl<T> Default for Entry<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of entries is not a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAPowerOfTwo;

/// The ring. Both indices count elements since the start, without bound, and wrap.
pub struct Ring<T: 'static> {
    /// Elements pushed so far.
    tail: CachePadded<AtomicUsize>,
    /// Elements popped so far.
    head: CachePadded<AtomicUsize>,
    entries: &'static [Entry<T>],
    /// Their number, a power of two, less one.
    mask: usize,
    /// Number of ends alive.
    ends: AtomicU8,
}

// SAFETY: an entry is reached only by the producer while it lies outside head..tail and only by the consumer
// while inside; elements move from one thread to the other, so they must be `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; the ring is the only holder of its entries.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Send> Ring<T> {
    /// A ring over `entries`, whose number is its capacity. Elements still in it are never dropped.
    ///
    /// # Errors
    /// [`NotAPowerOfTwo`].
    pub fn new(entries: &'static mut [Entry<T>]) -> Result<Self, NotAPowerOfTwo> {
        Self::starting_at(entries, 0)
    }

    fn starting_at(entries: &'static mut [Entry<T>], index: usize) -> Result<Self, NotAPowerOfTwo> {
        if !entries.len().is_power_of_two() {
            return Err(NotAPowerOfTwo);
        }
        let (tail, head) = (CachePadded(AtomicUsize::new(index)), CachePadded(AtomicUsize::new(index)));
        let mask = entries.len() - 1;
        Ok(Self { tail, head, entries, mask, ends: AtomicU8::new(0) })
    }

    /// The two ends; `None` while one of an earlier pair is alive.
    pub fn split(&'static self) -> Option<(Producer<T>, Consumer<T>)> {
        // Acquire: what the last ends did to the entries.
        self.ends.compare_exchange(0, 2, Ordering::Acquire, Ordering::Relaxed).ok()?;
        let (tail, head) = (self.tail(), self.head());
        let limit = head.wrapping_add(self.capacity());
        Some((Producer { ring: self, tail, limit, kept: 0 }, Consumer { ring: self, head, tail }))
    }

    /// Most elements the ring holds.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Elements popped since the start, modulo 2^64.
    pub fn head(&self) -> usize {
        self.head.0.load(Ordering::Acquire)
    }

    /// Elements pushed since the start, modulo 2^64.
    pub fn tail(&self) -> usize {
        self.tail.0.load(Ordering::Acquire)
    }

    /// Elements in the ring; a moment later it may be otherwise.
    pub fn len(&self) -> usize {
        // The head first: a later tail is never behind it.
        let head = self.head();
        self.tail().wrapping_sub(head).min(self.capacity())
    }

    /// Whether the ring is empty; a moment later it may be otherwise.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    fn entry(&self, index: usize) -> &UnsafeCell<MaybeUninit<T>> {
        // SAFETY: at most `mask`, which is the length less one.
        unsafe { &self.entries.get_unchecked(index & self.mask).0 }
    }
}

/// The end that pushes.
pub struct Producer<T: Send + 'static> {
    ring: &'static Ring<T>,
    tail: usize,
    /// The tail at which the ring was full when last looked at: never ahead of the real one.
    limit: usize,
    /// Entries that are kept back.
    kept: usize,
}

/// The entry at the tail of a ring that is not full.
pub struct Vacant<'a, T: Send + 'static>(&'a mut Producer<T>);

impl<T: Send> Vacant<'_, T> {
    /// Appends `element`. Returns the number of elements pushed since the start, modulo 2^64.
    #[inline]
    pub fn fill(self, element: T) -> usize {
        let Producer { ring, tail, .. } = self.0;
        // SAFETY: the entry at the tail of a ring that is not full is the producer's, which is borrowed mutably since it
        // was seen not to be.
        ring.entry(*tail).with_mut(|entry| unsafe { (*entry).write(element) });
        let pushed = tail.wrapping_add(1);
        *tail = pushed;
        ring.tail.0.store(pushed, Ordering::Release);
        pushed
    }
}

/// The end that pops.
pub struct Consumer<T: Send + 'static> {
    ring: &'static Ring<T>,
    head: usize,
    /// The tail when last looked at: never ahead of the real one.
    tail: usize,
}

impl<T: Send> Producer<T> {
    /// Appends `element`.
    ///
    /// # Errors
    /// The element, when the ring is full.
    #[inline(always)]
    pub fn push(&mut self, element: T) -> Result<(), T> {
        match self.vacant() {
            Some(vacant) => {
                vacant.fill(element);
                Ok(())
            }
            None => Err(element),
        }
    }

    /// The entry of the next push; `None` when the ring is full. An element that is made where it is filled in need not
    /// be moved there.
    #[inline]
    pub fn vacant(&mut self) -> Option<Vacant<'_, T>> {
        if self.is_full() { None } else { Some(Vacant(self)) }
    }

    /// Keeps `entries` of the ring back: it is full without them, but for [`vacant_of_all`](Self::vacant_of_all).
    pub fn keep_back(&mut self, entries: usize) {
        self.kept = entries.min(self.ring.capacity());
        self.has_more_room();
    }

    /// As [`vacant`](Self::vacant), among all entries, those that are kept back too.
    #[inline]
    pub fn vacant_of_all(&mut self) -> Option<Vacant<'_, T>> {
        if self.tail == self.limit && !self.takes_from_kept() { None } else { Some(Vacant(self)) }
    }

    /// Whether a push would fail now.
    #[inline]
    pub fn is_full(&mut self) -> bool {
        self.tail == self.limit && !self.has_more_room()
    }

    /// Looks how far the consumer has come.
    #[cold]
    #[inline(never)]
    fn has_more_room(&mut self) -> bool {
        let used = self.tail.wrapping_sub(self.ring.head());
        self.limit = self.tail.wrapping_add((self.ring.capacity() - self.kept).saturating_sub(used));
        self.tail != self.limit
    }

    /// The same, and lets one more push in where only entries that are kept back are free.
    #[cold]
    #[inline(never)]
    fn takes_from_kept(&mut self) -> bool {
        if !self.has_more_room() && self.tail.wrapping_sub(self.ring.head()) < self.ring.capacity() {
            self.limit = self.tail.wrapping_add(1);
        }
        self.tail != self.limit
    }

    /// Pushes that are sure to succeed from now on.
    pub fn room(&mut self) -> usize {
        self.has_more_room();
        self.limit.wrapping_sub(self.tail)
    }

    /// Elements pushed since the start, modulo 2^64.
    #[inline]
    pub fn pushed(&self) -> usize {
        self.tail
    }

    /// The ring, for its counters.
    pub fn ring(&self) -> &'static Ring<T> {
        self.ring
    }
}

impl<T: Send> Consumer<T> {
    /// The oldest element; it stays in the ring.
    #[inline]
    pub fn peek(&mut self) -> Option<&mut T> {
        if self.is_empty() {
            return None;
        }
        // SAFETY: the entry at the head of a ring that is not empty was written, and is the consumer's until it
        // moves the head, which needs the borrow of `self` to end.
        self.ring.entry(self.head).with_mut(|entry| Some(unsafe { (*entry).assume_init_mut() }))
    }

    /// The element `at` places behind the oldest; it stays in the ring.
    pub fn get(&mut self, at: usize) -> Option<&T> {
        if self.tail.wrapping_sub(self.head) <= at {
            self.tail = self.ring.tail();
        }
        if self.tail.wrapping_sub(self.head) <= at {
            return None;
        }
        let index = self.head.wrapping_add(at);
        // SAFETY: as in `peek`: this entry too lies before the tail.
        self.ring.entry(index).with(|entry| Some(unsafe { (*entry).assume_init_ref() }))
    }

    /// Takes the oldest element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        // Read once: behind the look at the tail a compiler would read them again.
        let (ring, head) = (self.ring, self.head);
        if self.tail == head {
            self.tail = ring.tail();
            if self.tail == head {
                return None;
            }
        }
        // SAFETY: as in `peek`; moving the head makes the entry the producer's again, and nobody reads the moved
        // element there.
        let element = ring.entry(head).with(|entry| unsafe { (*entry).assume_init_read() });
        self.head = head.wrapping_add(1);
        ring.head.0.store(self.head, Ordering::Release);
        Some(element)
    }

    /// Elements popped since the start, modulo 2^64.
    pub fn popped(&self) -> usize {
        self.head
    }

    /// Whether a pop would find nothing now.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.tail != self.head {
            return false;
        }
        self.tail = self.ring.tail();
        self.tail == self.head
    }

    /// The ring, for its counters.
    pub fn ring(&self) -> &'static Ring<T> {
        self.ring
    }
}

impl<T: Send> Drop for Producer<T> {
    fn drop(&mut self) {
        self.ring.ends.fetch_sub(1, Ordering::Release);
    }
}

impl<T: Send> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.ring.ends.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
