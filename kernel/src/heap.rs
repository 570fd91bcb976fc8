//! The kernel's heap, used at start-up only (SPEC N-5).

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// From now on allocations are counted: there should be none.
pub fn seal() {
    STARTED.store(true, Ordering::Release);
}

/// Counts an allocation, if the job has started.
pub(crate) fn count() {
    if STARTED.load(Ordering::Relaxed) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Number of allocations since the job's start.
pub fn allocations_since_start() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}
