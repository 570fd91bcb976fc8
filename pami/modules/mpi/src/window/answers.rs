//! Places for answers to other tasks.

use super::wire::Reply;
use crate::error::Result;
use crate::protocols::send_immediate;
use crate::protocols::windows::WindowProtocols;
use base::fill;
use pami::client::Node;
use pami::device::Port;
use pami::{Active, Endpoint, SendError};
use zerocopy::IntoBytes;

/// Most bytes of values in an answer.
pub(crate) const ANSWER_BYTES: usize = 256;

/// An answer to a task.
pub(crate) struct Answer {
    /// Who waits for it, while it is not sent.
    pub waits: Option<Endpoint>,
    pub reply: Reply,
    pub len: usize,
    pub values: [u8; ANSWER_BYTES],
}

/// The answers of a context, as many as others can wait for: each of a window's processes waits for one at a time.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) places: &'static mut [Answer],
    pub(crate) waiting: usize,
}

impl Answers {
    pub(crate) fn new<N: Node>(node: &N, origins: usize) -> Result<Self> {
        Ok(Self { places: fill(node, "windows", origins, || Answer::NONE)?, waiting: 0 })
    }

    /// A place for an answer to `origin`; `None` if one waits for it already.
    pub(crate) fn place_for(&self, origin: Endpoint) -> Option<usize> {
        if self.waiting == 0 {
            return (!self.places.is_empty()).then_some(0);
        }
        let waits = |answer: &Answer| answer.waits == Some(origin);
        if self.places.iter().any(waits) {
            return None;
        }
        self.places.iter().position(|answer| answer.waits.is_none())
    }
}

impl Answer {
    const NONE: Self = Self { waits: None, reply: Reply::NONE, len: 0, values: [0; ANSWER_BYTES] };

    /// Sends it, if there is room. Returns whether it still waits.
    pub fn send<P: Port>(&mut self, active: &mut Active<P>, protocols: &WindowProtocols) -> bool {
        let Some(target) = self.waits else { return false };
        let values = self.values.get(..self.len).unwrap_or_default();
        let sent = send_immediate(&protocols.reply, active, target, self.reply.as_bytes(), values);
        if sent == Err(SendError::Again) {
            return true;
        }
        // Who died does not wait any more.
        self.waits = None;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pami::endpoint::{ClientId, ContextOffset};
    use std::boxed::Box;

    #[test]
    fn r9_there_is_a_place_for_each_that_waits_whoever_it_is_and_one_for_each_origin() {
        let origin = |task| Endpoint::from_parts(ClientId(0), task, ContextOffset(0));
        let places = Box::leak(Box::new([const { Answer::NONE }; 2]));
        let mut answers = Answers { places, waiting: 0 };
        let mut wait = |task| {
            let place = answers.place_for(origin(task))?;
            answers.places[place].waits = Some(origin(task));
            answers.waiting += 1;
            Some(place)
        };
        assert_eq!([999_999, 999_999, 7].map(&mut wait), [Some(0), None, Some(1)]);
        assert_eq!(wait(8), None, "more than the windows have processes");
        answers.places[0].waits = None;
        answers.waiting -= 1;
        assert_eq!(answers.place_for(origin(999_999)), Some(0));
    }
}
