//! What is told of an operation at its end.

use crate::envelope::{ANY_SOURCE, ANY_TAG, PROC_NULL};
use crate::error::Error;

/// The end of an operation: of a receive who sent it, with which tag, and how long it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Rank of the sender in the communicator.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Bytes of data that were received, packed.
    pub len: usize,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
    /// Why it did not end well.
    pub error: Option<Error>,
}

impl Status {
    /// Of an operation that receives nothing, and of requests that are not active.
    pub const EMPTY: Self = Self { source: ANY_SOURCE, tag: ANY_TAG, len: 0, cancelled: false, error: None };

    /// Of a receive from `PROC_NULL`.
    pub const NOBODY: Self = Self { source: PROC_NULL, ..Self::EMPTY };

    /// Of an operation that failed.
    pub fn failed(error: Error) -> Self {
        Self { error: Some(error), ..Self::EMPTY }
    }
}
