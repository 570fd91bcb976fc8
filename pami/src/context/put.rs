//! Puts of a context (SPEC P-7).

use super::terms::{Here, Terms};
use super::{Active, Done, Operation, Put, RemoteDone, Sent};
use crate::device::{Path, Port};
use crate::error::{OperationError, SendError};
use crate::layout::Layout;
use crate::operation::{Action, Awaits, Ended, message_number};
use crate::packet::{DISPATCH_IDS, ENDS, Envelope, Kind, SIGNAL_BYTES};
use crate::payload::{Payload, measure};
use crate::put::{PutState, Signal};
use crate::region::RegionFault;
use crate::transport::Queued;
use zerocopy::IntoBytes;

impl<P: Port> Active<P> {
    /// Writes into a region of another task. No callback is called before the next advance.
    ///
    /// # Errors
    /// The payload comes back with the reason; [`SendError::Again`] if
    /// [`OPERATIONS`](crate::send::OPERATIONS) are under way.
    // The put of a word to where the last one of the node went, whose payload nobody wants back, and of whose end somebody is told,
    // is carried out here. All others, and what is wrong with this one, are a call away, by reference: neither their code nor a copy
    // is for each caller to have.
    #[inline(always)]
    pub fn put(&mut self, mut put: Put<P>) -> Result<(), (SendError, Payload)> {
        let Self { writable, port, operations, .. } = self;
        let target = put.target;
        let done = if let Some(words) = writable.to(target, &put.region)
            && let Some((word, &Done { call, cookie })) = put.short()
            && let Some(end) = operations.next_end()
            && port.put_word(words, put.offset, word)
        {
            end.note(Ended::Put(target, Done { call, cookie }));
            self.note_work();
            Ok(())
        } else {
            self.put_otherwise(&mut put)
        };
        // Either of them leaves nothing in it that is to be dropped.
        core::mem::forget(put);
        done
    }

    /// Queues the put of a word to where the last one went over the network, of whose end somebody is told, if nothing waits. All
    /// others, and what is wrong with this one, are [`put_here`](Self::put_here)'s. Takes the payload, or gives it back.
    #[inline(never)]
    fn put_otherwise(&mut self, put: &mut Put<P>) -> Result<(), (SendError, Payload)> {
        if let Some(node) = self.transport.far_node(&self.port, put.target)
            && self.put_word(put, node)
        {
            return Ok(());
        }
        self.put_here(put)
    }

    #[inline(always)]
    fn put_word(&mut self, put: &Put<P>, node: u32) -> bool {
        let Some((word, done)) = put.short() else { return false };
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

    // A call of its own: what it needs of the stack and of registers is not for the short way to pay.
    #[inline(never)]
    fn put_here(&mut self, put: &mut Put<P>) -> Result<(), (SendError, Payload)> {
        if put.short().is_some()
            && self.writable.open(&mut self.port, &self.transport, put.target, &put.region)
        {
            let payload = core::mem::replace(&mut put.payload, Payload::Static(&[]));
            return self.put(Put { payload, ..*put });
        }
        let path = self.transport.path_to(&self.port, put.target);
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
        if T::AT_ONCE && matches!(path, Path::Torus(_)) {
            let awaits = Awaits::unit(put.remote_done.is_some() || terms.must_be_answered());
            let kind = if awaits.is_some() { Kind::PutLast } else { Kind::Put };
            let header = put.region.id;
            if self.put_in_one(put, path, (kind, 0), header.as_bytes(), awaits) {
                return Ok(());
            }
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
    fn put_in_one(
        &mut self,
        put: &mut Put<P>,
        path: Path,
        (kind, dispatch): (Kind, u8),
        header: &[u8],
        awaits: Awaits,
    ) -> bool {
        if !matches!(put.layout, Layout::Contiguous) || !self.operations.lets_pass() {
            return false;
        }
        let Some(data) = put.payload.at_hand(&put.payload_layout) else { return false };
        let Some(number) = self.operations.free_place() else { return false };
        // What a packet takes is no more than 32 bits tell.
        let (len, region) = (data.len() as u32, &put.region);
        if header.len() + data.len() > self.port.mtu()
            || region.check(put.target.task(), put.offset, len).is_err()
        {
            return false;
        }
        let order = self.transport.next_order();
        let envelope = Envelope {
            kind,
            dispatch,
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
        let Self { operations, port, .. } = self;
        let end = operations.make_end().ok_or(SendError::Again)?;
        let payload = core::mem::replace(&mut put.payload, Payload::Static(&[]));
        let (mut state, lease) = PutState::new(put, payload, total);
        let outcome = state.carry_out(port, put.target);
        drop(state);
        // Nobody else reads it.
        let buffer = lease.and_then(|lease| lease.reclaim().ok());
        let (target, local_done, remote_done) = (put.target, put.local_done, put.remote_done.into());
        end.note(Ended::Otherwise { target, outcome, buffer, local_done, remote_done });
        self.note_work();
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
        let now = !T::AT_ONCE && matches!(path, Path::Local(_));
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
        let origin = self.transport.me();
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (target, wants_reply) = (operation.target, operation.awaits.is_some());
        let (Some(path), Action::Put(state)) = (operation.path, &mut operation.action) else {
            return Queued::All;
        };
        let (kind, total) = (Kind::Put, state.total());
        let envelope = Envelope { kind, dispatch: 0, origin, target, message, offset: 0, total };
        state.push_all(&mut self.port, path, envelope, PutState::next_packet, |last| {
            match (wants_reply, last) {
                (true, true) => (Kind::PutLast, 0),
                (true, false) => (Kind::Put, ENDS),
                (false, _) => (Kind::Put, 0),
            }
        })
    }

    /// As [`put`](Self::put), and tells the target: once all data is in the region a handler of the target endpoint is called,
    /// with the signal's header and no data, as for a message, behind the messages to that endpoint before it. A put that is
    /// refused is not signalled. `remote_done` is called when the handler was, or with the fault; in a job of more endpoints than
    /// have places for what the target owes it may be [`OperationError::Forgotten`].
    ///
    /// The data may wait with the signal, as a message does: one-sided operations after it that meet its data in the region are to
    /// be begun once `remote_done` was called.
    ///
    /// # Errors
    /// As [`put`](Self::put); [`SendError::Again`] also while a message to that endpoint may yet be refused by it, and come
    /// again; [`SendError::DispatchId`] if the signal's is not below [`DISPATCH_IDS`].
    #[inline(never)]
    pub fn put_signal(&mut self, mut put: Put<P>, signal: Signal) -> Result<(), (SendError, Payload)> {
        self.put_and_signal(&mut put, signal).map_err(|error| (error, put.payload))
    }

    /// Takes the payload if the put is taken.
    fn put_and_signal(&mut self, put: &mut Put<P>, signal: Signal) -> Result<(), SendError> {
        if usize::from(signal.dispatch) >= DISPATCH_IDS {
            return Err(SendError::DispatchId);
        }
        // Its answer would say that those are in.
        if self.operations.asks(put.target) {
            return Err(SendError::Again);
        }
        let path = self.transport.path_to(&self.port, put.target)?;
        let awaits = Awaits::signal(put.remote_done.is_some());
        if let Path::Torus(_) = path {
            let kind = if awaits.is_some() { Kind::PutSignalAcked } else { Kind::PutSignal };
            let header: [[u8; 8]; 2] = [zerocopy::transmute!(put.region.id), signal.header];
            if self.put_in_one(put, path, (kind, signal.dispatch), header.as_bytes(), awaits) {
                self.transport.note_sent();
                return Ok(());
            }
        }
        self.put_signal_in_place(put, path, signal)
    }

    /// Gives the put a place, for its packets or until there is one.
    #[inline(never)]
    fn put_signal_in_place(&mut self, put: &mut Put<P>, path: Path, signal: Signal) -> Result<(), SendError> {
        let total = measure(&put.payload, &put.payload_layout)?;
        let reach = put.layout.reach(total).ok_or(SendError::Layout)?;
        put.region.check(put.target.task(), put.offset, reach).map_err(SendError::Region)?;
        let number = self.operations.free_place().ok_or(SendError::Again)?;
        let payload = core::mem::replace(&mut put.payload, Payload::Static(&[]));
        let (state, lease) = PutState::new(put, payload, total);
        let operation = Operation {
            path: Some(path),
            target: put.target,
            order: self.transport.next_order(),
            queued: false,
            awaits: Awaits::signal(put.remote_done.is_some()),
            result: Ok(()),
            lease,
            local_done: put.local_done,
            remote_done: put.remote_done.into(),
            action: Action::PutSignal(state, signal),
        };
        self.transport.note_sent();
        self.begin(number, operation);
        Ok(())
    }

    /// Queues packets of a put with signal until its path is full.
    #[inline(never)]
    pub(crate) fn queue_put_signal(&mut self, number: u8) -> Queued {
        let origin = self.transport.me();
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let message = message_number(operation.order, usize::from(number));
        let (target, acked) = (operation.target, operation.awaits.is_some());
        let (Some(path), Action::PutSignal(state, signal)) = (operation.path, &mut operation.action) else {
            return Queued::All;
        };
        if let Path::Local(_) = path {
            // Not again if it was there when the ring was full: then nothing is left of it.
            if let Err(fault) = state.carry_out(&mut self.port, target) {
                (operation.awaits, operation.result) = (Awaits::Nobody, Err(OperationError::Region(fault)));
                return Queued::All;
            }
            let kind = if acked { Kind::EagerFirstAcked } else { Kind::EagerFirst };
            let dispatch = signal.dispatch;
            let envelope = Envelope { kind, dispatch, origin, target, message, offset: 0, total: 0 };
            return Queued::whole(self.port.push_bcopy(path, &envelope, &signal.header, &[]).is_ok());
        }
        let (kind, total) = (Kind::Put, state.total());
        let envelope = Envelope { kind, dispatch: 0, origin, target, message, offset: 0, total };
        let next = |state: &PutState, mtu| state.next_before(signal, mtu);
        state.push_all(&mut self.port, path, envelope, next, |last| match (last, acked) {
            (false, _) => (Kind::Put, ENDS),
            (true, false) => (Kind::PutSignal, signal.dispatch),
            (true, true) => (Kind::PutSignalAcked, signal.dispatch),
        })
    }

    /// The signal of a put whose data the message unit has placed, or refused.
    pub(crate) fn signal_arrived(&mut self, envelope: &Envelope, header: &[u8]) {
        let Envelope { kind, origin, message, offset, .. } = *envelope;
        let acked = kind == Kind::PutSignalAcked;
        if offset != 0 {
            match RegionFault::from_byte(offset as u8) {
                Some(fault) if acked => self.owe_refused_signal(origin, message, fault),
                _ => {}
            }
            return;
        }
        let Some((_, header)) = header.split_last_chunk::<SIGNAL_BYTES>() else {
            return self.transport.protocol_error();
        };
        let kind = if acked { Kind::EagerFirstAcked } else { Kind::EagerFirst };
        self.first(&Envelope { kind, total: 0, ..*envelope }, header, &[]);
    }
}
