//! Receives, from their match to their end.

use super::matching::Wanted;
use super::unexpected::UnexpectedData;
use super::{At, Messages, Peer, Refused};
use crate::data::Span;
use crate::envelope::{CREDIT, CTS, Control, Envelope, MATCHED, REFUSED, RTS, SYNCHRONOUS, Source};
use crate::error::Error;
use crate::lags::Lag;
use crate::protocols;
use crate::request::{Arrived, NONE, PointToPoint, Progress, Receiving, Request, Requests};
use crate::status::Status;
use pami::device::Port;
use pami::{Endpoint, OperationError, SendError};
use rings::list::List;
use zerocopy::IntoBytes;

impl Receiving {
    #[inline(always)]
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { communicator: self.communicator, source: self.source, tag: self.tag }
    }

    /// What is told of it at its end.
    fn status(&self, message: &Arrived) -> Status {
        let error = match message.progress {
            Progress::Pulled(Err(error)) => Some(error.into()),
            _ => None,
        };
        self.ended(&message.envelope, error)
    }

    /// What is told of it at its end, for this reason if it did not end well.
    #[inline(always)]
    fn ended(&self, envelope: &Envelope, error: Option<Error>) -> Status {
        self.data.received(envelope, error)
    }

    /// Puts data in its place, but for what it has no room for.
    #[inline]
    fn put(&self, at: usize, data: &[u8]) {
        self.data.put(at, data);
    }

    /// All of its data, which is no word, goes to its place.
    #[inline(never)]
    fn put_all(&self, data: &[u8]) {
        self.put(0, data);
    }

    /// Its message came with all of its data. Returns what is told of it.
    #[inline(always)]
    pub(super) fn all_came(&self, envelope: &Envelope, data: &[u8]) -> Status {
        if !self.data.put_word(data) {
            self.put_all(data);
        }
        self.ended(envelope, None)
    }

    /// Puts data of its message in its place.
    pub(super) fn place(&mut self, at: usize, data: &[u8]) {
        self.put(at, data);
        if let Some(Arrived { progress: Progress::Placed(placed), .. }) = &mut self.message {
            *placed = placed.saturating_add(data.len() as u32);
        }
    }

    /// Whether nothing more comes.
    pub(super) fn is_whole(&self) -> bool {
        self.message.as_ref().is_some_and(|message| match message.progress {
            Progress::Placed(placed) => placed >= message.envelope.len.get(),
            Progress::Pulling => false,
            Progress::Pulled(_) => true,
        })
    }
}

impl Span {
    /// What is told of a message that came here, for this reason if it did not come well.
    #[inline(always)]
    fn received(&self, envelope: &Envelope, error: Option<Error>) -> Status {
        let (len, room) = (envelope.len.get() as usize, self.bytes());
        let error = error.or((len > room).then_some(Error::Truncate { len, room }));
        Status { len: len.min(room), error, ..envelope.status() }
    }

    /// Puts a message's data in its place, but for what there is no room for.
    #[inline]
    fn put(&self, at: usize, data: &[u8]) {
        let room = self.bytes().saturating_sub(at).min(data.len());
        if room > 0 {
            // There is room.
            let _ = self.unpack_bytes(at, &data[..room]);
        }
    }
}

impl Messages {
    /// A receive takes a message that waits, if all of it is here and its sender waits for nothing. Returns the request, which
    /// is complete, if there is room for it; nothing was done if not.
    #[inline(never)]
    pub(super) fn take_waiting(
        &mut self,
        requests: &mut Requests,
        internal: bool,
        place: u32,
        data: &Span,
    ) -> Option<Request> {
        let waiting = self.unexpected.get(place)?;
        let (origin, envelope) = (waiting.origin, waiting.envelope);
        if envelope.flags != 0 || !waiting.is_whole() {
            return None;
        }
        let request = requests.open_complete(internal, || data.received(&envelope, None)).ok()?;
        self.unexpected.unlink(place);
        match self.unexpected.piece(place) {
            Some(piece) if data.put_word(piece) => {}
            _ => self.unexpected.read(place, |at, piece| data.put(at, piece)),
        }
        self.unexpected.free(place);
        self.taken(origin, envelope.len.get() as usize);
        Some(request)
    }
}

impl Envelope {
    #[inline]
    pub(crate) fn status(&self) -> Status {
        let (source, tag, len) = (self.source.get() as i32, self.tag.get(), self.len.get() as usize);
        // Not the rest of an empty one: that is a copy of all that an error has room for.
        Status { source, tag, len, cancelled: false, error: None }
    }
}

impl<P: Port> At<'_, P> {
    /// Begins the receive in a slot.
    pub(crate) fn begin_receive(&mut self, slot: u16) {
        let Some(wanted) = self.receiving(slot).map(|receiving| receiving.wanted()) else { return };
        self.post(slot, &wanted);
    }

    /// Begins the receive in a slot, which wants this.
    #[inline]
    pub(crate) fn post(&mut self, slot: u16, wanted: &Wanted) {
        match self.messages.find_waiting(wanted) {
            Some(place) => {
                self.messages.unexpected.unlink(place);
                self.receive_waiting(slot, place);
            }
            None => self.messages.posted.push(self.requests, slot.into()),
        }
    }

    /// A receive gets a message that is out of the queue.
    pub(crate) fn receive_waiting(&mut self, slot: u16, place: u32) {
        let Some(waiting) = self.messages.unexpected.get(place) else { return };
        waiting.claimed = Some(slot);
        let (origin, envelope) = (waiting.origin, waiting.envelope);
        if let UnexpectedData::There(source) = waiting.data {
            self.messages.unexpected.free(place);
            self.matched(slot, origin, envelope, source);
        } else {
            self.matched(slot, origin, envelope, None);
            self.claim(place);
        }
    }

    /// The data of a waiting message goes to its receive, if all is there and the receive too.
    pub(super) fn claim(&mut self, place: u32) {
        let Some(waiting) = self.messages.unexpected.get(place) else { return };
        let Some(slot) = waiting.claimed else { return };
        let (origin, len) = (waiting.origin, waiting.envelope.len.get());
        let UnexpectedData::Here(here) = &waiting.data else { return };
        let broken = here.broken;
        if here.received < len && broken.is_none() {
            return;
        }
        let messages = &mut *self.messages;
        if let Some(PointToPoint::Receive(receiving)) =
            self.requests.get_mut(slot).and_then(|slot| slot.active())
        {
            messages.unexpected.read(place, |at, data| receiving.place(at, data));
        }
        messages.unexpected.free(place);
        messages.taken(origin, len as usize);
        self.data_came(slot, broken);
    }

    /// A receive has its message; after an RTS the data has to be pulled or asked for.
    pub(super) fn matched(
        &mut self,
        slot: u16,
        origin: Endpoint,
        envelope: Envelope,
        source: Option<Source>,
    ) {
        let Some(receiving) = self.receiving(slot) else { return };
        receiving.message = Some(Arrived { origin, envelope, progress: Progress::Placed(0) });
        if envelope.has(RTS) && !source.is_some_and(|source| self.pull(slot, &source)) {
            self.tell(slot);
        }
    }

    /// The data of a receive is in its place.
    pub(super) fn data_came(&mut self, slot: u16, broken: Option<OperationError>) {
        let message = self.receiving(slot).and_then(|receiving| receiving.message);
        match (message, broken) {
            (None, _) => {}
            (_, Some(error)) => self.requests.complete(slot, Status::failed(error.into())),
            (Some(Arrived { envelope, .. }), None) if envelope.has(SYNCHRONOUS) && !envelope.has(RTS) => {
                self.tell(slot);
            }
            (Some(_), None) => self.finish(slot),
        }
        if self.messages.waits() {
            // Credit may be due: with the next advance.
            self.lags.set(Lag::Messages);
        }
    }

    fn finish(&mut self, slot: u16) {
        let Some(receiving) = self.receiving(slot) else { return };
        let status = receiving.message.map_or(Status::EMPTY, |message| receiving.status(&message));
        self.requests.complete(slot, status);
    }

    /// Tells the sender that a receive has matched, or has its data.
    pub(super) fn tell(&mut self, slot: u16) {
        let Some(message) = self.receiving(slot).and_then(|receiving| receiving.message) else { return };
        if self.try_to_tell(slot).is_err() {
            self.messages.wait_for_room(self.requests, message.origin, |peer| &mut peer.replies_due, slot);
            self.lags.set(Lag::Messages);
        }
    }

    fn try_to_tell(&mut self, slot: u16) -> Result<(), SendError> {
        let Some(receiving) = self.receiving(slot) else { return Ok(()) };
        let Some(Arrived { origin, envelope, progress }) = receiving.message else { return Ok(()) };
        let fits = envelope.len.get() as usize <= receiving.data.bytes();
        let kind = if envelope.has(RTS) { CTS } else { MATCHED };
        let pulled = matches!(progress, Progress::Pulled(_));
        let len = if fits && kind == CTS && !pulled { envelope.len.get() } else { 0 };
        match self.send_control(origin, kind, envelope.sender.get(), slot, len) {
            Err(SendError::Again) => return Err(SendError::Again),
            Err(error) => self.requests.complete(slot, Status::failed(error.into())),
            // Data that does not fit does not come.
            Ok(()) if len == 0 => self.finish(slot),
            Ok(()) => {}
        }
        Ok(())
    }

    pub(super) fn send_control(
        &mut self,
        to: Endpoint,
        kind: u8,
        sender: u16,
        receiver: u16,
        len: u32,
    ) -> Result<(), SendError> {
        let credit = self.messages.owed(to);
        let control = Control {
            len: len.into(),
            sender: sender.into(),
            receiver: receiver.into(),
            credit: credit.into(),
            kind,
            unused: 0,
        };
        let sent =
            protocols::send_immediate(&self.protocols.control, self.active, to, control.as_bytes(), &[]);
        if sent != Err(SendError::Again) {
            self.messages.went(to, credit, 0);
        }
        sent
    }

    /// Receives that have to tell a peer something do, as far as there is room.
    pub(super) fn go_on_telling(&mut self, task: usize) {
        self.drain(task, |peer| &mut peer.replies_due, Self::try_to_tell);
    }

    /// Tells a peer what it may use again, if that is much. Returns whether there was room.
    pub(super) fn pay(&mut self, task: usize) -> bool {
        if !self.messages.peers.get(task).is_some_and(|peer| peer.credit.is_due()) {
            return true;
        }
        let me = self.active.endpoint();
        let to = Endpoint::from_parts(me.client(), task as u32, me.context());
        // What goes to a dead node is nobody's.
        self.send_control(to, CREDIT, NONE, NONE, 0) != Err(SendError::Again)
    }

    /// The RTS with this number has no place: its sender is told, once there is room.
    pub(super) fn refuse(&mut self, origin: Endpoint, number: u32) {
        let Some(peer) = self.messages.peer(origin) else { return };
        let first = if peer.refused.count > 0 { peer.refused.first } else { number };
        peer.refused = Refused { first, count: number.wrapping_sub(first).saturating_add(1) };
        if !self.tell_refused(origin.task() as usize) {
            self.messages.queue(origin.task());
            self.lags.set(Lag::Messages);
        }
    }

    /// Tells a peer of its RTS that found no place, behind the CTS of those among them that were matched. Returns
    /// whether it knows of all.
    fn tell_refused(&mut self, task: usize) -> bool {
        let me = self.active.endpoint();
        let to = Endpoint::from_parts(me.client(), task as u32, me.context());
        loop {
            let Some(peer) = self.messages.peers.get(task) else { return true };
            let Refused { first, count: all } = peer.refused;
            if all == 0 {
                return true;
            }
            if !peer.replies_due.is_empty() {
                return false;
            }
            let count = u16::try_from(all).unwrap_or(u16::MAX);
            // What goes to a dead node is nobody's.
            if self.send_control(to, REFUSED, count, NONE, first) == Err(SendError::Again) {
                return false;
            }
            if let Some(peer) = self.messages.peers.get_mut(task) {
                peer.refused =
                    Refused { first: first.wrapping_add(count.into()), count: all - u32::from(count) };
            }
        }
    }

    /// Goes on with what found no room, peer by peer.
    pub(crate) fn go_on(&mut self) {
        // Who waits again waits behind all.
        let mut queue = core::mem::take(&mut self.messages.queue);
        while let Some(task) = queue.pop(&mut self.messages.peers) {
            let at = task as usize;
            self.messages.peers[at].queued = false;
            self.go_on_telling(at);
            let said = self.go_on_accounting(at);
            let told = self.tell_refused(at);
            self.go_on_with_data(at);
            let paid = self.pay(at);
            self.go_on_with_pending(at);
            let lists =
                |peer: &Peer| [peer.replies_due, peer.data_due, peer.pending].iter().all(List::is_empty);
            if !said || !told || !paid || !self.messages.peers.get(at).is_some_and(lists) {
                self.messages.queue(task);
            }
        }
        if self.messages.waits() {
            self.lags.set(Lag::Messages);
        }
    }
}
