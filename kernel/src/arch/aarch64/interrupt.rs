//! Interrupts of AArch64 harts: their mask, and the controllers that can reach them: GICv3, by system registers, and GICv2.

use crate::devicetree::Controller as Found;
use crate::layout::Region;
use alloc::boxed::Box;
use arm_gic::IntId;
use arm_gic::gicv3::{GicCpuInterface, InterruptGroup, SgiTarget, SgiTargetGroup};
use core::arch::asm;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use drivers::irq::gicv2m::MessageFrame;
use drivers::irq::gicv3::Interface;
use drivers::irq::its::{FIRST as FIRST_MESSAGE, Harts, REDISTRIBUTOR_BYTES};
use drivers::irq::{CALL, Controller, gicv2, gicv3};

/// Bytes that a GICv2 has at least: its distributor, a hart's interface.
const GICV2_BYTES: [usize; 2] = [0x1000, 0x100];
/// Where the harts' own interrupts and the shared ones begin.
const FIRST_PRIVATE: u32 = 16;
const FIRST_SHARED: u32 = 32;

/// The controller that the tree names, taken over. To be asked once.
pub(crate) fn controller(found: Found) -> Result<&'static dyn Controller, &'static str> {
    let registers = |region: Region| NonNull::new(ptr::with_exposed_provenance_mut::<u8>(region.start));
    let none = "its registers are at 0";
    match found {
        Found::GicV3 { distributor, redistributors, its, coherent } => {
            // Without the frames of a GICv4.
            let frames = redistributors.bytes / REDISTRIBUTOR_BYTES;
            let (distributor, first) = registers(distributor).zip(registers(redistributors)).ok_or(none)?;
            // SAFETY: the tree says so, and translation maps them as device memory. Called once.
            let gic = unsafe { gicv3::Gicv3::new(distributor, first, frames, SystemRegisters) };
            let its = its.and_then(|its| registers(its).map(|base| (base, its.bytes)));
            Ok(Box::leak(Box::new(match its {
                // SAFETY: as above.
                Some((its, bytes)) => unsafe { gic.with_its(its, bytes, first, coherent) },
                None => gic,
            })))
        }
        Found::GicV2 { distributor, interface, frame } => {
            if distributor.bytes < GICV2_BYTES[0] || interface.bytes < GICV2_BYTES[1] {
                return Err("its registers are fewer than a GICv2's");
            }
            let (distributor, interface) = registers(distributor).zip(registers(interface)).ok_or(none)?;
            // SAFETY: as above.
            let gic = unsafe { gicv2::Gicv2::new(distributor, interface) };
            let frame = frame.and_then(|frame| {
                // SAFETY: as above.
                Some(unsafe { MessageFrame::new(registers(frame)?, frame.bytes) })
            });
            Ok(Box::leak(Box::new(match frame {
                Some(frame) => gic.with_frame(frame),
                None => gic,
            })))
        }
        Found::Plic { .. } | Found::Aplic { .. } | Found::Imsic { .. } | Found::Events => {
            Err("it is neither GICv3 nor GICv2")
        }
    }
}

/// A hart's interface to a GICv3.
struct SystemRegisters;

/// Makes what was written to system registers count for the instructions that follow.
fn instruction_barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) }
}

impl Interface for SystemRegisters {
    fn start(&self) -> bool {
        GicCpuInterface::enable_system_register_el1(true);
        // The others are there from then on only.
        instruction_barrier();
        let enabled: u64;
        // SAFETY: reads ICC_SRE_EL1, whose lowest bit says whether the others are there.
        unsafe { asm!("mrs {}, S3_0_C12_C12_5", out(reg) enabled, options(nomem, nostack, preserves_flags)) }
        if enabled & 1 == 0 {
            return false;
        }
        // SAFETY: clears ICC_CTLR_EL1: the end of an interrupt drops its priority and deactivates it.
        unsafe { asm!("msr S3_0_C12_C12_4, xzr", "isb", options(nostack, preserves_flags)) }
        GicCpuInterface::enable_group1(true);
        true
    }

    fn set_mask(&self, mask: u8) {
        GicCpuInterface::set_priority_mask(mask);
        instruction_barrier();
    }

    fn acknowledge(&self) -> Option<u32> {
        GicCpuInterface::get_and_acknowledge_interrupt(InterruptGroup::Group1).map(u32::from)
    }

    fn end(&self, number: u32) {
        let id = match number {
            ..FIRST_PRIVATE => IntId::sgi(number),
            FIRST_PRIVATE..FIRST_SHARED => IntId::ppi(number - FIRST_PRIVATE),
            FIRST_SHARED..FIRST_MESSAGE => IntId::spi(number - FIRST_SHARED),
            _ => IntId::lpi(number - FIRST_MESSAGE),
        };
        GicCpuInterface::end_interrupt(id, InterruptGroup::Group1);
        instruction_barrier();
    }

    fn call(&self, hart: u64) {
        let [aff0, aff1, aff2, _, aff3, ..] = hart.to_le_bytes();
        let target = SgiTarget::List {
            affinity3: aff3,
            affinity2: aff2,
            affinity1: aff1,
            target_list: 1 << (aff0 & 15),
        };
        // It fails only for interrupts that are not software-generated.
        let _ = GicCpuInterface::send_sgi(IntId::sgi(CALL), target, SgiTargetGroup::CurrentGroup1);
        // It leaves now, not when this hart next comes to a barrier.
        instruction_barrier();
    }
}

impl Harts for SystemRegisters {
    fn barrier(&self) {
        super::io_barrier();
    }

    fn write_back(&self, words: &[AtomicU64]) {
        super::caches::flush(words);
    }
}

/// What the controller let through is all there is.
pub(crate) fn start_own() {}

/// The bit of DAIF that masks interrupts.
const IRQ_MASKED: u64 = 1 << 7;

/// This hart takes no interrupt. Returns whether it took one.
pub(crate) fn mask() -> bool {
    let masked: u64;
    // SAFETY: reads the masks and sets that of interrupts.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) masked, options(nostack, preserves_flags)) }
    masked & IRQ_MASKED == 0
}

/// This hart takes interrupts.
pub(crate) fn unmask() {
    // SAFETY: clears the mask of interrupts: the vector for them saves all that it changes.
    unsafe { asm!("isb", "msr daifclr, #2", options(nostack, preserves_flags)) }
}

/// Does `what` while this hart takes no interrupt; then it does as before.
pub(crate) fn without<R>(what: impl FnOnce() -> R) -> R {
    let taking = mask();
    let result = what();
    if taking {
        unmask();
    }
    result
}

/// All interrupts are the controller's.
pub(crate) fn claim_own() -> bool {
    false
}

/// Whether the controller is to be asked.
pub(crate) fn has_devices() -> bool {
    true
}

/// Harts call each other through the controller alone.
pub(crate) fn call_hart(_: u64) {}
