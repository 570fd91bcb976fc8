//! Sends of a context: immediate ones, messages of any length, and their ends (SPEC P-5, P-6).

use super::terms::{Here, InMemory, Terms};
use super::{Active, Operation, RemoteDone, Send, Sent};
use crate::acks::named;
use crate::device::{Full, Path, Port, REQUESTS};
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::operation::{Action, Awaits, bits, message_number};
use crate::packet::{DEFERRING, DISPATCH_IDS, Envelope, HEADER_LIMIT, Kind, is_dispatch_id};
use crate::payload::{COPY_LIMIT, Payload, PayloadIter, measure};
use crate::region::{RegionId, Rights};
use crate::send::SendState;
use crate::transport::Queued;
use heapless::Vec;

impl<P: Port> Active<P> {
    /// Most bytes of header and data together in [`send_immediate`](Self::send_immediate).
    pub fn immediate_limit(&self) -> usize {
        self.port.mtu()
    }

    /// Sends a message that fits one packet; `header` and `data` are the caller's again on return.
    ///
    /// To an id that may want it later, and behind a message to the same endpoint that is not known to be in
    /// ([`crate::admission`]), it takes an operation's place, with header and data together in at most [`HEADER_LIMIT`] bytes.
    ///
    /// # Errors
    /// [`SendError::Again`] if the packet could not be queued at once; the message was not sent then.
    #[inline(always)]
    pub fn send_immediate(
        &mut self,
        target: Endpoint,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        // Where the last message went, nothing waits, and what fits in a descriptor or a line: the rest is for others to
        // look at.
        if usize::from(dispatch) < DISPATCH_IDS && self.send_on_route(target, dispatch, header, data) {
            return Ok(());
        }
        self.send_packet(target, dispatch, header, data)
    }

    /// Sends a message to where the last one went, if it fits and nothing waits. The dispatch id is one.
    #[inline(always)]
    pub(crate) fn send_on_route(
        &mut self,
        target: Endpoint,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> bool {
        #[cfg(feature = "trace")]
        if let Some(sent) = self.send_and_note(target, dispatch, header, data) {
            return sent;
        }
        !self.operations.has_pending()
            && self.transport.send_on_route(&mut self.port, target, dispatch, header, data)
    }

    /// As [`send_immediate`](Self::send_immediate), for any message of one packet.
    #[cold]
    #[inline(never)]
    pub(crate) fn send_packet(
        &mut self,
        target: Endpoint,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        if !is_dispatch_id(dispatch) {
            return Err(SendError::DispatchId);
        }
        let path = self.transport.path_to(&self.port, target)?;
        self.note_route(target, path);
        if header.len() > HEADER_LIMIT || header.len() + data.len() > self.port.mtu() {
            return Err(SendError::TooLong);
        }
        if dispatch >= DEFERRING || self.operations.asks(target) {
            return self.send_kept((path, target), dispatch, header, data);
        }
        if self.has_pending(path) || self.operations.waits_on(path) {
            return Err(SendError::Again);
        }
        // No answer comes, so the number tells nobody anything.
        let (origin, total) = (self.transport.me(), data.len() as u32);
        let envelope =
            Envelope { kind: Kind::EagerFirst, dispatch, origin, target, message: 0, offset: 0, total };
        self.port.push_bcopy(path, &envelope, header, data).map_err(|Full| SendError::Again)?;
        self.transport.note_sent();
        Ok(())
    }

    /// As [`send_immediate`](Self::send_immediate), with a place for the message until it is known to be in.
    fn send_kept(
        &mut self,
        (path, target): (Path, Endpoint),
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        // What is behind one that asks finds its way once that is in.
        let too_long = if dispatch >= DEFERRING { SendError::TooLong } else { SendError::Again };
        let state = SendState::copied(dispatch, header, data).ok_or(too_long)?;
        let number = self.operations.free_place().ok_or(SendError::Again)?;
        let operation = self.kept((path, target), Awaits::Context, state);
        self.begin(number, operation);
        Ok(())
    }

    /// The operation of a message that is kept, of which nobody hears; it is sent by that.
    fn kept(&mut self, (path, target): (Path, Endpoint), awaits: Awaits, state: SendState) -> Operation<P> {
        self.transport.note_sent();
        Operation {
            path: Some(path),
            target,
            order: self.transport.next_order(),
            queued: false,
            awaits,
            result: Ok(()),
            lease: None,
            local_done: None,
            remote_done: RemoteDone::Nobody,
            action: Action::Send(state),
        }
    }

    /// As [`send_immediate`](Self::send_immediate), to the id of the terms; what finds no room is kept in the caller's memory.
    pub(crate) fn send_packet_in(
        &mut self,
        terms: InMemory<'_, P>,
        target: Endpoint,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        let dispatch = terms.0.dispatch;
        let state = SendState::copied(dispatch, header, data).ok_or(SendError::TooLong)?;
        let room = terms.room(&self.operations)?;
        match self.send_packet(target, dispatch, header, data) {
            Err(SendError::Again) => {}
            sent => return sent,
        }
        let path = self.transport.path_to(&self.port, target)?;
        let operation = self.kept((path, target), Awaits::Nobody, state);
        InMemory::<P>::begin(self, room, operation);
        Ok(())
    }

    /// Has the next messages of one packet to `target` go the shortest way, if nothing waits that they would overtake.
    fn note_route(&mut self, target: Endpoint, path: Path) {
        if self.operations.waiting().is_empty() && !self.operations.asks(target) {
            self.transport.note_route(&self.port, target, path);
        } else {
            self.transport.forget_route();
        }
    }

    /// Sends a message of any length. What finds no room now goes on in later advances. No callback is called before the
    /// next advance.
    ///
    /// # Errors
    /// The payload comes back with the reason; [`SendError::Again`] if [`OPERATIONS`](crate::send::OPERATIONS) are under way.
    pub fn send(&mut self, send: Send<'_, P>) -> Result<(), (SendError, Payload)> {
        self.send_on(send, Here(None))
    }

    #[inline(always)]
    pub(crate) fn send_on<T: Terms<P>>(
        &mut self,
        mut send: Send<'_, P>,
        terms: T,
    ) -> Result<(), (SendError, Payload)> {
        self.send_from(&mut send, terms).map_err(|error| (error, send.payload))
    }

    /// Takes the payload if the send is taken.
    #[inline(always)]
    pub(super) fn send_from<T: Terms<P>>(
        &mut self,
        send: &mut Send<'_, P>,
        terms: T,
    ) -> Result<(), SendError> {
        if !terms.has_dispatch_id() && !is_dispatch_id(send.dispatch) {
            return Err(SendError::DispatchId);
        }
        let path = self.transport.path_to(&self.port, send.target)?;
        let header = send.header.len();
        // A first packet without room for data would never let the rest follow.
        if header > HEADER_LIMIT || header + size_of::<RegionId>() > self.port.mtu() {
            return Err(SendError::TooLong);
        }
        let rendezvous_from = terms.rendezvous_from(self);
        if T::AT_ONCE && self.send_at_once(send, path, rendezvous_from) {
            return Ok(());
        }
        let total = measure(&send.payload, &send.layout)?;
        self.send_in_place(send, path, total, (terms.room(&self.operations)?, rendezvous_from), T::begin)
    }

    /// Sends a message of one packet that finds its way open. Returns whether it did.
    #[inline(always)]
    fn send_at_once(&mut self, send: &mut Send<'_, P>, path: Path, rendezvous_from: usize) -> bool {
        let Some(data) = send.payload.at_hand(&send.layout) else { return false };
        let far = matches!(path, Path::Torus(_));
        let fits = if far {
            // Below the second, so the first is no more than a packet's counts tell.
            send.header.len() + data.len() <= self.port.mtu() && data.len() < rendezvous_from.max(1)
        } else {
            data.len() > COPY_LIMIT && data.len() <= u32::MAX as usize
                || send.header.len() + data.len() <= self.port.mtu()
        };
        if !fits || send.dispatch >= DEFERRING || !self.operations.lets_pass() {
            return false;
        }
        // One that nobody is told of needs no place, and no number.
        if let (Payload::Static(bytes), None, None) = (&send.payload, &send.local_done, &send.remote_done) {
            let envelope = self.first_envelope(send, Kind::EagerFirst, 0, bytes.len());
            let pushed =
                Payload::push(&mut self.port, path, &envelope, send.header, (&send.payload, bytes)).is_ok();
            if pushed {
                self.transport.note_sent();
            }
            return pushed;
        }
        self.send_and_tell(send, path)
    }

    /// The same for one that somebody is told of.
    #[inline(never)]
    fn send_and_tell(&mut self, send: &mut Send<'_, P>, path: Path) -> bool {
        let Some(data) = send.payload.at_hand(&send.layout) else { return false };
        let Some(number) = self.operations.free_place() else { return false };
        let awaits = Awaits::context(send.remote_done.is_some());
        let order = self.transport.next_order();
        let kind = if awaits.is_some() { Kind::EagerFirstAcked } else { Kind::EagerFirst };
        let envelope = self.first_envelope(send, kind, message_number(order, number.into()), data.len());
        let port = &mut self.port;
        if Payload::push(port, path, &envelope, send.header, (&send.payload, data)).is_err() {
            return false;
        }
        self.transport.note_sent();
        let (target, local_done, remote_done) = (send.target, send.local_done, send.remote_done.into());
        let lease = core::mem::replace(&mut send.payload, Payload::Static(&[])).into_lease();
        self.operations
            .note_sent(number, Sent { path, target, order, awaits, lease, local_done, remote_done });
        self.note_work();
        true
    }

    /// What the only packet of a message of `len` bytes says of it.
    #[inline(always)]
    fn first_envelope(&self, send: &Send<'_, P>, kind: Kind, message: u32, len: usize) -> Envelope {
        let (origin, total) = (self.transport.me(), len as u32);
        Envelope { kind, dispatch: send.dispatch, origin, target: send.target, message, offset: 0, total }
    }

    /// Gives the message a place, for its packets or until there is one.
    #[inline(never)]
    fn send_in_place<R>(
        &mut self,
        send: &mut Send<'_, P>,
        path: Path,
        total: u32,
        (room, rendezvous_from): (R, usize),
        begin: impl FnOnce(&mut Self, R, Operation<P>),
    ) -> Result<(), SendError> {
        let header = Vec::from_slice(send.header).map_err(|_| SendError::TooLong)?;
        let payload = core::mem::replace(&mut send.payload, Payload::Static(&[]));
        let (data, lease) = PayloadIter::new(payload, send.layout, total);
        let region = self.choose_protocol((path, send.dispatch), &data, rendezvous_from);
        let operation = Operation {
            path: Some(path),
            target: send.target,
            order: self.transport.next_order(),
            queued: false,
            awaits: Awaits::context(region.is_some() || send.remote_done.is_some()),
            result: Ok(()),
            lease,
            local_done: send.local_done,
            remote_done: send.remote_done.into(),
            action: Action::Send(SendState::new(send.dispatch, header, data, region)),
        };
        self.transport.note_sent();
        begin(self, room, operation);
        Ok(())
    }

    /// Makes the memory of a send's data a region that its target can get it from, if that is how it is to be sent. With no
    /// region left it goes eagerly. What may be kept for later and is too long for that goes by rendezvous over any path.
    fn choose_protocol(
        &mut self,
        (path, dispatch): (Path, u8),
        data: &PayloadIter,
        from: usize,
    ) -> Option<RegionId> {
        // A context of the node reads lent data where it lies.
        let read_in_place = data.whole().is_some_and(|whole| self.port.lends(path, whole));
        let total = data.total() as usize;
        let may_stay = dispatch >= DEFERRING && self.unexpected.leaves(total);
        if (read_in_place || total < from.max(1)) && !may_stay {
            return None;
        }
        self.port.register(data.memory()?, Rights::READ).ok()
    }

    /// Queues packets of a send until its path is full.
    pub(crate) fn queue_send(&mut self, number: u8) -> Queued {
        let asks = self.operations.is_asking(number);
        let Some(operation) = self.operations.get(number) else { return Queued::All };
        let (target, Some(path), awaits) = (operation.target, operation.path, operation.awaits.is_some())
        else {
            return Queued::All;
        };
        let first = match (asks, awaits, operation.remote_done.is_some()) {
            (true, _, true) => Kind::AskedAcked,
            (true, ..) => Kind::Asked,
            (_, true, _) => Kind::EagerFirstAcked,
            _ => Kind::EagerFirst,
        };
        let message = message_number(operation.order, usize::from(number));
        let Action::Send(state) = &mut operation.action else { return Queued::All };
        let envelope = Envelope {
            kind: first,
            dispatch: 0,
            origin: self.transport.me(),
            target,
            message,
            offset: 0,
            total: 0,
        };
        state.push(&mut self.port, path, envelope)
    }

    /// The target has eager messages, or has processed some, whose acknowledgement was asked for.
    pub(crate) fn acks_arrived(&mut self, origin: Endpoint, data: &[u8]) {
        for number in bits(named(data).unwrap_or_default()) {
            let eager = match self.awaited(origin, number).map(|operation| &operation.action) {
                Some(Action::Send(state)) => !state.is_rendezvous(),
                action => matches!(action, Some(Action::Over)),
            };
            if !eager {
                self.processed(origin, number, Ok(()));
                continue;
            }
            if self.operations.asking() != 0 {
                self.let_in(number);
            }
            self.answered(number, Ok(()));
        }
    }

    /// The target has, or does not want, the data of a rendezvous: it is the sender's again once queued packets of it have
    /// been read.
    pub(crate) fn rendezvous_done(&mut self, origin: Endpoint, message: u32) {
        let number = (message as usize % REQUESTS) as u8;
        let Some(Operation { action: Action::Send(state), .. }) =
            self.awaited(origin, number).filter(|it| message_number(it.order, number.into()) == message)
        else {
            self.transport.protocol_error();
            return;
        };
        let Some(region) = state.give_up() else {
            self.transport.protocol_error();
            return;
        };
        self.let_in(number);
        self.port.deregister(region);
        self.operations.settle(number);
        self.answered(number, Ok(()));
    }
}
