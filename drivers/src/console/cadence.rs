//! Cadence's UART, as in Zynq and Zynq UltraScale+ (UG1085, chapter "UART Controllers"). By hand: the crates that drive it are whole
//! systems for the 32-bit parts.

use core::ptr::NonNull;
use safe_mmio::fields::{ReadPure, ReadPureWrite, ReadWrite, WriteOnly};
use safe_mmio::{UniqueMmioPointer, field, field_shared};

/// The registers.
#[repr(C)]
struct Registers {
    control: ReadPureWrite<u32>,
    mode: ReadPureWrite<u32>,
    enable: WriteOnly<u32>,
    disable: WriteOnly<u32>,
    enabled: ReadPure<u32>,
    /// What is written is cleared.
    pending: ReadPureWrite<u32>,
    /// The clock is divided by this, then by `samples` and one.
    divisor: ReadPureWrite<u32>,
    silence: ReadPureWrite<u32>,
    /// So many bytes are waited for.
    trigger: ReadPureWrite<u32>,
    modem: [ReadPureWrite<u32>; 2],
    status: ReadPure<u32>,
    /// A read takes a byte out, a write puts one in.
    fifo: ReadWrite<u32>,
    samples: ReadPureWrite<u32>,
}

/// `control`: what waits is dropped, in and out; both directions are on.
const RESET: u32 = 1 << 0 | 1 << 1;
const ON: u32 = 1 << 2 | 1 << 4;
/// `mode`: 8 bits, no parity, one stop bit.
const PLAIN: u32 = 4 << 3;
/// `status`: nothing came in; all that was written is on its way, and no more has room; a byte is on its way.
const NONE: u32 = 1 << 1;
const EMPTY: u32 = 1 << 3;
const FULL: u32 = 1 << 4;
const ACTIVE: u32 = 1 << 11;
/// Interrupts: as many bytes came in as are waited for; all that was written is on its way, which is told once; all.
const RECEIVED: u32 = 1 << 0;
const SENT: u32 = 1 << 3;
const ALL: u32 = 0x1fff;

/// Looks at whether a reset is over; it takes a few cycles of the line's clock.
const RESET_LOOKS: u32 = 100_000;

/// Samples of a bit that the line may take.
const SAMPLES: core::ops::RangeInclusive<u32> = 5..=256;

/// The line.
pub struct Cadence {
    registers: UniqueMmioPointer<'static, Registers>,
    /// Whether it interrupts when it has sent all.
    tells_sent: bool,
}

/// What the clock is divided by for so many bits a second, and samples of a bit: those that come nearest. `None` beyond 2 %.
fn division(rate: u32, clock_hz: u32) -> Option<(u32, u32)> {
    let divisions = SAMPLES.map(|samples| {
        let divisor = ((clock_hz + rate * samples / 2) / (rate * samples)).min(0xffff);
        (clock_hz.abs_diff(rate * samples * divisor), divisor, samples)
    });
    let (off, divisor, samples) = divisions.filter(|&(_, divisor, _)| divisor > 0).min()?;
    (off <= clock_hz / 50).then_some((divisor, samples))
}

impl Cadence {
    /// The UART at `base`, left as it is set up.
    ///
    /// # Safety
    /// The registers of such a UART lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub(super) unsafe fn new(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        Self { registers: unsafe { UniqueMmioPointer::new(base.cast()) }, tells_sent: false }
    }

    /// So many bits per second, of a clock of `clock_hz`; false if that cannot be.
    pub(super) fn set_up(&mut self, rate: u32, clock_hz: u32) -> bool {
        let Some((divisor, samples)) = division(rate, clock_hz) else { return false };
        // What the firmware said leaves as it was meant to.
        if field_shared!(self.registers, control).read() & ON == ON {
            self.flush();
        }
        field!(self.registers, disable).write(ALL);
        field!(self.registers, mode).write(PLAIN);
        field!(self.registers, divisor).write(divisor);
        field!(self.registers, samples).write(samples - 1);
        field!(self.registers, control).write(ON | RESET);
        // It ends by itself; a line whose reset does not is as good as any.
        for _ in 0..RESET_LOOKS {
            if field_shared!(self.registers, control).read() & RESET == 0 {
                break;
            }
        }
        true
    }

    /// Takes what it has room for of `bytes`; returns how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        for (taken, &byte) in bytes.iter().enumerate() {
            if !self.has_room() {
                return taken;
            }
            field!(self.registers, fifo).write(u32::from(byte));
        }
        bytes.len()
    }

    pub(super) fn has_room(&self) -> bool {
        field_shared!(self.registers, status).read() & FULL == 0
    }

    pub(super) fn has_received(&self) -> bool {
        field_shared!(self.registers, status).read() & NONE == 0
    }

    pub(super) fn flush(&mut self) {
        while field_shared!(self.registers, status).read() & (EMPTY | ACTIVE) != EMPTY {
            core::hint::spin_loop();
        }
    }

    /// Interrupts while there is something to read, and when all that was written from now on is on its way; or not.
    pub(super) fn interrupt_for(&mut self, received: bool, room: bool) {
        field!(self.registers, trigger).write(1);
        if room && !self.tells_sent {
            // What was sent before. It is not told again, so that it is not forgotten where it is waited for already.
            field!(self.registers, pending).write(SENT);
        }
        self.tells_sent = room;
        let chosen = [(received, RECEIVED), (room, SENT)].into_iter().filter(|&(on, _)| on);
        let chosen = chosen.fold(0, |all, (_, cause)| all | cause);
        field!(self.registers, disable).write((RECEIVED | SENT) & !chosen);
        field!(self.registers, enable).write(chosen);
    }

    pub(super) fn read(&mut self) -> Option<u8> {
        let is_there = field_shared!(self.registers, status).read() & NONE == 0;
        is_there.then(|| field!(self.registers, fifo).read() as u8)
    }

    pub(super) fn drain(&mut self) {
        loop {
            while self.read().is_some() {}
            // A byte that came between may have been told of before: it is read at once.
            field!(self.registers, pending).write(ALL & !SENT);
            if field_shared!(self.registers, status).read() & NONE != 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    #[test]
    fn b1_the_rate_of_a_cadence_line_is_met_by_whatever_comes_nearest() {
        for clock_hz in [24_000_000, 50_000_000, 99_999_999, 100_000_000, 200_000_000] {
            let (divisor, samples) = division(115_200, clock_hz).unwrap();
            let rate = clock_hz / (divisor * samples);
            assert!(rate.abs_diff(115_200) < 600, "{clock_hz}: {divisor} {samples} {rate}");
        }
        assert_eq!(division(115_200, 576_000), Some((1, 5)));
        assert_eq!(division(115_200, 400_000), None);
    }

    #[test]
    fn b1_a_cadence_line_is_set_up_and_says_bytes() {
        // Registers that are mere memory: nothing waits, all was sent.
        let memory = Box::leak(Box::new([0u32; 14]));
        memory[0] = ON;
        memory[11] = NONE | EMPTY;
        let base = NonNull::from(&mut *memory).cast::<u8>();
        // SAFETY: as large as the registers, never freed; it is looked at when the line is gone.
        let mut line = unsafe { Cadence::new(base) };
        assert!(!line.set_up(115_200, 400_000));
        assert!(line.set_up(115_200, 576_000));
        assert_eq!(line.fill(b"hi"), 2);
        assert!(line.has_room() && !line.has_received());
        line.interrupt_for(true, false);
        line.drain();
        line.flush();
        // SAFETY: the same memory; nobody else uses it.
        let seen = unsafe { base.cast::<[u32; 14]>().read_volatile() };
        let status = NONE | EMPTY;
        let expected =
            [ON | RESET, PLAIN, RECEIVED, SENT, 0, ALL & !SENT, 1, 0, 1, 0, 0, status, u32::from(b'i'), 4];
        assert_eq!(seen, expected);
    }

    #[test]
    fn n12_what_a_cadence_line_has_sent_is_forgotten_only_before_it_is_waited_for() {
        let memory = Box::leak(Box::new([0u32; 14]));
        memory[11] = FULL;
        let base = NonNull::from(&mut *memory).cast::<u32>();
        // SAFETY: as large as the registers, never freed; looked at below by the same pointer, between calls.
        let mut line = unsafe { Cadence::new(base.cast()) };
        // SAFETY: within the same memory; the line is not in a call.
        let [enable, disable, pending] = [2, 3, 5].map(|at| unsafe { base.add(at) });
        // SAFETY: as above.
        let read = |register: NonNull<u32>| unsafe { register.read_volatile() };
        assert_eq!(line.fill(b"no room"), 0);
        line.interrupt_for(true, true);
        assert_eq!([enable, disable, pending].map(read), [RECEIVED | SENT, 0, SENT]);
        // SAFETY: as above.
        unsafe { pending.write_volatile(0) };
        line.interrupt_for(false, true);
        assert_eq!([enable, disable, pending].map(read), [SENT, RECEIVED, 0]);
        line.interrupt_for(true, false);
        line.interrupt_for(true, true);
        assert_eq!([enable, disable, pending].map(read), [RECEIVED | SENT, 0, SENT]);
    }
}
