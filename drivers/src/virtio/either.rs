//! A device behind one of two kinds of registers. Of what a message needs only [`notify`](Transport::notify) looks which.

use super::queue::Addresses;
use super::{Features, Status, Transport};
use crate::either::{Either, each};

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
