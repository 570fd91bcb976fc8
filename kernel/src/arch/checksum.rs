//! CRC-32C by the core's own instructions, where it has them.

use super::this;
use core::sync::atomic::{AtomicBool, Ordering};
use drivers::link;

/// Whether the instructions are there and do what they should.
static CHOSEN: AtomicBool = AtomicBool::new(false);

/// Chooses the way in which checksums are made: once, before the first of them. What does not agree with the tables is not
/// trusted. Returns the name of the instruction.
pub(crate) fn choose_checksum() -> Option<&'static str> {
    // SAFETY: the core has the instructions.
    let chosen = this::checksum::is_there()
        && link::agrees(|state, bytes| unsafe { this::checksum::crc32c(state, bytes) });
    CHOSEN.store(chosen, Ordering::Relaxed);
    chosen.then_some(this::checksum::NAME)
}

/// As [`link::crc32c`].
#[inline]
pub(crate) fn crc32c(state: u32, bytes: &[u8]) -> u32 {
    if CHOSEN.load(Ordering::Relaxed) {
        // SAFETY: the core has the instructions.
        unsafe { this::checksum::crc32c(state, bytes) }
    } else {
        link::crc32c(state, bytes)
    }
}
