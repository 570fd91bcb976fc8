//! Bringing a network card up: features, then queues, then go.

use super::queue::Addresses;
use super::{Features, Hal, Status, Transport, VirtioError};

/// Device id of a network card.
const NETWORK: u32 = 1;
/// Offset of the MTU in a network card's configuration; the MAC address lies at 0.
const MTU_OFFSET: usize = 10;
/// So often the status of a device in reset is looked at: seconds, at the speed of the slowest register.
const RESET_LOOKS: u32 = if cfg!(miri) { 1 << 6 } else { 1 << 22 };
/// So often the configuration is read that changes while it is read.
const CONFIG_LOOKS: u32 = 1 << 10;

/// What a network card says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetConfig {
    /// Bytes that a frame may have behind its Ethernet header, if the device says so.
    pub mtu: Option<u16>,
    /// The device's own address, if it has one.
    pub mac: Option<[u8; 6]>,
}

/// A device that agreed on its features and waits for its queues. One that is dropped stays unused.
pub struct Negotiated<T: Transport> {
    transport: T,
    status: Status,
}

/// Resets a device, which forgets all memory that it was told of. False if it does not come out of reset.
pub fn reset(transport: &mut impl Transport) -> bool {
    transport.set_status(Status::empty());
    (0..RESET_LOOKS).any(|_| {
        core::hint::spin_loop();
        transport.status().is_empty()
    })
}

/// Resets a network card and agrees with it on features.
///
/// # Errors
/// [`VirtioError::WrongDevice`], [`VirtioError::InReset`], [`VirtioError::Lacks`], [`VirtioError::Refused`],
/// [`VirtioError::NeedsReset`] and [`VirtioError::Unsteady`].
pub fn negotiate<T: Transport>(mut transport: T) -> Result<(Negotiated<T>, NetConfig), VirtioError> {
    let id = transport.device_id();
    if id != NETWORK {
        return Err(VirtioError::WrongDevice { id });
    }
    if !reset(&mut transport) {
        return Err(VirtioError::InReset);
    }
    let mut status = Status::ACKNOWLEDGE | Status::DRIVER;
    transport.set_status(status);

    let required = Features::VERSION_1 | Features::EVENT_IDX;
    let offered = transport.offered();
    if !offered.contains(required) {
        transport.set_status(status | Status::FAILED);
        return Err(VirtioError::Lacks(required.difference(offered)));
    }
    let features =
        required | offered.intersection(Features::NET_MTU | Features::NET_MAC | Features::NET_STATUS);
    transport.accept(features);
    status |= Status::FEATURES_OK;
    transport.set_status(status);
    let agreed = transport.status();
    let config = if agreed.contains(Status::NEEDS_RESET) {
        Err(VirtioError::NeedsReset)
    } else if !agreed.contains(Status::FEATURES_OK) {
        Err(VirtioError::Refused)
    } else {
        read_config(&transport, features).ok_or(VirtioError::Unsteady)
    };
    match config {
        Ok(config) => Ok((Negotiated { transport, status }, config)),
        Err(error) => {
            transport.set_status(status | Status::FAILED);
            Err(error)
        }
    }
}

/// Reads the configuration, again if it changes meanwhile. `None` if it always does.
fn read_config<T: Transport>(transport: &T, features: Features) -> Option<NetConfig> {
    (0..CONFIG_LOOKS).find_map(|_| {
        let generation = transport.config_generation();
        let mac = core::array::from_fn(|i| transport.config_byte(i));
        let mtu = u16::from_le_bytes(core::array::from_fn(|i| transport.config_byte(MTU_OFFSET + i)));
        (transport.config_generation() == generation).then_some(NetConfig {
            mtu: features.contains(Features::NET_MTU).then_some(mtu),
            mac: features.contains(Features::NET_MAC).then_some(mac),
        })
    })
}

impl<T: Transport> Negotiated<T> {
    /// Gives the device queue `index`, whose rings are as the device is to find them.
    ///
    /// # Errors
    /// [`VirtioError::Queue`] if it cannot have that many entries.
    pub fn queue<H: Hal>(&mut self, index: u16, size: u16, addresses: Addresses) -> Result<(), VirtioError> {
        let max = self.transport.queue_max(index);
        if max < u32::from(size) {
            self.transport.set_status(self.status | Status::FAILED);
            return Err(VirtioError::Queue { index, max });
        }
        // The rings were written to memory; the device may read them from the moment that the queue is ready.
        H::barrier();
        self.transport.set_queue(index, size, addresses);
        Ok(())
    }

    /// Lets the device run.
    ///
    /// # Errors
    /// [`VirtioError::NeedsReset`] if it does not.
    pub fn go<H: Hal>(mut self) -> Result<T, VirtioError> {
        // Whatever the device is to find in memory is there.
        H::barrier();
        self.transport.set_status(self.status | Status::DRIVER_OK);
        if self.transport.status().contains(Status::NEEDS_RESET) {
            self.transport.set_status(self.status | Status::FAILED);
            return Err(VirtioError::NeedsReset);
        }
        Ok(self.transport)
    }
}
