//! Messages of a round that are under way.

use super::slot::Piece;
use crate::endpoint::Endpoint;

/// How far a message of more than one packet is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendStage {
    /// The request has to go.
    Ask,
    /// The target has not cleared it.
    Asked,
    /// So many bytes have gone.
    Clear(usize),
}

/// A message that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing {
    pub(super) to: Endpoint,
    pub(super) rank: u32,
    pub(super) tag: u32,
    pub(super) piece: Piece,
    pub(super) stage: SendStage,
}

/// How far a message that is awaited is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceiveStage {
    /// Nothing has come.
    Open,
    /// It was requested, and is to be cleared.
    Requested,
    /// So many bytes have come.
    Cleared(usize),
}

/// A message that is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) from: Endpoint,
    pub(super) rank: u32,
    pub(super) tag: u32,
    pub(super) piece: Piece,
    pub(super) stage: ReceiveStage,
}
