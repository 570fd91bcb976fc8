//! virtio by memory-mapped registers, version 2 (virtio 1.2, section 4.2).

use super::queue::Addresses;
use super::{Acknowledge, Features, LINK_UP, NET_STATUS_OFFSET, Status, Told, Transport, VirtioError};
use core::ptr::NonNull;
use volatile::access::{ReadOnly, WriteOnly};
use volatile::{VolatileFieldAccess, VolatilePtr, VolatileRef};

/// "virt", little-endian.
const MAGIC: u32 = 0x7472_6976;
/// The modern layout.
const VERSION: u32 = 2;
/// Bytes of configuration that are mapped behind the registers.
const CONFIG_BYTES: usize = 0x100;

#[repr(C)]
#[derive(VolatileFieldAccess)]
struct Registers {
    #[access(ReadOnly)]
    magic: u32,
    #[access(ReadOnly)]
    version: u32,
    #[access(ReadOnly)]
    device_id: u32,
    #[access(ReadOnly)]
    vendor_id: u32,
    #[access(ReadOnly)]
    device_features: u32,
    #[access(WriteOnly)]
    device_features_sel: u32,
    _at_18: [u32; 2],
    #[access(WriteOnly)]
    driver_features: u32,
    #[access(WriteOnly)]
    driver_features_sel: u32,
    _at_28: [u32; 2],
    #[access(WriteOnly)]
    queue_sel: u32,
    #[access(ReadOnly)]
    queue_num_max: u32,
    #[access(WriteOnly)]
    queue_num: u32,
    _at_3c: [u32; 2],
    queue_ready: u32,
    _at_48: [u32; 2],
    #[access(WriteOnly)]
    queue_notify: u32,
    _at_54: [u32; 3],
    #[access(ReadOnly)]
    interrupt_status: u32,
    #[access(WriteOnly)]
    interrupt_ack: u32,
    _at_68: [u32; 2],
    status: u32,
    _at_74: [u32; 3],
    #[access(WriteOnly)]
    queue_descriptors: [u32; 2],
    _at_88: [u32; 2],
    #[access(WriteOnly)]
    queue_available: [u32; 2],
    _at_98: [u32; 2],
    #[access(WriteOnly)]
    queue_used: [u32; 2],
    _at_a8: [u32; 21],
    #[access(ReadOnly)]
    config_generation: u32,
    #[access(ReadOnly)]
    config: [u8; CONFIG_BYTES],
}

const _: () = {
    assert!(core::mem::offset_of!(Registers, queue_notify) == 0x50);
    assert!(core::mem::offset_of!(Registers, interrupt_status) == 0x60);
    assert!(core::mem::offset_of!(Registers, status) == 0x70);
    assert!(core::mem::offset_of!(Registers, queue_used) == 0xa0);
    assert!(core::mem::offset_of!(Registers, config) == 0x100);
};

/// The registers of one device.
pub struct MmioTransport {
    registers: VolatileRef<'static, Registers>,
    /// Whether it says that its link is up.
    tells_link: bool,
}

/// Acknowledges the interrupts of one device, from any hart.
#[derive(Clone, Copy)]
pub struct MmioInterrupt {
    registers: NonNull<Registers>,
    tells_link: bool,
}

// SAFETY: it reads the status and the configuration and touches only the two interrupt registers, by single aligned accesses
// that the device takes in any order from any hart; the memory is never ordinary memory and never goes away.
unsafe impl Send for MmioInterrupt {}
// SAFETY: as above.
unsafe impl Sync for MmioInterrupt {}

/// In the interrupt registers: the device has used buffers.
const USED: u32 = 1;

impl MmioInterrupt {
    fn registers(&self) -> VolatilePtr<'_, Registers> {
        // SAFETY: `MmioTransport::new` was promised a register block that stays mapped. The transport itself never
        // touches the interrupt registers, and reading the status and the configuration has no effect.
        unsafe { VolatilePtr::new(self.registers) }
    }
}

impl Acknowledge for MmioInterrupt {
    // A change of the configuration stays for whoever serves the device.
    fn acknowledge(&self) {
        self.registers().interrupt_ack().write(USED);
    }

    // That it cannot go on, the device says by a change of its configuration.
    fn serve(&self) -> Told {
        let registers = self.registers();
        let pending = registers.interrupt_status().read();
        registers.interrupt_ack().write(pending);
        if pending & !USED == 0 {
            return Told::Frames;
        }
        let broken = Status::from_bits_retain(registers.status().read()).contains(Status::NEEDS_RESET);
        if broken { Told::Broken } else { Told::Changed }
    }

    fn link_is_up(&self, _was: bool) -> bool {
        !self.tells_link || config_byte(self.registers().config(), NET_STATUS_OFFSET) & LINK_UP != 0
    }
}

impl MmioTransport {
    /// The device whose registers begin at `base`.
    ///
    /// # Errors
    /// [`VirtioError::NotVirtio`] and [`VirtioError::Version`]. An empty slot is no error here: its device id is 0.
    ///
    /// # Safety
    /// `base` is the device address of a virtio-mmio register block (512 bytes, aligned to 4), mapped as device
    /// memory for ever, and nothing else uses it.
    pub unsafe fn new(base: NonNull<u8>) -> Result<Self, VirtioError> {
        // SAFETY: promised by the caller.
        let registers = unsafe { VolatileRef::new(base.cast::<Registers>()) };
        let view = registers.as_ptr();
        let magic = view.magic().read();
        if magic != MAGIC {
            return Err(VirtioError::NotVirtio { magic });
        }
        let version = view.version().read();
        if version != VERSION {
            return Err(VirtioError::Version(version));
        }
        Ok(Self { registers, tells_link: false })
    }
}

/// A byte of the configuration.
fn config_byte(config: VolatilePtr<'_, [u8; CONFIG_BYTES], ReadOnly>, offset: usize) -> u8 {
    if offset >= CONFIG_BYTES {
        return 0;
    }
    // SAFETY: `offset` is inside the array.
    let byte: VolatilePtr<'_, u8, ReadOnly> = unsafe {
        config.map(|pointer| NonNull::new_unchecked(pointer.as_ptr().cast::<u8>().wrapping_add(offset)))
    };
    byte.read()
}

/// Writes a 64-bit address to a pair of registers, low half first.
fn write_address(pair: VolatilePtr<'_, [u32; 2], WriteOnly>, address: u64) {
    let half = |index: usize| {
        // SAFETY: stays inside the pair, and keeps its access.
        unsafe {
            pair.map(|pointer| NonNull::new_unchecked(pointer.as_ptr().cast::<u32>().wrapping_add(index)))
        }
    };
    half(0).write(address as u32);
    half(1).write((address >> 32) as u32);
}

impl Transport for MmioTransport {
    type Interrupt = MmioInterrupt;

    fn device_id(&self) -> u32 {
        self.registers.as_ptr().device_id().read()
    }

    fn offered(&mut self) -> Features {
        let registers = self.registers.as_mut_ptr();
        registers.device_features_sel().write(0);
        let low = registers.device_features().read();
        registers.device_features_sel().write(1);
        let high = registers.device_features().read();
        Features::from_bits_retain(u64::from(high) << 32 | u64::from(low))
    }

    fn accept(&mut self, features: Features) {
        let registers = self.registers.as_mut_ptr();
        registers.driver_features_sel().write(0);
        registers.driver_features().write(features.bits() as u32);
        registers.driver_features_sel().write(1);
        registers.driver_features().write((features.bits() >> 32) as u32);
        self.tells_link = features.contains(Features::NET_STATUS);
    }

    fn status(&self) -> Status {
        Status::from_bits_retain(self.registers.as_ptr().status().read())
    }

    fn set_status(&mut self, status: Status) {
        self.registers.as_mut_ptr().status().write(status.bits());
    }

    fn queue_max(&mut self, index: u16) -> u32 {
        let registers = self.registers.as_mut_ptr();
        registers.queue_sel().write(u32::from(index));
        if registers.queue_ready().read() != 0 { 0 } else { registers.queue_num_max().read() }
    }

    fn set_queue(&mut self, index: u16, size: u16, addresses: Addresses) {
        let registers = self.registers.as_mut_ptr();
        registers.queue_sel().write(u32::from(index));
        registers.queue_num().write(u32::from(size));
        write_address(registers.queue_descriptors(), addresses.descriptors);
        write_address(registers.queue_available(), addresses.available);
        write_address(registers.queue_used(), addresses.used);
        registers.queue_ready().write(1);
    }

    fn notify(&mut self, index: u16) {
        self.registers.as_mut_ptr().queue_notify().write(u32::from(index));
    }

    fn config_byte(&self, offset: usize) -> u8 {
        config_byte(self.registers.as_ptr().config(), offset)
    }

    fn config_generation(&self) -> u32 {
        self.registers.as_ptr().config_generation().read()
    }

    fn interrupt(&self) -> MmioInterrupt {
        MmioInterrupt { registers: self.registers.as_ptr().as_raw_ptr(), tells_link: self.tells_link }
    }
}
