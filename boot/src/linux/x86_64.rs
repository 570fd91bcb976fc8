//! What the host saves of an x86-64 thread that faulted.

use crate::Fault;
use core::ffi::c_int;

/// As a kernel has it: the cause is the signal, the status the processor's error code.
pub(crate) fn fault(signal: c_int, info: &libc::siginfo_t, context: &libc::ucontext_t) -> Fault {
    let register = |number: c_int| context.uc_mcontext.gregs[number as usize] as usize;
    Fault {
        pc: register(libc::REG_RIP),
        sp: register(libc::REG_RSP),
        fp: register(libc::REG_RBP),
        ra: 0,
        cause: signal as usize,
        // SAFETY: signals of faults have an address.
        address: unsafe { info.si_addr() }.addr(),
        status: register(libc::REG_ERR),
        reserved: 0,
    }
}
