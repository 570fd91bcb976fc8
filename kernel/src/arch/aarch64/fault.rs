//! What an exception syndrome means.

use crate::arch::{Access, Incident};
use boot::Fault;

/// Reads ESR_EL1.
pub(crate) fn incident(fault: &Fault) -> Incident {
    let (class, write) = (fault.cause >> 26 & 0x3f, fault.cause & 1 << 6 != 0);
    let status = fault.cause & 0x3f;
    match class {
        0x00 => Incident::Other("illegal instruction"),
        0x07 => Incident::Other("floating point is off"),
        0x0e => Incident::Other("illegal execution state"),
        0x15..=0x17 => Incident::Other("a system call, and there is no system to call"),
        0x18 => Incident::Other("system register that is not there or not for us"),
        0x20 | 0x21 => Incident::Access(Access::Execute),
        0x22 => Incident::Other("jump to a misaligned address"),
        0x24 | 0x25 if status == 0x21 => Incident::Other("misaligned access"),
        0x24 | 0x25 if status == 0x10 => Incident::Other("access that no device answers"),
        0x24 | 0x25 => Incident::Access(if write { Access::Write } else { Access::Read }),
        0x26 => Incident::Other("misaligned stack pointer"),
        0x2c => Incident::Other("floating-point exception"),
        0x2f => Incident::Other("system error interrupt"),
        0x30..=0x35 => Incident::Other("debug exception"),
        0x3c => Incident::Other("breakpoint instruction"),
        _ => Incident::Other("exception of an unknown class"),
    }
}
