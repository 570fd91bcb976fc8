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

/// The answers of a context, by task.
#[derive(Default)]
pub(crate) struct Answers {
    pub(crate) places: &'static mut [Answer],
    pub(crate) waiting: usize,
}

impl Answers {
    pub(crate) fn new<N: Node>(node: &N, tasks: usize) -> Result<Self> {
        let answer = || Answer { waits: None, reply: Reply::NONE, len: 0, values: [0; ANSWER_BYTES] };
        Ok(Self { places: fill(node, "windows", tasks, answer)?, waiting: 0 })
    }
}

impl Answer {
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
