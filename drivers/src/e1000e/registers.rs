//! The registers of an 82574L, and what their bits mean.

use crate::registers::Block;
use bitflags::bitflags;

/// A register, by its offset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct IntelRegister(u32);

impl IntelRegister {
    pub(crate) const CONTROL: Self = Self(0x0000);
    pub(crate) const STATUS: Self = Self(0x0008);
    pub(crate) const EEPROM: Self = Self(0x0010);
    pub(crate) const MORE_CONTROL: Self = Self(0x0018);
    /// What it interrupts for. Reading clears it while it interrupts; what is written is cleared.
    pub(crate) const CAUSES: Self = Self(0x00c0);
    /// Least time between two interrupts.
    pub(crate) const THROTTLE: Self = Self(0x00c4);
    pub(crate) const ENABLE: Self = Self(0x00d0);
    pub(crate) const DISABLE: Self = Self(0x00d8);
    /// Causes that end to be told once a message has told them.
    pub(crate) const FORGOTTEN: Self = Self(0x00dc);
    /// Which message tells what.
    pub(crate) const VECTORS: Self = Self(0x00e4);
    /// Least time between two of the first.
    pub(crate) const VECTOR_THROTTLE: Self = Self(0x00e8);
    pub(crate) const RECEIVE: Self = Self(0x0100);
    pub(crate) const TRANSMIT: Self = Self(0x0400);
    /// The gap between frames.
    pub(crate) const GAP: Self = Self(0x0410);
    pub(crate) const RECEIVE_DELAY: Self = Self(0x2820);
    pub(crate) const RECEIVE_POLICY: Self = Self(0x2828);
    pub(crate) const RECEIVE_LATEST: Self = Self(0x282c);
    pub(crate) const TRANSMIT_POLICY: Self = Self(0x3828);
    /// Frames that had no place in the card. Reading clears it.
    pub(crate) const MISSED: Self = Self(0x4010);
    pub(crate) const RECEIVE_CHECKSUM: Self = Self(0x5000);

    pub(crate) const RECEIVE_RING: RingRegisters = RingRegisters(0x2800);
    pub(crate) const TRANSMIT_RING: RingRegisters = RingRegisters(0x3800);

    /// Entry `entry` of the table of multicast addresses, below [`MULTICASTS`].
    pub(crate) const fn multicast(entry: u32) -> Self {
        Self(0x5200 + 4 * (entry % MULTICASTS))
    }

    /// First four bytes of address `entry` that it takes frames for, below [`ADDRESSES`].
    pub(crate) const fn address_low(entry: u32) -> Self {
        Self(0x5400 + 8 * (entry % ADDRESSES))
    }

    /// The other two bytes, and [`VALID`].
    pub(crate) const fn address_high(entry: u32) -> Self {
        Self(0x5404 + 8 * (entry % ADDRESSES))
    }
}

/// Entries of the table of multicast addresses.
pub const MULTICASTS: u32 = 128;
/// Addresses that it takes frames for.
pub const ADDRESSES: u32 = 16;
/// With an address: it counts.
pub const VALID: u32 = 1 << 31;

impl Block for IntelRegister {
    const BYTES: usize = 0x2_0000;

    fn offset(self) -> usize {
        self.0 as usize
    }
}

/// The registers of one way's ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingRegisters(u32);

impl RingRegisters {
    /// Where its descriptors lie.
    pub(crate) const fn base(self) -> [IntelRegister; 2] {
        [IntelRegister(self.0), IntelRegister(self.0 + 4)]
    }

    /// Bytes of all of them, a multiple of 128.
    pub(crate) const fn bytes(self) -> IntelRegister {
        IntelRegister(self.0 + 8)
    }

    /// The card's next descriptor.
    pub(crate) const fn head(self) -> IntelRegister {
        IntelRegister(self.0 + 0x10)
    }

    /// The first behind that which is not the card's.
    pub(crate) const fn tail(self) -> IntelRegister {
        IntelRegister(self.0 + 0x18)
    }
}

bitflags! {
    /// Device control.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CardControl: u32 {
        const FULL_DUPLEX = 1 << 0;
        /// Reads and writes memory no more.
        const NO_MASTER = 1 << 2;
        /// Speed as the transceiver finds it.
        const DETECT_SPEED = 1 << 5;
        const LINK_UP = 1 << 6;
        /// Ends by itself.
        const RESET = 1 << 26;
    }

    /// Device status.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct CardStatus: u32 {
        const FULL_DUPLEX = 1 << 0;
        const LINK_UP = 1 << 1;
        const SPEED_100 = 1 << 6;
        const SPEED_1000 = 1 << 7;
        /// Reads and writes memory.
        const MASTER = 1 << 19;
        const _ = !0;
    }

    /// Causes.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Causes: u32 {
        const SENT = 1 << 0;
        const LINK = 1 << 2;
        const OVERRUN = 1 << 6;
        const RECEIVED = 1 << 7;
        /// What messages tell in the place of these: of the first ring to receive, of the first to transmit, and whatever else.
        const RECEIVE_RING = 1 << 20;
        const TRANSMIT_RING = 1 << 22;
        const OTHERS = 1 << 24;
    }

    /// Receive control.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct ReceiveControl: u32 {
        const ENABLE = 1 << 1;
        const JUMBO = 1 << 5;
        /// With this, the sizes below are 16 times as large.
        const SIXTEENFOLD = 1 << 25;
        /// Frames come in without their checksum.
        const STRIP_CHECKSUM = 1 << 26;
        const _ = !0;
    }

    /// Transmit control.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct TransmitControl: u32 {
        const ENABLE = 1 << 1;
        /// Short frames are filled up.
        const PAD = 1 << 3;
        /// Tries after a collision, and the time in which one is heard, at full duplex.
        const COLLISIONS = 15 << 4 | 63 << 12;
    }
}

/// In [`IntelRegister::EEPROM`]: what it holds was read.
pub const EEPROM_READ: u32 = 1 << 9;
/// In [`IntelRegister::MORE_CONTROL`]: interrupts are messages.
pub const BY_MESSAGE: u32 = 1 << 31;
/// In [`IntelRegister::VECTORS`]: the first message for the first rings and for what else there is, and for each frame that was sent.
pub const ONE_VECTOR: u32 = 1 << 31 | 8 << 16 | 8 << 8 | 8;
/// The gap of a copper line: 8 + 4 bytes between frames, and its parts at half duplex.
pub const COPPER_GAP: u32 = 8 | 8 << 10 | 6 << 20;
/// Of a ring: thresholds are in descriptors, and none is held back. A second bit is for the transmit ring alone, and is
/// to be set.
pub const AT_ONCE: u32 = 1 << 24;
pub const TRANSMIT_AT_ONCE: u32 = AT_ONCE | 1 << 22;

impl ReceiveControl {
    /// Buffers of `bytes`, a power of two from 256 to 4096.
    pub const fn buffers_of(bytes: usize) -> Self {
        let (unit, by) = if bytes > 2048 { (bytes / 16, Self::SIXTEENFOLD.bits()) } else { (bytes, 0) };
        // 0 is 2048, 3 is 256.
        Self::from_bits_retain((3 - (unit.ilog2() - 8)) << 16 | by)
    }
}
