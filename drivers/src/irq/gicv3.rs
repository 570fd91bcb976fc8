//! GICv3: distributor and redistributors, through the crate `arm-gic`. The harts' own interfaces are system registers, which
//! the instruction set's [`Interface`] reads and writes.

use super::its::{self, HARTS, Harts, Its, REDISTRIBUTOR_BYTES, StartedHart};
use super::registers::Registers;
use super::{Accept, Controller, Delivery, IrqError, Sender};
use arm_gic::gicv3::registers::{Gicd, GicdCtlr, GicrSgi};
use arm_gic::gicv3::{GicError, GicV3};
use arm_gic::{IntId, Trigger};
use core::ptr::NonNull;
use heapless::Vec;
use safe_mmio::UniqueMmioPointer;
use spin::Mutex;

/// Where the harts' own interrupts and the shared ones begin; below are those between harts.
const FIRST_PRIVATE: u32 = 16;
const FIRST_SHARED: u32 = 32;
/// Priorities, and masks: what is less than a hart's mask reaches it. Where there is a secure state, the distributor takes a
/// priority for [half of it and 128](seen_from_without), and a hart's interface does the same with a mask, or, if the firmware has
/// not set SCR_EL3.FIQ, does not. Of these the outcome is the same either way.
const PLAIN: u8 = 0xe0;
const URGENT: u8 = 0x40;
const ALL: u8 = 0xff;
const ONLY_URGENT: u8 = 0xc0;
const _: () = {
    let (plain, urgent) = (seen_from_without(PLAIN), seen_from_without(URGENT));
    assert!(URGENT < ONLY_URGENT && ONLY_URGENT <= PLAIN && PLAIN < ALL);
    assert!(urgent < ONLY_URGENT && ONLY_URGENT <= plain && plain < ALL);
    let [only_urgent, all] = [seen_from_without(ONLY_URGENT), seen_from_without(ALL)];
    assert!(urgent < only_urgent && only_urgent <= plain && plain < all);
};

/// A priority or a mask as it counts where it is written from outside of the secure state.
const fn seen_from_without(priority: u8) -> u8 {
    0x80 | priority >> 1
}
/// Most shared interrupts that are routed.
const MOST_ROUTED: usize = 8;

/// The registers of the calling hart's interface.
pub trait Interface: Harts {
    /// Takes it into use. False if a level above keeps it from that.
    fn start(&self) -> bool;
    /// Lets through what has less than this priority, from the next instruction on.
    fn set_mask(&self, mask: u8);
    /// The number of the interrupt that was acknowledged.
    fn acknowledge(&self) -> Option<u32>;
    /// Ends it.
    fn end(&self, number: u32);
    /// Interrupts the hart with this affinity by interrupt [`CALL`](super::CALL).
    fn call(&self, hart: u64);
}

/// A GICv3.
pub struct Gicv3<I> {
    shared: Mutex<Shared>,
    interface: I,
}

/// The part of it that harts have together.
struct Shared {
    inner: GicV3<'static>,
    frames: usize,
    /// The shared interrupts that are on.
    on: Vec<IntId, MOST_ROUTED>,
    /// The harts that have started.
    harts: Vec<StartedHart, HARTS>,
    /// What takes messages of devices behind PCI, if there is such.
    its: Option<Its<Registers>>,
}

/// The identifier of a hart's own interrupt.
fn own(number: u32) -> Option<IntId> {
    match number {
        ..FIRST_PRIVATE => Some(IntId::sgi(number)),
        FIRST_PRIVATE..FIRST_SHARED => Some(IntId::ppi(number - FIRST_PRIVATE)),
        _ => None,
    }
}

fn shared(number: u32) -> Result<IntId, IrqError> {
    let index = number.checked_sub(FIRST_SHARED).filter(|&index| index < IntId::MAX_SPI_COUNT);
    index.map(IntId::spi).ok_or(IrqError::NoInterrupt)
}

impl<I: Interface> Gicv3<I> {
    /// Takes the controller over: every shared interrupt off, in group 1. `frames` is how many redistributors fit in
    /// their region.
    ///
    /// Whatever ran before may have left it at work, and its set-up must not change while it is (GICv3 architecture
    /// specification, "GICD_CTLR": affinity routing changes only while all groups are off, and is waited for).
    ///
    /// # Safety
    /// The registers of a GICv3 distributor lie at `distributor`, those of its redistributors one after the other at
    /// `redistributors`, all mapped as device memory; nobody else uses them.
    pub unsafe fn new(
        distributor: NonNull<u8>,
        redistributors: NonNull<u8>,
        frames: usize,
        interface: I,
    ) -> Self {
        // SAFETY: the caller's promise.
        let mut inner = unsafe {
            let distributor = UniqueMmioPointer::new(distributor.cast::<Gicd>());
            GicV3::new(distributor, redistributors.cast::<GicrSgi>(), frames, false)
        };
        let distributor = inner.distributor();
        let groups = GicdCtlr::EnableGrp0 | GicdCtlr::EnableGrp1NS | GicdCtlr::EnableGrp1S;
        // Waits until the distributor has done it, as do all that change this register.
        distributor.modify_control(groups, false);
        distributor.enable_all_interrupts(false);
        distributor.wait_for_pending_write();
        // Routing by affinity, which this is in the view of the one security state that a kernel has; then group 1.
        distributor.configure_default_settings();
        let shared = Shared { inner, frames, on: Vec::new(), harts: Vec::new(), its: None };
        Self { shared: Mutex::new(shared), interface }
    }

    /// The same with an interrupt translation service of `bytes` of registers at `its`. Unless that and the redistributors are
    /// `coherent`, they do not see memory through the harts' caches.
    ///
    /// # Safety
    /// They lie there, mapped as device memory, and at this address for devices too; nobody else uses them. `redistributors`
    /// is what it was for [`new`](Self::new).
    pub unsafe fn with_its(
        mut self,
        its: NonNull<u8>,
        bytes: usize,
        redistributors: NonNull<u8>,
        coherent: bool,
    ) -> Self {
        let shared = self.shared.get_mut();
        let [address, first] = [its, redistributors].map(|base| base.as_ptr().expose_provenance() as u64);
        let most = shared.frames * REDISTRIBUTOR_BYTES;
        // SAFETY: the caller's promise. The redistributors are `inner`'s too, which reads their types and waits for their
        // controls: both use them behind the one lock of `shared`, by single accesses of registers, and neither keeps a
        // reference to one meanwhile; what this writes, the memory of LPIs and that they are on, `inner` never does.
        let [its, frames] = unsafe { [Registers::new(its, bytes), Registers::new(redistributors, most)] };
        shared.its = Some(Its::new((its, address), (frames, first), coherent));
        self
    }
}

impl Shared {
    fn frame_of(&mut self, mpidr: u64) -> Option<usize> {
        for frame in 0..self.frames {
            let typer = self.inner.gicr_typer(frame).ok()?;
            if typer.core_mpidr() == mpidr & 0xff_00ff_ffff {
                return Some(frame);
            }
            if typer.last_redistributor() {
                return None;
            }
        }
        None
    }

    /// Wakes the redistributor of the hart and lets its interrupts through.
    fn start_hart(&mut self, mpidr: u64, private: &[u32]) -> Result<(), IrqError> {
        let frame = self.frame_of(mpidr).ok_or(IrqError::NoHart)?;
        match self.inner.redistributor_mark_core_awake(frame) {
            Ok(()) | Err(GicError::AlreadyAwake) => {}
            Err(_) => return Err(IrqError::NoHart),
        }
        let mut redistributor = self.inner.redistributor(frame).map_err(|_| IrqError::NoHart)?;
        redistributor.configure_default_settings();
        for &number in private {
            let interrupt = own(number).ok_or(IrqError::NoInterrupt)?;
            redistributor.set_interrupt_priority(interrupt, PLAIN).map_err(|_| IrqError::NoInterrupt)?;
            redistributor.enable_interrupt(interrupt, true).map_err(|_| IrqError::NoInterrupt)?;
        }
        self.harts.push(StartedHart { hart: mpidr, frame }).map_err(|_| IrqError::NoHart)
    }

    fn route(&mut self, interrupts: &[u32], mpidr: Option<u64>) -> Result<(), IrqError> {
        let distributor = self.inner.distributor();
        let refused = |_| IrqError::NoInterrupt;
        // An interrupt that changes its target while it is on may come to the old one, after whoever waits for it left.
        for &number in interrupts {
            let interrupt = shared(number)?;
            distributor.enable_interrupt(interrupt, false).map_err(refused)?;
            self.on.retain(|&on| on != interrupt);
        }
        distributor.wait_for_pending_write();
        // Turning an interrupt off takes the 31 beside it along: for that those that are on are read and written back.
        for &other in &self.on {
            distributor.enable_interrupt(other, true).map_err(refused)?;
        }
        let Some(mpidr) = mpidr else { return Ok(()) };
        for &number in interrupts {
            let interrupt = shared(number)?;
            distributor.set_routing(interrupt, Some(mpidr)).map_err(refused)?;
            distributor.enable_interrupt(interrupt, true).map_err(refused)?;
            self.on.push(interrupt).map_err(|_| IrqError::NoInterrupt)?;
        }
        Ok(())
    }
}

impl<I: Interface> Controller for Gicv3<I> {
    fn start_hart(&self, here: u64, private: &[u32]) -> Result<(), IrqError> {
        if !self.interface.start() {
            return Err(IrqError::NotOurs);
        }
        self.shared.lock().start_hart(here, private)?;
        self.interface.set_mask(ALL);
        Ok(())
    }

    fn configure(&self, interrupt: u32, kind: Delivery) -> Result<(), IrqError> {
        if interrupt >= its::FIRST {
            let is_known = self.shared.lock().its.as_ref().is_some_and(|its| its.has(interrupt));
            return (is_known && kind.edge && !kind.urgent).then_some(()).ok_or(IrqError::NoInterrupt);
        }
        let interrupt = shared(interrupt)?;
        let trigger = if kind.edge { Trigger::Edge } else { Trigger::Level };
        let priority = if kind.urgent { URGENT } else { PLAIN };
        let mut shared = self.shared.lock();
        let distributor = shared.inner.distributor();
        distributor.set_trigger(interrupt, trigger).map_err(|_| IrqError::NoInterrupt)?;
        distributor.set_interrupt_priority(interrupt, priority).map_err(|_| IrqError::NoInterrupt)
    }

    fn add_sender(&self, sender: &'static dyn Sender, device: u32) -> Result<u32, IrqError> {
        let Shared { harts, its, inner, .. } = &mut *self.shared.lock();
        let its = its.as_mut().filter(|_| inner.typer().lpis_supported()).ok_or(IrqError::NoInterrupt)?;
        its.add(&self.interface, harts, device, PLAIN, sender)
    }

    fn route(&self, _: u64, interrupts: &[u32], _: Option<u64>, to: Option<u64>) -> Result<(), IrqError> {
        let mut shared = self.shared.lock();
        let is_message = |number: &u32| *number >= its::FIRST;
        let mut lines: Vec<u32, MOST_ROUTED> = Vec::new();
        for &line in interrupts.iter().filter(|number| !is_message(number)) {
            lines.push(line).map_err(|_| IrqError::NoInterrupt)?;
        }
        if lines.len() < interrupts.len() {
            let its = shared.its.as_mut().ok_or(IrqError::NoInterrupt)?;
            its.route(&self.interface, interrupts.iter().copied().filter(is_message), to)?;
            if lines.is_empty() {
                return Ok(());
            }
        }
        shared.route(&lines, to)
    }

    fn rest(&self) -> bool {
        let Shared { harts, its, .. } = &*self.shared.lock();
        its.as_ref().is_none_or(|its| its.rest(harts))
    }

    fn accept(&self, _: u64, what: Accept) {
        self.interface.set_mask(match what {
            Accept::All => ALL,
            Accept::Urgent => ONLY_URGENT,
        });
    }

    fn claim(&self, _: u64) -> Option<u32> {
        self.interface.acknowledge()
    }

    fn complete(&self, _: u64, claimed: u32) {
        self.interface.end(claimed);
    }

    fn call(&self, hart: u64) -> bool {
        self.interface.call(hart);
        true
    }
}

/// Registers are volatile to the driver and atomics to these tests, which Miri takes for a race.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
    use std::boxed::Box;
    use std::thread;

    const CTLR: usize = 0;
    const TYPER: usize = 4;
    const ISENABLER: usize = 0x100;
    const ICENABLER: usize = 0x180;
    const IROUTER: usize = 0x6000;
    /// The distributor is at work on a change.
    const PENDING: u32 = 1 << 31;
    const ENABLED: u32 = 0b111;
    /// Interrupts 32 to 95.
    const LINES: u32 = 2;

    /// No hart of these tests has one.
    struct NoInterface;

    impl Interface for NoInterface {
        fn start(&self) -> bool {
            false
        }
        fn set_mask(&self, _: u8) {}
        fn acknowledge(&self) -> Option<u32> {
            None
        }
        fn end(&self, _: u32) {}
        fn call(&self, _: u64) {}
    }

    impl Harts for NoInterface {
        fn barrier(&self) {}
        fn write_back(&self, _: &[AtomicU64]) {}
    }

    /// A controller whose registers are mere memory: 64 KiB of words by offset, and one redistributor behind them.
    struct Fake {
        words: &'static [AtomicU32],
    }

    impl Fake {
        fn new() -> Self {
            #[repr(C, align(65536))]
            struct Registers([AtomicU32; 3 * 0x4000]);
            let registers = Box::leak(Box::new(Registers([const { AtomicU32::new(0) }; 3 * 0x4000])));
            let fake = Self { words: &registers.0 };
            fake.word(TYPER).store(LINES, SeqCst);
            fake
        }

        fn word(&self, offset: usize) -> &'static AtomicU32 {
            &self.words[offset / 4]
        }

        fn gic(&self) -> Gicv3<NoInterface> {
            let base = NonNull::from(self.words).cast::<u8>();
            // SAFETY: as large as the registers, never freed, and used by others only as atomics; accesses to it have
            // no effects but their own.
            unsafe { Gicv3::new(base, base.byte_add(0x1_0000), 1, NoInterface) }
        }
    }

    /// Runs `what` on a controller that is busy with what it was told before, and returns what `look` sees while it
    /// waits.
    fn while_busy<T>(fake: &Fake, what: impl FnOnce() + Send, look: impl FnOnce() -> T) -> T {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            fake.word(CTLR).fetch_or(PENDING, SeqCst);
            scope.spawn(|| {
                what();
                ended.store(true, SeqCst);
            });
            // Long enough for it to go as far as it may, and if it does not, the test is none the worse.
            for _ in 0..200 {
                thread::sleep(core::time::Duration::from_millis(1));
            }
            let seen = look();
            assert!(!ended.load(SeqCst), "it did not wait for the distributor");
            fake.word(CTLR).fetch_and(!PENDING, SeqCst);
            while !ended.load(SeqCst) {
                // It writes back what it reads of the register.
                fake.word(CTLR).fetch_and(!PENDING, SeqCst);
                thread::yield_now();
            }
            seen
        })
    }

    #[test]
    fn r5_a_distributor_is_set_up_while_it_is_off() {
        let fake = Fake::new();
        fake.word(CTLR).store(ENABLED, SeqCst);
        while_busy(
            &fake,
            || _ = fake.gic(),
            || {
                assert_eq!(fake.word(CTLR).load(SeqCst) & ENABLED, 0, "its groups are on while it is set up");
            },
        );
        // Off was every shared interrupt, too.
        for word in [1, 2] {
            assert_eq!(fake.word(ICENABLER + 4 * word).load(SeqCst), u32::MAX);
        }
        assert_eq!(fake.word(CTLR).load(SeqCst), 1 << 4 | 1 << 1);
    }

    #[test]
    fn r5_an_interrupt_is_off_while_it_changes_its_target() {
        let fake = Fake::new();
        let gic = fake.gic();
        // One beside them, which goes elsewhere.
        gic.route(0x1, &[33], None, Some(0x1)).unwrap();
        let interrupts = [40, 41];
        fake.word(ICENABLER + 4).store(0, SeqCst);
        fake.word(ISENABLER + 4).store(0, SeqCst);
        while_busy(
            &fake,
            || gic.route(0x3, &interrupts, None, Some(0x3)).unwrap(),
            || {
                // Both, before either is on again.
                assert_eq!(fake.word(ICENABLER + 4).load(SeqCst), 0b11 << 8);
                assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 0, "it is on before it has its target");
                assert_eq!(fake.word(IROUTER + 8 * 40).load(SeqCst), 0, "it has its target before it is off");
            },
        );
        assert_eq!(fake.word(IROUTER + 8 * 40).load(SeqCst), 3);
        assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 0b11 << 8 | 1 << 1, "the one beside stayed off");
        assert_eq!(fake.word(IROUTER + 8 * 33).load(SeqCst), 1, "its target is not theirs");
        fake.word(ISENABLER + 4).store(0, SeqCst);
        while_busy(&fake, || gic.route(0x3, &interrupts, Some(0x3), None).unwrap(), || ());
        // They are off now, it is not.
        assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 1 << 1);
        gic.route(0x1, &[33], Some(0x1), None).unwrap();
        fake.word(ISENABLER + 4).store(0, SeqCst);
        gic.route(0x3, &interrupts, None, Some(0x2)).unwrap();
        assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 0b11 << 8, "it was turned off");
    }
}
