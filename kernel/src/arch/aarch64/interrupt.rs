//! GICv3: the harts' own interfaces are system registers, the rest is `drivers::irq::gic`.

use crate::arch::{self, ADAPTERS, Claim};
use crate::devicetree::{Controller, Interrupt, Machine};
use crate::layout::Region;
use arm_gic::gicv3::{GicCpuInterface, InterruptGroup, SgiTarget, SgiTargetGroup};
use arm_gic::{IntId, Trigger};
use core::arch::asm;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use drivers::irq::gic::{Gic, IrqError};
use spin::Mutex;

static GIC: Mutex<Option<Gic>> = Mutex::new(None);
/// The adapters' interrupts; 0 is none.
static NUMBERS: [AtomicU32; ADAPTERS] = [const { AtomicU32::new(0) }; ADAPTERS];
/// Whether they are routed to a hart. Changes under the controller's lock.
static ADAPTERS_ON: AtomicBool = AtomicBool::new(false);
/// The console line's interrupt; 0 is none.
static LINE: AtomicU32 = AtomicU32::new(0);
/// Its priority. All others have 0x80, which a mask of 0x80 keeps away: it lets what is more urgent through.
const URGENT: u8 = 0x40;
const ONLY_URGENT: u8 = 0x80;
const ALL: u8 = 0xff;
/// The software-generated interrupt by which harts wake each other.
const WAKEUP: IntId = IntId::sgi(0);
/// Bytes of a redistributor's registers without the frames of a GICv4.
const REDISTRIBUTOR_BYTES: usize = 0x2_0000;
/// Where the harts' own interrupts and the shared ones begin; below are the software-generated ones.
const FIRST_PRIVATE: u32 = 16;
const FIRST_SHARED: u32 = 32;

fn words(error: IrqError) -> &'static str {
    match error {
        IrqError::NoRedistributor => "a hart has no redistributor",
        IrqError::NoInterrupt => "the GIC has no such interrupt",
    }
}

/// Takes the controller over and starts this hart's part of it.
pub(crate) fn start_interrupts(machine: &'static Machine) -> Result<(), &'static str> {
    let Some(Controller::Gic { distributor, redistributors }) = machine.controller else {
        return Err("it is no GICv3");
    };
    let registers = |region: Region| NonNull::new(ptr::with_exposed_provenance_mut::<u8>(region.start));
    let bases = registers(distributor).zip(registers(redistributors));
    let (distributor, first) = bases.ok_or("its registers are at 0")?;
    let frames = redistributors.bytes / REDISTRIBUTOR_BYTES;
    // SAFETY: the tree says so, and translation maps them as device memory. Called once.
    *GIC.lock() = Some(unsafe { Gic::new(distributor, first, frames) });
    start_interrupts_here(machine)
}

/// Lets wake-ups and the timer through to this hart.
pub(crate) fn start_interrupts_here(machine: &'static Machine) -> Result<(), &'static str> {
    let id = machine.harts.get(arch::hart()).ok_or("no such hart")?.id;
    let timer = machine.timer_interrupt.and_then(|number| number.checked_sub(FIRST_PRIVATE));
    let timer = timer.filter(|&number| number < IntId::PPI_COUNT).ok_or("the tree names no virtual timer")?;
    if !start_interface() {
        return Err("the GIC's system registers are not for the kernel's level");
    }
    {
        let mut gic = GIC.lock();
        let gic = gic.as_mut().ok_or("it is not started")?;
        gic.start_hart(id, &[WAKEUP, IntId::ppi(timer)]).map_err(words)?;
    }
    GicCpuInterface::set_priority_mask(ALL);
    GicCpuInterface::enable_group1(true);
    instruction_barrier();
    Ok(())
}

/// Makes what was written to system registers count for the instructions that follow.
fn instruction_barrier() {
    // SAFETY: a barrier.
    unsafe { asm!("isb", options(nostack, preserves_flags)) }
}

/// Takes this hart's interface into use, by system registers. False if a level above keeps it from that.
fn start_interface() -> bool {
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
    true
}

fn shared(number: u32) -> Option<IntId> {
    let index = number.checked_sub(FIRST_SHARED)?;
    (index < IntId::MAX_SPI_COUNT).then(|| IntId::spi(index))
}

/// `interrupt` is an adapter's from now on. It goes nowhere yet, as no shared interrupt does at first.
pub(crate) fn add_adapter_interrupt(interrupt: Interrupt) -> Result<(), &'static str> {
    let free =
        NUMBERS.iter().find(|number| number.load(Ordering::Relaxed) == 0).ok_or("one adapter too many")?;
    let id = shared(interrupt.number).ok_or("it is no shared interrupt")?;
    let trigger = if interrupt.edge { Trigger::Edge } else { Trigger::Level };
    let mut gic = GIC.lock();
    let gic = gic.as_mut().ok_or("the controller is not started")?;
    gic.set_trigger(id, trigger).map_err(words)?;
    free.store(interrupt.number, Ordering::Relaxed);
    Ok(())
}

/// Routes the adapters' interrupts to `hart`, or to none.
pub(crate) fn route_adapters(hart: Option<usize>) {
    let target = hart.and_then(|hart| arch::machine()?.harts.get(hart)).map(|hart| hart.id);
    if let Some(gic) = GIC.lock().as_mut() {
        let all = NUMBERS.iter().filter_map(|number| shared(number.load(Ordering::Relaxed)));
        // `add_adapter_interrupt` has shown that the interrupts are there.
        ADAPTERS_ON.store(target.is_some(), Ordering::Relaxed);
        let _ = gic.route(all, target, shared(LINE.load(Ordering::Relaxed)).into_iter());
    }
}

/// The console line's interrupt is the one that is taken from now on, by the hart that it is [routed](route_line) to.
pub(crate) fn take_line(interrupt: Interrupt) -> Result<(), &'static str> {
    let id = shared(interrupt.number).ok_or("it is no shared interrupt")?;
    let trigger = if interrupt.edge { Trigger::Edge } else { Trigger::Level };
    {
        let mut gic = GIC.lock();
        let gic = gic.as_mut().ok_or("the controller is not started")?;
        gic.set_trigger(id, trigger).map_err(words)?;
        gic.set_priority(id, URGENT).map_err(words)?;
    }
    LINE.store(interrupt.number, Ordering::Relaxed);
    Ok(())
}

/// Routes the console line's interrupt to `hart`.
pub(crate) fn route_line(hart: usize) {
    let target = arch::machine().and_then(|machine| machine.harts.get(hart)).map(|hart| hart.id);
    if let Some(gic) = GIC.lock().as_mut() {
        let line = shared(LINE.load(Ordering::Relaxed)).into_iter();
        let others = NUMBERS.iter().filter_map(|number| shared(number.load(Ordering::Relaxed)));
        let others = others.filter(|_| ADAPTERS_ON.load(Ordering::Relaxed));
        // `take_line` has shown that the interrupt is there.
        let _ = gic.route(line, target, others);
    }
}

/// This hart takes no interrupt, and any ends its sleep. Returns whether it took one.
pub(crate) fn mask() -> bool {
    let masked: u64;
    // SAFETY: reads the masks and sets that of interrupts.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) masked, options(nostack, preserves_flags)) }
    GicCpuInterface::set_priority_mask(ALL);
    masked & IRQ_MASKED == 0
}

/// This hart takes the console line's interrupt, and no other.
pub(crate) fn unmask() {
    GicCpuInterface::set_priority_mask(ONLY_URGENT);
    // SAFETY: clears the mask of interrupts: the vector for them saves all that it changes.
    unsafe { asm!("isb", "msr daifclr, #2", options(nostack, preserves_flags)) }
}

/// The bit of DAIF that masks interrupts.
const IRQ_MASKED: u64 = 1 << 7;

/// The interrupt that this hart is to take.
pub(crate) fn taken() -> Option<Claim> {
    claim()
}

/// Interrupts `hart`.
pub(crate) fn interrupt_hart(hart: usize) {
    let Some(hart) = arch::machine().and_then(|machine| machine.harts.get(hart)) else { return };
    let [aff0, aff1, aff2, _, aff3, ..] = hart.id.to_le_bytes();
    // What was published before the interrupt is seen after it.
    super::io_barrier();
    let target =
        SgiTarget::List { affinity3: aff3, affinity2: aff2, affinity1: aff1, target_list: 1 << (aff0 & 15) };
    // It fails only for interrupts that are not software-generated.
    let _ = GicCpuInterface::send_sgi(WAKEUP, target, SgiTargetGroup::CurrentGroup1);
    // It leaves now, not when this hart next comes to a barrier.
    instruction_barrier();
}

/// Takes the next pending interrupt of this hart.
pub(crate) fn claim() -> Option<Claim> {
    let id = GicCpuInterface::get_and_acknowledge_interrupt(InterruptGroup::Group1)?;
    // The interrupt is acknowledged before its device is served, and what was published before it is seen.
    super::io_barrier();
    let number = u32::from(id);
    Some(if NUMBERS.iter().any(|adapter| adapter.load(Ordering::Relaxed) == number) {
        Claim::Adapter(number)
    } else if number == LINE.load(Ordering::Relaxed) {
        Claim::Line(number)
    } else {
        Claim::Wakeup(number)
    })
}

/// Ends what [`claim`] began.
pub(crate) fn complete(claim: Claim) {
    let (Claim::Adapter(number) | Claim::Line(number) | Claim::Wakeup(number)) = claim;
    let id = match number {
        ..FIRST_PRIVATE => Some(IntId::sgi(number)),
        FIRST_PRIVATE..FIRST_SHARED => Some(IntId::ppi(number - FIRST_PRIVATE)),
        _ => shared(number),
    };
    if let Some(id) = id {
        // The device has taken its line back before it may interrupt again.
        super::io_barrier();
        GicCpuInterface::end_interrupt(id, InterruptGroup::Group1);
        instruction_barrier();
    }
}
