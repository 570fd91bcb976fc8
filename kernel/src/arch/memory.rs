//! RAM as Rust values.

use crate::layout::{PIECES, Region};
use crate::paging::PAGE;
use boot::HARTS;
use core::ptr;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use heapless::Vec;
use zerocopy::FromZeros;

/// Most regions that RAM is given out in: the heap's, and what shares are made of.
pub(crate) const REGIONS: usize = 1 + PIECES + HARTS;

/// Whether memory that nobody had before is zero. Linux sees to that, and pages that nobody writes to cost nothing there; firmware
/// leaves what it likes.
pub(crate) const BEGINS_ZEROED: bool = !cfg!(target_os = "none");

/// Bytes of a hart's stacks.
pub(crate) const STACKS: usize = boot::STACKS_BYTES;

fn are_apart(regions: &[Region]) -> bool {
    let apart = |(index, region): (usize, &Region)| {
        let mut others = regions[..index].iter();
        others.all(|other| other.end() <= region.start || region.end() <= other.start)
    };
    regions.iter().enumerate().all(apart)
}

/// Harts have their stacks in `regions`, parts of RAM that are nobody's from now on and do not overlap: those but the one that
/// booted, by number. The first call counts, and none with regions that overlap or are too small. Harts without a region have
/// no stacks.
pub(crate) fn give_stacks(regions: &[Region]) {
    static GIVEN: AtomicBool = AtomicBool::new(false);
    let is_whole = |region: &Region| region.bytes >= STACKS && region.start.is_multiple_of(PAGE);
    if !are_apart(regions) || !regions.iter().all(is_whole) || GIVEN.swap(true, Ordering::AcqRel) {
        return;
    }
    // What `boot` calls 0 is the hart that booted.
    for (number, region) in (1..HARTS).zip(regions) {
        // SAFETY: whole pages of RAM that nobody else has, by the caller's word; the flag makes them those of one hart.
        unsafe { boot::set_stacks(number, region.start) }
    }
}

/// The bytes of each of `regions`, parts of RAM that are nobody's and do not overlap. The first call gets them, any other
/// nothing, as one of regions that overlap.
pub(crate) fn all(regions: &[Region]) -> Option<Vec<&'static mut [u8], REGIONS>> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let sound = regions.len() <= REGIONS && are_apart(regions);
    if !sound || TAKEN.swap(true, Ordering::AcqRel) {
        return None;
    }
    let bytes = |region: &Region| {
        let start = ptr::with_exposed_provenance_mut::<u8>(region.start);
        // SAFETY: RAM that holds neither image nor tree nor anything reserved, mapped for reading and writing; no other
        // region has it, and the flag makes this the only reference. It is as the firmware left it, which is some value
        // for every byte.
        unsafe { slice::from_raw_parts_mut(start, region.bytes) }
    };
    Some(regions.iter().map(bytes).collect())
}

fn check<T>(memory: &[u8], len: usize) {
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= memory.len());
    assert!(fits && memory.as_ptr().cast::<T>().is_aligned());
}

/// `memory`, which nobody had before, as `len` zeroed values. It is large enough and aligned for them.
pub(crate) fn zeroed<T: FromZeros>(memory: &'static mut [u8], len: usize) -> &'static mut [T] {
    check::<T>(memory, len);
    if !BEGINS_ZEROED {
        memory.fill(0);
    }
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
