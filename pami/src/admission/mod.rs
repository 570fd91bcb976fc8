//! Refusal: a message for which its target has no place stays with its origin, which is told when to send it again
//! (SPEC R-1).
//!
//! ```text
//! origin                              target
//!   message m (asks to be let in) ----> no place: nothing is kept but that m was refused
//!   m + 1, m + 2 (in flight) ---------> not looked at
//!          <--------------------------  RETRY m, once a place is free, or after a pause
//!   m, m + 1, m + 2 ------------------> in order, as if nothing had been
//! ```
//!
//! **Who asks.** A send *asks* if its target may have no place for it: a rendezvous, a message to an id of
//! [`dispatch_deferring`](crate::ClientBuilder::dispatch_deferring), in a job of more endpoints than have a place for half a
//! message each one of several packets ([`crate::receive`]), and whatever goes to an endpoint behind one that asks and is not
//! known to be in, so that messages from one endpoint to another stay in order. What asks has a place among the origin's
//! operations, and keeps its data, until the target says that it is in. An answer to one says so of all before it. All other
//! sends are taken in as they come, and leave nothing at their origin.
//!
//! **What the target remembers** of an origin is the number of one message, in the origin's record (`acks`), however many are
//! refused: those behind it come again too.
//!
//! In a job of more endpoints than have records each target gets one message that asks at a time: see `acks`.
//!
//! **No circle of waits.** Everything that reaches a context is taken off its FIFO whatever else goes on there:
//!
//! - plain messages run their handler; what they need to go on is one place for each origin, which is there, or they are whole;
//! - what asks finds a place or is refused, and a refusal takes a word in the record of its origin;
//! - a fence becomes a bit of the message that it is behind, or of its origin's record;
//! - answers (`Ack`, `Admitted`, `RendezvousDone`, `FenceAck`, `Refused`, `Retry`, `Unknown`) end something and owe nothing;
//!   those that are owed are bits of the origin's record, one for each operation that it can have under way, and go out when
//!   there is room;
//! - a question (`Query`) is answered the same way, or comes again;
//! - of collectives, see [`crate::collective::engine`]; of processing, [`crate::balance`].
//!
//! So no arrival waits for room in an injection FIFO, for a place, or for the application. Then the first packet of every
//! injection FIFO leaves in the end, every answer that is owed goes, and receive requests, which need nothing but that, free
//! their places; and so do half messages, whose origins have begun to send the rest. What a refused message waits for is thus a
//! receive request or a half message that ends by itself, or its own handler. An origin has at most half of the receive requests
//! that are left, a node at most half of the half messages, so one that does not move leaves places to others.

#[cfg(test)]
mod orders;

use crate::device::REQUESTS;

/// Whether a message of an origin is looked at: the target's side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Doorway {
    /// The number of the message that was refused. What comes behind it is not looked at.
    refused: Option<u32>,
    /// Its origin was told to send it again.
    called: bool,
}

impl Doorway {
    /// A message that asks to be let in. Returns whether to look at it; else it comes again.
    pub(crate) fn opens_for(&mut self, message: u32) -> bool {
        match self.refused {
            None => true,
            Some(refused) if refused == message && self.called => {
                *self = Self::default();
                true
            }
            Some(_) => false,
        }
    }

    /// There was no place for one that it opened for.
    pub(crate) fn refuse(&mut self, message: u32) {
        *self = Self { refused: Some(message), called: false };
    }

    /// Whether a fence is behind a message that was refused: it comes again with that. One of many targets may be asked for
    /// behind what was started after it.
    pub(crate) fn hides(self, fence: u32) -> bool {
        // Numbers wrap; what is under way at once is near.
        self.refused.is_some_and(|refused| (number_of(fence).wrapping_sub(number_of(refused)) as i32) >= 0)
    }

    /// The message that was refused and has not come again.
    pub(crate) fn refused(self) -> Option<u32> {
        self.refused
    }

    /// Whether a message was refused and has not come again.
    pub(crate) fn is_shut(self) -> bool {
        self.refused.is_some()
    }

    /// The message whose origin is to be told to send it again.
    pub(crate) fn to_call(self) -> Option<u32> {
        self.refused.filter(|_| !self.called)
    }

    /// Its origin was told.
    pub(crate) fn called(&mut self) {
        self.called = true;
    }
}

/// What is left of an operation's number in that of a message: its upper bits.
fn number_of(message: u32) -> u32 {
    message & !(REQUESTS as u32 - 1)
}

/// Whether what asked goes again when the one with number `refused` in the origin's order was refused.
pub(crate) fn goes_again(order: u64, refused: u64) -> bool {
    order >= refused
}

/// Whether what asked is known to be in, when the target has answered the one with number `answered`.
pub(crate) fn is_in(order: u64, answered: u64) -> bool {
    order <= answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::message_number;

    #[test]
    fn r1_f1_a_refused_message_hides_the_fences_behind_it_and_no_other_though_numbers_wrap() {
        // Places say nothing of the order.
        for (refused, place) in [(7, 3), (u64::from(u32::MAX) / REQUESTS as u64, 3)] {
            let mut door = Doorway::default();
            assert!(!door.hides(message_number(refused + 1, 1)));
            door.refuse(message_number(refused, place));
            for fence_place in [0, place, REQUESTS - 1] {
                assert!(!door.hides(message_number(refused - 1, fence_place)));
                assert!(door.hides(message_number(refused + 1, fence_place)));
            }
        }
    }
}
