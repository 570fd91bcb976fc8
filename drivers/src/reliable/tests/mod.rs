//! Reliable layers over a wire that does to frames whatever a seed says.

mod bench;
mod cases;
mod dice;
mod flood;
// Tens of thousands of states, of code that has no `unsafe`.
#[cfg(not(miri))]
mod handshake;
mod hostile;
mod kicks;
mod nodes;
mod parts;
mod random;
mod recycling;
mod seeds;
mod units;
mod whole;
mod wire;

use super::Core;
use crate::link::{LINK_BYTES, Link, crc32c};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::vec::Vec;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static EXEMPT: Cell<u32> = const { Cell::new(0) };
}

/// Each test's own time.
pub struct Virtual;

impl Core for Virtual {
    fn now_ns() -> u64 {
        now()
    }
}

fn now() -> u64 {
    NOW.get()
}

/// A frame with this link header in front of `packet`.
fn sealed(link: &Link, source: u32, target: u32, packet: &[u8]) -> Vec<u8> {
    let mut frame = [&[0; LINK_BYTES][..], packet].concat();
    link.seal(source, target, &mut frame, [], crc32c);
    frame
}

fn elapse(ns: u64) {
    NOW.set(NOW.get() + ns);
}

/// What `what` allocates does not count.
fn exempt<R>(what: impl FnOnce() -> R) -> R {
    EXEMPT.set(EXEMPT.get() + 1);
    let result = what();
    EXEMPT.set(EXEMPT.get() - 1);
    result
}

/// Counts each thread's allocations.
struct Counting;

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if EXEMPT.try_with(Cell::get) == Ok(0) {
            let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        }
        // SAFETY: the caller's promise goes on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise goes on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
