//! Who a message is from and for (SPEC P-4).

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
