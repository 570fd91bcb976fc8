//! Puts of a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, Operation, Put, RemoteDone, Sent};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::layout::Layout;
use crate::operation::{Action, Awaits, Ended, message_number};
use crate::packet::{ENDS, Envelope, Kind};
use crate::payload::{Payload, measure};
use crate::put::PutState;
use crate::transport::Queued;
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
        let done = if self.transport.is_near(put.target) && self.put_now(&put) {
            Ok(())
        } else {
            self.put_far(&mut put)
        };
        // Either of them leaves nothing in it that is to be dropped.
        core::mem::forget(put);
        done
    }

    /// Carries the put of a word within the node out whose payload nobody wants back, and of whose end somebody is told. Returns
    /// whether it did: all others, and what is wrong with this one, are [`put_here`](Self::put_here)'s.
    #[inline(always)]
    fn put_now(&mut self, put: &Put<P>) -> bool {
        let Some(&word) = put.word() else { return false };
        let (None, Some(done)) = (&put.local_done, &put.remote_done) else { return false };
        let (target, region) = (put.target, &put.region);
        if !region.reaches(target.task(), put.offset, size_of::<u64>()) {
            return false;
        }
        let Some(end) = self.operations.next_end() else { return false };
        if !self.port.put_word_local(target, region.id, put.offset, word) {
            return false;
        }
        self.end_at_once(end, Ended::new(target, RemoteDone::Done(*done)));
        true
    }

    /// Queues the put of a word to where the last one went, of whose end somebody is told, if nothing waits. All others, and what
    /// is wrong with this one, are [`put_here`](Self::put_here)'s.
    #[inline(never)]
    fn put_far(&mut self, put: &mut Put<P>) -> Result<(), (SendError, Payload)> {
        if let Some(node) = self.transport.far_node(&self.port, put.target)
            && self.put_word(put, node)
        {
            return Ok(());
        }
        self.put_here(put)
    }

    #[inline(always)]
    fn put_word(&mut self, put: &Put<P>, node: u32) -> bool {
        let Some(&word) = put.word() else { return false };
        let (None, Some(done)) = (&put.local_done, &put.remote_done) else { return false };
        let (target, offset, region, total) = (put.target, put.offset, &put.region, size_of::<u64>());
        if !region.reaches(target.task(), offset, total) || !self.operations.lets_pass() {
            return false;
        }
        let Some(number) = self.operations.free_place() else { return false };
        let (order, origin) = (self.transport.next_order(), self.transport.me());
        let (kind, message, total) = (Kind::PutLast, message_number(order, number.into()), total as u32);
        let envelope = Envelope { kind, dispatch: 0, origin, target, message, offset, total };
        self.await_unit(number, (node, target), order, RemoteDone::Done(*done));
        // Behind all else, so that what few pushes call is the end of this.
        self.port.push_words(node, &envelope, region.id, [word]).is_ok() || self.take_back(number)
    }

    /// Takes the payload, or gives it back.
    // A call of its own: what it needs of the stack and of registers is not for the short way to pay.
    #[inline(never)]
    fn put_here(&mut self, put: &mut Put<P>) -> Result<(), (SendError, Payload)> {
        let path = self.path_to(put.target);
        let put_on = path.and_then(|path| self.put_on(put, path, Here(None)));
        put_on.map_err(|error| (error, core::mem::replace(&mut put.payload, Payload::Static(&[]))))
    }

    /// On other terms than the client's.
    pub(crate) fn put_by<T: Terms<P>>(&mut self, put: &mut Put<P>, terms: T) -> Result<(), SendError> {
        let path = terms.path(self, put.target)?;
        self.put_on(put, path, terms)
    }

    /// Takes the payload if the put is taken. By reference: a put is 184 bytes to move.
    #[inline(always)]
    fn put_on<T: Terms<P>>(&mut self, put: &mut Put<P>, path: Path, terms: T) -> Result<(), SendError> {
        if T::AT_ONCE
            && matches!(path, Path::Torus(_))
            && self.put_in_one(put, path, terms.must_be_answered())
        {
            return Ok(());
        }
        let total = measure(&put.payload, &put.payload_layout)?;
        let reach = put.layout.reach(total).ok_or(SendError::Layout)?;
        put.region.check(put.target.task(), put.offset, reach).map_err(SendError::Region)?;
        match path {
            Path::Local(_) if T::AT_ONCE => self.put_at_once(put, total),
            _ => self.put_in_place(put, path, total, terms),
        }
    }

    /// Queues a put of one packet that finds its way open. Returns whether it did: it did not if something is wrong with it.
    #[inline(always)]
    fn put_in_one(&mut self, put: &mut Put<P>, path: Path, must_be_answered: bool) -> bool {
        if !matches!(put.layout, Layout::Contiguous) || !self.operations.lets_pass() {
            return false;
        }
        let Some(data) = put.payload.at_hand(&put.payload_layout) else { return false };
        let header = put.region.id.as_bytes();
        let Some(number) = self.operations.free_place() else { return false };
        // What a packet takes is no more than 32 bits tell.
        let (len, region) = (data.len() as u32, &put.region);
        if header.len() + data.len() > self.port.mtu()
            || region.check(put.target.task(), put.offset, len).is_err()
        {
            return false;
        }
        let awaits = Awaits::unit(put.remote_done.is_some() || must_be_answered);
        let order = self.transport.next_order();
        let envelope = Envelope {
            kind: if awaits.is_some() { Kind::PutLast } else { Kind::Put },
            dispatch: 0,
            origin: self.transport.me(),
            target: put.target,
            message: message_number(order, number.into()),
            offset: put.offset,
            total: len,
        };
        if Payload::push(&mut self.port, path, &envelope, header, (&put.payload, data)).is_err() {
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

    /// Writes the data to a region of this node, piece by piece.
    #[inline(never)]
    fn put_at_once(&mut self, put: &mut Put<P>, total: u32) -> Result<(), SendError> {
        let end = self.operations.next_end().ok_or(SendError::Again)?;
        let payload = core::mem::replace(&mut put.payload, Payload::Static(&[]));
        let (mut state, lease) = PutState::new(put, payload, total);
        let outcome = state.carry_out(&mut self.port, put.target);
        drop(state);
        // Nobody else reads it.
        let buffer = lease.and_then(|lease| lease.reclaim().ok());
        let (target, local_done, remote_done) = (put.target, put.local_done, put.remote_done.into());
        self.end_at_once(end, Ended { target, outcome, buffer, local_done, remote_done });
        Ok(())
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
        let payload = core::mem::replace(&mut put.payload, Payload::Static(&[]));
        let (mut state, lease) = PutState::new(put, payload, total);
        let now = !T::AT_ONCE && matches!(path, Path::Local(_)) && T::is_now(&room);
        let result = if now { state.carry_out(&mut self.port, put.target) } else { Ok(()) };
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
        let mtu = self.port.mtu();
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (target, wants_reply) = (operation.target, operation.awaits.is_some());
        let (Some(path), Action::Put(state)) = (operation.path, &mut operation.action) else {
            return Queued::All;
        };
        let mut some = false;
        loop {
            let Some(packet) = state.next_packet(mtu) else { return Queued::All };
            let (offset, last) = (packet.offset, packet.last);
            let (kind, dispatch) = match (wants_reply, last) {
                (true, true) => (Kind::PutLast, 0),
                (true, false) => (Kind::Put, ENDS),
                (false, _) => (Kind::Put, 0),
            };
            let (origin, total) = (self.transport.me(), state.total());
            let envelope = Envelope { kind, dispatch, origin, target, message, offset, total };
            if state.push(&mut self.port, path, &envelope, &packet).is_err() {
                return Queued::stopped(some);
            }
            some = true;
            if last {
                return Queued::All;
            }
        }
    }
}
