//! RAM as Rust values.

use crate::layout::Region;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use zerocopy::FromZeros;

/// All of `free`, the part of RAM that is nobody's. The first call gets it, any other nothing.
pub(crate) fn all(free: Region) -> Option<&'static mut [u8]> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    if free.bytes == 0 || TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    let start = ptr::with_exposed_provenance_mut::<u8>(free.start);
    // SAFETY: RAM that holds neither image nor tree nor anything reserved, mapped for reading and writing; the flag
    // makes this the only reference. It is as the firmware left it, which is some value for every byte.
    Some(unsafe { slice::from_raw_parts_mut(start, free.bytes) })
}

fn check<T>(memory: &[u8], len: usize) {
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= memory.len());
    assert!(fits && memory.as_ptr().cast::<T>().is_aligned());
}

/// `memory` as `len` zeroed values. It is large enough and aligned for them.
pub(crate) fn zeroed<T: FromZeros>(memory: &'static mut [u8], len: usize) -> &'static mut [T] {
    check::<T>(memory, len);
    memory.fill(0);
    // SAFETY: large enough and aligned, by the check; all zero is a value of `T`; `memory` was the only reference.
    unsafe { slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), len) }
}

/// `memory` as `len` values that `value` makes. It is large enough and aligned for them.
pub(crate) fn filled<T>(
    memory: &'static mut [u8],
    len: usize,
    mut value: impl FnMut() -> T,
) -> &'static mut [T] {
    check::<T>(memory, len);
    let start = memory.as_mut_ptr().cast::<T>();
    for index in 0..len {
        // SAFETY: inside `memory` and aligned, by the check; nothing lives there yet.
        unsafe { start.add(index).write(value()) }
    }
    // SAFETY: `len` values were written; `memory` was the only reference.
    unsafe { slice::from_raw_parts_mut(start, len) }
}

/// `memory` as the place of `value`. It is large enough and aligned for it.
pub(crate) fn placed<T>(memory: &'static mut [u8], value: T) -> &'static mut T {
    check::<T>(memory, 1);
    let place = memory.as_mut_ptr().cast::<T>();
    // SAFETY: large enough and aligned, by the check; `memory` was the only reference.
    unsafe {
        place.write(value);
        &mut *place
    }
}
