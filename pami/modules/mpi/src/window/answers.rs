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
    /// Who waits for it.
    pub to: Endpoint,
    /// The window that it is of.
    pub slot: u8,
    pub reply: Reply,
    pub len: usize,
    pub values: [u8; ANSWER_BYTES],
}

/// The answers of a context that found no room, the first `waiting` of `places`: at most one for each task that is in a window,
/// so there is a place for every one.
#[derive(Default)]
pub(crate) struct Answers {
    places: &'static mut [Answer],
    waiting: usize,
}

impl Answers {
    pub(crate) fn new<N: Node>(node: &N, origins: usize) -> Result<Self> {
        Ok(Self { places: fill(node, "windows", origins, Answer::none)?, waiting: 0 })
    }

    /// Whether an answer to a task may be sent: it has no other one that waits.
    pub(crate) fn has_room_for(&self, task: u32) -> bool {
        let (waiting, free) = self.places.split_at(self.waiting);
        !free.is_empty() && waiting.iter().all(|answer| answer.to.task() != task)
    }

    /// Sends an answer that [has room](Self::has_room_for), or keeps it. Returns whether it waits.
    pub(crate) fn send<P: Port>(
        &mut self,
        active: &mut Active<P>,
        protocols: &WindowProtocols,
        answer: Answer,
    ) -> bool {
        !answer.send(active, protocols) && self.keep(answer)
    }

    fn keep(&mut self, answer: Answer) -> bool {
        let Some(place) = self.places.get_mut(self.waiting) else { return false };
        *place = answer;
        self.waiting += 1;
        true
    }

    /// Goes on with those that wait. Returns whether some still do.
    pub(crate) fn go_on<P: Port>(&mut self, active: &mut Active<P>, protocols: &WindowProtocols) -> bool {
        self.retain(|answer| !answer.send(active, protocols));
        self.waiting > 0
    }

    /// The window is freed: its processes have every answer that they waited for.
    pub(crate) fn forget(&mut self, slot: u8) {
        self.retain(|answer| answer.slot != slot);
    }

    fn retain(&mut self, mut stays: impl FnMut(&Answer) -> bool) {
        let mut at = 0;
        while at < self.waiting {
            if stays(&self.places[at]) {
                at += 1;
            } else {
                self.waiting -= 1;
                self.places.swap(at, self.waiting);
            }
        }
    }
}

impl Answer {
    fn none() -> Self {
        let (to, reply) = (Endpoint::from_bits(u64::MAX), Reply::NONE);
        Self { to, slot: 0, reply, len: 0, values: [0; ANSWER_BYTES] }
    }

    /// Sends it, if there is room. Returns whether it is done with: who died does not wait any more.
    fn send<P: Port>(&self, active: &mut Active<P>, protocols: &WindowProtocols) -> bool {
        let values = self.values.get(..self.len).unwrap_or_default();
        let sent = send_immediate(&protocols.reply, active, self.to, self.reply.as_bytes(), values);
        sent != Err(SendError::Again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pami::endpoint::{ClientId, ContextOffset};
    use std::boxed::Box;

    #[test]
    fn r9_one_answer_of_each_task_waits_whatever_it_says_it_is_and_none_of_a_window_that_is_freed() {
        let places = Box::leak(Box::new([Answer::none(), Answer::none()]));
        let mut answers = Answers { places, waiting: 0 };
        let mut wait = |task, context, slot| {
            let to = Endpoint::from_parts(ClientId(0), task, ContextOffset(context));
            answers.has_room_for(task) && answers.keep(Answer { to, slot, ..Answer::none() })
        };
        assert_eq!((0..8).map(|context| wait(999_999, context, 0)).filter(|waits| *waits).count(), 1);
        assert!(wait(7, 0, 1) && !wait(8, 0, 1), "more than the windows have processes");
        answers.forget(0);
        let left: std::vec::Vec<_> =
            answers.places[..answers.waiting].iter().map(|answer| answer.to.task()).collect();
        assert_eq!(left, [7]);
        assert!(answers.has_room_for(999_999) && answers.has_room_for(8) && !answers.has_room_for(7));
    }
}
