//! Intel's 82574L, "e1000e", behind PCI (SPEC B-5, D-1, D-9).
//!
//! | module | what |
//! |---|---|
//! | `registers` | registers and their bits |
//! | `rings` | the rings of descriptors |
//! | `card` | its start, frames out and in, interrupts, errors |
//!
//! Why this one and not the 82576, "igb": both are Intel's, with descriptors of 16 bytes and heads and tails in
//! registers. QEMU has an igb from 8.0 on, and nodes are emulated by 7.2; cards of the 82574's class are the plug-in
//! card and the port of mainboards that one finds most, and one queue each way is all that a node uses.
//!
//! - Legacy descriptors. The frame's checksum is made and checked by the card, which drops frames that are damaged or
//!   for others.
//! - A frame that leaves is up to three descriptors, of which the last tells that it was sent. One that arrives lies in
//!   one buffer: the card is told of sizes that are powers of two, so frames have at most 4096 bytes.
//! - What is queued and lent becomes the card's at [`flush`](crate::nic::Nic::flush), by one write of a tail each.
//!   Buffers are told of by the dozen while the card has others.
//! - Polled, no register is read. Interrupts stay enabled from the first [`arm`](crate::nic::Nic::arm) on; what they
//!   told is cleared before rings are looked at for the last time, so one that comes later stays pending.
//! - Where there is a controller of messages it interrupts by one, whatever for, and is acknowledged all the same: it sends no
//!   other while it has told the same and was not.
//! - Every so often, and before a sleep, the card's status is looked at. One that has frames to send, and a link, and
//!   has not moved for long, is reset. Its frames come back as if they had been sent, those that came in and were not
//!   taken are lost: whoever needs them has a network that may lose some.

mod card;
mod registers;
mod rings;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod tests;

pub use card::{E1000e, E1000eInterrupt};
pub use registers::IntelRegister;

use crate::pci::{MessageEntry, PciBus, PciError, Space};
use crate::registers::{Block as _, Mmio};
use core::fmt;

/// Who makes them, and the kinds that are one card in two packages: 82574L and 82574LA.
const VENDOR: u16 = 0x8086;
const KINDS: [u16; 2] = [0x10d3, 0x10f6];

/// Whether a device with these vendor and kind is one.
pub fn is_e1000e((vendor, kind): (u16, u16)) -> bool {
    vendor == VENDOR && KINDS.contains(&kind)
}

/// A card on its bus: its registers, and, if it interrupts by a message, the place of that.
pub type FoundCard = (Mmio<IntelRegister>, Option<MessageEntry>);

/// The card `device` of `bus`, given addresses. If it is to interrupt by messages, and can, its pin is off, and its driver
/// [is to be told](E1000e::by_message).
///
/// # Errors
/// [`E1000eError::Pci`] and [`E1000eError::NoRegisters`].
pub fn find<S: Space>(bus: &mut PciBus<S>, device: u8, by_message: bool) -> Result<FoundCard, E1000eError> {
    let bars = bus.enable(device).map_err(E1000eError::Pci)?;
    let [registers, ..] = bars;
    let base = registers.and_then(|registers| registers.part(0, IntelRegister::BYTES as u32, 4));
    // SAFETY: the bus gave the card these addresses and nobody else; they hold as many registers, and stay.
    let registers = base.map(|base| unsafe { Mmio::new(base) }).ok_or(E1000eError::NoRegisters)?;
    Ok((registers, by_message.then(|| bus.send_messages(device, &bars)).flatten()))
}

/// Why a card cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum E1000eError {
    /// It has no addresses on its bus.
    Pci(PciError),
    /// Its registers are not behind its first BAR, or too few.
    NoRegisters,
    /// It does not come out of its reset.
    InReset,
    /// The link does not come up.
    NoLink,
}

impl fmt::Display for E1000eError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pci(error) => write!(f, "it has no place on its bus: {error}"),
            Self::NoRegisters => f.write_str("it does not say where its registers are"),
            Self::InReset => f.write_str("it does not come out of its reset"),
            Self::NoLink => f.write_str("its link does not come up"),
        }
    }
}

impl core::error::Error for E1000eError {}

/// What went wrong so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct E1000eFaults {
    /// Descriptors with a part of a frame, a damaged one, or a length that cannot be.
    pub descriptors: u64,
    /// Frames that were not sent, or may not have been.
    pub unsent: u64,
    /// Frames that the card dropped, as it had no buffer for long or was not fast enough.
    pub overruns: u64,
    /// Times that the card stood still and was reset.
    pub halts: u64,
}
