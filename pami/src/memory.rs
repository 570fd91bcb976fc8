//! What a context takes of its node's memory: all of it when it is made, and never more (docs/design.md decision 3).

use crate::client::{Client, ClientError, KEPT_BYTES, Node};
use crate::collective::engine;
use crate::context::{Active, Context, Posts, Work};
use crate::device::Port;
use crate::kept::KeptPlace;
use crate::reception::LANDING_BYTES;
use crate::{acks, operation, receive, reception};
use rings::buffer::{Buffer, CONTROL_BYTES};
use rings::post::PostQueue;
use rings::shared::Shared;

/// What a buffer takes besides its data: the count in front, and its alignment.
const BUFFER_EXTRA: usize = 2 * CONTROL_BYTES;

/// Bytes that one context takes, and for what: the places are there from the start and never more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The context itself.
    pub context: usize,
    /// Each operation that can be under way.
    pub operation: usize,
    /// Number of those.
    pub operations: usize,
    /// Each reception that can be under way.
    pub reception: usize,
    /// Number of those.
    pub receptions: usize,
    /// Half a message of one endpoint.
    pub origin: usize,
    /// Places for such, and for what is owed.
    pub endpoints: usize,
    /// What is owed to one endpoint.
    pub ack: usize,
    /// Each place for a kept message, its data included.
    pub kept: usize,
    /// Number of those.
    pub kept_places: usize,
    /// Memory that data which is pulled in pieces lands in.
    pub landing: usize,
    /// Geometries, collectives in flight and their early messages.
    pub collectives: usize,
    /// The queue of posts; these themselves take none.
    pub posts: usize,
}

impl Footprint {
    /// The sum.
    pub fn bytes(&self) -> usize {
        let Self { context, operation, reception, origin, endpoints, ack, kept, kept_places, .. } = *self;
        context
            + self.operations * operation
            + self.receptions * reception
            + endpoints * (origin + ack)
            + kept_places * kept
            + self.landing
            + self.collectives
            + self.posts
    }
}

/// The memory of one context; a destroyed context gives it back for the next.
pub struct ContextMemory<P: Port> {
    pub(crate) operations: &'static mut [operation::Place<P>],
    pub(crate) receptions: &'static mut [reception::Place<P>],
    pub(crate) incoming: &'static mut [receive::Place<P>],
    pub(crate) acks: &'static mut [acks::Place],
    pub(crate) kept: &'static mut [Option<KeptPlace>],
    pub(crate) landing: Option<Shared>,
    pub(crate) collectives: engine::Memory<Active<P>>,
    pub(crate) posts: Posts<P>,
}

impl<N: Node> Client<N> {
    /// What one context takes.
    pub fn footprint(&self) -> Footprint {
        Footprint {
            context: size_of::<Context<N::Port>>(),
            operation: size_of::<operation::Place<N::Port>>(),
            operations: self.operations,
            reception: size_of::<reception::Place<N::Port>>(),
            receptions: self.receptions,
            origin: size_of::<receive::Place<N::Port>>(),
            endpoints: self.origins(),
            ack: size_of::<acks::Place>(),
            kept: size_of::<Option<KeptPlace>>() + self.kept_bytes() + BUFFER_EXTRA,
            kept_places: self.kept,
            landing: LANDING_BYTES + BUFFER_EXTRA,
            collectives: engine::Memory::<Active<N::Port>>::bytes(&self.collectives, self.endpoints())
                + BUFFER_EXTRA,
            posts: size_of::<PostQueue<Work<N::Port>>>(),
        }
    }

    /// Places for messages that are half-way: a power of two, over the number of endpoints.
    fn origins(&self) -> usize {
        // A packet's origin can be any task of the job, listed or not; those are the ones that matter.
        let tasks = self.tasks.len().max(self.node.tasks() as usize);
        (2 * tasks * usize::from(self.node.context_limit())).next_power_of_two()
    }

    /// Endpoints that the client has in the job, the same number at every task.
    pub(crate) fn endpoints(&self) -> usize {
        self.node.tasks() as usize * usize::from(self.contexts)
    }

    fn kept_bytes(&self) -> usize {
        self.rendezvous_from.min(KEPT_BYTES)
    }

    /// Memory for one context: places for operations and receptions, for each endpoint that it may hear from and for kept
    /// messages, and what data that is pulled in pieces lands in.
    ///
    /// # Errors
    /// [`ClientError::Exhausted`].
    pub fn context_memory(&self) -> Result<ContextMemory<N::Port>, ClientError> {
        let places = self.origins();
        let exhausted = ClientError::Exhausted {
            what: "memory for a context, in bytes",
            limit: self.footprint().bytes(),
        };
        let kept = self.node.memory(self.kept, || None).ok_or(exhausted)?;
        for place in kept.iter_mut() {
            *place = Some(KeptPlace::new(self.buffer(self.kept_bytes()).ok_or(exhausted)?));
        }
        let posts = self.node.memory(1, PostQueue::new).ok_or(exhausted)?;
        Ok(ContextMemory {
            posts: Posts::new(&posts[0]).ok_or(exhausted)?,
            operations: self.node.memory(self.operations, operation::Place::new).ok_or(exhausted)?,
            receptions: self.node.memory(self.receptions, || None).ok_or(exhausted)?,
            incoming: self.node.memory(places, || None).ok_or(exhausted)?,
            acks: self.node.memory(places, || None).ok_or(exhausted)?,
            kept,
            landing: Some(self.buffer(LANDING_BYTES).ok_or(exhausted)?.share()),
            collectives: engine::Memory::new(
                self.node.memory(self.collectives.slots(), || None).ok_or(exhausted)?,
                self.node.memory(self.collectives.geometries, || None).ok_or(exhausted)?,
                self.collectives.always,
                self.node.memory(self.collectives.early, engine::EarlyPlace::new).ok_or(exhausted)?,
                self.node.memory(self.collectives.lanes(self.endpoints()), || None).ok_or(exhausted)?,
                Some(self.buffer(self.collectives.note_bytes()).ok_or(exhausted)?.share()),
            ),
        })
    }

    /// A buffer of at least `len` bytes.
    fn buffer(&self, len: usize) -> Option<Buffer> {
        Buffer::new(self.node.memory(len + BUFFER_EXTRA, || 0u8)?).ok()
    }
}
