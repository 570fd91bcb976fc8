//! The kernel's heap as Rust's global allocator (SPEC N-5).

use super::memory::BEGINS_ZEROED;
use crate::heap;
use crate::untouched::Untouched;
use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use linked_list_allocator::Heap;
use spin::Mutex;

/// The heap, and where the memory begins that it has not given out.
struct KernelHeap(Mutex<(Heap, Untouched)>);

#[global_allocator]
static HEAP: KernelHeap = KernelHeap(Mutex::new((Heap::empty(), Untouched::none())));

/// Gives the heap its memory.
pub(crate) fn start(memory: &'static mut [u8]) {
    let memory = ptr::from_mut(memory) as *mut [MaybeUninit<u8>];
    let (heap, untouched) = &mut *HEAP.0.lock();
    if BEGINS_ZEROED {
        untouched.begin(memory.addr());
    }
    // SAFETY: bytes that may be uninitialised are as large and aligned as bytes, and the heap alone has them now.
    heap.init_from_slice(unsafe { &mut *memory });
}

impl KernelHeap {
    /// Memory, and how many bytes of it, from the first on, may hold something other than zero.
    fn take(&self, layout: Layout) -> (*mut u8, usize) {
        heap::count();
        let (heap, untouched) = &mut *self.0.lock();
        match heap.allocate_first_fit(layout) {
            Ok(place) => (place.as_ptr(), untouched.give(place.addr().get(), layout.size())),
            Err(()) => (ptr::null_mut(), 0),
        }
    }
}

// SAFETY: the heap hands out parts of its memory that do not overlap, under a lock.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.take(layout).0
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (place, held) = self.take(layout);
        // SAFETY: `held` is at most the layout's size, which is how much was given out; of nothing it is 0.
        unsafe { place.write_bytes(0, held) }
        place
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: the caller gives back what `alloc` gave.
            unsafe { self.0.lock().0.deallocate(pointer, layout) }
        }
    }
}
