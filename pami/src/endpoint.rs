//! Who a message is from and for (SPEC P-4).

use core::fmt;
use core::ops::Range;

/// Clients that a task can have at once (SPEC P-1).
pub const CLIENTS: usize = 4;
/// Clients that a task can have one after the other in one place.
pub const GENERATIONS: u16 = u16::MAX / CLIENTS as u16;

/// Number of a client, the same at every task: its place among those that a task can have at once, the first that is free
/// when it is created, and its generation, how many the place had before. No number is used twice, so what is late of a
/// client that has ended, or early for one that is not created yet, is never taken for another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ClientId(
    /// The place, and the generation times [`CLIENTS`].
    pub u16,
);

impl ClientId {
    /// The client with this place, below [`CLIENTS`], and this generation, below [`GENERATIONS`].
    #[inline]
    pub const fn new(place: u8, generation: u16) -> Self {
        Self(generation * CLIENTS as u16 + place as u16)
    }

    /// Its place among the clients that a task has at once, from 0.
    #[inline]
    pub const fn place(self) -> u8 {
        (self.0 % CLIENTS as u16) as u8
    }

    /// How many clients had the place before.
    #[inline]
    pub const fn generation(self) -> u16 {
        self.0 / CLIENTS as u16
    }

    /// The client that has the place after this one, if there may be one: see [`GENERATIONS`].
    pub fn next(self) -> Option<Self> {
        let generation = self.generation() + 1;
        (generation < GENERATIONS).then(|| Self::new(self.place(), generation))
    }
}

/// Place of a context among those of its client, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ContextOffset(pub u8);

/// The address of a message: a context of a task, within a client. Eight bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Bits 0 to 32 the task, 32 to 40 the context, 48 to 64 the client: one word, compared as one.
    parts: u64,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, task, context) = (self.client(), self.task(), self.context().0);
        let (place, generation) = (client.place(), client.generation());
        write!(f, "Endpoint {{ client: {place}.{generation}, task: {task}, context: {context} }}")
    }
}

impl Endpoint {
    /// The endpoint with these parts, unchecked: a device makes it from a packet. Jobs ask their client.
    #[inline]
    pub fn from_parts(client: ClientId, task: u32, context: ContextOffset) -> Self {
        Self { parts: u64::from(task) | u64::from(context.0) << 32 | u64::from(client.0) << 48 }
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
        ClientId((self.parts >> 48) as u16)
    }

    /// The same context of another task.
    #[inline]
    pub fn of_task(self, task: u32) -> Self {
        Self { parts: self.parts >> u32::BITS << u32::BITS | u64::from(task) }
    }

    /// Whether both belong to one client.
    #[inline]
    pub fn is_fellow(self, other: Self) -> bool {
        (self.parts ^ other.parts) >> 48 == 0
    }

    /// Whether both are contexts of one client in one task.
    #[inline(always)]
    pub fn is_of_task_of(self, other: Self) -> bool {
        let differ = self.parts ^ other.parts;
        // All bits but those of the context.
        differ as u32 | (differ >> 48) as u32 == 0
    }

    /// Where tables look for what is of it first. The contexts of a task have homes of their own.
    #[inline]
    pub(crate) fn home(self) -> usize {
        let key = (self.task() << 3) ^ u32::from(self.context().0);
        (key.wrapping_mul(0x9e37_79b9) >> 7) as usize
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
