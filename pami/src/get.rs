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
    region: RegionId,
    offset: u32,
    layout: Layout,
    cursor: Cursor,
    into: Shared,
    at: u32,
    into_layout: Layout,
    into_cursor: Cursor,
    left: u32,
}

/// Bytes that one packet asks for: as many as are contiguous on both sides.
pub(crate) struct GetRequest {
    /// First byte in the region, and in the memory.
    pub(crate) offset: u32,
    pub(crate) at: u32,
    pub(crate) len: u32,
    /// Nothing is left behind them.
    pub(crate) last: bool,
    pub(crate) cursors: (Cursor, Cursor),
}

impl<A: 'static> Get<A> {
    /// What its requests are made from, and who is told at the end.
    #[inline(always)]
    pub(crate) fn into_state(self) -> (GetState, Option<Done<A>>) {
        let Self { region, offset, layout, into, at, into_layout, len, done, .. } = self;
        let state = GetState {
            region: region.id,
            offset,
            layout,
            cursor: Cursor::default(),
            into,
            at,
            into_layout,
            into_cursor: Cursor::default(),
            left: len,
        };
        (state, done)
    }
}

impl GetState {
    /// Where the bytes are.
    pub(crate) fn region(&self) -> RegionId {
        self.region
    }

    /// Where they go.
    pub(crate) fn memory(&self) -> &Shared {
        &self.into
    }

    /// The next request; `None` if nothing is left.
    #[inline]
    pub(crate) fn next_request(&self) -> Option<GetRequest> {
        if self.left == 0 {
            return None;
        }
        let (mut cursor, mut into_cursor) = (self.cursor, self.into_cursor);
        let (from, to) = ((&self.layout, &mut cursor), (&self.into_layout, &mut into_cursor));
        // Both layouts were seen to reach far enough.
        let (place, at, len) = Layout::next_pair(from, to, self.left)?;
        let (offset, at, last) = (self.offset + place, self.at + at, self.left == len);
        Some(GetRequest { offset, at, len, last, cursors: (cursor, into_cursor) })
    }

    /// It is queued.
    #[inline]
    pub(crate) fn queued(&mut self, request: &GetRequest) {
        (self.cursor, self.into_cursor) = request.cursors;
        self.left -= request.len;
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
