//! Updates of single words of a region, which say what the word was (SPEC P-7).
//!
//! An update is atomic against all others of that word, whatever node, task or thread they come from: all are carried out
//! by the node that owns the word.

use crate::device::{Path, Port};
use crate::dispatch::OnFetched;
use crate::endpoint::Endpoint;
use crate::packet::{Envelope, Kind};
use crate::region::{RegionFault, RegionHandle, RegionId, RmwOp};
use crate::transport::Transport;
use rings::shared::{Update, Width};
use zerocopy::IntoBytes;

/// An update of a word of a region.
pub struct Rmw<A: 'static> {
    /// An endpoint of the task that the region belongs to.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::UPDATE`](crate::region::Rights::UPDATE).
    pub region: RegionHandle,
    /// The word's place, a multiple of its size.
    pub offset: u32,
    /// What becomes of it.
    pub op: RmwOp,
    /// Called with what it was, or with why it could not be changed.
    pub done: Option<OnFetched<A>>,
}

impl<A: 'static> Rmw<A> {
    /// What it adds to a whole word and who is told, if it does that.
    #[inline(always)]
    pub(crate) fn short(&self) -> Option<(u64, &OnFetched<A>)> {
        match (&self.op, &self.done) {
            (&RmwOp { width: Width::Eight, update: Update::Add(operand) }, Some(done)) => {
                Some((operand, done))
            }
            _ => None,
        }
    }
}

/// An update under way.
pub(crate) struct RmwState {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    pub(crate) op: RmwOp,
}

impl RmwState {
    /// Updates a word of this node. Returns what it was.
    pub(crate) fn carry_out<P: Port>(&self, port: &mut P, target: Endpoint) -> Result<u64, RegionFault> {
        port.rmw_local(target, self.region, self.offset, self.op)
    }

    /// Queues its request. Returns whether there was room.
    #[inline(always)]
    pub(crate) fn push<P: Port>(
        &self,
        port: &mut P,
        transport: &Transport<P>,
        (path, target): (Path, Endpoint),
        message: u32,
    ) -> bool {
        let (operator, operands) = self.op.encode();
        let data = operands.as_bytes();
        let envelope = Envelope {
            kind: Kind::Rmw,
            dispatch: operator,
            origin: transport.me(),
            target,
            message,
            offset: self.offset,
            total: data.len() as u32,
        };
        port.push_bcopy(path, &envelope, self.region.as_bytes(), data).is_ok()
    }
}
