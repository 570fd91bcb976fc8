//! What an origin does about messages that may be refused.

use super::Active;
use crate::acks::named;
use crate::admission::{goes_again, is_in};
use crate::device::{OPERATIONS, Port, REQUESTS};
use crate::endpoint::Endpoint;
use crate::operation::{Action, Awaits, Watched, bits, message_number};

impl<P: Port> Active<P> {
    /// Whether an operation is a send that has to ask to be let in, as it may be refused.
    #[inline]
    pub(crate) fn has_to_ask(&mut self, number: u8) -> bool {
        let Self { operations, port, incoming, .. } = self;
        let Some(operation) = operations.get(number) else { return false };
        let Action::Send(state) = &mut operation.action else { return false };
        let (path, target) = (operation.path, operation.target);
        let half = incoming.is_crowded() && path.is_some_and(|path| state.is_in_parts(port, path));
        half || state.may_be_refused() || operations.asks_on(path, target)
    }

    /// Has it ask. Returns whether it stands in no line yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask_and_hold(&mut self, number: u8) -> bool {
        self.operations.ask(number);
        if let Some(operation) = self.operations.get(number) {
            operation.awaits = Awaits::Context;
            // What is quick asks nobody.
            self.transport.forget_route_to(operation.target);
        }
        self.holds(number)
    }

    /// The target has let in what asked, up to the operation at this place.
    #[cold]
    #[inline(never)]
    pub(crate) fn let_in(&mut self, number: u8) {
        let Some(answered) = self.operations.get(number) else { return };
        // What came over another path says nothing of these.
        let (path, target, order) = (answered.path, answered.target, answered.order);
        for number in bits(self.operations.asking()) {
            let Some(operation) = self.operations.get(number) else { continue };
            if (operation.path, operation.target) != (path, target) || !is_in(operation.order, order) {
                continue;
            }
            let freed = match &mut operation.action {
                Action::Send(state) => state.let_in(),
                _ => false,
            };
            self.operations.let_in(number);
            if freed {
                self.operations.settle(number);
            }
        }
    }

    /// The target keeps messages.
    pub(crate) fn admissions_arrived(&mut self, origin: Endpoint, data: &[u8]) {
        for number in bits(named(data).unwrap_or_default()) {
            match self.awaited(origin, number) {
                Some(_) => self.let_in(number),
                None => self.transport.protocol_error(),
            }
        }
    }

    /// The target has refused a message: it goes again, and so does what came behind it.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&mut self, origin: Endpoint, message: u32) {
        let number = message as usize % REQUESTS;
        let asks = number < OPERATIONS && self.operations.is_asking(number as u8);
        let operation = self.operations.get(number as u8).filter(|operation| {
            asks && operation.target == origin && message_number(operation.order, number) == message
        });
        let Some(first) = operation.map(|operation| operation.order) else {
            self.transport.protocol_error();
            return;
        };
        for number in bits((self.operations.asking() | self.operations.fences()) & !self.questions.held()) {
            let Some(operation) = self.operations.get(number) else { continue };
            if !goes_again(operation.order, first) {
                continue;
            }
            let again = match &mut operation.action {
                Action::Send(state) => operation.target == origin && state.rewind(),
                Action::Fence(state) => state.ask_again(origin),
                _ => false,
            };
            if again {
                operation.queued = false;
                self.operations.watch(number, Watched::default());
                self.operations.line_up_again(number);
            }
        }
        self.operations.order_line();
        self.note_work();
    }
}
