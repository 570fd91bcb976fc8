//! Memory in which the members of a team exchange what they have to agree on, and its collectives work.

use base::{OutOfMemory, fill, shared};
use core::sync::atomic::AtomicUsize;
use pami::device::Port;
use pami::{CollectMemory, Node, Shared};

/// Teams that a PE can be in at a time, the world among them.
pub(crate) const TEAMS: usize = 8;
/// Bytes that a PE brings to an exchange.
pub(crate) const BLOCK: usize = 16;
/// Where things lie in a team's area: what this PE brings, what all agree on, what all bring.
pub(crate) const OWN: usize = 0;
pub(crate) const AGREED: usize = 32;
pub(crate) const ALL: usize = 64;

pub(crate) struct Area<P: Port> {
    /// For PAMI's object of the team's collective.
    pub(crate) object: CollectMemory<P>,
    pub(crate) memory: Shared,
    /// Where scratch memory begins.
    pub(crate) scratch: usize,
    /// Where each PE's block begins and ends.
    pub(crate) bounds: &'static [AtomicUsize],
}

impl<P: Port> Area<P> {
    pub(crate) fn new<N: Node<Port = P>>(node: &N, room: u32) -> Result<Self, OutOfMemory> {
        let pes = node.tasks() as usize;
        let scratch = ALL + BLOCK.saturating_mul(pes);
        let memory = shared(node, "teams", scratch.saturating_add(room as usize))?;
        let bounds = fill(node, "teams", pes + 1, AtomicUsize::default)?;
        Ok(Self { object: CollectMemory::new(), memory, scratch, bounds })
    }
}

/// Which areas are in use, and what number the next team has.
#[derive(Default)]
pub(crate) struct Teams {
    used: [bool; TEAMS],
    next: u64,
}

impl Teams {
    /// An area that is free, from now on not any more, if there is one; and the least number of the next team.
    pub(crate) fn take(&mut self) -> (Option<usize>, u64) {
        let area = self.used.iter().position(|used| !used);
        if let Some(used) = area.and_then(|area| self.used.get_mut(area)) {
            *used = true;
        }
        (area, self.next)
    }

    pub(crate) fn give_back(&mut self, area: usize) {
        if let Some(used) = self.used.get_mut(area) {
            *used = false;
        }
    }

    /// The next team's number is greater than `number`.
    pub(crate) fn follow(&mut self, number: u64) {
        self.next = self.next.max(number + 1);
    }
}
