//! virtio over PCI (virtio 1.2, section 4.1), with the interrupt of a pin, or one message for all that it has to tell. By hand:
//! `virtio-drivers`' transport sets up no messages, and a kick of its takes three accesses.

use super::queue::Addresses;
use super::{Acknowledge, Features, LINK_UP, NET_STATUS_OFFSET, Status, Told, Transport, VirtioError};
use crate::pci::{MessageEntry, PciBus, Registers, Space};
use alloc::boxed::Box;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use volatile::access::{ReadOnly, WriteOnly};
use volatile::{VolatileFieldAccess, VolatilePtr, VolatileRef};

/// Who makes virtio devices.
const VENDOR: u16 = 0x1af4;
/// Kinds of devices follow, the number of the kind on this.
const MODERN: u16 = 0x1040;
/// A network card that can be driven in the legacy way as well.
const TRANSITIONAL_NETWORK: u16 = 0x1000;
/// Capability that says where a part of the registers lies.
const PART: u8 = 9;
/// Queues that a transport tells of new entries.
const QUEUES: usize = 2;

/// The message for everything, the first of the device's.
const VECTOR: u16 = 0;

/// The parts, by the number that their capability has.
mod part {
    pub const COMMON: u8 = 1;
    pub const NOTIFY: u8 = 2;
    pub const INTERRUPT: u8 = 3;
    pub const CONFIG: u8 = 4;
}

#[repr(C)]
#[derive(VolatileFieldAccess)]
struct Common {
    #[access(WriteOnly)]
    device_features_sel: u32,
    #[access(ReadOnly)]
    device_features: u32,
    #[access(WriteOnly)]
    driver_features_sel: u32,
    #[access(WriteOnly)]
    driver_features: u32,
    msix_config: u16,
    #[access(ReadOnly)]
    queues: u16,
    status: u8,
    #[access(ReadOnly)]
    config_generation: u8,
    #[access(WriteOnly)]
    queue_sel: u16,
    queue_size: u16,
    queue_msix_vector: u16,
    queue_enable: u16,
    #[access(ReadOnly)]
    queue_notify: u16,
    #[access(WriteOnly)]
    descriptors_low: u32,
    #[access(WriteOnly)]
    descriptors_high: u32,
    #[access(WriteOnly)]
    available_low: u32,
    #[access(WriteOnly)]
    available_high: u32,
    #[access(WriteOnly)]
    used_low: u32,
    #[access(WriteOnly)]
    used_high: u32,
}

const _: () = {
    assert!(core::mem::offset_of!(Common, status) == 20);
    assert!(core::mem::offset_of!(Common, queue_notify) == 30);
    assert!(size_of::<Common>() == 56);
};

/// The registers of one device.
pub struct PciTransport {
    kind: u32,
    common: VolatileRef<'static, Common>,
    config: Option<Registers>,
    /// Where queues are told of new entries, and how far apart two of them are.
    notify: Registers,
    stride: u32,
    doorbells: [Option<NonNull<u16>>; QUEUES],
    interrupt: PciInterrupt,
    message: Option<MessageEntry>,
}

// SAFETY: its pointers are to registers that only it and its interrupt's handles use, from any hart.
unsafe impl Send for PciTransport {}

/// Acknowledges the interrupts of one device, from any hart.
#[derive(Clone, Copy)]
pub struct PciInterrupt {
    /// What the device interrupts for: reading it takes the line back, and all that it tells.
    pending: NonNull<u8>,
    common: NonNull<Common>,
    news: &'static News,
    /// It sends messages: there is no line to take back, and nothing is pending.
    by_message: bool,
}

/// What a device's interrupt is also about.
struct News {
    /// That the configuration changed, if it was told to one that only wanted the line back.
    changed: AtomicBool,
    /// Where the device says that its link is up; null if it does not.
    link: AtomicPtr<u8>,
    /// Whether it was up when a message was last served.
    was_up: AtomicBool,
}

// SAFETY: it reads a register whose reading is the device's to order, and the status and the configuration, which has no
// effect; all are there for ever.
unsafe impl Send for PciInterrupt {}
// SAFETY: as above.
unsafe impl Sync for PciInterrupt {}

/// In what is pending: the configuration changed.
const CHANGED: u8 = 2;

impl PciInterrupt {
    fn take(&self) -> u8 {
        if self.by_message {
            return 0;
        }
        // SAFETY: `PciTransport::new` found the register among those of the device.
        unsafe { self.pending.as_ptr().read_volatile() }
    }
}

impl Acknowledge for PciInterrupt {
    fn acknowledge(&self) {
        if self.take() & CHANGED != 0 {
            self.news.changed.store(true, Ordering::Relaxed);
        }
    }

    fn serve(&self) -> Told {
        let changed = self.take() & CHANGED != 0;
        if !changed && !self.by_message && !self.news.changed.swap(false, Ordering::Relaxed) {
            return Told::Frames;
        }
        // SAFETY: as in `take`; reading the status has no effect.
        let common = unsafe { VolatilePtr::new(self.common) };
        let status = Status::from_bits_retain(u32::from(common.status().read()));
        if status.contains(Status::NEEDS_RESET) {
            return Told::Broken;
        }
        // A message does not say what it is about.
        let as_before = || {
            let is_up = self.link_is_up(true);
            self.news.was_up.swap(is_up, Ordering::Relaxed) == is_up
        };
        if self.by_message && as_before() { Told::Frames } else { Told::Changed }
    }

    fn link_is_up(&self, _was: bool) -> bool {
        let status = NonNull::new(self.news.link.load(Ordering::Relaxed));
        // SAFETY: `PciTransport::accept` found it among the device's registers; reading it has no effect.
        status.is_none_or(|status| unsafe { status.as_ptr().read_volatile() } & LINK_UP != 0)
    }
}

/// Whether a device with these vendor and kind is one of virtio's for a network.
pub fn is_network_card(id: (u16, u16)) -> bool {
    matches!(id, (VENDOR, kind) if kind == TRANSITIONAL_NETWORK || kind == MODERN + 1)
}

/// Where a capability says that a part lies, if there are so many bytes.
fn find<S: Space>(
    bus: &PciBus<S>,
    device: u8,
    bars: &[Option<Registers>],
    kind: u8,
    least: u32,
) -> Option<(u8, Registers)> {
    bus.capabilities(device, PART).find_map(|at| {
        if bus.byte(device, at.checked_add(3)?) != kind {
            return None;
        }
        let bar = (*bars.get(usize::from(bus.byte(device, at.checked_add(4)?)))?)?;
        let offset = bus.word(device, at.checked_add(8)?);
        let bytes = bus.word(device, at.checked_add(12)?);
        let base = bar.part(offset, bytes, 4).filter(|_| bytes >= least)?;
        Some((at, Registers { base, bytes }))
    })
}

/// Whether a device has the message for its queue `index`, which is chosen from then on.
fn gives_message(common: VolatilePtr<'_, Common>, index: u16) -> bool {
    common.queue_sel().write(index);
    common.queue_msix_vector().write(VECTOR);
    common.queue_msix_vector().read() == VECTOR
}

impl PciTransport {
    /// The virtio device `device` of `bus`, given addresses. If it is to interrupt by messages, and can for all of its queues, it
    /// does, by one whose place is [`message`](Self::message).
    ///
    /// # Errors
    /// [`VirtioError::Pci`], and [`VirtioError::NoPart`] if its capabilities do not name all parts of its registers.
    pub fn new<S: Space>(bus: &mut PciBus<S>, device: u8, by_message: bool) -> Result<Self, VirtioError> {
        Self::with(bus, device, by_message, gives_message)
    }

    /// The same, if `gives` says whether the device has a message for a queue.
    fn with<S: Space>(
        bus: &mut PciBus<S>,
        device: u8,
        by_message: bool,
        gives: fn(VolatilePtr<'_, Common>, u16) -> bool,
    ) -> Result<Self, VirtioError> {
        let kind = match bus.id(device) {
            Some((VENDOR, TRANSITIONAL_NETWORK)) => 1,
            Some((VENDOR, kind)) => u32::from(kind.saturating_sub(MODERN)),
            _ => 0,
        };
        let bars = bus.enable(device).map_err(VirtioError::Pci)?;
        let part = |kind, least| find(bus, device, &bars, kind, least).ok_or(VirtioError::NoPart(kind));
        let (_, common) = part(part::COMMON, size_of::<Common>() as u32)?;
        let (at, notify) = part(part::NOTIFY, 2)?;
        let stride = at.checked_add(16).map_or(0, |at| bus.word(device, at));
        let (_, pending) = part(part::INTERRUPT, 1)?;
        let config = part(part::CONFIG, 1).ok().map(|(_, config)| config);
        let common = common.base.cast::<Common>();
        let news = News {
            changed: AtomicBool::new(false),
            link: AtomicPtr::new(null_mut()),
            was_up: AtomicBool::new(true),
        };
        let news = Box::leak(Box::new(news));
        // SAFETY: the bus gave the device these addresses and nobody else; they hold as many registers, aligned as the first
        // of them has to be, and stay.
        let mut registers = unsafe { VolatileRef::new(common) };
        let mut message = by_message.then(|| bus.send_messages(device, &bars)).flatten();
        // Asked now, as later there is no way back to the pin. What it says to that is forgotten when it is reset.
        if message.is_some() && !(0..QUEUES as u16).all(|queue| gives(registers.as_mut_ptr(), queue)) {
            bus.send_none(device);
            message = None;
        }
        Ok(Self {
            kind,
            common: registers,
            config,
            notify,
            stride,
            doorbells: [None; QUEUES],
            interrupt: PciInterrupt { pending: pending.base, common, news, by_message: message.is_some() },
            message,
        })
    }

    /// The place of the message that it interrupts by; `None` if it does so by its pin.
    pub fn message(&self) -> Option<MessageEntry> {
        self.message
    }

    /// Where the chosen queue is told of new entries.
    fn doorbell(&self) -> Option<NonNull<u16>> {
        let place = u32::from(self.common.as_ptr().queue_notify().read());
        self.notify.part(place.checked_mul(self.stride)?, 2, 2).map(NonNull::cast)
    }
}

impl Transport for PciTransport {
    type Interrupt = PciInterrupt;

    fn device_id(&self) -> u32 {
        self.kind
    }

    fn offered(&mut self) -> Features {
        let common = self.common.as_mut_ptr();
        common.device_features_sel().write(0);
        let low = common.device_features().read();
        common.device_features_sel().write(1);
        let high = common.device_features().read();
        Features::from_bits_retain(u64::from(high) << 32 | u64::from(low))
    }

    fn accept(&mut self, features: Features) {
        let common = self.common.as_mut_ptr();
        common.driver_features_sel().write(0);
        common.driver_features().write(features.bits() as u32);
        common.driver_features_sel().write(1);
        common.driver_features().write((features.bits() >> 32) as u32);
        let status = || self.config?.part(NET_STATUS_OFFSET as u32, 1, 1);
        let status = features.contains(Features::NET_STATUS).then(status).flatten();
        self.interrupt.news.link.store(status.map_or(null_mut(), NonNull::as_ptr), Ordering::Relaxed);
        if self.message.is_some() {
            // A device that has no message for that is asked now and then, as all are.
            self.common.as_mut_ptr().msix_config().write(VECTOR);
        }
    }

    fn status(&self) -> Status {
        Status::from_bits_retain(u32::from(self.common.as_ptr().status().read()))
    }

    fn set_status(&mut self, status: Status) {
        self.common.as_mut_ptr().status().write(status.bits() as u8);
    }

    // A queue that cannot be told of new entries is none, nor is one that cannot tell of what it has done.
    fn queue_max(&mut self, index: u16) -> u32 {
        let common = self.common.as_mut_ptr();
        common.queue_sel().write(index);
        if self.message.is_some() && !gives_message(common, index) {
            return 0;
        }
        let free = common.queue_enable().read() == 0;
        let max = u32::from(common.queue_size().read());
        if free && usize::from(index) < QUEUES && self.doorbell().is_some() { max } else { 0 }
    }

    fn set_queue(&mut self, index: u16, size: u16, addresses: Addresses) {
        let common = self.common.as_mut_ptr();
        common.queue_sel().write(index);
        common.queue_size().write(size);
        common.descriptors_low().write(addresses.descriptors as u32);
        common.descriptors_high().write((addresses.descriptors >> 32) as u32);
        common.available_low().write(addresses.available as u32);
        common.available_high().write((addresses.available >> 32) as u32);
        common.used_low().write(addresses.used as u32);
        common.used_high().write((addresses.used >> 32) as u32);
        common.queue_enable().write(1);
        let doorbell = self.doorbell();
        if let Some(place) = self.doorbells.get_mut(usize::from(index)) {
            *place = doorbell;
        }
    }

    // Apart: what registers it takes are not missed where there is no PCI.
    #[inline(never)]
    fn notify(&mut self, index: u16) {
        if let Some(Some(doorbell)) = self.doorbells.get(usize::from(index)) {
            // SAFETY: `doorbell` found it among the device's registers, aligned.
            unsafe { doorbell.as_ptr().write_volatile(index) }
        }
    }

    fn config_byte(&self, offset: usize) -> u8 {
        let byte = self.config.and_then(|config| config.part(u32::try_from(offset).ok()?, 1, 1));
        // SAFETY: it lies among the device's registers, and reading its configuration has no effect.
        byte.map_or(0, |byte| unsafe { byte.as_ptr().read_volatile() })
    }

    fn config_generation(&self) -> u32 {
        u32::from(self.common.as_ptr().config_generation().read())
    }

    fn interrupt(&self) -> PciInterrupt {
        self.interrupt
    }
}

#[cfg(test)]
mod tests;
