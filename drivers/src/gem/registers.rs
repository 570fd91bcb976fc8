//! The registers of a Cadence GEM, and what their bits mean.

use crate::registers::Block;
use bitflags::bitflags;

/// Bytes of the register block that are used.
const BLOCK: usize = 0x800;

/// A register, by its offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Register(u16);

impl Register {
    pub(crate) const CONTROL: Self = Self(0x00);
    pub(crate) const CONFIG: Self = Self(0x04);
    pub(crate) const STATUS: Self = Self(0x08);
    pub(crate) const DMA_CONFIG: Self = Self(0x10);
    pub(crate) const TRANSMIT_STATUS: Self = Self(0x14);
    pub(crate) const RECEIVE_RING: Self = Self(0x18);
    pub(crate) const TRANSMIT_RING: Self = Self(0x1c);
    pub(crate) const RECEIVE_STATUS: Self = Self(0x20);
    pub(crate) const INTERRUPT_STATUS: Self = Self(0x24);
    pub(crate) const INTERRUPT_ENABLE: Self = Self(0x28);
    pub(crate) const INTERRUPT_DISABLE: Self = Self(0x2c);
    pub(crate) const PHY: Self = Self(0x34);
    pub(crate) const JUMBO_LENGTH: Self = Self(0x48);
    pub(crate) const MODULE: Self = Self(0xfc);
    pub(crate) const DESIGN_1: Self = Self(0x280);
    pub(crate) const DESIGN_2: Self = Self(0x284);
    pub(crate) const DESIGN_6: Self = Self(0x294);
    pub(crate) const TRANSMIT_RING_HIGH: Self = Self(0x4c8);
    pub(crate) const RECEIVE_RING_HIGH: Self = Self(0x4d4);

    /// Address `number` of those that it takes frames for, below 4: its first four bytes, then the others. It counts from the
    /// latter's writing on.
    pub(crate) const fn address(number: u16) -> [Self; 2] {
        let low = 0x88 + 8 * (number & 3);
        [Self(low), Self(low + 4)]
    }

    /// The transmit ring of queue `queue`, from 1 to 7.
    pub(crate) const fn transmit_ring_of(queue: u16) -> Self {
        Self(0x440 + 4 * ((queue - 1) & 7))
    }

    /// The receive ring of queue `queue`, from 1 to 7.
    pub(crate) const fn receive_ring_of(queue: u16) -> Self {
        Self(0x480 + 4 * ((queue - 1) & 7))
    }

    /// Disables interrupts of queue `queue`, from 1 to 7.
    pub(crate) const fn interrupt_disable_of(queue: u16) -> Self {
        Self(0x620 + 4 * ((queue - 1) & 7))
    }
}

impl Block for Register {
    const BYTES: usize = BLOCK;

    fn offset(self) -> usize {
        usize::from(self.0)
    }
}

bitflags! {
    /// Network control.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Control: u32 {
        const RECEIVE = 1 << 2;
        const TRANSMIT = 1 << 3;
        const PHY = 1 << 4;
        const CLEAR_STATISTICS = 1 << 5;
        /// Has the card read its transmit ring on.
        const START = 1 << 9;
    }

    /// Network configuration.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Config: u32 {
        const SPEED_100 = 1 << 0;
        const FULL_DUPLEX = 1 << 1;
        const JUMBO = 1 << 3;
        const NO_BROADCAST = 1 << 5;
        const SPEED_1000 = 1 << 10;
        /// Frames come in without their checksum.
        const STRIP_CHECKSUM = 1 << 17;
        /// What link both sides agreed on.
        const MODE = 1 << 0 | 1 << 1 | 1 << 10;
        const _ = !0;
    }

    /// Transmit status; what is written is cleared.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Transmitted: u32 {
        const RETRIES_EXCEEDED = 1 << 2;
        /// The card is at it.
        const GOING = 1 << 3;
        const RING_ERROR = 1 << 4;
        const UNDERRUN = 1 << 6;
        const LATE_COLLISION = 1 << 7;
        const BUS_ERROR = 1 << 8;
        const ERRORS = Self::RETRIES_EXCEEDED.bits() | Self::RING_ERROR.bits() | Self::UNDERRUN.bits()
            | Self::LATE_COLLISION.bits() | Self::BUS_ERROR.bits();
    }

    /// Receive status; what is written is cleared.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Received: u32 {
        /// It came to a descriptor that is not its own.
        const NO_BUFFER = 1 << 0;
        const OVERRUN = 1 << 2;
        const BUS_ERROR = 1 << 3;
    }

    /// Interrupts of queue 0.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Interrupts: u32 {
        const RECEIVED = 1 << 1;
        const NO_BUFFER = 1 << 2;
        const UNDERRUN = 1 << 4;
        const RETRIES_EXCEEDED = 1 << 5;
        const RING_ERROR = 1 << 6;
        const SENT = 1 << 7;
        const OVERRUN = 1 << 10;
        const BUS_ERROR = 1 << 11;
        /// Those after which somebody has to look.
        const ERRORS = Self::NO_BUFFER.bits() | Self::UNDERRUN.bits() | Self::RETRIES_EXCEEDED.bits() | Self::RING_ERROR.bits()
            | Self::OVERRUN.bits() | Self::BUS_ERROR.bits();
    }
}
