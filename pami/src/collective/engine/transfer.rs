//! Messages of a round that are under way.

use super::areas::Piece;
use crate::endpoint::Endpoint;

/// How far a long message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendStage {
    /// The target is to be told of the collective.
    Announce,
    /// The target has not cleared it.
    Waits,
    /// It has, and all goes in one packet.
    Answer,
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
    /// It is short, and had no credit.
    pub(super) short: bool,
    pub(super) stage: SendStage,
}

/// How far a message that is awaited is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ReceiveStage {
    /// It is short, and has not come.
    Open,
    /// It is long, or asked for, and to be cleared.
    ToClear,
    /// It is cleared; so many bytes have come.
    Cleared(usize),
}

/// A message that is awaited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) from: Endpoint,
    pub(super) rank: u32,
    pub(super) tag: u32,
    pub(super) piece: Piece,
    /// Its origin has asked for a clear again.
    pub(super) again: bool,
    pub(super) stage: ReceiveStage,
}
