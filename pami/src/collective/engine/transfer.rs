//! Messages of a round that are under way.

use super::areas::Piece;
use crate::endpoint::Endpoint;
use crate::region::RemoteData;

/// How far a message that its target clears is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendStage {
    /// The target is to be told of the collective.
    Announce,
    /// The target has not cleared it.
    Waits,
    /// It has, and is to be told where the data lies.
    Offers,
    /// The target gets it.
    Offered,
    /// It has, and so many bytes have gone in packets.
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
    /// It is short, and has not come.
    Open,
    /// It is long, or asked for, and to be cleared.
    ToClear,
    /// It is cleared; so many bytes have come.
    Cleared(u32),
    /// It is to be got from there; so many bytes have been.
    Offered(RemoteData, u32),
    /// The get is under way.
    Pulled,
    /// It is there, and its sender is to be told.
    Landed,
    /// Its sender has ended the collective, and tells why.
    Lost,
}

impl SendStage {
    /// Whether nothing is to be done until the target says something.
    #[inline]
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Waits | Self::Offered)
    }
}

impl ReceiveStage {
    /// Whether nothing of it has come.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::ToClear | Self::Cleared(0))
    }
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

impl Incoming {
    /// Whether nothing is to be done until something comes.
    #[inline]
    pub(super) fn waits(&self) -> bool {
        use ReceiveStage::{Cleared, Lost, Open, Pulled};
        !self.again && matches!(self.stage, Open | Cleared(_) | Pulled | Lost)
    }
}
