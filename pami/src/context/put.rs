//! Puts of a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, Operation, Put, Sent};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::layout::Layout;
use crate::operation::{Action, Awaits, Queued, message_number};
use crate::packet::{ENDS, Envelope, Kind};
use crate::payload::{Payload, measure};
use crate::region::RegionFault;
use rings::buffer::Buffer;
use zerocopy::IntoBytes;

impl<P: Port> Active<P> {
    /// Writes into a region of another task. No callback is called before the next advance.
    ///
    /// # Errors
    /// The payload comes back with the reason; [`SendError::Again`] if
    /// [`OPERATIONS`](crate::send::OPERATIONS) are under way.
    // A call of its own: a factory's adds one comparison to it.
    #[inline(never)]
    pub fn put(&mut self, mut put: Put<P>) -> Result<(), (SendError, Payload)> {
        self.put_on(&mut put, Here(None)).map_err(|error| (error, put.payload))
    }

    /// Takes the payload if the put is taken. By reference: a put is 184 bytes to move.
    #[inline(always)]
    pub(crate) fn put_on<T: Terms<P>>(&mut self, put: &mut Put<P>, terms: T) -> Result<(), SendError> {
        let path = terms.path(self, put.target)?;
        let total = measure(&put.payload, &put.payload_layout)?;
        let reach = put.layout.reach(total).ok_or(SendError::Layout)?;
        put.region.check(put.target.task(), put.offset, reach).map_err(SendError::Region)?;
        match path {
            Path::Local(_) if T::AT_ONCE => self.put_at_once(put, total),
            Path::Torus(_) if T::AT_ONCE && self.put_in_one(put, path, terms.must_be_answered()) => Ok(()),
            _ => self.put_in_place(put, path, total, terms),
        }
    }

    /// Queues a put of one packet that finds its way open. Returns whether it did.
    #[inline(always)]
    fn put_in_one(&mut self, put: &mut Put<P>, path: Path, must_be_answered: bool) -> bool {
        if !matches!(put.layout, Layout::Contiguous) || !self.operations.lets_pass() {
            return false;
        }
        let Some(data) = put.payload.at_hand(&put.payload_layout) else { return false };
        let header = put.region.id.as_bytes();
        let Some(number) = self.operations.free_place() else { return false };
        if header.len() + data.len() > self.transport.port.mtu() {
            return false;
        }
        let awaits = Awaits::unit(put.remote_done.is_some() || must_be_answered);
        let order = self.transport.next_order();
        let envelope = Envelope {
            kind: if awaits.is_some() { Kind::PutLast } else { Kind::Put },
            dispatch: 0,
            origin: self.transport.me,
            target: put.target,
            message: message_number(order, number.into()),
            offset: put.offset,
            total: data.len() as u32,
        };
        if Payload::push(&mut self.transport.port, path, &envelope, header, (&put.payload, data)).is_err() {
            return false;
        }
        let Put { target, local_done, .. } = *put;
        let lease = core::mem::replace(&mut put.payload, Payload::Static(&[])).into_lease();
        let remote_done = put.remote_done.into();
        self.operations
            .note_sent(number, Sent { path, target, order, awaits, lease, local_done, remote_done });
        self.note_work();
        true
    }

    /// Writes the data to a region of this node.
    #[inline(always)]
    fn put_at_once(&mut self, put: &mut Put<P>, total: u32) -> Result<(), SendError> {
        if !self.operations.may_end_at_once() {
            return Err(SendError::Again);
        }
        let whole = put.layout == Layout::Contiguous && put.payload_layout == Layout::Contiguous;
        let (outcome, buffer) = match &put.payload {
            Payload::Static(bytes) if whole => {
                (self.transport.port.put_local(put.target, put.region.id, put.offset, bytes), None)
            }
            _ => self.put_pieces(put, total),
        };
        self.end_at_once(put.target, outcome, buffer, put.local_done, put.remote_done.into());
        Ok(())
    }

    /// The same piece by piece. Returns the buffer besides.
    #[inline(never)]
    fn put_pieces(&mut self, put: &mut Put<P>, total: u32) -> (Result<(), RegionFault>, Option<Buffer>) {
        let (mut state, lease) = put.take_state(total);
        let outcome = state.carry_out(&mut self.transport.port, put.target);
        drop(state);
        // Nobody else reads it.
        (outcome, lease.and_then(|lease| lease.reclaim().ok()))
    }

    /// Gives the put a place, for its packets or until there is one.
    #[inline(never)]
    fn put_in_place<T: Terms<P>>(
        &mut self,
        put: &mut Put<P>,
        path: Path,
        total: u32,
        terms: T,
    ) -> Result<(), SendError> {
        let room = terms.room(&self.operations)?;
        let (mut state, lease) = put.take_state(total);
        let now = !T::AT_ONCE && matches!(path, Path::Local(_)) && T::is_now(&room);
        let result = if now { state.carry_out(&mut self.transport.port, put.target) } else { Ok(()) };
        let operation = Operation {
            path: Some(path),
            target: put.target,
            order: self.transport.next_order(),
            queued: now,
            awaits: Awaits::unit(!now && (put.remote_done.is_some() || terms.must_be_answered())),
            result: result.map_err(OperationError::Region),
            lease,
            local_done: put.local_done,
            remote_done: put.remote_done.into(),
            action: if now { Action::Over } else { Action::Put(state) },
        };
        if now {
            T::begin_settled(self, room, operation);
        } else {
            T::begin(self, room, operation);
        }
        Ok(())
    }

    /// Queues packets of a put until its path is full.
    pub(crate) fn queue_put(&mut self, number: u8) -> Queued {
        let mtu = self.transport.port.mtu();
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (target, wants_reply) = (operation.target, operation.awaits.is_some());
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
