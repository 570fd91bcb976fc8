//! A machine that begins again, as it was when its firmware was done (SPEC S-1).

use super::{cards, interrupts};
use crate::arch::{self, Alone};

/// One hart runs, and no device reaches memory.
pub(crate) struct Resting(Alone);

impl Resting {
    /// Brings all that the kernel has started to rest. `None` if something does not.
    pub(crate) fn begin(alone: Alone) -> Option<Self> {
        arch::mask_interrupts();
        arch::set_timer(None);
        (cards::rest(arch::machine()?, &alone) && interrupts::rest()).then_some(Self(alone))
    }

    /// Begins again.
    pub(crate) fn begin_again(self) -> ! {
        // SAFETY: no device reaches memory, and this hart has started none since.
        unsafe { arch::begin_again(self.0) }
    }
}
