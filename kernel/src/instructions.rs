//! The count of retired instructions: the clock that a shared host cannot bend (SPEC N-9).

use crate::arch;

/// Counts the instructions that a hart retires: `instret` on riscv64, event `INST_RETIRED` of the performance monitor
/// unit on aarch64.
///
/// The count is exact only in an emulator under `-icount`, where it is that of all harts of the node together: it
/// says what one hart did only while the others sleep. Elsewhere it is a number that grows, and on aarch64 there may
/// be none. On a hart that never started it, it may stand still.
#[derive(Clone, Copy, Debug)]
pub struct Instructions(());

impl Instructions {
    /// Starts the count of this hart. `None` if it has no counter.
    pub(crate) fn start() -> Option<Self> {
        arch::start_instructions().then_some(Self(()))
    }

    /// Instructions so far, modulo 2^32: differences by [`u32::wrapping_sub`]. One instruction itself; the compiler
    /// moves no access to memory from one side of it to the other.
    #[inline(always)]
    pub fn now(self) -> u32 {
        arch::instructions()
    }
}
