//! What a context takes of its node's memory: all of it when it is made, and never more (docs/design.md decision 3).

use crate::collective::engine;
use crate::context::{Active, Posts};
use crate::device::Port;
use crate::receive_request::Landing;
use crate::unexpected::UnexpectedSlot;
use crate::{acks, operation, receive, receive_request};
use rings::buffer::CONTROL_BYTES;

/// What a buffer takes besides its data: the count in front, and its alignment.
pub(crate) const BUFFER_EXTRA: usize = 2 * CONTROL_BYTES;

/// Bytes that one context takes, and for what: the places are there from the start and never more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Footprint {
    /// The context itself.
    pub context: usize,
    /// Each operation that can be under way.
    pub operation: usize,
    /// Number of those.
    pub operations: usize,
    /// Each receive request that can be under way.
    pub receive_request: usize,
    /// Number of those.
    pub receive_requests: usize,
    /// Half a message of one endpoint.
    pub origin: usize,
    /// Places for such; at most [`HALVES_LIMIT`](crate::receive::HALVES_LIMIT).
    pub halves: usize,
    /// Places for what is owed to endpoints; see [`ClientBuilder::peers`](crate::ClientBuilder::peers).
    pub records: usize,
    /// What is owed to one endpoint.
    pub ack: usize,
    /// Each place for an unexpected message.
    pub unexpected: usize,
    /// Number of those.
    pub unexpected_places: usize,
    /// Memory for the data of unexpected messages.
    pub unexpected_data: usize,
    /// Memory that a piece of data lands in which is pulled in pieces.
    pub landing: usize,
    /// Number of those.
    pub landings: usize,
    /// Geometries, collectives in flight and their early messages.
    pub collectives: usize,
    /// The queue of posts; these themselves take none.
    pub posts: usize,
}

impl Footprint {
    /// The sum.
    pub fn bytes(&self) -> usize {
        let Self {
            context,
            operation,
            receive_request,
            origin,
            halves,
            records,
            ack,
            unexpected,
            unexpected_places,
            ..
        } = *self;
        context
            + self.operations * operation
            + self.receive_requests * receive_request
            + halves * origin
            + records * ack
            + unexpected_places * unexpected
            + self.unexpected_data
            + self.landings * self.landing
            + self.collectives
            + self.posts
    }
}

/// The memory of one context; a destroyed context gives it back for the next.
pub struct ContextMemory<P: Port> {
    pub(crate) operations: &'static mut [operation::OperationSlot<Active<P>>],
    pub(crate) receive_requests: &'static mut [receive_request::RequestSlot<Active<P>>],
    pub(crate) incoming: &'static mut [receive::HalfSlot<Active<P>>],
    pub(crate) acks: &'static mut [acks::AckSlot],
    pub(crate) unexpected: &'static mut [UnexpectedSlot],
    pub(crate) unexpected_data: &'static mut [u8],
    pub(crate) landings: &'static mut [Landing],
    pub(crate) collectives: engine::EngineMemory<Active<P>>,
    pub(crate) posts: Posts<P>,
}
