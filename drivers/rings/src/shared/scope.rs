//! Borrowed memory in shared use for the time of a call, as a scope's threads borrow (SPEC Q-3).

use super::Shared;
use crate::buffer::{ControlBlock, borrowed};
use crate::sync::spin_loop;

/// How often the end of a scope looks whether a handle is left, before it gives up: those that are left behind are about
/// to be dropped by another hart, or never.
const LOOKS: u32 = 1 << 30;

/// Holds a handle of its own, so no other can be the last that gives the memory back. Its drop waits until it is the only
/// one; what comes after that has the memory to itself.
struct Scope(Shared);

impl Drop for Scope {
    fn drop(&mut self) {
        for _ in 0..LOOKS {
            if self.0.control().uses() == 1 {
                return;
            }
            spin_loop();
        }
        // The borrow must not end: a second panic ends what the first would only unwind.
        let _again = Panic;
        panic!("{LEFT}");
    }
}

const LEFT: &str = "memory of a scope has handles left after it: an operation on it was not waited for";

struct Panic;

impl Drop for Panic {
    fn drop(&mut self) {
        panic!("{LEFT}");
    }
}

impl Shared {
    /// Puts `bytes`, of any alignment and length, into shared use while `work` runs. It returns when the last clone of the
    /// handle is gone, which is at once if `work` has waited for all that it started: then nobody uses the memory, so the
    /// borrow can end. If one is never dropped, the program ends.
    pub fn scope<R>(bytes: &mut [u8], work: impl FnOnce(&Self) -> R) -> R {
        let mut control = ControlBlock::new();
        // SAFETY: neither borrow ends before `scope` is dropped, whether `work` returns or unwinds, and that is not over
        // before there is no other handle; as `scope` has one all the time, no buffer can be made of any.
        let scope = Scope(unsafe { borrowed(bytes, &mut control) }.share());
        work(&scope.0)
    }
}
