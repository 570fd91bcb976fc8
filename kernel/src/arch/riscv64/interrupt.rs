//! Interrupts of RISC-V harts: those of their own, for the timer and of other harts through the SBI, and the controllers that can
//! reach them: PLIC, APLIC and IMSICs.

use crate::devicetree::Controller as Found;
use crate::layout::Region;
use alloc::boxed::Box;
use core::arch::asm;
use core::ptr::{self, NonNull};
use drivers::irq::aplic::Aplic;
use drivers::irq::imsic::{self, Imsic};
use drivers::irq::plic::Plic;
use drivers::irq::{Controller, IrqError};
use riscv::interrupt::{Interrupt as Cause, supervisor};
use riscv::register::{sie, sip, sstatus};

/// The controller that the tree names, taken over. To be asked once.
pub(crate) fn controller(found: Found) -> Result<&'static dyn Controller, &'static str> {
    let registers = |region: Region| NonNull::new(ptr::with_exposed_provenance_mut::<u8>(region.start));
    let none = "its registers are at 0";
    match found {
        Found::Plic { registers: region } => {
            let base = registers(region).ok_or(none)?;
            // SAFETY: the tree says so, and translation maps it as device memory. Called once.
            Ok(Box::leak(Box::new(unsafe { Plic::new(base, region.bytes) })))
        }
        Found::Aplic { registers: region, sources } => {
            let base = registers(region).ok_or(none)?;
            // SAFETY: as above.
            let aplic = unsafe { Aplic::new(base, region.bytes, sources) };
            Ok(Box::leak(Box::new(aplic.map_err(IrqError::words)?)))
        }
        Found::Imsic { registers: region, sources, files } => {
            let base = registers(region).ok_or(none)?;
            let of = |region: Region| (registers(region).unwrap_or(NonNull::dangling()), region.bytes);
            let files = imsic::Files {
                regions: files.regions.map(of),
                guest_bits: files.guest_bits,
                hart_bits: files.hart_bits,
                group_bits: files.group_bits,
                group_shift: files.group_shift,
                identities: files.identities,
            };
            // SAFETY: as above, of the APLIC and of the files.
            let imsic = unsafe { Imsic::new(base, region.bytes, sources, files, OwnFile) };
            Ok(Box::leak(Box::new(imsic.map_err(IrqError::words)?)))
        }
        Found::GicV3 { .. } | Found::GicV2 { .. } | Found::Events => Err("it is neither PLIC nor APLIC"),
    }
}

/// This hart's file of interrupts, behind registers that those without the extension Ssaia do not have.
struct OwnFile;

impl imsic::File for OwnFile {
    fn set(&self, register: usize, value: u64) {
        // SAFETY: siselect chooses what sireg is, a register of the file; interrupts that are taken use neither.
        unsafe {
            asm!("csrw 0x150, {}", "csrw 0x151, {}", in(reg) register, in(reg) value, options(nostack, preserves_flags))
        }
    }

    fn io_barrier(&self) {
        super::io_barrier();
    }

    fn is_pending(&self, identity: usize) -> bool {
        const PENDING: usize = 0x80;
        let bits: u64;
        // SAFETY: reads sireg, which siselect has be the pending bits of 64 identities; interrupts that are taken use neither.
        unsafe {
            asm!("csrw 0x150, {}", "csrr {}, 0x151", in(reg) PENDING + identity / 64 * 2, lateout(reg) bits, options(nostack, preserves_flags))
        }
        bits >> (identity % 64) & 1 != 0
    }

    fn top(&self) -> u32 {
        let top: u64;
        // SAFETY: reads stopei, which changes nothing.
        unsafe { asm!("csrr {}, 0x15c", out(reg) top, options(nostack, preserves_flags)) }
        (top >> 16) as u32
    }

    fn claim(&self) -> u32 {
        let top: u64;
        // SAFETY: reads stopei, and with the write takes what it said.
        unsafe { asm!("csrrw {}, 0x15c, zero", out(reg) top, options(nostack, preserves_flags)) }
        (top >> 16) as u32
    }
}

/// What ends a sleep and is never taken. (An external one is taken, if it is urgent.)
const NEVER_TAKEN: [Cause; 2] = [Cause::SupervisorSoft, Cause::SupervisorTimer];

/// Lets all interrupts end a sleep of this hart.
pub(crate) fn start_own() {
    super::set_timer(None);
    for cause in [Cause::SupervisorSoft, Cause::SupervisorTimer, Cause::SupervisorExternal] {
        // SAFETY: interrupts are masked as a whole, so none of these is taken; `unmask` turns them off before.
        unsafe { sie::enable(cause) }
    }
}

/// This hart takes no interrupt, and any ends its sleep. Returns whether it took one.
pub(crate) fn mask() -> bool {
    let taken = sstatus::read().sie();
    supervisor::disable();
    for cause in NEVER_TAKEN {
        // SAFETY: interrupts are masked as a whole.
        unsafe { sie::enable(cause) }
    }
    taken
}

/// This hart takes interrupts of devices.
pub(crate) fn unmask() {
    for cause in NEVER_TAKEN {
        sie::disable(cause);
    }
    // SAFETY: the vector for interrupts saves all that it changes, and those that nobody serves there are off.
    unsafe { supervisor::enable() }
}

/// Does `what` while this hart takes no interrupt; then it does as before. What ends a sleep stays as it is.
pub(crate) fn without<R>(what: impl FnOnce() -> R) -> R {
    let taking = sstatus::read().sie();
    supervisor::disable();
    let result = what();
    if taking {
        // SAFETY: as it was before; what is taken has not changed.
        unsafe { supervisor::enable() }
    }
    result
}

/// Whether another hart called; it is done with.
pub(crate) fn claim_own() -> bool {
    let called = sip::read().ssoft();
    if called {
        // SAFETY: clears the one bit that says that another hart called.
        unsafe { sip::clear_pending(Cause::SupervisorSoft) };
        // What was published before the interrupt is seen from here on.
        super::io_barrier();
    }
    called
}

/// Whether the controller is to be asked.
pub(crate) fn has_devices() -> bool {
    sip::read().sext()
}

/// Interrupts the hart with this id.
pub(crate) fn call_hart(id: u64) {
    // It fails only for harts that are not there.
    let _ = sbi_rt::send_ipi(sbi_rt::HartMask::from_mask_base(1, id as usize));
}
