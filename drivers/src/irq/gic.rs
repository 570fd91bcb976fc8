//! GICv3: distributor and redistributors, through the crate `arm-gic`. The harts' own interfaces are system
//! registers and belong to the kernel's architecture module.

use arm_gic::gicv3::registers::{Gicd, GicdCtlr, GicrSgi};
use arm_gic::gicv3::{GicError, GicV3};
use arm_gic::{IntId, Trigger};
use core::ptr::NonNull;
use safe_mmio::UniqueMmioPointer;

/// Why the controller refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqError {
    /// No redistributor belongs to the hart.
    NoRedistributor,
    /// The controller has no such interrupt.
    NoInterrupt,
}

/// The shared part of a GICv3.
pub struct Gic {
    inner: GicV3<'static>,
    frames: usize,
}

impl Gic {
    /// Takes the controller over: every shared interrupt off, in group 1. `frames` is how many redistributors fit in
    /// their region.
    ///
    /// Whatever ran before may have left it at work, and its set-up must not change while it is (GICv3 architecture
    /// specification, "GICD_CTLR": affinity routing changes only while all groups are off, and is waited for).
    ///
    /// # Safety
    /// The registers of a GICv3 distributor lie at `distributor`, those of its redistributors one after the other at
    /// `redistributors`, all mapped as device memory; nobody else uses them.
    pub unsafe fn new(distributor: NonNull<u8>, redistributors: NonNull<u8>, frames: usize) -> Self {
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
        Self { inner, frames }
    }

    /// Wakes the redistributor of the hart with the affinity `mpidr` and lets the `private` interrupts through.
    ///
    /// # Errors
    /// [`IrqError`]: the hart has no redistributor, or one of `private` is not private.
    pub fn start_hart(&mut self, mpidr: u64, private: &[IntId]) -> Result<(), IrqError> {
        let frame = self.frame_of(mpidr).ok_or(IrqError::NoRedistributor)?;
        match self.inner.redistributor_mark_core_awake(frame) {
            Ok(()) | Err(GicError::AlreadyAwake) => {}
            Err(_) => return Err(IrqError::NoRedistributor),
        }
        let mut redistributor = self.inner.redistributor(frame).map_err(|_| IrqError::NoRedistributor)?;
        redistributor.configure_default_settings();
        for &interrupt in private {
            redistributor.enable_interrupt(interrupt, true).map_err(|_| IrqError::NoInterrupt)?;
        }
        Ok(())
    }

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

    /// Sets how the shared interrupt signals.
    ///
    /// # Errors
    /// [`IrqError::NoInterrupt`]
    pub fn set_trigger(&mut self, interrupt: IntId, trigger: Trigger) -> Result<(), IrqError> {
        self.inner.distributor().set_trigger(interrupt, trigger).map_err(|_| IrqError::NoInterrupt)
    }

    /// Sets the priority of the shared interrupt: the lower the number, the more urgent it is. All have 0x80 at first.
    ///
    /// # Errors
    /// [`IrqError::NoInterrupt`]
    pub fn set_priority(&mut self, interrupt: IntId, priority: u8) -> Result<(), IrqError> {
        self.inner
            .distributor()
            .set_interrupt_priority(interrupt, priority)
            .map_err(|_| IrqError::NoInterrupt)
    }

    /// Sends the shared interrupts to the hart with the affinity `mpidr`, or to none; `others` are those that are on
    /// and that it does not concern: turning an interrupt off takes the 31 beside it along, for that reads those that
    /// are on and writes them back, so they are turned on again.
    ///
    /// # Errors
    /// [`IrqError::NoInterrupt`]
    pub fn route(
        &mut self,
        interrupts: impl Iterator<Item = IntId> + Clone,
        mpidr: Option<u64>,
        others: impl Iterator<Item = IntId>,
    ) -> Result<(), IrqError> {
        let distributor = self.inner.distributor();
        let refused = |_| IrqError::NoInterrupt;
        // An interrupt that changes its target while it is on may come to the old one, after whoever waits for it left.
        for interrupt in interrupts.clone() {
            distributor.enable_interrupt(interrupt, false).map_err(refused)?;
        }
        distributor.wait_for_pending_write();
        for other in others {
            distributor.enable_interrupt(other, true).map_err(refused)?;
        }
        let Some(mpidr) = mpidr else { return Ok(()) };
        for interrupt in interrupts {
            distributor.set_routing(interrupt, Some(mpidr)).map_err(refused)?;
            distributor.enable_interrupt(interrupt, true).map_err(refused)?;
        }
        Ok(())
    }
}

/// Registers are volatile to the driver and atomics to these tests, which Miri takes for a race.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use core::iter::empty;
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
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

        fn gic(&self) -> Gic {
            let base = NonNull::from(self.words).cast::<u8>();
            // SAFETY: as large as the registers, never freed, and used by others only as atomics; accesses to it have
            // no effects but their own.
            unsafe { Gic::new(base, base.byte_add(0x1_0000), 1) }
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
        let mut gic = fake.gic();
        let interrupts = [IntId::spi(40 - 32), IntId::spi(41 - 32)].into_iter();
        fake.word(ICENABLER + 4).store(0, SeqCst);
        while_busy(
            &fake,
            || gic.route(interrupts.clone(), Some(0x3), empty()).unwrap(),
            || {
                // Both, before either is on again.
                assert_eq!(fake.word(ICENABLER + 4).load(SeqCst), 0b11 << 8);
                assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 0, "it is on before it has its target");
                assert_eq!(fake.word(IROUTER + 8 * 40).load(SeqCst), 0, "it has its target before it is off");
            },
        );
        assert_eq!(fake.word(IROUTER + 8 * 40).load(SeqCst), 3);
        assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 0b11 << 8);
        while_busy(&fake, || gic.route(interrupts.clone(), None, empty()).unwrap(), || ());
        // One beside them that goes elsewhere is on when it is done.
        let other = IntId::spi(33 - 32);
        gic.route(interrupts, Some(0x2), core::iter::once(other)).unwrap();
        assert_eq!(fake.word(ISENABLER + 4).load(SeqCst), 0b11 << 8 | 1 << 1);
        assert_eq!(fake.word(IROUTER + 8 * 33).load(SeqCst), 0, "its target is not theirs");
    }
}
