//! Puts: the origin writes into a region of another task (SPEC D-5, P-7).
//!
//! To another node, and to its own by the network's loop-back, a put is packets that the target's message unit carries
//! out on reception. Within a node it is done at once; its callbacks wait for the next advance all the same.

use crate::context::{Active, Done};
use crate::device::{Path, Port};
use crate::endpoint::Endpoint;
use crate::error::{OperationError, SendError};
use crate::factory::terms::{Here, Terms};
use crate::layout::{Cursor, Layout, Segment};
use crate::operation::{Action, Operation, Queued, message_number};
use crate::packet::{ENDS, Envelope, HEADER_LIMIT, Kind};
use crate::payload::{Gather, Payload, measure};
use crate::region::{RegionFault, RegionHandle, RegionId};
use heapless::Vec;
use zerocopy::IntoBytes;

/// Data to be written into a region.
pub struct Put<P: Port> {
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
    pub local_done: Option<Done<P>>,
    /// Called when all data is in the region, or was refused. Without it a refusal is not told.
    pub remote_done: Option<Done<P>>,
}

/// A put under way.
pub(crate) struct PutState {
    region: RegionId,
    offset: u32,
    layout: Layout,
    cursor: Cursor,
    data: Gather,
}

/// Bytes of a packet's header: the region's name, then the runs.
type PutHeader = Vec<u8, HEADER_LIMIT>;

impl PutState {
    /// Header, offset and length of the next packet of at most `mtu` bytes, and the cursor behind it.
    fn next_packet(&self, mtu: usize) -> (PutHeader, u32, usize, Cursor) {
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

impl<P: Port> Active<P> {
    /// Writes into a region of another task. No callback is called before the next advance.
    ///
    /// # Errors
    /// The payload comes back with the reason; [`SendError::Again`] if
    /// [`OPERATIONS`](crate::send::OPERATIONS) are under way.
    // A call of its own: a factory's adds one comparison to it.
    #[inline(never)]
    pub fn put(&mut self, put: Put<P>) -> Result<(), (SendError, Payload)> {
        self.put_on(put, Here(None))
    }

    #[inline(always)]
    pub(crate) fn put_on<T: Terms<P>>(&mut self, put: Put<P>, terms: T) -> Result<(), (SendError, Payload)> {
        let (path, total, room) = match self.check_put(&put, terms) {
            Ok(checked) => checked,
            Err(error) => return Err((error, put.payload)),
        };
        let Put { target, region, offset, layout, payload, payload_layout, local_done, remote_done } = put;
        let (data, lease) = Gather::new(payload, payload_layout, total);
        let mut state = PutState { region: region.id, offset, layout, cursor: Cursor::default(), data };
        let order = self.transport.next_order();
        let mut operation = Operation {
            path: Some(path),
            target,
            order,
            queued: true,
            awaits: false,
            result: Ok(()),
            lease,
            local_done,
            remote_done,
            action: Action::Over,
        };
        if matches!(path, Path::Local(_)) && T::is_now(&room) {
            let outcome = state.carry_out(&mut self.transport.port, target);
            operation.result = outcome.map_err(OperationError::Region);
            T::begin_over(self, room, operation);
        } else {
            operation.queued = false;
            operation.awaits = operation.remote_done.is_some() || terms.must_be_answered();
            operation.action = Action::Put(state);
            T::begin(self, room, operation);
        }
        Ok(())
    }

    #[inline(always)]
    fn check_put<T: Terms<P>>(&mut self, put: &Put<P>, terms: T) -> Result<(Path, u32, T::Room), SendError> {
        let path = terms.path(self, put.target)?;
        let total = measure(&put.payload, &put.payload_layout)?;
        let reach = put.layout.reach(total).ok_or(SendError::Layout)?;
        put.region.check(put.target.task(), put.offset, reach).map_err(SendError::Region)?;
        let room = terms.room(&self.operations)?;
        Ok((path, total, room))
    }

    /// Queues packets of a put until its path is full.
    pub(crate) fn queue_put(&mut self, number: u8) -> Queued {
        let mtu = self.transport.port.mtu();
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (target, wants_reply) = (operation.target, operation.awaits);
        let (Some(path), Action::Put(state)) = (operation.path, &mut operation.action) else {
            return Queued::All;
        };
        let mut some = false;
        loop {
            let (header, offset, len, cursor) = state.next_packet(mtu);
            let last = len as u32 == state.data.left();
            if len == 0 && !last {
                // The layout was seen to reach far enough.
                return Queued::All;
            }
            let (kind, dispatch) = match (wants_reply, last) {
                (true, true) => (Kind::PutLast, 0),
                (true, false) => (Kind::Put, ENDS),
                (false, _) => (Kind::Put, 0),
            };
            let (origin, total) = (self.transport.me, state.data.total());
            let envelope = Envelope { kind, dispatch, origin, target, message, offset, total };
            if state.data.push(&mut self.transport.port, path, &envelope, &header, len).is_err() {
                return Queued::stopped(some);
            }
            some = true;
            state.cursor = cursor;
            if last {
                return Queued::All;
            }
        }
    }
}
