//! Data of messages that began with an RTS, once a receive wants it.

use super::At;
use super::depart::payload;
use crate::envelope::DataHeader;
use crate::error::Error;
use crate::lags::Lag;
use crate::protocols;
use crate::request::Awaits;
use crate::status::Status;
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
            sending.awaits = Awaits::Room { receiver };
        }
        let behind = self.messages.peer(origin).is_some_and(|peer| !peer.data_due.is_empty());
        if behind || self.send_data(slot).is_err() {
            self.messages.wait_for_room(self.requests, origin, |peer| &mut peer.data_due, slot);
            self.lags.set(Lag::Messages);
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

    /// Sends data whose CTS came.
    ///
    /// # Errors
    /// [`SendError::Again`]; nothing was done then. For other reasons the request ends.
    fn send_data(&mut self, slot: u16) -> Result<(), SendError> {
        let Some(sending) = self.sending(slot) else { return Ok(()) };
        let Awaits::Room { receiver } = sending.awaits else { return Ok(()) };
        let header = DataHeader { receiver: receiver.into() };
        let (target, data) = (sending.target, payload(&sending.data));
        let sent = data.and_then(|(payload, layout)| {
            let outgoing = Outgoing {
                target,
                header: header.as_bytes(),
                payload,
                layout,
                local_done: Some(self.callbacks.copied(self.requests.cookie(slot))),
                remote_done: None,
            };
            protocols::send(&self.protocols.data, self.active, outgoing)
        });
        match sent {
            Err(SendError::Again) => return Err(SendError::Again),
            Err(error) => self.requests.complete(slot, Status::failed(error.into())),
            Ok(()) => {
                if let Some(sending) = self.sending(slot) {
                    sending.awaits = Awaits::Copy { matched: true };
                }
            }
        }
        Ok(())
    }

    /// Sends to a peer whose CTS came go on, as far as there is room.
    pub(super) fn go_on_with_data(&mut self, task: usize) {
        self.drain(task, |peer| &mut peer.data_due, Self::send_data);
    }
}
