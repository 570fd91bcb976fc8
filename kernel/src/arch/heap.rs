//! The kernel's heap as Rust's global allocator (SPEC N-5).

use crate::heap;
use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use linked_list_allocator::Heap;
use spin::Mutex;

struct KernelHeap(Mutex<Heap>);

#[global_allocator]
static HEAP: KernelHeap = KernelHeap(Mutex::new(Heap::empty()));

/// Gives the heap its memory.
pub(crate) fn start(memory: &'static mut [u8]) {
    let memory = ptr::from_mut(memory) as *mut [MaybeUninit<u8>];
    // SAFETY: bytes that may be uninitialised are as large and aligned as bytes, and the heap alone has them now.
    HEAP.0.lock().init_from_slice(unsafe { &mut *memory });
}

// SAFETY: the heap hands out parts of its memory that do not overlap, under a lock.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        heap::count();
        self.0.lock().allocate_first_fit(layout).map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(pointer) = NonNull::new(pointer) {
            // SAFETY: the caller gives back what `alloc` gave.
            unsafe { self.0.lock().deallocate(pointer, layout) }
        }
    }
}
