//! SiFive's UART, as in the FU540 and FU740 (their manuals, chapter "UART"). By hand: no crate that is kept drives it.

use core::ptr::NonNull;
use safe_mmio::fields::{ReadPure, ReadPureWrite, ReadWrite};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// The registers.
#[repr(C)]
struct Registers {
    transmit: ReadPureWrite<u32>,
    /// A read takes a byte out.
    receive: ReadWrite<u32>,
    transmit_control: ReadPureWrite<u32>,
    receive_control: ReadPureWrite<u32>,
    enabled: ReadPureWrite<u32>,
    pending: ReadPure<u32>,
    divisor: ReadPureWrite<u32>,
}

/// `transmit`: no room; `receive`: nothing there.
const NONE: u32 = 1 << 31;
/// Both control registers: the direction is on.
const ON: u32 = 1;
/// `transmit_control`: an interrupt is pending while fewer bytes wait than this many, from this bit on.
const LEVEL: u32 = 16;
/// `pending`, `enabled`: fewer bytes wait; there is something to read.
const TRANSMITTED: u32 = 1 << 0;
const RECEIVED: u32 = 1 << 1;

/// The line.
pub struct SiFive(UniqueMmioPointer<'static, Registers>);

impl SiFive {
    /// The UART at `base`, left as it is set up.
    ///
    /// # Safety
    /// The registers of a SiFive UART lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub(super) unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { UniqueMmioPointer::new(base.cast()) })
    }

    /// So many bits per second, of a clock of `clock_hz`; false if that cannot be.
    pub(super) fn set_up(&mut self, rate: u32, clock_hz: u32) -> bool {
        let Some(divisor) = clock_hz.div_ceil(rate).checked_sub(1).filter(|&divisor| divisor >= 15) else {
            return false;
        };
        field!(self.0, divisor).write(divisor);
        field!(self.0, transmit_control).write(ON);
        true
    }

    /// Takes what it has room for of `bytes`; returns how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        for (taken, &byte) in bytes.iter().enumerate() {
            if !self.has_room() {
                return taken;
            }
            field!(self.0, transmit).write(u32::from(byte));
        }
        bytes.len()
    }

    pub(super) fn has_room(&self) -> bool {
        field_shared!(self.0, transmit).read() & NONE == 0
    }

    pub(super) fn flush(&mut self) {
        field!(self.0, transmit_control).write(1 << LEVEL | ON);
        while field_shared!(self.0, pending).read() & TRANSMITTED == 0 {
            core::hint::spin_loop();
        }
    }

    /// Interrupts while there is something to read, and while nothing waits to be sent; or not.
    pub(super) fn interrupt_for(&mut self, received: bool, room: bool) {
        field!(self.0, receive_control).write(ON);
        field!(self.0, transmit_control).write(1 << LEVEL | ON);
        let chosen = [(received, RECEIVED), (room, TRANSMITTED)].into_iter().filter(|&(on, _)| on);
        field!(self.0, enabled).write(chosen.fold(0, |all, (_, cause)| all | cause));
    }

    /// Whether there is something to read.
    pub(super) fn has_received(&self) -> bool {
        field_shared!(self.0, pending).read() & RECEIVED != 0
    }

    pub(super) fn read(&mut self) -> Option<u8> {
        let word = field!(self.0, receive).read();
        (word & NONE == 0).then_some(word as u8)
    }

    pub(super) fn drain(&mut self) {
        while self.read().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    #[test]
    fn b1_a_sifive_line_is_set_up_and_says_bytes() {
        // Registers that are mere memory: nothing waits, all was sent.
        let memory = Box::leak(Box::new([0u32; 7]));
        memory[1] = NONE;
        memory[5] = TRANSMITTED;
        let base = NonNull::from(&mut *memory).cast::<u8>();
        // SAFETY: as large as the registers, never freed; it is looked at when the line is gone.
        let mut line = unsafe { SiFive::new(base) };
        assert!(!line.set_up(115_200, 1_000_000));
        assert!(line.set_up(115_200, 33_333_333));
        assert_eq!(line.fill(b"hi"), 2);
        assert!(line.has_room() && !line.has_received());
        line.interrupt_for(true, true);
        line.drain();
        line.flush();
        // SAFETY: the same memory; nobody else uses it.
        let seen = unsafe { base.cast::<[u32; 7]>().read_volatile() };
        assert_eq!(
            seen,
            [u32::from(b'i'), NONE, 1 << LEVEL | ON, ON, RECEIVED | TRANSMITTED, TRANSMITTED, 289]
        );
        // SAFETY: as above.
        unsafe { base.cast::<u32>().write_volatile(NONE) };
        assert_eq!(line.fill(b"no room"), 0);
        line.interrupt_for(false, false);
        // SAFETY: as above.
        assert_eq!(unsafe { base.cast::<u32>().add(4).read_volatile() }, 0);
    }
}
