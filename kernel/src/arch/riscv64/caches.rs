//! Caches, for devices that do not see them (SPEC B-4): there is nothing that could be done with them, and no card is used that
//! needs it.

use core::sync::atomic::AtomicU32;

/// Whether pages can be mapped without caches.
pub(crate) const UNCACHED: bool = false;

/// Bytes of a line, as they commonly are.
pub(crate) fn cache_line() -> usize {
    64
}

/// Never called.
pub(crate) fn clean(_: &[u8]) {}

/// Never called.
pub(crate) fn flush(_: &[AtomicU32]) {}

/// Never called.
pub(crate) fn invalidate(_: &mut [u8]) {}
