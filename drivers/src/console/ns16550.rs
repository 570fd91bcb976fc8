//! The 16550, and Synopsys' DW-APB UART that is made after it: crate `uart_16550`, over registers as far apart and as wide
//! as the tree says (`reg-shift`, `reg-io-width`; SPEC B-1, B-3).
//!
//! Synopsys' (its databook, chapter 5) has habits of its own: while it sends or receives it does not take what is written to
//! the line control register, and interrupts for that until its status was read; and its character timeout interrupts
//! with nothing there, until the data register was read.

use super::{BAUD_RATE, NoConsole};
use core::ptr::NonNull;
use safe_mmio::UniqueMmioPointer;
use safe_mmio::fields::ReadWrite;
use uart_16550::backend::Backend;
use uart_16550::spec::registers::{IER, LSR};
use uart_16550::{Config, Uart16550};

/// Registers, Synopsys' own with them.
const REGISTERS: usize = 32;
/// Which register is which: data, interrupt cause when read and FIFO control when written, line control, line status.
const DATA: u8 = 0;
const CAUSE: u8 = 2;
const FIFO_CONTROL: u8 = 2;
const LINE_CONTROL: u8 = 3;
const LINE_STATUS: u8 = 5;
/// Synopsys': whether it is busy.
const STATUS: u8 = 31;
/// `CAUSE`: what it is, by these bits.
const CAUSES: u8 = 0xf;
const BUSY: u8 = 0x7;
const TIMEOUT: u8 = 0xc;
/// `FIFO_CONTROL`: on, both directions emptied.
const EMPTIED: u8 = 0x7;
/// How often line control is written to a device that is busy; each time there is nothing left for it to send.
const TRIES: usize = 1000;

/// How such a device lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// Bytes from one register to the next.
    pub stride: u8,
    /// Bytes of an access: 1, 2 or 4.
    pub width: u8,
    /// It is Synopsys'.
    pub synopsys: bool,
}

/// Registers, accessed by their width.
enum Access {
    Bytes(UniqueMmioPointer<'static, [ReadWrite<u8>]>),
    Halves(UniqueMmioPointer<'static, [ReadWrite<u16>]>),
    Words(UniqueMmioPointer<'static, [ReadWrite<u32>]>),
}

struct Registers {
    access: Access,
    /// Accesses from one register to the next.
    apart: usize,
}

impl Registers {
    /// Those at `base`; none if accesses of this width are not known, or reach into the next register.
    ///
    /// # Safety
    /// So many registers of this form lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    unsafe fn new(base: NonNull<u8>, form: Form) -> Option<Self> {
        let Form { stride, width, synopsys } = form;
        let [stride, width] = [stride, width].map(usize::from);
        let aligned = width > 0 && base.addr().get().is_multiple_of(width);
        if !(aligned && stride.is_power_of_two() && stride.is_multiple_of(width)) {
            return None;
        }
        let apart = stride / width;
        let all = if synopsys { REGISTERS } else { uart_16550::spec::NUM_REGISTERS };
        let len = apart * all;
        // SAFETY: the caller's promise; `len` accesses of this width are all registers, and the base is aligned to one.
        let access = unsafe {
            match width {
                1 => Access::Bytes(all_of(base, len)),
                2 => Access::Halves(all_of(base, len)),
                4 => Access::Words(all_of(base, len)),
                _ => return None,
            }
        };
        Some(Self { access, apart })
    }
}

/// `len` registers of one access each.
///
/// # Safety
/// They lie at `base`, aligned, mapped as device memory, for ever, and nobody else uses them.
unsafe fn all_of<T>(base: NonNull<u8>, len: usize) -> UniqueMmioPointer<'static, [ReadWrite<T>]> {
    // SAFETY: the caller's promise.
    unsafe { UniqueMmioPointer::new(NonNull::slice_from_raw_parts(base.cast(), len)) }
}

impl Backend for Registers {
    unsafe fn read(&mut self, register: u8) -> u8 {
        let at = usize::from(register) * self.apart;
        let read = match &mut self.access {
            Access::Bytes(all) => all.get(at).map(|mut register| register.read()),
            Access::Halves(all) => all.get(at).map(|mut register| register.read() as u8),
            Access::Words(all) => all.get(at).map(|mut register| register.read() as u8),
        };
        read.unwrap_or(0)
    }

    unsafe fn write(&mut self, register: u8, value: u8) {
        let at = usize::from(register) * self.apart;
        let written = match &mut self.access {
            Access::Bytes(all) => all.get(at).map(|mut register| register.write(value)),
            Access::Halves(all) => all.get(at).map(|mut register| register.write(value.into())),
            Access::Words(all) => all.get(at).map(|mut register| register.write(value.into())),
        };
        debug_assert!(written.is_some(), "no register {register}");
    }
}

/// Registers with Synopsys' habits, if they are its.
struct Habits<R> {
    registers: R,
    synopsys: bool,
}

impl<R: Backend> Habits<R> {
    fn get(&mut self, register: u8) -> u8 {
        // SAFETY: with habits there are all registers that are named here, without only the first eight are asked for.
        unsafe { self.registers.read(register) }
    }

    fn put(&mut self, register: u8, value: u8) {
        // SAFETY: as above.
        unsafe { self.registers.write(register, value) };
    }

    /// Takes back what is interrupted for besides data and room.
    fn settle(&mut self) {
        if !self.synopsys {
            return;
        }
        match self.get(CAUSE) & CAUSES {
            BUSY => _ = self.get(STATUS),
            TIMEOUT if self.get(LINE_STATUS) & LSR::DATA_READY.bits() == 0 => _ = self.get(DATA),
            _ => {}
        }
    }
}

impl<R: Backend> Backend for Habits<R> {
    unsafe fn read(&mut self, register: u8) -> u8 {
        self.get(register)
    }

    unsafe fn write(&mut self, register: u8, value: u8) {
        self.put(register, value);
        let mut tries = if self.synopsys && register == LINE_CONTROL { TRIES } else { 0 };
        while tries > 0 && self.get(LINE_CONTROL) != value {
            self.put(FIFO_CONTROL, EMPTIED);
            self.get(DATA);
            self.put(LINE_CONTROL, value);
            tries -= 1;
        }
    }
}

/// The line.
pub struct Ns16550(Uart16550<Habits<Registers>>);

impl Ns16550 {
    /// The UART at `base`, left as it is set up.
    ///
    /// # Errors
    /// [`NoConsole`] if registers cannot have this form.
    ///
    /// # Safety
    /// The registers of such a UART lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub(super) unsafe fn new(base: NonNull<u8>, form: Form) -> Result<Self, NoConsole> {
        // SAFETY: the caller's promise.
        let registers = unsafe { Registers::new(base, form) }.ok_or(NoConsole)?;
        // SAFETY: they are all the registers there are, for ever.
        Ok(Self(unsafe { Uart16550::new_with_backend(Habits { registers, synopsys: form.synopsys }) }))
    }

    /// So many bits per second, of a clock of `clock_hz`; false if that cannot be or no device answers.
    pub(super) fn set_up(&mut self, clock_hz: u32) -> bool {
        const _: () = assert!(BAUD_RATE == 115_200, "the crate's default");
        self.0.init(Config { frequency: clock_hz, ..Config::default() }).is_ok()
    }

    /// Takes what it has room for of `bytes`; returns how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        self.0.send_bytes(bytes)
    }

    pub(super) fn has_room(&mut self) -> bool {
        self.0.ready_to_send().is_ok()
    }

    pub(super) fn flush(&mut self) {
        while !self.0.lsr().contains(LSR::TRANSMITTER_EMPTY) {
            core::hint::spin_loop();
        }
    }

    /// Interrupts while there is something to read, and while nothing waits to be sent; or not.
    pub(super) fn interrupt_for(&mut self, received: bool, room: bool) {
        let mut causes = IER::empty();
        causes.set(IER::DATA_READY, received);
        causes.set(IER::THR_EMPTY, room);
        self.0.disable_interrupts((IER::DATA_READY | IER::THR_EMPTY) - causes);
        self.0.enable_interrupts(causes);
    }

    /// Whether there is something to read.
    pub(super) fn has_received(&mut self) -> bool {
        self.0.backend_mut().settle();
        self.0.ready_to_receive().is_ok()
    }

    pub(super) fn read(&mut self) -> Option<u8> {
        self.0.try_receive_byte().ok()
    }

    pub(super) fn drain(&mut self) {
        while self.read().is_some() {}
        self.0.backend_mut().settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;
    use std::vec;
    use std::vec::Vec;

    /// What lies in `memory` after a byte was sent over a line of this form in it.
    fn sent(form: Form, unit: usize) -> Option<Vec<u8>> {
        let memory = Box::leak(vec![0u64; 32].into_boxed_slice());
        let base = NonNull::from(&mut *memory).cast::<u8>();
        let status = usize::from(LINE_STATUS) * usize::from(form.stride);
        // SAFETY: in the memory, which nothing else uses so far.
        unsafe { base.add(status).write_volatile(LSR::THR_EMPTY.bits()) };
        // SAFETY: 256 bytes, for ever; they are looked at when the line is gone.
        let mut line = unsafe { Ns16550::new(base, form) }.ok()?;
        assert_eq!(line.fill(b"P"), 1);
        // SAFETY: as above.
        Some((0..unit).map(|at| unsafe { base.add(at).read_volatile() }).collect())
    }

    #[test]
    fn b3_registers_are_accessed_as_far_apart_and_as_wide_as_told() {
        let form = |stride, width| Form { stride, width, synopsys: false };
        assert_eq!(sent(form(1, 1), 2), Some(vec![b'P', 0]));
        assert_eq!(sent(form(4, 1), 2), Some(vec![b'P', 0]));
        assert_eq!(sent(form(4, 2), 2), Some(vec![b'P', 0]));
        assert_eq!(sent(form(4, 4), 4), Some(vec![b'P', 0, 0, 0]));
        for refused in [form(1, 4), form(2, 4), form(4, 3), form(4, 8), form(0, 1), form(4, 0)] {
            assert_eq!(sent(refused, 1), None, "{refused:?}");
        }
    }

    /// A device that is busy for so many looks at its line control.
    #[derive(Default)]
    struct Busy {
        looks: usize,
        control: u8,
        cause: u8,
        status: u8,
        reads: Vec<u8>,
    }

    impl Backend for Busy {
        unsafe fn read(&mut self, register: u8) -> u8 {
            self.reads.push(register);
            match register {
                CAUSE => self.cause,
                LINE_CONTROL => self.control,
                LINE_STATUS => self.status,
                _ => 0,
            }
        }

        unsafe fn write(&mut self, register: u8, value: u8) {
            if register == LINE_CONTROL {
                match self.looks.checked_sub(1) {
                    Some(left) => self.looks = left,
                    None => self.control = value,
                }
            }
        }
    }

    #[test]
    fn b1_a_busy_line_of_synopsys_is_set_up_in_the_end() {
        for (synopsys, control) in [(true, 0x83), (false, 0)] {
            let mut line = Habits { registers: Busy { looks: 9, ..Busy::default() }, synopsys };
            // SAFETY: one of the first eight.
            unsafe { line.write(LINE_CONTROL, 0x83) };
            assert_eq!(line.registers.control, control);
        }
        // One that stays busy is left, not waited for.
        let mut line = Habits { registers: Busy { looks: usize::MAX, ..Busy::default() }, synopsys: true };
        // SAFETY: one of the first eight.
        unsafe { line.write(LINE_CONTROL, 0x83) };
        assert_eq!(line.registers.control, 0);
    }

    #[test]
    fn b1_what_synopsys_interrupts_for_besides_is_taken_back() {
        let ready = LSR::DATA_READY.bits();
        let table: [(bool, u8, u8, &[u8]); 5] = [
            (true, BUSY, 0, &[CAUSE, STATUS]),
            (true, 0xc0 | TIMEOUT, 0, &[CAUSE, LINE_STATUS, DATA]),
            (true, TIMEOUT, ready, &[CAUSE, LINE_STATUS]),
            (true, 1, 0, &[CAUSE]),
            (false, BUSY, 0, &[]),
        ];
        for (synopsys, cause, status, reads) in table {
            let mut line = Habits { registers: Busy { cause, status, ..Busy::default() }, synopsys };
            line.settle();
            assert_eq!(line.registers.reads, reads, "{cause}");
        }
    }
}
