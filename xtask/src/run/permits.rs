//! How many guests may run at once in this process, so that parallel tests do not starve each other.

use std::sync::{Condvar, Mutex, PoisonError};

static HARTS_IN_USE: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// Cores of this machine that this process may run on; two if it does not say.
pub fn core_count() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Harts that may be emulated at once, unless a single run wants more.
fn budget() -> usize {
    8 * core_count()
}

/// Leave to emulate some harts; given back when dropped.
pub struct Permit(usize);

impl Permit {
    /// Waits until `harts` more harts fit. A run larger than the whole budget waits until it is alone.
    pub fn wait(harts: usize) -> Self {
        let harts = harts.min(budget());
        let mut used = HARTS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        while *used + harts > budget() {
            used = FREED.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += harts;
        Self(harts)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *HARTS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner) -= self.0;
        FREED.notify_all();
    }
}
