//! A node that begins again, without its firmware (SPEC S-1).

#[cfg(target_os = "none")]
use super::machine;
use super::{hart, this};
use crate::devicetree::Machine;

/// All other harts are off, and nobody starts any.
pub(crate) struct Alone(());

impl Alone {
    /// Whether it is so, for the hart that ends the node.
    pub(crate) fn look(machine: &Machine) -> Option<Self> {
        let mut others = (0..machine.harts.len()).filter(|&other| other != hart());
        others.all(|other| this::is_off(machine, other)).then_some(Self(()))
    }
}

/// This hart begins again at `boot`, as it once did: nothing that was in memory counts any more.
///
/// # Safety
/// No device writes to memory any more.
pub(crate) unsafe fn begin_again(_: Alone) -> ! {
    #[cfg(target_os = "none")]
    if let Some(machine) = machine()
        && let Some(here) = machine.harts.get(hart())
    {
        // SAFETY: the other harts are off, the caller speaks for devices, and the tree is never written.
        unsafe { boot::begin_again(machine.tree.start, here.id) }
    }
    this::park()
}
