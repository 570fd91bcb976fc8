//! Network cards: in the slots that the tree names, and behind its host bridge of PCI (SPEC B-5).
//!
//! A node has one type of card, which is all kinds that the kernel drives: cards of virtio are one kind, whose registers are
//! behind one of two transports, of which only telling the card of new entries looks which; GEMs and 82574s are others.

use super::devices::registers;
use super::interrupts::add_sender;
use crate::arch::{self, Alone};
use crate::devicetree::pci::{BUS_BYTES, PciHost};
use crate::devicetree::{CardSlot, Interrupt, Machine, SlotKind, TreeError};
use alloc::boxed::Box;
use core::fmt;
use drivers::e1000e::{self, E1000e, E1000eError};
use drivers::gem::{self, Gem, GemError};
use drivers::nic::Hal;
use drivers::pci::{Aperture, DEVICES, Ecam, Mailbox, MessageEntry, PciBus};
use drivers::registers::Mmio;
use drivers::virtio::{Transport as _, VirtioError, mmio, pci, reset};
use drivers::{Either, VirtioNet};

/// A card of virtio.
pub(crate) type Virtio<H> = VirtioNet<H, Transport>;
/// A network card of any kind that the kernel drives.
pub(crate) type Card<H> = Either<Virtio<H>, Either<Gem<H>, E1000e<H>>>;
/// What serves a card's interrupts.
pub(crate) type CardInterrupt =
    Either<Either<mmio::MmioInterrupt, pci::PciInterrupt>, Either<gem::Interrupt, e1000e::E1000eInterrupt>>;

/// The id of a network card.
const NETWORK_CARD: u32 = 1;
const _: () = assert!(BUS_BYTES == drivers::pci::BUS_BYTES);

/// Why a card that is there cannot be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CardError {
    /// The device does not work.
    Virtio(VirtioError),
    /// A GEM does not.
    Gem(GemError),
    /// An 82574 does not.
    E1000e(E1000eError),
    /// The tree says nothing of where its interrupts go.
    Deaf,
    /// It does not see memory as harts do.
    Tree(TreeError),
}

impl fmt::Display for CardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Virtio(error) => error.fmt(f),
            Self::Gem(error) => error.fmt(f),
            Self::E1000e(error) => error.fmt(f),
            Self::Tree(error) => error.fmt(f),
            Self::Deaf => f.write_str("the device tree does not say where its interrupts go"),
        }
    }
}

/// A card, or why it cannot be used.
type Tried<H> = Result<Card<H>, CardError>;

/// A network card that was found, and its interrupt.
pub(crate) struct Found<H> {
    pub(crate) card: Card<H>,
    pub(crate) interrupt: Interrupt,
    /// How that comes: by a `wire` of its own, `intx`, a pin of the bus, or `msi-x`, a message.
    pub(crate) way: &'static str,
}

/// The bus behind the host bridge, and what is still to be looked at of it.
struct Behind {
    bus: PciBus<Ecam>,
    host: &'static PciHost,
    devices: core::ops::Range<u8>,
}

/// A message that the controller takes, and its interrupt.
type Reserved = (&'static Mailbox, Interrupt);

/// The machine's network cards: in slots by rising address, then on the bus by number.
pub(crate) struct Cards {
    slots: core::slice::Iter<'static, CardSlot>,
    behind: Option<Behind>,
}

impl Cards {
    /// All of them. To be made once.
    pub(crate) fn new(machine: &'static Machine) -> Self {
        Self { slots: machine.slots.iter(), behind: machine.pci.as_ref().and_then(Behind::new) }
    }

    /// The next one.
    pub(crate) fn next<H: Hal>(&mut self) -> Option<Result<Found<H>, CardError>> {
        let found = |slot: &CardSlot| {
            let interrupt = slot.interrupt;
            Some(in_slot(slot)?.map(|card| Found { card, interrupt, way: "wire" }))
        };
        self.slots.find_map(found).or_else(|| self.behind.as_mut()?.next())
    }
}

/// Has no card reach memory any more. None is used from here on: whoever drove one runs no more, or is the caller. False if one does
/// not come to rest.
pub(super) fn rest(machine: &'static Machine, _: &Alone) -> bool {
    if let Some(Behind { mut bus, devices, .. }) = machine.pci.as_ref().and_then(Behind::new) {
        devices.for_each(|device| bus.disable(device));
    }
    machine.slots.iter().all(|slot| {
        let Some(registers) = registers(slot.registers) else { return true };
        match slot.kind {
            // SAFETY: as in `in_slot`; the one hart that runs uses the device no more.
            SlotKind::VirtioMmio => match unsafe { mmio::MmioTransport::new(registers) } {
                Ok(mut transport) => reset(&mut transport),
                Err(_) => true,
            },
            SlotKind::Gem { .. } => {
                // SAFETY: as in `in_slot`; the one hart that runs uses the card no more.
                gem::rest(unsafe { Mmio::new(registers) });
                true
            }
        }
    })
}

/// The tree says that a card there sees memory as harts do.
fn usable(problem: Option<TreeError>) -> Result<(), CardError> {
    problem.map_or(Ok(()), |problem| Err(CardError::Tree(problem)))
}

fn virtio<H: Hal>(transport: Transport) -> Tried<H> {
    VirtioNet::new(transport).map(Either::First).map_err(CardError::Virtio)
}

/// The registers of a network card, behind either transport.
type Transport = Either<mmio::MmioTransport, pci::PciTransport>;

/// The network card in a slot, if there is one.
fn in_slot<H: Hal>(slot: &CardSlot) -> Option<Tried<H>> {
    let registers = registers(slot.registers)?;
    match slot.kind {
        SlotKind::VirtioMmio => {
            // SAFETY: the tree says that a virtio-mmio slot is there, and translation maps it as device memory. The node
            // asks each slot once.
            let transport = unsafe { mmio::MmioTransport::new(registers) }.ok()?;
            (transport.device_id() == NETWORK_CARD).then(|| {
                usable(slot.problem)?;
                virtio(Either::First(transport))
            })
        }
        SlotKind::Gem { coherent, mtu, station } => {
            if let Err(problem) = usable(slot.problem) {
                return Some(Err(problem));
            }
            let banks = arch::machine()?.banks.iter();
            let memory_end = banks.map(|bank| bank.region.end() as u64).max()?;
            // SAFETY: the tree says that a GEM is there, and translation maps it as device memory. The node asks each slot
            // once.
            let bus = unsafe { Mmio::new(registers) };
            let card = Gem::new(bus, gem::GemSetup { mtu, station, coherent, memory_end });
            Some(card.map(|gem| Either::Second(Either::First(gem))).map_err(CardError::Gem))
        }
    }
}

impl Behind {
    fn new(host: &'static PciHost) -> Option<Self> {
        // SAFETY: the tree says that the space is there, translation maps as much of it as device memory, and this is the
        // only one that is made.
        let space = unsafe { Ecam::new(registers(host.configuration)?) };
        let base = registers(host.window)?;
        let window = Aperture { base, on_bus: host.on_bus, bytes: host.window.bytes as u32 };
        Some(Self { bus: PciBus::new(space, window), host, devices: 0..DEVICES })
    }

    /// The next network card.
    fn next<H: Hal>(&mut self) -> Option<Result<Found<H>, CardError>> {
        let Self { bus, host, devices } = self;
        let is_card = |id| pci::is_network_card(id) || e1000e::is_e1000e(id);
        let device = devices.find(|&device| bus.id(device).is_some_and(is_card))?;
        if let Err(problem) = usable(host.problem) {
            return Some(Err(problem));
        }
        let pin = bus.pin(device).and_then(|pin| host.interrupts.find(device, pin));
        // Before the card is told to send messages: from then on it does without its pin.
        let reserved = host.sender(device).and_then(reserve);
        let card = if bus.id(device).is_some_and(e1000e::is_e1000e) {
            intel(bus, device, reserved.is_some())
        } else {
            virtio_behind(bus, device, reserved.is_some())
        };
        Some(card.and_then(|(card, message)| {
            let (interrupt, way) = match (message, reserved) {
                (Some(entry), Some((mailbox, interrupt))) => {
                    mailbox.open(entry);
                    (interrupt, "msi-x")
                }
                _ => (pin.ok_or(CardError::Deaf)?, "intx"),
            };
            Ok(Found { card, interrupt, way })
        }))
    }
}

/// A message for a card that is called so where it goes; none if the controller takes no more.
fn reserve(device: u32) -> Option<Reserved> {
    let mailbox: &'static Mailbox = Box::leak(Box::default());
    match add_sender(mailbox, device) {
        Ok(interrupt) => Some((mailbox, interrupt)),
        Err(error) => {
            defmt::warn!(
                "a card interrupts by its pin, as the controller does not take its messages: {=str}",
                error.words()
            );
            None
        }
    }
}

/// A card behind PCI, and the place of its message, if it is to interrupt by one and can.
type Placed<H> = Result<(Card<H>, Option<MessageEntry>), CardError>;

fn intel<H: Hal>(bus: &mut PciBus<Ecam>, device: u8, by_message: bool) -> Placed<H> {
    let (registers, message) = e1000e::find(bus, device, by_message).map_err(CardError::E1000e)?;
    let card = E1000e::new(registers).map_err(CardError::E1000e)?;
    let card = if message.is_some() { card.by_message() } else { card };
    Ok((Either::Second(Either::Second(card)), message))
}

fn virtio_behind<H: Hal>(bus: &mut PciBus<Ecam>, device: u8, by_message: bool) -> Placed<H> {
    let transport = pci::PciTransport::new(bus, device, by_message).map_err(CardError::Virtio)?;
    let message = transport.message();
    Ok((virtio(Either::Second(transport))?, message))
}
