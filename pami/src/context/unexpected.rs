//! Messages that a context keeps until somebody wants them (SPEC P-6).

use super::{AcceptMemory, Active, OnReceived, Receive, Sink, Stage};
use crate::device::Port;
use crate::dispatch::{Message, Received};
use crate::endpoint::Endpoint;
use crate::error::SendError;
use crate::packet::{Envelope, dispatch_id};
use crate::receive::Owes;
use crate::receive_request::Answer;
use crate::region::RemoteData;
use crate::unexpected::{Acceptance, Data, UNEXPECTED_LIMIT, Unexpected, UnexpectedId, Waiting};
use heapless::Vec;
use rings::buffer::Buffer;

impl<P: Port> Active<P> {
    /// Whether `message` can be kept once there is room: a rendezvous, and an eager message that is no longer than the memory for
    /// all of them.
    /// Any other stays with its origin until its handler does something else with it.
    pub fn can_keep(&self, message: &Message<'_>) -> bool {
        let rendezvous = message.data.is_empty();
        self.unexpected.have_room(if rendezvous { 0 } else { message.total })
    }

    /// The messages that are kept and that nobody has accepted, in the order of their arrival.
    pub fn unexpected(&self) -> impl Iterator<Item = Unexpected<'_>> {
        let mut waiting: Vec<&Waiting, UNEXPECTED_LIMIT> =
            self.unexpected.waiting().filter(|it| !it.claimed).take(UNEXPECTED_LIMIT).collect();
        waiting.sort_unstable_by_key(|waiting| waiting.order);
        waiting.into_iter().map(|waiting| Unexpected {
            id: UnexpectedId(waiting.order),
            origin: waiting.origin,
            dispatch: dispatch_id(waiting.dispatch),
            header: &waiting.header,
            total: waiting.total as usize,
        })
    }

    /// Takes an unexpected message: its data goes into `buffer` and then to the callback, as with [`Receive::Into`]. The
    /// callback is not called before the next advance.
    ///
    /// # Errors
    /// The buffer comes back with [`SendError::NoSuchMessage`], or [`SendError::Again`] if too many receive requests are
    /// under way.
    pub fn accept(
        &mut self,
        id: UnexpectedId,
        buffer: Buffer,
        then: OnReceived<P>,
    ) -> Result<(), (SendError, Buffer)> {
        let Some(number) = self.receive_requests.free_place() else { return Err((SendError::Again, buffer)) };
        let Some((waiting, fences)) = self.unexpected.take(id) else {
            return Err((SendError::NoSuchMessage, buffer));
        };
        match waiting.data {
            Data::There(data) => {
                let envelope = waiting.envelope(self.transport.me());
                self.begin_pull(number, &envelope, waiting.order, data, Receive::Into(buffer, then));
            }
            Data::Here { start, received, owes, result } => {
                let mut buffer = buffer;
                let len = buffer.len().min(received as usize);
                buffer.as_mut_slice()[..len].copy_from_slice(self.unexpected.data(start, len));
                if received < waiting.total && result.is_ok() {
                    // The rest goes straight there.
                    self.redirect(waiting.origin, Sink::Into(buffer, then));
                } else {
                    let Waiting { origin, order, message, total, .. } = waiting;
                    let total = total as usize;
                    let received = Received { origin, buffer, len, total, result, cookie: then.cookie };
                    let answer = (owes == Owes::Both && result.is_ok()).then_some(Answer::Ack(message));
                    self.receive_at(number, origin, order, answer, Stage::Deliver(received, then));
                }
            }
        }
        self.has_taken(waiting.origin, waiting.order, fences);
        Ok(())
    }

    /// The same, in the caller's memory while too many receive requests are under way.
    pub(crate) fn accept_in(
        &mut self,
        memory: &'static AcceptMemory<P>,
        id: UnexpectedId,
        buffer: Buffer,
        then: OnReceived<P>,
    ) -> Result<(), (SendError, Buffer)> {
        let Some(loan) = memory.0.take() else { return Err((SendError::MemoryInUse, buffer)) };
        if self.receive_requests.free_place().is_some() {
            return self.accept(id, buffer, then);
        }
        let claimed = self.unexpected.claim(memory, loan, Acceptance { id, buffer, then });
        claimed.map_err(|acceptance| (SendError::NoSuchMessage, acceptance.buffer))
    }

    /// Goes on with those that are accepted and wait for a receive request, as far as there are some.
    #[cold]
    #[inline(never)]
    pub(crate) fn accept_waiting(&mut self) {
        while self.receive_requests.free_place().is_some()
            && let Some(Acceptance { id, buffer, then }) = self.unexpected.next_accepted()
        {
            // It is there, and so is the place.
            let _ = self.accept(id, buffer, then);
        }
    }

    /// Drops an unexpected message.
    ///
    /// # Errors
    /// [`SendError::NoSuchMessage`], or [`SendError::Again`] if too many receive requests are under way to tell its sender.
    pub fn discard(&mut self, id: UnexpectedId) -> Result<(), SendError> {
        let number = self.receive_requests.free_place().ok_or(SendError::Again)?;
        let (waiting, fences) = self.unexpected.take(id).ok_or(SendError::NoSuchMessage)?;
        let Waiting { origin, order, message, total, .. } = waiting;
        match waiting.data {
            Data::There(_) => {
                self.receive_at(number, origin, order, Some(Answer::RendezvousDone(message)), Stage::Answer);
            }
            Data::Here { received, result: Ok(()), .. } if received < total => {
                self.redirect(origin, Sink::Discard);
            }
            Data::Here { owes: Owes::Both, result: Ok(()), .. } if self.acks.is_crowded() => {
                self.receive_at(number, origin, order, Some(Answer::Ack(message)), Stage::Answer);
            }
            Data::Here { owes: Owes::Both, result: Ok(()), .. } => self.owe_ack(origin, message),
            Data::Here { .. } => {}
        }
        self.has_taken(origin, order, fences);
        Ok(())
    }

    /// An unexpected message has left its place, which others may want. The fences behind it wait for older ones, if there are.
    fn has_taken(&mut self, origin: Endpoint, order: u64, fences: u64) {
        self.acks.note_room();
        if fences != 0 && !self.unexpected.hold_fences(origin, order, fences) {
            // Its own callback may still have to be called.
            let now = self.transport.next_order();
            self.owe_fences(origin, fences, now);
        }
    }

    /// Lets the rest of a message that is half-way go elsewhere. At its end it is more than kept.
    fn redirect(&mut self, origin: Endpoint, sink: Sink<P>) {
        if let Some(mut partial) = self.incoming.take(origin) {
            partial.sink = sink;
            partial.owes = if partial.owes == Owes::Nothing { Owes::Nothing } else { Owes::Ack };
            // It had a place a moment ago.
            self.incoming.put(partial);
        }
    }

    /// Finds a place for an eager message.
    pub(crate) fn keep_eager(&mut self, envelope: &Envelope, header: &[u8]) -> Option<u8> {
        let order = self.transport.next_order();
        self.unexpected.keep_eager(envelope, order, header)
    }

    /// Keeps a rendezvous. Returns `false` if no place is free.
    pub(crate) fn keep_rendezvous(&mut self, envelope: &Envelope, header: &[u8], data: RemoteData) -> bool {
        let order = self.transport.next_order();
        let waiting = Waiting::new(envelope, order, header, Data::There(data));
        waiting.and_then(|waiting| self.unexpected.keep(waiting)).is_some()
    }
}
