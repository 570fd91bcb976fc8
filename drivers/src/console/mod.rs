//! Consoles: PL011, 16550 (Synopsys' too), SiFive's UART and Cadence's (SPEC B-1, D-10). Both directions interrupt where
//! that is asked for, and can be polled.

mod cadence;
mod ns16550;
mod sifive;
#[cfg(target_os = "linux")]
mod stream;

use arm_pl011_uart::{DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits, Uart};
use cadence::Cadence;
use core::ptr::NonNull;
pub use ns16550::Form;
use ns16550::Ns16550;
use safe_mmio::UniqueMmioPointer;
use sifive::SiFive;
#[cfg(target_os = "linux")]
use stream::Stream;

/// Bits per second, where the line has a clock.
const BAUD_RATE: u32 = 115_200;

/// A serial line.
pub enum Console {
    /// Arm's PL011.
    Pl011(Uart<'static>),
    /// A 16550, or Synopsys' UART.
    Ns16550(Ns16550),
    /// SiFive's.
    SiFive(SiFive),
    /// Cadence's.
    Cadence(Cadence),
    /// The standard output of a process.
    #[cfg(target_os = "linux")]
    Stream(Stream),
}

/// Why there is no console at an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoConsole;

impl Console {
    /// A PL011 at `base`, left as it is set up.
    ///
    /// # Safety
    /// The registers of a PL011 lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub unsafe fn pl011(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        Self::Pl011(Uart::new(unsafe { UniqueMmioPointer::new(base.cast::<PL011Registers>()) }))
    }

    /// A 16550 at `base` whose registers have this form, left as it is set up.
    ///
    /// # Errors
    /// [`NoConsole`] if they cannot have it: accesses of 1, 2 or 4 bytes, aligned, and none reaches into the next register.
    ///
    /// # Safety
    /// The registers of a 16550, or of Synopsys' UART if the form says so, lie at `base`, mapped as device memory, and nobody
    /// else uses them meanwhile.
    pub unsafe fn ns16550(base: NonNull<u8>, form: Form) -> Result<Self, NoConsole> {
        // SAFETY: the caller's promise.
        unsafe { Ns16550::new(base, form) }.map(Self::Ns16550)
    }

    /// SiFive's UART at `base`, left as it is set up.
    ///
    /// # Safety
    /// The registers of such a UART lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub unsafe fn sifive(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        Self::SiFive(unsafe { SiFive::new(base) })
    }

    /// Cadence's UART at `base`, left as it is set up.
    ///
    /// # Safety
    /// The registers of such a UART lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub unsafe fn cadence(base: NonNull<u8>) -> Self {
        // SAFETY: the caller's promise.
        Self::Cadence(unsafe { Cadence::new(base) })
    }

    /// The standard output of this process. Of a frame that two write at a time, the bytes may mix.
    #[cfg(target_os = "linux")]
    pub fn stream() -> Self {
        Self::Stream(Stream::new())
    }

    /// Sets the line up: 115200 baud, 8 bits, no parity, with a clock of `clock_hz`.
    ///
    /// # Errors
    /// [`NoConsole`] if the clock is too slow or no device answers.
    pub fn set_up(&mut self, clock_hz: u32) -> Result<(), NoConsole> {
        match self {
            Self::Pl011(uart) => {
                let line =
                    LineConfig { data_bits: DataBits::Bits8, parity: Parity::None, stop_bits: StopBits::One };
                uart.enable(line, BAUD_RATE, clock_hz).map_err(|_| NoConsole)
            }
            Self::Ns16550(uart) => uart.set_up(clock_hz).then_some(()).ok_or(NoConsole),
            Self::SiFive(uart) => uart.set_up(BAUD_RATE, clock_hz).then_some(()).ok_or(NoConsole),
            Self::Cadence(uart) => uart.set_up(BAUD_RATE, clock_hz).then_some(()).ok_or(NoConsole),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => Ok(()),
        }
    }

    /// Takes what it has room for of `bytes`, from the front; returns how many.
    pub fn fill(&mut self, bytes: &[u8]) -> usize {
        match self {
            Self::Pl011(uart) => {
                for (taken, &byte) in bytes.iter().enumerate() {
                    if uart.is_tx_fifo_full() {
                        return taken;
                    }
                    uart.write_word(byte);
                }
                bytes.len()
            }
            Self::Ns16550(uart) => uart.fill(bytes),
            Self::SiFive(uart) => uart.fill(bytes),
            Self::Cadence(uart) => uart.fill(bytes),
            #[cfg(target_os = "linux")]
            Self::Stream(stream) => {
                stream.write(bytes);
                bytes.len()
            }
        }
    }

    /// Whether it has room for a byte or more.
    pub fn has_room(&mut self) -> bool {
        match self {
            Self::Pl011(uart) => !uart.is_tx_fifo_full(),
            Self::Ns16550(uart) => uart.has_room(),
            Self::SiFive(uart) => uart.has_room(),
            Self::Cadence(uart) => uart.has_room(),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => true,
        }
    }

    /// Sends all of `bytes`; waits while the line is busy.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = &bytes[self.fill(bytes)..];
            core::hint::spin_loop();
        }
    }

    /// Interrupts from now on while there is something to read, and when room has come since it was last full; or not.
    pub fn interrupt_for(&mut self, received: bool, room: bool) {
        match self {
            Self::Pl011(uart) => {
                let mut causes = Interrupts::empty();
                causes.set(Interrupts::RXI | Interrupts::RTI, received);
                causes.set(Interrupts::TXI, room);
                uart.set_interrupt_masks(causes);
            }
            Self::Ns16550(uart) => uart.interrupt_for(received, room),
            Self::SiFive(uart) => uart.interrupt_for(received, room),
            Self::Cadence(uart) => uart.interrupt_for(received, room),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => {}
        }
    }

    /// Whether there is something to read.
    pub fn has_received(&mut self) -> bool {
        match self {
            Self::Pl011(uart) => !uart.is_rx_fifo_empty(),
            Self::Ns16550(uart) => uart.has_received(),
            Self::SiFive(uart) => uart.has_received(),
            Self::Cadence(uart) => uart.has_received(),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => false,
        }
    }

    /// A byte that came in, if one did.
    pub fn read(&mut self) -> Option<u8> {
        match self {
            Self::Pl011(uart) => loop {
                // Of a byte that came in damaged nothing is known.
                if let Ok(byte) = uart.read_word() {
                    return byte;
                }
            },
            Self::Ns16550(uart) => uart.read(),
            Self::SiFive(uart) => uart.read(),
            Self::Cadence(uart) => uart.read(),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => None,
        }
    }

    /// Reads all that came in, which takes the interrupt for it back.
    pub fn drain(&mut self) {
        match self {
            // A byte that came in damaged came in.
            Self::Pl011(uart) => while !matches!(uart.read_word(), Ok(None)) {},
            Self::Ns16550(uart) => uart.drain(),
            Self::SiFive(uart) => uart.drain(),
            Self::Cadence(uart) => uart.drain(),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => {}
        }
    }

    /// Waits until everything has left the line.
    pub fn flush(&mut self) {
        match self {
            Self::Pl011(uart) => {
                while uart.is_busy() {
                    core::hint::spin_loop();
                }
            }
            Self::Ns16550(uart) => uart.flush(),
            Self::SiFive(uart) => uart.flush(),
            Self::Cadence(uart) => uart.flush(),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => {}
        }
    }
}
