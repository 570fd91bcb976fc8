//! Persistent requests that are started, and receives that are cancelled.

use super::At;
use crate::request::{Awaits, PointToPoint};
use crate::status::Status;
use pami::device::Port;

impl<P: Port> At<'_, P> {
    /// Begins a persistent request.
    pub(crate) fn start(&mut self, slot: u16) {
        let Some(place) = self.requests.get_mut(slot) else { return };
        match &mut place.operation {
            Some(PointToPoint::Send(sending)) => {
                sending.awaits = Awaits::Turn;
                self.begin_send(slot);
            }
            Some(PointToPoint::Receive(receiving)) => {
                receiving.message = None;
                self.begin_receive(slot);
            }
            None => {
                let status = place.status.unwrap_or(Status::EMPTY);
                self.requests.complete(slot, status);
            }
        }
    }

    /// Ends a receive that has no message.
    pub(crate) fn cancel(&mut self, slot: u16) {
        if self.messages.posted.remove(self.requests, slot.into()) {
            self.requests.complete(slot, Status { cancelled: true, ..Status::EMPTY });
        }
    }
}
