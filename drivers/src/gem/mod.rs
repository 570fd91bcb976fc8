//! The Cadence Gigabit Ethernet MAC, "GEM" or "macb", as it is in Zynq UltraScale+, Versal and the FU540 (SPEC B-5, D-1, D-9).
//! By hand: `cadence-macb` sends a frame that is in one piece, and copies one that came in; others are parts of systems for the 32-bit
//! Zynq.
//!
//! | module | what |
//! |---|---|
//! | `registers` | registers and their bits |
//! | `rings` | the rings of descriptors |
//! | `phy` | the link |
//! | `card` | its start, frames out and in, interrupts, errors |
//!
//! - One queue each way; others of the card get a ring that is always empty.
//! - Addresses of 64 bits where the design has them. The frame's checksum is made and checked by the card, which drops frames
//!   that are damaged or for others.
//! - A frame that leaves is up to three descriptors. A buffer is given to the card four bytes before a frame's begin at most: the
//!   card itself places frames so that what is behind their header is aligned.
//! - What is queued and lent becomes the card's at [`flush`](crate::nic::Nic::flush), by one bit of a descriptor each.
//! - Polled, no register is read. Interrupts stay enabled from the first [`arm`](crate::nic::Nic::arm) on; what they told is cleared before
//!   rings are looked at for the last time, so one that comes later stays pending.
//! - Every so often, and before a sleep, the card's status is looked at. After an error in sending the ring begins anew, and its
//!   frames come back as if they had been sent: whoever needs them there has a network that may lose some. After an error in
//!   receiving, all buffers are given again in which no frame has come.

mod card;
mod phy;
mod registers;
mod rings;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod tests;

pub use card::{Gem, Interrupt, rest};
pub use registers::Register;

use core::fmt;

/// What the device tree says of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GemSetup {
    /// Most bytes of a frame behind its header, if it says so.
    pub mtu: Option<u16>,
    /// The card's own address, if it says so; else that is what a boot loader left in the card, if anything.
    pub station: Option<[u8; 6]>,
    /// Whether the card sees memory through the harts' caches.
    pub coherent: bool,
    /// All memory lies below this address.
    pub memory_end: u64,
}

/// Why a card cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GemError {
    /// The registers are not those of a GEM.
    NotGem {
        /// What the module register holds.
        module: u32,
    },
    /// The bus to the transceiver never rests.
    PhyBus,
    /// The link does not come up.
    NoLink,
    /// The card does not see the caches, and this board has no memory without.
    Incoherent,
    /// The card reaches the lower 4 GiB alone, and memory ends above.
    Reach {
        /// Where memory ends.
        memory_end: u64,
    },
}

impl fmt::Display for GemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NotGem { module } => write!(f, "no GEM here: module {module:#x}"),
            Self::PhyBus => f.write_str("the bus to its transceiver never rests"),
            Self::NoLink => f.write_str("its link does not come up"),
            Self::Incoherent => {
                f.write_str("it does not see the harts' caches, and there is no memory without")
            }
            Self::Reach { memory_end } => {
                write!(f, "it reaches 4 GiB, and memory ends at {memory_end:#x}")
            }
        }
    }
}

impl core::error::Error for GemError {}

/// What went wrong so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GemFaults {
    /// Descriptors with a part of a frame, or a length that cannot be.
    pub descriptors: u64,
    /// Frames that were not sent, or may not have been.
    pub unsent: u64,
    /// Times that frames came in faster than the card wrote them to memory.
    pub overruns: u64,
    /// Times that the bus refused the card's access for receiving.
    pub bus_errors: u64,
    /// Times that the card had no buffer left. Its frames wait then.
    pub dry: u64,
}
