//! Puts: the origin writes into a region of another task (SPEC D-5, P-7).
//!
//! To another node, and to its own by the network's loop-back, a put is packets that the target's message unit carries
//! out as they arrive. Within a node it is done at once; its callbacks wait for the next advance all the same.

use crate::device::Port;
use crate::dispatch::Done;
use crate::endpoint::Endpoint;
use crate::layout::{Cursor, Layout, Segment};
use crate::packet::HEADER_LIMIT;
use crate::payload::{Payload, PayloadIter};
use crate::region::{RegionFault, RegionHandle, RegionId};
use heapless::Vec;
use rings::buffer::Lease;
use zerocopy::IntoBytes;

/// Data to be written into a region.
pub struct Put<A: 'static> {
    /// An endpoint of the task that the region belongs to; the order of operations is that of those to this endpoint.
    pub target: Endpoint,
    /// The region; its owner gave [`Rights::WRITE`](crate::region::Rights::WRITE).
    pub region: RegionHandle,
    /// First byte in the region of what `layout` describes.
    pub offset: u32,
    /// Where the data goes, from `offset` on.
    pub layout: Layout,
    /// The data.
    pub payload: Payload,
    /// Which bytes of the payload the data is made of.
    pub payload_layout: Layout,
    /// Called when the payload is the caller's again. Without it a payload's buffer is not given back.
    pub local_done: Option<Done<A>>,
    /// Called when all data is in the region, or was refused. Without it a refusal is not told.
    pub remote_done: Option<Done<A>>,
}

/// A put under way.
pub(crate) struct PutState {
    pub(crate) region: RegionId,
    pub(crate) offset: u32,
    pub(crate) layout: Layout,
    pub(crate) cursor: Cursor,
    pub(crate) data: PayloadIter,
}

impl<A: 'static> Put<A> {
    /// What its packets are made from, the payload included, and the loan of that.
    #[inline(always)]
    pub(crate) fn take_state(&mut self, total: u32) -> (PutState, Option<Lease>) {
        let payload = core::mem::replace(&mut self.payload, Payload::Static(&[]));
        let (data, lease) = PayloadIter::new(payload, self.payload_layout, total);
        let (region, offset, layout) = (self.region.id, self.offset, self.layout);
        (PutState { region, offset, layout, cursor: Cursor::default(), data }, lease)
    }
}

/// Bytes of a packet's header: the region's name, then the runs.
type PutHeader = Vec<u8, HEADER_LIMIT>;

impl PutState {
    /// Header, offset and length of the next packet of at most `mtu` bytes, and the cursor behind it.
    pub(crate) fn next_packet(&self, mtu: usize) -> (PutHeader, u32, usize, Cursor) {
        let mut header: PutHeader = Vec::new();
        let (mut cursor, mut len) = (self.cursor, 0);
        // Eight bytes of header are there for the name.
        let _ = header.extend_from_slice(self.region.as_bytes());
        if self.layout == Layout::Contiguous {
            let len = (self.data.left() as usize).min(mtu.saturating_sub(header.len()));
            return (header, self.offset + self.data.taken(), len, cursor);
        }
        while self.data.left() > len && header.len() + size_of::<Segment>() <= HEADER_LIMIT {
            let used = header.len() + size_of::<Segment>() + len as usize;
            let most = (mtu.saturating_sub(used) as u32).min(self.data.left() - len);
            let Some((place, run)) = self.layout.next_run(&mut cursor, most).filter(|_| most > 0) else {
                break;
            };
            let segment = Segment { offset: (self.offset + place).into(), len: run.into() };
            let _ = header.extend_from_slice(segment.as_bytes());
            len += run;
        }
        (header, self.offset, len as usize, cursor)
    }

    /// Writes all of it into a region of this node.
    pub(crate) fn carry_out<P: Port>(&mut self, port: &mut P, target: Endpoint) -> Result<(), RegionFault> {
        while self.data.left() > 0 {
            let mut ahead = self.cursor;
            let Some((place, most)) = self.layout.next_run(&mut ahead, self.data.left()) else { break };
            let mut outcome = Ok(());
            let len = self.data.next_run(most, |bytes| {
                outcome = port.put_local(target, self.region, self.offset + place, bytes);
            });
            outcome?;
            if len == 0 || self.layout.next_run(&mut self.cursor, len).is_none() {
                break;
            }
        }
        Ok(())
    }
}
