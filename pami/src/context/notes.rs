//! What a context's hart does, as it is noted for a timeline (SPEC X-6); there with the feature `trace` alone.

use super::{Active, Context};
use crate::device::Port;
use crate::endpoint::Endpoint;
use crate::trace::Event;

impl<P: Port> Active<P> {
    /// The hart begins, ends or does something.
    pub(crate) fn note(&self, event: Event) {
        self.port.note(event);
    }

    /// As [`send_on_route`](Self::send_on_route), and notes it, as the port does of all else that is sent: of the target it knows only
    /// the way here. There is always an answer.
    pub(super) fn send_and_note(
        &mut self,
        target: Endpoint,
        dispatch: u8,
        header: &[u8],
        data: &[u8],
    ) -> Option<bool> {
        if self.operations.has_pending() {
            return Some(false);
        }
        self.note(Event::Send(target));
        let sent = self.transport.send_on_route(&mut self.port, target, dispatch, header, data);
        if !sent {
            self.note(Event::Unsent);
        }
        Some(sent)
    }
}

impl<P: Port> Context<P> {
    /// An advance that is noted; there is always one.
    pub(super) fn advance_and_note(&mut self, by_one: bool) -> Option<usize> {
        let active = &mut self.active;
        active.note(Event::Advance);
        let moved = if active.due.is_look() {
            active.advance_stalled()
        } else if active.due.is_some() {
            active.advance_all(0)
        } else if active.is_quiet() {
            0
        } else if by_one {
            active.advance_by_one()
        } else {
            active.advance_awoken()
        };
        active.note(Event::Advanced(moved));
        Some(moved)
    }
}
