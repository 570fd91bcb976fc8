//! The console, at the address that the tree names.

use crate::arch;
use crate::devicetree::UartKind;
use crate::layout::Region;
use core::ptr::{self, NonNull};
use drivers::console::{Console, Form};

/// The registers in a region, for whoever is promised that they are there.
pub(super) fn registers(region: Region) -> Option<NonNull<u8>> {
    NonNull::new(ptr::with_exposed_provenance_mut(region.start))
}

/// The console's line, if the tree was read and its registers can be reached. The caller sees to it that only one is used at a
/// time.
pub(crate) fn console() -> Option<Console> {
    if !arch::maps_devices() {
        return None;
    }
    let uart = arch::machine()?.uart?;
    #[cfg(hosted)]
    if uart.kind == UartKind::Stream {
        return Some(Console::stream());
    }
    let base = registers(uart.registers)?;
    match uart.kind {
        // SAFETY: the tree says so, and translation maps it as device memory. A second console is made only to
        // report, when its holder has stopped.
        UartKind::Pl011 => Some(unsafe { Console::pl011(base) }),
        UartKind::Ns16550 { stride, width, synopsys } => {
            let form = Form { stride, width, synopsys };
            // SAFETY: as above.
            unsafe { Console::ns16550(base, form) }.ok()
        }
        // SAFETY: as above.
        UartKind::SiFive => Some(unsafe { Console::sifive(base) }),
        // SAFETY: as above.
        UartKind::Cadence => Some(unsafe { Console::cadence(base) }),
        UartKind::Stream => None,
    }
}
