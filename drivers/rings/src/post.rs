//! A queue that many post to and one takes from, in the order of the posts (SPEC P-2, P-11).
//!
//! The links lie in the posted slots, which their owners provide, so a post never fails for want of room. A post
//! swaps itself in as the last of the queue and then links itself behind the slot that was last before. Between
//! these two steps the consumer sees the queue end early; it never waits for the poster.
//!
//! A consumer that goes to sleep says so in the place of the last slot. So a post learns from its swap alone whether
//! somebody is to be woken (SPEC N-8): nobody looks at another flag, and no full fence is needed.

use crate::CachePadded;
use crate::sync::{AtomicBool, AtomicPtr, Ordering, UnsafeCell, const_fn};
use core::mem::MaybeUninit;
use core::ptr;

/// The slot is still queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

/// Room for one post. Free at first and again once the consumer popped it.
#[repr(C)]
pub struct PostSlot<W> {
    /// Null when in no queue, else this slot itself, which costs nothing to write. In front: it is what a post begins with.
    taken: AtomicPtr<PostSlot<W>>,
    /// The slot behind it; null when there is none, or it has not been linked yet.
    next: AtomicPtr<PostSlot<W>>,
    work: UnsafeCell<MaybeUninit<W>>,
}

// SAFETY: `work` is written only by the poster that took `taken` from null, and read only by the one
// consumer, which has it from that poster; the others are atomic.
unsafe impl<W: Copy + Send> Sync for PostSlot<W> {}
// SAFETY: a slot holds nothing but a `W` and a link to other slots, which are `Sync`.
unsafe impl<W: Copy + Send> Send for PostSlot<W> {}

/// In the place of the last slot: the queue is empty and its consumer sleeps, or is about to. No slot has this address.
const fn asleep<W>() -> *mut PostSlot<W> {
    ptr::without_provenance_mut(1)
}

impl<W> PostSlot<W> {
    const_fn! {
        /// A free slot.
        pub fn new() -> Self {
            let (next, taken) = (AtomicPtr::new(ptr::null_mut()), AtomicPtr::new(ptr::null_mut()));
            Self { taken, next, work: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    /// Whether the slot is in a queue. A moment later it may be otherwise.
    pub fn is_busy(&self) -> bool {
        !self.taken.load(Ordering::Acquire).is_null()
    }
}

impl<W> Default for PostSlot<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// The consumer's own part of the queue.
struct ConsumerEnd<W> {
    /// The slot to be taken next; null when the consumer knows of none.
    slot: *mut PostSlot<W>,
    /// Whether that slot was popped and only waits for its successor's link to be let go.
    spent: bool,
}

/// The queue.
pub struct PostQueue<W> {
    /// The slot posted last; null or [`asleep`] when the queue is empty.
    last: CachePadded<AtomicPtr<PostSlot<W>>>,
    /// The slot posted to the empty queue, until the consumer takes note of it.
    first: AtomicPtr<PostSlot<W>>,
    front: UnsafeCell<ConsumerEnd<W>>,
    taken: AtomicBool,
}

// SAFETY: `last`, `first` and `taken` are atomic; `front` is only reached through the one living `PostConsumer`.
unsafe impl<W: Copy + Send> Sync for PostQueue<W> {}
// SAFETY: the queue points to 'static slots, which are `Sync`.
unsafe impl<W: Copy + Send> Send for PostQueue<W> {}

impl<W: Copy + Send> PostQueue<W> {
    const_fn! {
        /// An empty queue.
        pub fn new() -> Self {
            Self {
                last: CachePadded(AtomicPtr::new(ptr::null_mut())),
                first: AtomicPtr::new(ptr::null_mut()),
                front: UnsafeCell::new(ConsumerEnd { slot: ptr::null_mut(), spent: false }),
                taken: AtomicBool::new(false),
            }
        }
    }

    /// Queues `work` in `slot`. Any thread may; nobody waits. Returns whether the consumer has said that it
    /// [sleeps](PostConsumer::sleep) and is to be woken; of several posters only one is told.
    ///
    /// # Errors
    /// [`Busy`] when the slot is in this queue or another: whoever takes it off sees what was written before this call.
    #[inline]
    pub fn post(&self, slot: &'static PostSlot<W>, work: W) -> Result<bool, Busy> {
        let this = ptr::from_ref(slot).cast_mut();
        // Acquire: the consumer that freed the slot has read its last work. Release: the one that frees it for the next post sees
        // what a poster that is refused here wrote before.
        if !slot.taken.swap(this, Ordering::AcqRel).is_null() {
            return Err(Busy);
        }
        // SAFETY: taking `taken` from null made the slot ours until it is linked.
        slot.work.with_mut(|cell| unsafe { (*cell).write(work) });
        let before = self.last.0.swap(this, Ordering::AcqRel);
        // One comparison tells the common case, an idle queue whose consumer is awake.
        if before.is_null() {
            self.first.store(this, Ordering::Release);
            return Ok(false);
        }
        Ok(self.link(before, this))
    }

    /// Links a slot behind what was last before it. Returns whether that was the consumer's sleep.
    #[cold]
    #[inline(never)]
    fn link(&self, before: *mut PostSlot<W>, this: *mut PostSlot<W>) -> bool {
        let sleeps = before == asleep();
        // SAFETY: neither null, the caller looked, nor `asleep`: so a slot, all of which are 'static.
        let link = if sleeps { &self.first } else { unsafe { &(*before).next } };
        link.store(this, Ordering::Release);
        sleeps
    }

    /// Whether nothing is queued. After an arm of a [`Bell`](crate::bell::Bell) it is safe to sleep
    /// on this.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let last = self.last.0.load(Ordering::Acquire);
        last.is_null() || last == asleep()
    }

    /// Whether nothing is queued and the consumer is awake, for one that looks again soon: a post of a moment ago may not
    /// be seen yet.
    #[inline]
    pub fn seems_idle(&self) -> bool {
        self.last.0.load(Ordering::Relaxed).is_null()
    }

    /// The end to take from; `None` while another is alive.
    pub fn consumer(&'static self) -> Option<PostConsumer<W>> {
        // Acquire: what the last consumer left in `front`.
        let taken = self.taken.swap(true, Ordering::Acquire);
        (!taken).then_some(PostConsumer { queue: self })
    }
}

impl<W: Copy + Send> Default for PostQueue<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// The end of a [`PostQueue`] that takes. Dropping it lets another be made; what is queued stays.
pub struct PostConsumer<W: Copy + Send + 'static> {
    queue: &'static PostQueue<W>,
}

impl<W: Copy + Send> PostConsumer<W> {
    /// Says that the consumer is about to sleep: the next post tells its poster to wake it. False, and nothing said,
    /// if something is queued, even if [`peek`](Self::peek) does not see it yet: then it must not sleep.
    ///
    /// What tells the poster whom to wake must be written before.
    pub fn sleep(&mut self) -> bool {
        // Release: whoever reads it acts on what was written before.
        let last = &self.queue.last.0;
        match last.compare_exchange(ptr::null_mut(), asleep(), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => true,
            Err(last) => last == asleep(),
        }
    }

    /// Takes back [`sleep`](Self::sleep).
    pub fn awake(&mut self) {
        // Release: as in `let_go`, which emptied the queue.
        let last = &self.queue.last.0;
        let _ = last.compare_exchange(asleep(), ptr::null_mut(), Ordering::Release, Ordering::Relaxed);
    }

    /// The oldest work; it stays queued. `None` when there is none or its post has not been linked yet.
    #[inline]
    pub fn peek(&mut self) -> Option<W> {
        let queue = self.queue;
        queue.front.with_mut(|front| {
            // SAFETY: only the living consumer reaches `front`, and it is borrowed mutably.
            let front = unsafe { &mut *front };
            if front.spent && !let_go(queue, front) {
                return None;
            }
            if front.slot.is_null() {
                front.slot = queue.first.load(Ordering::Acquire);
                if front.slot.is_null() {
                    return None;
                }
                // Ready for the next post to an empty queue, which cannot come before `let_go` empties it.
                queue.first.store(ptr::null_mut(), Ordering::Relaxed);
            }
            // SAFETY: a queued slot, so 'static, and its work was written before the link we acquired.
            unsafe { (*front.slot).work.with(|cell| Some((*cell).assume_init())) }
        })
    }

    /// Takes the work that [`peek`](Self::peek) showed off the queue, and so frees its slot. Does nothing when
    /// peek showed none. If a post is just being linked behind, the slot is freed by the next peek instead.
    #[inline]
    pub fn pop(&mut self) {
        let queue = self.queue;
        queue.front.with_mut(|front| {
            // SAFETY: as in `peek`.
            let front = unsafe { &mut *front };
            if !front.slot.is_null() && !front.spent {
                front.spent = true;
                let_go(queue, front);
            }
        });
    }
}

/// Frees the front slot, which was popped, if its successor is known or it has none.
fn let_go<W>(queue: &PostQueue<W>, front: &mut ConsumerEnd<W>) -> bool {
    // SAFETY: the front slot is queued, so 'static.
    let slot = unsafe { &*front.slot };
    let mut next = slot.next.load(Ordering::Acquire);
    if next.is_null() {
        // Release: whoever posts to the now empty queue writes `first` after we cleared it.
        let emptied =
            queue.last.0.compare_exchange(front.slot, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
        if emptied.is_err() {
            // Somebody is behind us; the link may have come meanwhile.
            next = slot.next.load(Ordering::Acquire);
            if next.is_null() {
                return false;
            }
        }
    }
    front.slot = next;
    front.spent = false;
    // Nobody else knows the slot any more. Release: its work was read before it is written again. Acquire: what a poster that was
    // refused meanwhile wrote before is seen from here on, as it counts on this look.
    slot.next.store(ptr::null_mut(), Ordering::Relaxed);
    slot.taken.swap(ptr::null_mut(), Ordering::AcqRel);
    true
}

impl<W: Copy + Send> Drop for PostConsumer<W> {
    fn drop(&mut self) {
        self.awake();
        self.queue.taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
