//! Where data is: in some task's slab, or in memory of the caller's.

use core::fmt;
use pami::Shared;

/// A byte of a task's slab. Eight bytes of plain data: it can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
pub struct GlobalAddress {
    /// The task whose slab it is in.
    pub task: u32,
    /// Bytes from the start of that slab.
    pub offset: u32,
}

impl GlobalAddress {
    /// The address `bytes` further on; `None` past what an offset can name.
    pub fn checked_add(self, bytes: u32) -> Option<Self> {
        Some(Self { offset: self.offset.checked_add(bytes)?, ..self })
    }
}

impl fmt::Display for GlobalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of task {}", self.offset, self.task)
    }
}

/// Memory of the caller's, from a byte on: where data of a put comes from, and that of a get goes to.
#[derive(Clone, Copy)]
pub struct Local<'a> {
    /// The memory. The task's own slab is as good as any other.
    pub memory: &'a Shared,
    /// The first byte.
    pub offset: usize,
}

impl<'a> Local<'a> {
    /// `memory` from byte `offset` on.
    pub fn new(memory: &'a Shared, offset: usize) -> Self {
        Self { memory, offset }
    }
}
