//! Bringing a network card up: features, then queues, then go.

use super::queue::Addresses;
use super::{Features, Status, Transport, VirtioError};

/// Device id of a network card.
const NETWORK: u32 = 1;
/// Offset of the MTU in a network card's configuration; the MAC address lies at 0.
const MTU_OFFSET: usize = 10;

/// What a network card says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NetConfig {
    /// Bytes that a frame may have behind its Ethernet header, if the device says so.
    pub mtu: Option<u16>,
    /// The device's own address, if it has one.
    pub mac: Option<[u8; 6]>,
}

/// A device that agreed on its features and waits for its queues. One that is dropped stays unused.
pub struct Setup<T: Transport> {
    transport: T,
    status: Status,
}

/// Resets a network card and agrees with it on features.
///
/// # Errors
/// [`VirtioError::WrongDevice`], [`VirtioError::Lacks`] and [`VirtioError::Refused`].
pub fn negotiate<T: Transport>(mut transport: T) -> Result<(Setup<T>, NetConfig), VirtioError> {
    let id = transport.device_id();
    if id != NETWORK {
        return Err(VirtioError::WrongDevice { id });
    }
    transport.set_status(Status::empty());
    while !transport.status().is_empty() {
        core::hint::spin_loop();
    }
    let mut status = Status::ACKNOWLEDGE | Status::DRIVER;
    transport.set_status(status);

    let required = Features::VERSION_1 | Features::EVENT_IDX;
    let offered = transport.offered();
    if !offered.contains(required) {
        transport.set_status(status | Status::FAILED);
        return Err(VirtioError::Lacks(required.difference(offered)));
    }
    let features = required | offered.intersection(Features::NET_MTU | Features::NET_MAC);
    transport.accept(features);
    status |= Status::FEATURES_OK;
    transport.set_status(status);
    if !transport.status().contains(Status::FEATURES_OK) {
        transport.set_status(status | Status::FAILED);
        return Err(VirtioError::Refused);
    }
    let config = read_config(&transport, features);
    Ok((Setup { transport, status }, config))
}

/// Reads the configuration as often as it takes for it not to change meanwhile.
fn read_config<T: Transport>(transport: &T, features: Features) -> NetConfig {
    loop {
        let generation = transport.config_generation();
        let mac = core::array::from_fn(|i| transport.config_byte(i));
        let mtu = u16::from_le_bytes(core::array::from_fn(|i| transport.config_byte(MTU_OFFSET + i)));
        if transport.config_generation() == generation {
            return NetConfig {
                mtu: features.contains(Features::NET_MTU).then_some(mtu),
                mac: features.contains(Features::NET_MAC).then_some(mac),
            };
        }
    }
}

impl<T: Transport> Setup<T> {
    /// Gives the device queue `index`.
    ///
    /// # Errors
    /// [`VirtioError::Queue`] if it cannot have that many entries.
    pub fn queue(&mut self, index: u16, size: u16, addresses: Addresses) -> Result<(), VirtioError> {
        let max = self.transport.queue_max(index);
        if max < u32::from(size) {
            self.transport.set_status(self.status | Status::FAILED);
            return Err(VirtioError::Queue { index, max });
        }
        self.transport.set_queue(index, size, addresses);
        Ok(())
    }

    /// Lets the device run.
    pub fn go(mut self) -> T {
        self.transport.set_status(self.status | Status::DRIVER_OK);
        self.transport
    }
}
