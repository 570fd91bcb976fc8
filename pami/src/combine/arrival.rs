//! What goes in and comes out of the network at a node.

use super::{AluOperation, Status};
use core::fmt;

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InjectError {
    /// No credit or no room now: take what has arrived and try again.
    Full,
    /// The class route is not open at this node (yet, or any more), or the node has no such part in it: the caller is at
    /// fault if it was.
    NoRoute,
    /// More bytes than a packet carries, or a part of an element: the caller is at fault.
    Length,
    /// An earlier request for a class route has no answer yet, or nobody took it: try again later.
    Pending,
}

impl fmt::Display for InjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "no credit or no room on the tree now: take what has arrived and try again",
            Self::NoRoute => "the class route is not open at this node, or the node has no such part in it",
            Self::Length => "more bytes than a packet of the tree carries, or a part of an element",
            Self::Pending => "an earlier request for a class route has no answer yet",
        })
    }
}

impl core::error::Error for InjectError {}

/// What has arrived on a class route. Borrows its receive buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreeArrival<'a> {
    /// Who broadcast it; `None` for a result.
    pub broadcast: Option<u32>,
    /// The contributors' or the broadcaster's number.
    pub sequence: u32,
    /// How a result was combined.
    pub operation: AluOperation,
    /// Whether there is a result; if a node is to blame for that, `blame` says which.
    pub status: Status,
    /// The node that has left, with [`Status::Dead`].
    pub blame: u32,
    /// The result or what was broadcast. Aligned to 8 bytes at least.
    pub payload: &'a [u8],
}
