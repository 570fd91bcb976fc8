//! What a trap's cause means.

use crate::arch::{Access, Incident};
use boot::Fault;

/// Reads scause.
pub(crate) fn incident(fault: &Fault) -> Incident {
    match fault.cause {
        0 => Incident::Other("jump to a misaligned address"),
        2 => Incident::Other("illegal instruction"),
        3 => Incident::Other("breakpoint instruction"),
        4 | 6 => Incident::Other("misaligned access"),
        1 | 12 => Incident::Access(Access::Execute),
        5 | 13 => Incident::Access(Access::Read),
        7 | 15 => Incident::Access(Access::Write),
        8..=11 => Incident::Other("a system call, and there is no system to call"),
        _ => Incident::Other("exception of an unknown cause"),
    }
}
