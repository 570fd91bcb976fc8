//! Memory in which the tasks of a group exchange what others have to know.

use base::{OutOfMemory, shared};
use heapless::Vec;
use pami::{Node, Shared};
use spin::Mutex;

/// Groups that there can be at a time, the world among them. Each has room for an exchange.
pub(crate) const GROUPS: usize = 8;
/// Bytes that each task brings to an exchange.
pub(crate) const BLOCK: usize = 16;

/// Memory that one exchange works in.
pub(crate) struct Area {
    /// What this task brings.
    pub own: Shared,
    /// What all bring, by index.
    pub all: Shared,
    /// For the algorithm.
    pub scratch: Shared,
}

/// Those that no exchange has.
pub(crate) struct Areas {
    free: Mutex<Vec<Area, GROUPS>>,
}

impl Areas {
    pub(crate) fn new<N: Node>(node: &N, tasks: u32) -> Result<Self, OutOfMemory> {
        let all = BLOCK.saturating_mul(tasks as usize);
        let buffer = |bytes| shared(node, "exchanges", bytes);
        let mut free = Vec::new();
        while !free.is_full() {
            // Algorithms keep at most what they exchange, and what they forward.
            let area = Area { own: buffer(BLOCK)?, all: buffer(all)?, scratch: buffer(2 * all)? };
            // There is room.
            let _ = free.push(area);
        }
        Ok(Self { free: Mutex::new(free) })
    }

    /// One, if there is one.
    pub(crate) fn take(&self) -> Option<Area> {
        self.free.lock().pop()
    }

    /// The exchange is over.
    pub(crate) fn give_back(&self, area: Area) {
        // As many as were taken.
        let _ = self.free.lock().push(area);
    }
}
