//! The link: what the transceiver behind a GEM agreed on with the other side (IEEE 802.3, clauses 22 and 28).
//!
//! Only registers that every transceiver has are used. What a board's own needs besides (delays of clocks, modes of its pins)
//! its firmware sets up.

use super::GemError;
use super::registers::{Config, Register};
use crate::nic::LinkMode;
use crate::registers::Bus;

/// So often a register is looked at until the management bus is idle.
const IDLE_LOOKS: u32 = 1 << 16;
/// So often the link is looked at until it is up: several seconds, at the speed of the management bus.
const LINK_LOOKS: u32 = if cfg!(miri) { 1 << 4 } else { 1 << 16 };
/// Addresses on the management bus.
const ADDRESSES: u8 = 32;

const CONTROL: u32 = 0;
const STATUS: u32 = 1;
const IDENTITY: u32 = 2;
const OFFERED: u32 = 4;
const PEER: u32 = 5;
const OFFERED_1000: u32 = 9;
const PEER_1000: u32 = 10;

/// In [`CONTROL`]: it negotiates, and is to do so again; it is switched off, or cut off from the card.
const NEGOTIATES: u16 = 1 << 12;
const AGAIN: u16 = 1 << 9;
const ASLEEP: u16 = 1 << 11 | 1 << 10;
/// In [`STATUS`]: it is up; both sides have agreed.
const UP: u16 = 1 << 2;
const AGREED: u16 = 1 << 5;
/// In the network status: the management bus is idle.
const IDLE: u32 = 1 << 2;

/// That of a link without a transceiver that could be asked.
const FIXED: LinkMode = LinkMode { speed: 1000, full_duplex: true };

/// The card's configuration for a link.
pub(super) fn config(link: LinkMode) -> Config {
    let speed = match link.speed {
        1000 => Config::SPEED_1000,
        100 => Config::SPEED_100,
        _ => Config::empty(),
    };
    if link.full_duplex { speed | Config::FULL_DUPLEX } else { speed }
}

/// A transceiver on the card's management bus. One hart at a time may ask it.
pub(super) struct Phy<B> {
    bus: B,
    address: u8,
}

impl<B: Bus<Register>> Phy<B> {
    /// That with this address, below [`ADDRESSES`].
    pub(super) fn new(bus: B, address: u8) -> Self {
        Self { bus, address }
    }

    fn read(&self, register: u32) -> Result<u16, GemError> {
        self.wait()?;
        self.bus.write(
            Register::PHY,
            1 << 30 | 2 << 28 | u32::from(self.address) << 23 | register << 18 | 2 << 16,
        );
        self.wait()?;
        Ok(self.bus.read(Register::PHY) as u16)
    }

    fn write(&self, register: u32, value: u16) -> Result<(), GemError> {
        self.wait()?;
        let what = 1 << 30 | 1 << 28 | u32::from(self.address) << 23 | register << 18 | 2 << 16;
        self.bus.write(Register::PHY, what | u32::from(value));
        Ok(())
    }

    fn wait(&self) -> Result<(), GemError> {
        let idle = (0..IDLE_LOOKS).any(|_| self.bus.read(Register::STATUS) & IDLE != 0);
        if idle { Ok(()) } else { Err(GemError::PhyBus) }
    }

    /// Whether one is there.
    fn is_there(&self) -> Result<bool, GemError> {
        let identity = self.read(IDENTITY)?;
        Ok(identity != 0 && identity != u16::MAX)
    }

    /// Wakes it if it sleeps; whoever set it up otherwise knew why.
    fn wake(&self) -> Result<(), GemError> {
        let control = self.read(CONTROL)?;
        if control & ASLEEP == 0 {
            return Ok(());
        }
        self.write(CONTROL, control & !ASLEEP | NEGOTIATES | AGAIN)
    }

    /// Whether the link is up, and agreed on where that is done.
    pub(super) fn is_up(&self) -> Result<bool, GemError> {
        // A link that was lost is told once, even if it is up again.
        self.read(STATUS)?;
        let status = self.read(STATUS)?;
        let negotiates = self.read(CONTROL)? & NEGOTIATES != 0;
        Ok(status & UP != 0 && (status & AGREED != 0 || !negotiates))
    }

    /// What the link is, once it is up: the best of what both sides offer.
    pub(super) fn link(&self) -> Result<LinkMode, GemError> {
        let control = self.read(CONTROL)?;
        if self.read(STATUS)? & AGREED == 0 {
            let speed = match (control >> 6 & 1, control >> 13 & 1) {
                (0, 0) => 10,
                (0, _) => 100,
                _ => 1000,
            };
            return Ok(LinkMode { speed, full_duplex: control >> 8 & 1 != 0 });
        }
        // The peer's bits lie two above those of this side.
        let gigabit = self.read(OFFERED_1000)? & self.read(PEER_1000)? >> 2;
        let both = self.read(OFFERED)? & self.read(PEER)?;
        let best = [
            (gigabit >> 9, 1000, true),
            (gigabit >> 8, 1000, false),
            (both >> 8, 100, true),
            (both >> 7, 100, false),
            (both >> 6, 10, true),
        ];
        let best = best.into_iter().find(|&(bit, _, _)| bit & 1 != 0);
        Ok(best.map_or(LinkMode { speed: 10, full_duplex: false }, |(_, speed, full_duplex)| LinkMode {
            speed,
            full_duplex,
        }))
    }
}

/// Waits until the link is up, and says what it is, and the transceiver's address, if there is one that can be asked.
///
/// # Errors
/// [`GemError::PhyBus`] and [`GemError::NoLink`].
pub(super) fn link<B: Bus<Register>>(bus: B) -> Result<(LinkMode, Option<u8>), GemError> {
    for address in 0..ADDRESSES {
        let phy = Phy::new(bus, address);
        if !phy.is_there()? {
            continue;
        }
        phy.wake()?;
        for _ in 0..LINK_LOOKS {
            if phy.is_up()? {
                return Ok((phy.link()?, Some(address)));
            }
        }
        return Err(GemError::NoLink);
    }
    Ok((FIXED, None))
}
