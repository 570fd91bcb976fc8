//! Devices at the addresses that the tree names.

use crate::arch;
use crate::devicetree::{Slot, SlotKind, UartKind};
use crate::layout::Region;
use core::ptr::{self, NonNull};
use drivers::VirtioNet;
use drivers::console::{Console, Receiver};
use drivers::nic::Hal;
use drivers::virtio::{Transport as _, VirtioError, mmio};

/// A network card, of any kind that the kernel drives: each kind that comes makes it an [`Either`](drivers::Either) of what
/// it was and the new one, and [`network_card`] has an arm for it.
pub(crate) type Card<H> = VirtioNet<H>;
/// What serves a card's interrupts.
pub(crate) type CardInterrupt = mmio::Interrupt;
/// Why a card that is there cannot be used.
pub(crate) type CardError = VirtioError;

/// The id of a network card.
const NETWORK_CARD: u32 = 1;

fn registers(region: Region) -> Option<NonNull<u8>> {
    NonNull::new(ptr::with_exposed_provenance_mut(region.start))
}

/// The console's line, if the tree was read and its registers can be reached. The caller sees to it that only one is used at a
/// time.
pub(crate) fn console() -> Option<Console> {
    if !arch::maps_devices() {
        return None;
    }
    let uart = arch::machine()?.uart?;
    let base = registers(uart.registers)?;
    match uart.kind {
        // SAFETY: the tree says so, and translation maps it as device memory. A second console is made only to
        // report, when its holder has stopped.
        UartKind::Pl011 => Some(unsafe { Console::pl011(base) }),
        // SAFETY: as above.
        UartKind::Ns16550 { stride } => unsafe { Console::ns16550(base, stride) }.ok(),
        // SAFETY: as above.
        UartKind::SiFive => Some(unsafe { Console::sifive(base) }),
    }
}

/// The receiving half of the console's line. The caller sees to it that only one is used at a time; the other half is none of its
/// business.
pub(crate) fn receiver() -> Option<Receiver> {
    console().map(Receiver::new)
}

/// The network card in a slot, if there is one. To be asked once for each slot.
pub(crate) fn network_card<H: Hal>(slot: &Slot) -> Option<Result<Card<H>, CardError>> {
    let registers = registers(slot.registers)?;
    match slot.kind {
        SlotKind::VirtioMmio => {
            // SAFETY: the tree says that a virtio-mmio slot is there, and translation maps it as device memory. The node
            // asks each slot once.
            let transport = unsafe { mmio::Transport::new(registers) }.ok()?;
            (transport.device_id() == NETWORK_CARD).then(|| VirtioNet::new(transport))
        }
    }
}
