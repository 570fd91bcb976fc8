//! Sends, up to where the receiver has the envelope.

use super::credit::units_of;
use super::{At, Messages, Peer};
use crate::data::{Span, WORD};
use crate::envelope::{ASK, Envelope, RTS, SHORT_OF_CREDIT, SYNCHRONOUS, Source};
use crate::lags::Lag;
use crate::protocols::{self, Protocols};
use crate::request::{Awaits, Mode, NONE, PointToPoint, Sending};
use crate::status::Status;
use pami::device::Port;
use pami::{Active, Endpoint, Layout, Outgoing, Payload, SendError};
use rings::list::List;
use zerocopy::IntoBytes;

/// Most bytes that are gathered on the stack for one packet.
const GATHERED: usize = 1024;
/// As above, of messages that are really short.
const FEW: usize = 64;

/// A message of one packet that carries its data.
pub(crate) struct Short<'a> {
    pub(crate) data: &'a Span,
    pub(crate) target: Endpoint,
    /// The communicator's number.
    pub(crate) communicator: u32,
    /// The rank of the sender.
    pub(crate) source: u32,
    pub(crate) tag: i32,
}

impl Short<'_> {
    /// Its envelope, if it need not wait for its turn and there is credit for so many units, and the credit that is left then.
    #[inline(always)]
    fn envelope(&self, peer: &Peer, len: usize, units: u16) -> Option<(Envelope, u16)> {
        let left = peer.credit.behind(units).filter(|_| peer.pending.is_empty())?;
        let envelope = Envelope {
            communicator: self.communicator.into(),
            source: self.source.into(),
            tag: self.tag.into(),
            len: (len as u32).into(),
            sender: NONE.into(),
            credit: peer.credit.owed().into(),
            flags: 0,
            unused: [0; 3],
        };
        Some((envelope, left))
    }

    /// Most bytes of such a message.
    #[inline]
    fn limit<P: Port>(active: &Active<P>, eager_limit: usize) -> usize {
        let packet = active.immediate_limit().saturating_sub(size_of::<Envelope>());
        packet.min(GATHERED).min(eager_limit)
    }

    /// Of more than a word, or of less.
    #[inline(never)]
    fn send<P: Port>(
        &self,
        active: &mut Active<P>,
        protocols: &Protocols,
        envelope: &Envelope,
    ) -> Result<(), SendError> {
        if self.data.bytes() <= FEW {
            self.send_gathered::<P, FEW>(active, protocols, envelope)
        } else {
            self.send_gathered::<P, GATHERED>(active, protocols, envelope)
        }
    }

    /// Of at most so many bytes, which go over the stack.
    #[inline(always)]
    fn send_gathered<P: Port, const MOST: usize>(
        &self,
        active: &mut Active<P>,
        protocols: &Protocols,
        envelope: &Envelope,
    ) -> Result<(), SendError> {
        let mut bytes = [0; MOST];
        let bytes = &mut bytes[..self.data.bytes().min(MOST)];
        let _ = self.data.pack_bytes(0, bytes);
        protocols::send_immediate(&protocols.short, active, self.target, envelope.as_bytes(), bytes)
    }
}

impl Messages {
    /// Sends a word without a request, if it can go at once. Returns whether it went.
    #[inline(always)]
    pub(crate) fn send_word<P: Port>(
        &mut self,
        active: &mut Active<P>,
        protocols: &Protocols,
        short: Short<'_>,
        word: [u8; WORD],
    ) -> bool {
        let target = short.target;
        let Some(peer) = self.peer(target) else { return false };
        let Some((envelope, left)) = short.envelope(peer, WORD, 1) else { return false };
        let (short, header) = (&protocols.short, envelope.words());
        let sent = protocols::send_immediate(short, active, target, header.as_bytes(), &word);
        if sent.is_ok() {
            peer.credit.went(left);
        }
        sent.is_ok()
    }

    /// The same of any short message.
    #[inline(never)]
    pub(crate) fn send_longer_at_once<P: Port>(
        &mut self,
        active: &mut Active<P>,
        protocols: &Protocols,
        short: Short<'_>,
        eager_limit: usize,
    ) -> bool {
        let len = short.data.bytes();
        let units = units_of(len);
        if len > Short::limit(active, eager_limit) {
            return false;
        }
        let Some(peer) = self.peer(short.target) else { return false };
        let Some((envelope, left)) = short.envelope(peer, len, units) else { return false };
        let went = short.send(active, protocols, &envelope).is_ok();
        if went {
            peer.credit.went(left);
        }
        went
    }
}

/// The data as the layer below takes it.
///
/// # Errors
/// [`SendError::TooLong`].
pub(super) fn payload(data: &Span) -> Result<(Payload, Layout), SendError> {
    let (start, layout) = data.layout();
    let reach = u32::try_from(data.bytes()).ok().and_then(|bytes| layout.reach(bytes));
    let end = reach.and_then(|reach| start.checked_add(reach as usize)).ok_or(SendError::TooLong)?;
    Ok((Payload::Shared(data.memory().clone(), start..end), layout))
}

/// How a message goes.
enum How {
    Short,
    Eager,
    Rts,
    /// As an RTS, for want of credit.
    ShortOfCredit,
    /// Not before the receiver has said what credit there is.
    Later,
}

impl<P: Port> At<'_, P> {
    /// Begins the send in a slot.
    pub(crate) fn begin_send(&mut self, slot: u16) {
        let Some(target) = self.sending(slot).map(|sending| sending.target) else { return };
        if self.messages.has_pending(target) || self.send_envelope(slot).is_err() {
            self.messages.wait_for_room(self.requests, target, |peer| &mut peer.pending, slot);
            self.lags.set(Lag::Messages);
        }
    }

    fn how(&self, sending: &Sending) -> How {
        let (len, eager_limit) = (sending.data.bytes(), self.callbacks.eager_limit());
        let Some(peer) = self.messages.peers.get(sending.target.task() as usize) else { return How::Rts };
        if len > eager_limit {
            How::Rts
        } else if !peer.credit.has(units_of(len)) {
            if peer.credit.is_known() { How::ShortOfCredit } else { How::Later }
        } else if len <= Short::limit(self.active, eager_limit) {
            How::Short
        } else {
            How::Eager
        }
    }

    /// Sends the envelope of a message, with its data if that goes along.
    ///
    /// # Errors
    /// [`SendError::Again`]; nothing was done then. For other reasons the request ends.
    pub(super) fn send_envelope(&mut self, slot: u16) -> Result<(), SendError> {
        // Away from the table meanwhile.
        let Some(mut operation) = self.requests.take_operation(slot) else { return Ok(()) };
        let PointToPoint::Send(sending) = &mut operation else { return Ok(()) };
        let synchronous = sending.mode == Mode::Synchronous;
        let flags = if synchronous { SYNCHRONOUS } else { 0 };
        let how = self.how(sending);
        let (sent, awaits) = match how {
            How::Later => {
                self.ask(sending.target);
                (Err(SendError::Again), sending.awaits)
            }
            How::Short => (self.send_short(sending, slot, flags), Awaits::Match),
            How::Eager => (self.send_eager(sending, slot, flags), Awaits::Copy { matched: !synchronous }),
            How::Rts | How::ShortOfCredit => {
                let short = if matches!(how, How::ShortOfCredit) { SHORT_OF_CREDIT } else { 0 };
                let number = self.messages.peer(sending.target).map_or(0, |peer| peer.rts_sent);
                let (region, source) = self.lend(sending).unzip();
                let sent = self.send_rts(sending, slot, flags | RTS | short, source);
                if let Some(region) = region.filter(|_| sent.is_err()) {
                    self.give_up(region);
                }
                (sent, Awaits::Cts { number, region })
            }
        };
        if sent.is_ok() {
            sending.awaits = awaits;
        }
        self.requests.give_operation(slot, operation);
        match sent {
            Err(SendError::Again) => return Err(SendError::Again),
            Err(error) => self.requests.complete(slot, Status::failed(error.into())),
            Ok(()) if awaits == Awaits::Match && !synchronous => self.requests.complete(slot, Status::EMPTY),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Asks a peer for the first credit.
    fn ask(&mut self, target: Endpoint) {
        if self.messages.peer(target).is_some_and(|peer| peer.credit.asks()) {
            self.messages.say(target.task(), ASK);
        }
    }

    fn envelope(&self, sending: &Sending, slot: u16, flags: u8) -> Envelope {
        Envelope {
            communicator: sending.communicator.into(),
            source: sending.source.into(),
            tag: sending.tag.into(),
            len: (sending.data.bytes() as u32).into(),
            sender: slot.into(),
            credit: self.messages.owed(sending.target).into(),
            flags,
            unused: [0; 3],
        }
    }

    fn send_short(&mut self, sending: &Sending, slot: u16, flags: u8) -> Result<(), SendError> {
        let envelope = self.envelope(sending, slot, flags);
        let &Sending { ref data, target, communicator, source, tag, .. } = sending;
        let short = Short { data, target, communicator, source, tag };
        let sent = short.send(self.active, self.protocols, &envelope);
        self.sent(sending, &sent, &envelope);
        sent
    }

    fn send_eager(&mut self, sending: &Sending, slot: u16, flags: u8) -> Result<(), SendError> {
        let (payload, layout) = payload(&sending.data)?;
        let envelope = self.envelope(sending, slot, flags);
        let outgoing = Outgoing {
            target: sending.target,
            header: envelope.as_bytes(),
            payload,
            layout,
            local_done: Some(self.callbacks.copied(self.requests.cookie(slot))),
            remote_done: None,
        };
        let sent = protocols::send(&self.protocols.eager, self.active, outgoing);
        self.sent(sending, &sent, &envelope);
        sent
    }

    fn send_rts(
        &mut self,
        sending: &Sending,
        slot: u16,
        flags: u8,
        source: Option<Source>,
    ) -> Result<(), SendError> {
        let envelope = self.envelope(sending, slot, flags);
        let sent = protocols::send_immediate(
            &self.protocols.short,
            self.active,
            sending.target,
            envelope.as_bytes(),
            source.as_ref().map_or(&[], Source::as_bytes),
        );
        self.sent(sending, &sent, &envelope);
        sent
    }

    /// What has changed at the peer if an envelope was sent.
    fn sent(&mut self, sending: &Sending, sent: &Result<(), SendError>, envelope: &Envelope) {
        if sent.is_err() {
            return;
        }
        let rts = envelope.has(RTS);
        let units = if rts { 0 } else { units_of(sending.data.bytes()) };
        self.messages.went(sending.target, envelope.credit.get(), units);
        if let Some(peer) = self.messages.peer(sending.target).filter(|_| rts) {
            peer.rts_sent = peer.rts_sent.wrapping_add(1);
        }
    }

    /// The layer below has read the data of a send.
    pub(crate) fn copied(&mut self, cookie: usize, result: Result<(), pami::OperationError>) {
        let Some(slot) = self.requests.of_cookie(cookie) else { return };
        let Some(sending) = self.sending(slot) else { return };
        match (result, sending.awaits) {
            (Err(error), _) => self.requests.complete(slot, Status::failed(error.into())),
            (Ok(()), Awaits::Copy { matched: false }) => sending.awaits = Awaits::Match,
            (Ok(()), _) => self.requests.complete(slot, Status::EMPTY),
        }
    }

    /// Sends to a peer what waits for its turn, as far as there is room.
    pub(super) fn go_on_with_pending(&mut self, task: usize) {
        self.drain(task, |peer| &mut peer.pending, Self::send_envelope);
    }

    /// Takes requests out of a peer's list as long as `go_on` finds room for them.
    pub(super) fn drain(
        &mut self,
        task: usize,
        list: impl Fn(&mut super::Peer) -> &mut List,
        go_on: impl Fn(&mut Self, u16) -> Result<(), SendError>,
    ) {
        // A request that ends may be free at once, and its slot's link another list's: so it leaves the list before.
        while let Some(slot) =
            self.messages.peers.get_mut(task).and_then(|peer| list(peer).pop(self.requests))
        {
            if go_on(self, slot as u16).is_err() {
                if let Some(peer) = self.messages.peers.get_mut(task) {
                    list(peer).push_front(self.requests, slot);
                }
                break;
            }
        }
    }
}
