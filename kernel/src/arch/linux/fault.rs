//! What a signal of a fault means.

use crate::arch::{Access, Incident};
use boot::Fault;

/// Bits of the status: the access was a store, or a fetch.
const STORE: usize = 1 << 1;
const FETCH: usize = 1 << 4;
/// The signals, which have these numbers on every Linux that this runs on.
const SIGILL: usize = 4;
const SIGBUS: usize = 7;
const SIGFPE: usize = 8;
const SIGSEGV: usize = 11;

/// Reads the signal, and what the processor says beside.
pub(crate) fn incident(fault: &Fault) -> Incident {
    match fault.cause {
        SIGILL => Incident::Other("illegal instruction"),
        SIGFPE => Incident::Other("arithmetic that has no result"),
        SIGSEGV | SIGBUS if fault.status & FETCH != 0 || fault.pc == fault.address => {
            Incident::Access(Access::Execute)
        }
        SIGSEGV | SIGBUS if fault.status & STORE != 0 => Incident::Access(Access::Write),
        SIGSEGV | SIGBUS => Incident::Access(Access::Read),
        _ => Incident::Other("signal of an unknown cause"),
    }
}
