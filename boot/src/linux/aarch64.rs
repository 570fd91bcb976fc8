//! What the host saves of an AArch64 thread that faulted.

use crate::Fault;
use core::ffi::c_int;

/// As a kernel has it: the cause is the signal; there is no error code.
pub(crate) fn fault(signal: c_int, info: &libc::siginfo_t, context: &libc::ucontext_t) -> Fault {
    let saved = &context.uc_mcontext;
    Fault {
        pc: saved.pc as usize,
        sp: saved.sp as usize,
        fp: saved.regs[29] as usize,
        ra: saved.regs[30] as usize,
        cause: signal as usize,
        // SAFETY: signals of faults have an address.
        address: unsafe { info.si_addr() }.addr(),
        status: 0,
        reserved: 0,
    }
}
