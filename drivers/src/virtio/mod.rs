//! virtio: the network card, its transports by memory-mapped registers and PCI, and the split virtqueue (SPEC D-1, B-5).
//!
//! | part | supported |
//! |---|---|
//! | transport | memory-mapped, and PCI, both modern (version 2; legacy is left alone) |
//! | queue | split, with event index; descriptors chained, not indirect |
//! | required features | `VERSION_1`, `RING_EVENT_IDX` |
//! | used if offered | `NET_F_MTU`, `NET_F_MAC`, `NET_F_STATUS` |

pub mod mmio;
mod net;
pub mod pci;
pub mod queue;
mod start;

#[cfg(test)]
mod devices;
#[cfg(test)]
pub(crate) mod fake;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod tests;

pub use crate::nic::{Acknowledge, Hal, Told};
pub use net::VirtioNet;
pub use start::{Negotiated, NetConfig, negotiate, reset};

use crate::either::{Either, each};
use crate::pci::PciError;
use bitflags::bitflags;
use core::fmt;
use queue::Addresses;

/// Offset of the low byte of the status in a network card's configuration, and the bit that says that its link is up.
const NET_STATUS_OFFSET: usize = 6;
const LINK_UP: u8 = 1;

/// The registers of a virtio device, whatever they lie behind.
pub trait Transport: Send + 'static {
    /// Acknowledges this device's interrupts.
    type Interrupt: Acknowledge;

    /// Which kind of device this is; 0 for none, 1 for a network card.
    fn device_id(&self) -> u32;
    /// Feature bits that the device offers.
    fn offered(&mut self) -> Features;
    /// Tells the device which features are used.
    fn accept(&mut self, features: Features);
    /// The device's status.
    fn status(&self) -> Status;
    /// Sets the device's status; an empty one resets it.
    fn set_status(&mut self, status: Status);
    /// Most entries that queue `index` may have; 0 if there is no such queue or it is in use.
    fn queue_max(&mut self, index: u16) -> u32;
    /// Gives the device a queue of `size` entries.
    fn set_queue(&mut self, index: u16, size: u16, addresses: Addresses);
    /// Tells the device that queue `index` has new entries.
    fn notify(&mut self, index: u16);
    /// A byte of the device's configuration.
    fn config_byte(&self, offset: usize) -> u8;
    /// Changes whenever the configuration does.
    fn config_generation(&self) -> u32;
    /// The handle that acknowledges interrupts, of a device whose features are accepted.
    fn interrupt(&self) -> Self::Interrupt;
}

/// A device behind one of two kinds of registers. Of what a message needs only [`notify`](Transport::notify) looks which.
impl<A: Transport, B: Transport> Transport for Either<A, B> {
    type Interrupt = Either<A::Interrupt, B::Interrupt>;

    fn device_id(&self) -> u32 {
        each!(self, device => device.device_id())
    }

    fn offered(&mut self) -> Features {
        each!(self, device => device.offered())
    }

    fn accept(&mut self, features: Features) {
        each!(self, device => device.accept(features));
    }

    fn status(&self) -> Status {
        each!(self, device => device.status())
    }

    fn set_status(&mut self, status: Status) {
        each!(self, device => device.set_status(status));
    }

    fn queue_max(&mut self, index: u16) -> u32 {
        each!(self, device => device.queue_max(index))
    }

    fn set_queue(&mut self, index: u16, size: u16, addresses: Addresses) {
        each!(self, device => device.set_queue(index, size, addresses));
    }

    #[inline]
    fn notify(&mut self, index: u16) {
        each!(self, device => device.notify(index));
    }

    fn config_byte(&self, offset: usize) -> u8 {
        each!(self, device => device.config_byte(offset))
    }

    fn config_generation(&self) -> u32 {
        each!(self, device => device.config_generation())
    }

    fn interrupt(&self) -> Self::Interrupt {
        match self {
            Self::First(device) => Either::First(device.interrupt()),
            Self::Second(device) => Either::Second(device.interrupt()),
        }
    }
}

bitflags! {
    /// Feature bits, those of the network card and those of every device.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Features: u64 {
        /// The device says how large frames may be.
        const NET_MTU = 1 << 3;
        /// The device has a MAC address.
        const NET_MAC = 1 << 5;
        /// The device says whether its link is up, and interrupts when that changes.
        const NET_STATUS = 1 << 16;
        /// Interrupts and notifications are asked for by ring index.
        const EVENT_IDX = 1 << 29;
        /// The modern layout.
        const VERSION_1 = 1 << 32;
        const _ = !0;
    }
}

bitflags! {
    /// How far driver and device got with each other.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Status: u32 {
        /// The driver saw the device.
        const ACKNOWLEDGE = 1;
        /// The driver knows how to drive it.
        const DRIVER = 2;
        /// The driver is ready: the device may use the queues.
        const DRIVER_OK = 4;
        /// Both agree on the features.
        const FEATURES_OK = 8;
        /// The device cannot go on until it is reset.
        const NEEDS_RESET = 64;
        /// The driver gave up.
        const FAILED = 128;
        const _ = !0;
    }
}

/// Why a device cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum VirtioError {
    /// The registers are not those of a virtio device.
    NotVirtio {
        /// What the magic register holds.
        magic: u32,
    },
    /// The device has the legacy layout, or one that is yet to come.
    Version(u32),
    /// The device has no addresses on its bus.
    Pci(PciError),
    /// The device does not say where this part of its registers lies, or it is too small.
    NoPart(u8),
    /// The device is none, or none of the kind that was wanted.
    WrongDevice {
        /// The device's kind.
        id: u32,
    },
    /// The device lacks features that the driver cannot do without.
    Lacks(Features),
    /// The device does not come out of its reset.
    InReset,
    /// The device did not take the features it offered.
    Refused,
    /// The device cannot go on until it is reset, and has said so before it ever ran.
    NeedsReset,
    /// The device's configuration never holds still.
    Unsteady,
    /// The device has no such queue, or it is too short.
    Queue {
        /// The queue's number.
        index: u16,
        /// The most entries it can have.
        max: u32,
    },
}

impl fmt::Display for VirtioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotVirtio { magic } => write!(f, "no virtio device here: magic {magic:#x}"),
            Self::Version(version) => write!(f, "virtio-mmio version {version}, wanted 2 (not legacy)"),
            Self::Pci(error) => write!(f, "the device has no place on its bus: {error}"),
            Self::NoPart(part) => write!(f, "the device has no registers of part {part}"),
            Self::WrongDevice { id } => write!(f, "virtio device {id}, wanted 1 (network)"),
            Self::Lacks(features) => write!(f, "the device lacks virtio features {:#x}", features.bits()),
            Self::InReset => f.write_str("the device does not come out of its reset"),
            Self::Refused => f.write_str("the device refused features that it had offered"),
            Self::NeedsReset => f.write_str("the device wants to be reset as soon as it was"),
            Self::Unsteady => f.write_str("the device's configuration changes whenever it is read"),
            Self::Queue { index, max } => write!(f, "queue {index} takes {max} entries, too few"),
        }
    }
}

impl core::error::Error for VirtioError {}
