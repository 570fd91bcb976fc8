//! Who a message is from and for (SPEC P-4).

use core::fmt;
use core::ops::Range;

/// Number of a client, the same at every task: clients are numbered in the order of their creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u8);

/// Place of a context among those of its client, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ContextOffset(pub u8);

/// The address of a message: a context of a task, within a client. Eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Bits 0 to 32 the task, 32 to 40 the context, 40 to 48 the client: one word, compared as one.
    parts: u64,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, task, context) = (self.client().0, self.task(), self.context().0);
        write!(f, "Endpoint {{ client: {client}, task: {task}, context: {context} }}")
    }
}

impl Endpoint {
    /// The endpoint with these parts, unchecked: a device makes it from a packet. Jobs ask their client.
    #[inline]
    pub fn from_parts(client: ClientId, task: u32, context: ContextOffset) -> Self {
        Self { parts: u64::from(task) | u64::from(context.0) << 32 | u64::from(client.0) << 40 }
    }

    /// One word that says all: for devices to keep.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.parts
    }

    /// The endpoint of [`to_bits`](Self::to_bits).
    #[inline]
    pub fn from_bits(bits: u64) -> Self {
        Self { parts: bits }
    }

    /// The client it belongs to.
    #[inline]
    pub fn client(self) -> ClientId {
        ClientId((self.parts >> 40) as u8)
    }

    /// The task it belongs to.
    #[inline]
    pub fn task(self) -> u32 {
        self.parts as u32
    }

    /// The context of the task.
    #[inline]
    pub fn context(self) -> ContextOffset {
        ContextOffset((self.parts >> 32) as u8)
    }
}

/// Some of the job's tasks, in no more memory than their description takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TaskList {
    /// Those from `start` to before `end`.
    Range(Range<u32>),
    /// Those listed.
    Listed(&'static [u32]),
}

impl TaskList {
    /// How many they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Range(range) => range.len(),
            Self::Listed(list) => list.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The task at place `index`.
    pub fn get(&self, index: usize) -> Option<u32> {
        match self {
            Self::Range(range) => {
                range.start.checked_add(u32::try_from(index).ok()?).filter(|&task| task < range.end)
            }
            Self::Listed(list) => list.get(index).copied(),
        }
    }

    /// Whether `task` is one of them.
    pub fn contains(&self, task: u32) -> bool {
        match self {
            Self::Range(range) => range.contains(&task),
            Self::Listed(list) => list.contains(&task),
        }
    }

    /// The first that `holds` does not hold for. Of a range only the ends are asked.
    pub(crate) fn exception(&self, holds: impl Fn(u32) -> bool) -> Option<u32> {
        match self {
            Self::Range(range) if range.is_empty() => None,
            Self::Range(range) => [range.start, range.end - 1].into_iter().find(|&task| !holds(task)),
            Self::Listed(list) => list.iter().copied().find(|&task| !holds(task)),
        }
    }
}

impl From<Range<u32>> for TaskList {
    fn from(range: Range<u32>) -> Self {
        Self::Range(range)
    }
}

impl From<&'static [u32]> for TaskList {
    fn from(list: &'static [u32]) -> Self {
        Self::Listed(list)
    }
}
