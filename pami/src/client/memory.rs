//! The memory of a client's contexts: how much one takes, and where it comes from.

use super::{Client, ClientError, Node};
use crate::collective::engine;
use crate::context::{Active, Context, Posts, Work};
use crate::memory::{BUFFER_EXTRA, ContextMemory, Footprint};
use crate::pools::Pools;
use crate::receive_request::Landing;
use crate::unexpected::UnexpectedSlot;
use crate::{acks, operation, receive, receive_request};
use rings::buffer::Buffer;
use rings::post::PostQueue;
use rings::slot_table;

impl<N: Node> Client<N> {
    /// What one context takes.
    pub fn footprint(&self) -> Footprint {
        let Pools { operations, receive_requests, unexpected, unexpected_bytes, pieces, piece_bytes, .. } =
            self.configuration.pools;
        Footprint {
            context: size_of::<Context<N::Port>>(),
            operation: size_of::<operation::OperationSlot<Active<N::Port>>>(),
            operations,
            receive_request: size_of::<receive_request::RequestSlot<Active<N::Port>>>(),
            receive_requests,
            origin: size_of::<receive::HalfSlot<Active<N::Port>>>(),
            halves: self.halves(),
            records: self.records(),
            ack: size_of::<acks::AckSlot>(),
            unexpected: size_of::<UnexpectedSlot>(),
            unexpected_places: unexpected,
            unexpected_data: unexpected_bytes,
            landing: piece_bytes + BUFFER_EXTRA + size_of::<Landing>(),
            landings: pieces,
            collectives: engine::EngineMemory::<Active<N::Port>>::bytes(
                &self.configuration.collectives,
                self.endpoints(),
            ) + BUFFER_EXTRA,
            posts: size_of::<PostQueue<Work<N::Port>>>(),
        }
    }

    /// Endpoints that a context may hear from.
    pub(super) fn origins(&self) -> usize {
        // A packet's origin can be any task of the job, listed or not; those are the ones that matter.
        let tasks = self.configuration.tasks.len().max(self.node.tasks() as usize);
        tasks * usize::from(self.node.context_limit())
    }

    /// Places for what is owed to them: twice as many as there may be at a time, and that a power of two.
    fn records(&self) -> usize {
        (2 * self.origins().min(self.configuration.peers)).next_power_of_two()
    }

    /// Places for half messages of theirs. Each keeps a record meanwhile, which leaves as many to others.
    fn halves(&self) -> usize {
        let most = if self.origins() > self.configuration.peers { self.records() / 2 } else { usize::MAX };
        receive::places(self.origins(), self.configuration.pools.halves).min(most)
    }

    /// Endpoints that the client has in the job, the same number at every task.
    pub(crate) fn endpoints(&self) -> usize {
        self.node.tasks() as usize * usize::from(self.configuration.contexts)
    }

    /// Memory for one context: places for operations and receive requests, for half messages and unexpected ones, for what is
    /// owed to each endpoint, and what data that is pulled in pieces lands in.
    ///
    /// # Errors
    /// [`ClientError::Exhausted`].
    pub fn context_memory(&self) -> Result<ContextMemory<N::Port>, ClientError> {
        let exhausted = ClientError::Exhausted {
            what: "memory for a context, in bytes",
            limit: self.footprint().bytes(),
        };
        self.pieces().ok_or(exhausted)
    }

    /// All pieces of a context's memory; `None` if the node has not enough for one of them.
    fn pieces(&self) -> Option<ContextMemory<N::Port>> {
        let (node, pools, limits) = (self.node, self.configuration.pools, &self.configuration.collectives);
        let landings = node.memory(pools.pieces, || Landing::new(None))?;
        for landing in landings.iter_mut() {
            *landing = Landing::new(Some(self.buffer(pools.piece_bytes)?.share()));
        }
        let posts = node.memory(1, PostQueue::new)?;
        Some(ContextMemory {
            posts: Posts::new(&posts[0])?,
            operations: node.memory(pools.operations, operation::OperationSlot::new)?,
            receive_requests: node.memory(pools.receive_requests, || None)?,
            incoming: node.memory(self.halves(), || None)?,
            acks: node.memory(self.records(), || None)?,
            unexpected: node.memory(pools.unexpected, UnexpectedSlot::default)?,
            unexpected_data: node.memory(pools.unexpected_bytes, || 0)?,
            landings,
            collectives: engine::EngineMemory::new(
                node.memory(limits.slots(), slot_table::Slot::new)?,
                node.memory(limits.queued, slot_table::Slot::new)?,
                (node.memory(limits.geometries, || None)?, limits.always),
                engine::EarlyMemory {
                    slots: node.memory(limits.early, slot_table::Slot::new)?,
                    data: node.memory(limits.early, engine::EarlyData::new)?,
                    peer_states: node.memory(limits.peer_states(self.endpoints()), || None)?,
                },
                engine::BulkMemory {
                    lent: node.memory(limits.lent(), slot_table::Slot::new)?,
                    pulls: node.memory(limits.pulls(), || None)?,
                },
                (
                    node.memory(limits.heralds(), engine::Unmade::default)?,
                    node.memory(limits.heralds(), engine::Destroyed::new)?,
                    node.memory(limits.heralds(), engine::Herald::default)?,
                ),
                Some(self.buffer(limits.note_bytes())?.share()),
            ),
        })
    }

    /// A buffer of at least `len` bytes.
    fn buffer(&self, len: usize) -> Option<Buffer> {
        Buffer::new(self.node.memory(len + BUFFER_EXTRA, || 0u8)?).ok()
    }
}
