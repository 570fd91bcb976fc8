//! Memory that harts see as devices do, without caches between: for the rings of network cards that do not see the caches
//! (SPEC B-4).

use super::this::caches::flush;
use crate::layout::Region;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

/// What a card takes is aligned to as many bytes as it is.
const ALIGNMENT: usize = 16 << 10;
/// Two cards' rings.
const WORDS: usize = 2 * ALIGNMENT / size_of::<AtomicU32>();

#[repr(C, align(16384))]
struct UncachedMemory([AtomicU32; WORDS]);

static POOL: UncachedMemory = UncachedMemory([const { AtomicU32::new(0) }; WORDS]);
/// Whether the translation maps it as it is to be.
static MAPPED: AtomicBool = AtomicBool::new(false);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Where it lies, in whole pages.
pub(super) fn region() -> Region {
    Region { start: (&raw const POOL).addr(), bytes: size_of::<UncachedMemory>() }
}

/// It is mapped without caches from now on: to be called just before.
pub(super) fn set_mapped() {
    // What was cleared with caches on must not come back later, over what devices wrote.
    flush(&POOL.0);
    MAPPED.store(true, Ordering::Release);
}

/// The next `words` of it, all zero and aligned to as many bytes as they are, if there are so many and this instruction set can
/// do it.
pub(crate) fn uncached(words: usize) -> Option<&'static [AtomicU32]> {
    if !MAPPED.load(Ordering::Acquire) || size_of::<AtomicU32>() * words > ALIGNMENT {
        return None;
    }
    let step = ALIGNMENT / size_of::<AtomicU32>();
    let start = TAKEN.fetch_add(step, Ordering::Relaxed);
    POOL.0.get(start..start.checked_add(words)?)
}
