//! What is counted wherever packets pass, of the torus and of the tree (SPEC X-4).

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Packets and their bytes (whole Ethernet frames).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Traffic {
    /// Number of packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// Counts one packet of so many bytes.
impl AddAssign<usize> for Traffic {
    fn add_assign(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Adds what was counted elsewhere.
impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}
