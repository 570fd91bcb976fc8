//! Translation: the host's. What is free is mapped, and what must not be touched is not.

use crate::devicetree::Machine;
use crate::layout::Bank;
use crate::paging::MapError;
use core::sync::atomic::AtomicU32;

/// All can be mapped.
pub(crate) fn mapped_end(_: &Machine) -> usize {
    usize::MAX
}

/// Nothing is to be done.
pub(crate) fn translate(_: &Machine, _: &[Bank]) -> Result<(), MapError> {
    Ok(())
}

/// There is a console from the first moment on.
pub(crate) fn maps_devices() -> bool {
    true
}

/// No device wants such memory.
pub(crate) fn uncached(_: usize) -> Option<&'static [AtomicU32]> {
    None
}
