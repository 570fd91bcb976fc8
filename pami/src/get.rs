//! Gets: the origin reads from a region of another task (SPEC D-5, P-7).
//!
//! The target's message unit answers; its application does nothing for it. Within a node the bytes are copied at once, and
//! the callback waits for the next advance.

use crate::device::Port;
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::layout::{Cursor, Layout};
use crate::region::{RegionFault, RegionHandle, RegionId};
use rings::shared::Shared;

/// Data to be read from a region.
pub struct Get<A: 'static> {
    /// An endpoint of the task that the region belongs to.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::READ`](crate::region::Rights::READ).
    pub region: RegionHandle,
    /// First byte in the region of what `layout` describes.
    pub offset: u32,
    /// Which bytes are read, from `offset` on. Every run that is contiguous on both sides is one request.
    pub layout: Layout,
    /// Memory for them.
    pub into: Shared,
    /// First byte in that memory of what `into_layout` describes.
    pub at: u32,
    /// Where they go, from `at` on.
    pub into_layout: Layout,
    /// Number of bytes.
    pub len: u32,
    /// Called when all are there, or were refused.
    pub done: Option<Done<A>>,
}

/// A get under way.
pub(crate) struct GetState {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    pub(crate) layout: Layout,
    pub(crate) cursor: Cursor,
    pub(crate) into: Shared,
    pub(crate) at: u32,
    pub(crate) into_layout: Layout,
    pub(crate) into_cursor: Cursor,
    pub(crate) left: u32,
}

impl GetState {
    /// Whether nothing is left to be asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Copies all of it from a region of this node.
    pub(crate) fn carry_out<P: Port>(&mut self, port: &mut P, target: Endpoint) -> Result<(), RegionFault> {
        while self.left > 0 {
            let from = (&self.layout, &mut self.cursor);
            let to = (&self.into_layout, &mut self.into_cursor);
            let Some((place, at, len)) = Layout::next_pair(from, to, self.left) else { break };
            port.get_local(target, self.region, self.offset + place, (&self.into, self.at + at), len)?;
            self.left -= len;
        }
        Ok(())
    }
}
