//! The numbers of harts.
//!
//! The kernel numbers harts by place, so that equal numbers mean equal places in all nodes, whichever hart the
//! firmware lets boot. `boot` calls the hart that booted 0, before anybody knows its place. The two numbers that
//! differ have changed places.

use core::sync::atomic::{AtomicUsize, Ordering};

/// The number of the hart that booted.
static BOOTED: AtomicUsize = AtomicUsize::new(0);

/// This hart booted, and it has this number. To be said before others are started.
pub(super) fn set_booted(number: usize) {
    BOOTED.store(number, Ordering::Relaxed);
}

/// What `boot` calls the hart with this number; and what number the hart has that `boot` calls so.
pub(crate) fn boot_number(hart: usize) -> usize {
    let booted = BOOTED.load(Ordering::Relaxed);
    match hart {
        0 => booted,
        _ if hart == booted => 0,
        _ => hart,
    }
}
