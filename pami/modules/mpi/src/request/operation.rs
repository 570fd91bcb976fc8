//! What a request of point to point is to do, and how far it is.

use crate::data::Span;
use crate::envelope::Envelope;
use pami::{Endpoint, OperationError};

/// When a send is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// When its data may change again. A ready send is such a one.
    Standard,
    /// When in addition a receive has matched.
    Synchronous,
}

/// What a request of point to point is to do.
pub(crate) enum PointToPoint {
    Send(Sending),
    Receive(Receiving),
}

/// A send.
pub(crate) struct Sending {
    pub(crate) data: Span,
    pub(crate) target: Endpoint,
    /// The communicator's number.
    pub(crate) communicator: u32,
    /// The rank of the sender.
    pub(crate) source: u32,
    pub(crate) tag: i32,
    pub(crate) mode: Mode,
    /// What it waits for.
    pub(crate) awaits: Awaits,
}

/// What a send waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Awaits {
    /// Its turn, or room.
    Turn,
    /// The layer below, to have read the data; and then a matching receive.
    Copy { matched: bool },
    /// A matching receive.
    Match,
    /// The CTS for the RTS with this number, whose receiver may pull the data from this one of the context's regions.
    Cts { number: u32, region: Option<u32> },
    /// Room for the data, which go to this request of the receiver.
    Room { receiver: u16 },
}

/// A receive.
pub(crate) struct Receiving {
    pub(crate) data: Span,
    pub(crate) communicator: u32,
    pub(crate) source: i32,
    pub(crate) tag: i32,
    /// Where it comes from, if that is known.
    pub(crate) from: Option<Endpoint>,
    /// The message, once there is one.
    pub(crate) message: Option<Arrived>,
}

/// A message that a receive has matched.
#[derive(Clone, Copy)]
pub(crate) struct Arrived {
    pub(crate) origin: Endpoint,
    pub(crate) envelope: Envelope,
    pub(crate) progress: Progress,
}

/// How far the data of a matched message is.
#[derive(Clone, Copy)]
pub(crate) enum Progress {
    /// So many bytes are in their place.
    Placed(u32),
    /// It is being pulled.
    Pulling,
    /// It was pulled, and its sender does not know yet.
    Pulled(Result<(), OperationError>),
}
