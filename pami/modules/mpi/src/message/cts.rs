//! Data of messages that began with an RTS, once a receive wants it.

use super::At;
use super::depart::{GATHERED, gathered, payload};
use crate::envelope::Piece;
use crate::error::Error;
use crate::protocols;
use crate::request::{Awaits, Operation, Sending};
use crate::status::Status;
use core::sync::atomic::Ordering;
use pami::device::Port;
use pami::{Endpoint, Outgoing, SendError};
use zerocopy::IntoBytes;

impl<P: Port> At<'_, P> {
    /// The CTS: the receiver wants `len` bytes: all, or none if it has pulled them or has no room for them.
    pub(super) fn clear_to_send(&mut self, origin: Endpoint, slot: u16, receiver: u16, len: u32) {
        let Some(sending) = self.sending(slot) else { return };
        if sending.target != origin || !matches!(sending.awaits, Awaits::Cts { .. }) {
            return;
        }
        self.give_up_region(slot);
        if len == 0 {
            return self.requests.complete(slot, Status::EMPTY);
        }
        if let Some(sending) = self.sending(slot) {
            sending.awaits = Awaits::Room { receiver, at: 0 };
        }
        let behind = self.messages.peer(origin).is_some_and(|peer| !peer.cts.is_empty());
        if behind || self.send_data(slot).is_err() {
            self.messages.wait_for_room(self.requests, origin, |peer| &mut peer.cts, slot);
            self.pending.store(true, Ordering::Relaxed);
        }
    }

    /// The receiver of so many RTS, from this number on, has no place for those of them that had no CTS.
    pub(super) fn refused(&mut self, origin: Endpoint, first: u32, count: u16) {
        let what = "messages offered to a process that has received none of them";
        let error = Error::NoMem { what, limit: self.messages.unexpected.rts_places() };
        for slot in 0..self.requests.len() {
            let Some(sending) = self.sending(slot).filter(|sending| sending.target == origin) else {
                continue;
            };
            if let Awaits::Cts { number, .. } = sending.awaits
                && number.wrapping_sub(first) < count.into()
            {
                self.give_up_region(slot);
                self.requests.complete(slot, Status::failed(error));
            }
        }
    }

    /// The receiver of a synchronous message has it.
    pub(super) fn acknowledged(&mut self, origin: Endpoint, slot: u16) {
        let Some(sending) = self.sending(slot).filter(|sending| sending.target == origin) else { return };
        match sending.awaits {
            Awaits::Match => self.requests.complete(slot, Status::EMPTY),
            Awaits::Copy { .. } => sending.awaits = Awaits::Copy { matched: true },
            _ => {}
        }
    }

    /// Sends data whose CTS came, as much as there is room for.
    ///
    /// # Errors
    /// [`SendError::Again`] if that was not all. For other reasons the request ends.
    fn send_data(&mut self, slot: u16) -> Result<(), SendError> {
        let Some(mut operation) = self.requests.take_operation(slot) else { return Ok(()) };
        let sent = match &mut operation {
            Operation::Send(sending) => match (sending.awaits, payload(&sending.data)) {
                (Awaits::Room { receiver, .. }, Some((payload, layout))) => {
                    let piece = Piece { at: 0.into(), receiver: receiver.into() };
                    let outgoing = Outgoing {
                        target: sending.target,
                        header: piece.as_bytes(),
                        payload,
                        layout,
                        local_done: Some(self.callbacks.copied(self.requests.cookie(slot))),
                        remote_done: None,
                    };
                    protocols::send(&self.protocols.data, self.active, outgoing).map(|()| {
                        sending.awaits = Awaits::Copy { matched: true };
                        false
                    })
                }
                (Awaits::Room { receiver, at }, None) => self.send_pieces(sending, receiver, at),
                _ => Ok(false),
            },
            Operation::Receive(_) => Ok(false),
        };
        self.requests.give_operation(slot, operation);
        match sent {
            Err(SendError::Again) => return Err(SendError::Again),
            Err(error) => self.requests.complete(slot, Status::failed(error.into())),
            Ok(true) => self.requests.complete(slot, Status::EMPTY),
            Ok(false) => {}
        }
        Ok(())
    }

    /// Gathers data that has no layout, packet by packet. Returns whether it is done with it.
    fn send_pieces(&mut self, sending: &mut Sending, receiver: u16, at: u32) -> Result<bool, SendError> {
        let (all, mut at) = (sending.data.bytes() as u32, at);
        let packet = self.active.immediate_limit().saturating_sub(size_of::<Piece>()).min(GATHERED);
        while at < all {
            let len = packet.min((all - at) as usize);
            let piece = Piece { at: at.into(), receiver: receiver.into() };
            gathered(&sending.data, at as usize, len, |bytes| {
                protocols::send_immediate(
                    &self.protocols.pieces,
                    self.active,
                    sending.target,
                    piece.as_bytes(),
                    bytes,
                )
            })?;
            at += len as u32;
            sending.awaits = Awaits::Room { receiver, at };
        }
        Ok(true)
    }

    /// Sends to a peer whose CTS came go on, as far as there is room.
    pub(super) fn go_on_with_data(&mut self, task: usize) {
        self.drain(task, |peer| &mut peer.cts, Self::send_data);
    }
}
