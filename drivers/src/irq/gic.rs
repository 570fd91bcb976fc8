//! GICv3: distributor and redistributors, through the crate `arm-gic`. The harts' own interfaces are system
//! registers and belong to the kernel's architecture module.

use arm_gic::gicv3::registers::{Gicd, GicrSgi};
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
    /// # Safety
    /// The registers of a GICv3 distributor lie at `distributor`, those of its redistributors one after the other at
    /// `redistributors`, all mapped as device memory; nobody else uses them.
    pub unsafe fn new(distributor: NonNull<u8>, redistributors: NonNull<u8>, frames: usize) -> Self {
        // SAFETY: the caller's promise.
        let mut inner = unsafe {
            let distributor = UniqueMmioPointer::new(distributor.cast::<Gicd>());
            GicV3::new(distributor, redistributors.cast::<GicrSgi>(), frames, false)
        };
        inner.distributor().configure_default_settings();
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

    /// Sends the shared interrupt to the hart with the affinity `mpidr`, or to none.
    ///
    /// # Errors
    /// [`IrqError::NoInterrupt`]
    pub fn route(&mut self, interrupt: IntId, mpidr: Option<u64>) -> Result<(), IrqError> {
        let distributor = self.inner.distributor();
        if let Some(mpidr) = mpidr {
            distributor.set_routing(interrupt, Some(mpidr)).map_err(|_| IrqError::NoInterrupt)?;
        }
        distributor.enable_interrupt(interrupt, mpidr.is_some()).map_err(|_| IrqError::NoInterrupt)
    }
}
