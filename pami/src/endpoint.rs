//! Who a message is from and for (SPEC P-4).

use core::ops::Range;

/// Number of a client, the same at every task: clients are numbered in the order of their creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ClientId(pub u8);

/// Place of a context among those of its client, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ContextOffset(pub u8);

/// The address of a message: a context of a task, within a client. Eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Endpoint {
    pub(crate) client: ClientId,
    pub(crate) context: ContextOffset,
    pub(crate) task: u32,
}

impl Endpoint {
    /// The endpoint with these parts, unchecked: a device makes it from a packet. Jobs ask their client.
    pub fn from_parts(client: ClientId, task: u32, context: ContextOffset) -> Self {
        Self { client, context, task }
    }

    /// The client it belongs to.
    pub fn client(self) -> ClientId {
        self.client
    }

    /// The task it belongs to.
    pub fn task(self) -> u32 {
        self.task
    }

    /// The context of the task.
    pub fn context(self) -> ContextOffset {
        self.context
    }
}

/// Some of the job's tasks, in no more memory than their description takes.
#[derive(Clone, Debug, PartialEq, Eq)]
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
