//! Consoles: PL011, 16550, SiFive's UART and Cadence's (SPEC B-1, D-10). Output is polled; what comes in interrupts, where that is asked for.

mod cadence;
mod sifive;
#[cfg(target_os = "linux")]
mod stream;

use arm_pl011_uart::{DataBits, Interrupts, LineConfig, PL011Registers, Parity, StopBits, Uart};
use cadence::Cadence;
use core::ptr::NonNull;
use safe_mmio::UniqueMmioPointer;
use sifive::SiFive;
#[cfg(target_os = "linux")]
use stream::Stream;
use uart_16550::backend::MmioBackend;
use uart_16550::spec::registers::{IER, LSR};
use uart_16550::{Config, Uart16550};

/// Bits per second, where the line has a clock.
const BAUD_RATE: u32 = 115_200;

/// A serial line.
pub enum Console {
    /// Arm's PL011.
    Pl011(Uart<'static>),
    /// A 16550 behind memory-mapped registers.
    Ns16550(Uart16550<MmioBackend>),
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

    /// A 16550 at `base` with its registers `stride` bytes apart, left as it is set up.
    ///
    /// # Errors
    /// [`NoConsole`] if `stride` is no power of two.
    ///
    /// # Safety
    /// The registers of a 16550 lie at `base`, mapped as device memory, and nobody else uses them meanwhile.
    pub unsafe fn ns16550(base: NonNull<u8>, stride: u8) -> Result<Self, NoConsole> {
        // SAFETY: the caller's promise.
        unsafe { Uart16550::new_mmio(base, stride) }.map(Self::Ns16550).map_err(|_| NoConsole)
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
            Self::Ns16550(uart) => {
                uart.init(Config { frequency: clock_hz, ..Config::default() }).map_err(|_| NoConsole)
            }
            Self::SiFive(uart) => uart.set_up(BAUD_RATE, clock_hz).then_some(()).ok_or(NoConsole),
            Self::Cadence(uart) => uart.set_up(BAUD_RATE, clock_hz).then_some(()).ok_or(NoConsole),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => Ok(()),
        }
    }

    /// Sends all of `bytes`; waits while the line is busy.
    pub fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Pl011(uart) => {
                for &byte in bytes {
                    while uart.is_tx_fifo_full() {
                        core::hint::spin_loop();
                    }
                    uart.write_word(byte);
                }
            }
            Self::Ns16550(uart) => uart.send_bytes_exact(bytes),
            Self::SiFive(uart) => uart.write(bytes),
            Self::Cadence(uart) => uart.write(bytes),
            #[cfg(target_os = "linux")]
            Self::Stream(stream) => stream.write(bytes),
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
            Self::Ns16550(uart) => {
                while !uart.lsr().contains(LSR::TRANSMITTER_EMPTY) {
                    core::hint::spin_loop();
                }
            }
            Self::SiFive(uart) => uart.flush(),
            Self::Cadence(uart) => uart.flush(),
            #[cfg(target_os = "linux")]
            Self::Stream(_) => {}
        }
    }
}

/// The receiving half of a line. It reads what came in and the line's status, and writes which interrupts there are: the sending
/// half, which somebody else may be using, does none of that but read the status.
pub struct Receiver(Console);

impl Receiver {
    /// The receiving half of `console`'s line.
    pub fn new(console: Console) -> Self {
        Self(console)
    }

    /// From now on the line interrupts while there is something to read.
    pub fn listen(&mut self) {
        match &mut self.0 {
            Console::Pl011(uart) => uart.set_interrupt_masks(Interrupts::RXI | Interrupts::RTI),
            Console::Ns16550(uart) => uart.enable_interrupts(IER::DATA_READY),
            Console::SiFive(uart) => uart.listen(true),
            Console::Cadence(uart) => uart.listen(true),
            #[cfg(target_os = "linux")]
            Console::Stream(_) => {}
        }
    }

    /// It does not interrupt any more, whatever there is to read.
    pub fn pause(&mut self) {
        match &mut self.0 {
            Console::Pl011(uart) => uart.set_interrupt_masks(Interrupts::empty()),
            Console::Ns16550(uart) => uart.disable_interrupts(IER::DATA_READY),
            Console::SiFive(uart) => uart.listen(false),
            Console::Cadence(uart) => uart.listen(false),
            #[cfg(target_os = "linux")]
            Console::Stream(_) => {}
        }
    }

    /// Reads all that came in, which takes the interrupt back.
    pub fn drain(&mut self) {
        match &mut self.0 {
            // A byte that came in damaged came in.
            Console::Pl011(uart) => while !matches!(uart.read_word(), Ok(None)) {},
            Console::Ns16550(uart) => while uart.try_receive_byte().is_ok() {},
            Console::SiFive(uart) => uart.drain(),
            Console::Cadence(uart) => uart.drain(),
            #[cfg(target_os = "linux")]
            Console::Stream(_) => {}
        }
    }
}
