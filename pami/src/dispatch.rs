//! What applications give to the engine: handlers, callbacks and buffers (SPEC P-5).
//!
//! A handler is found by its id through one indirect call; that is what a dispatch table is, and the only
//! such call between a packet and the application.
//!
//! `A` is what handlers and callbacks are handed: a context without its `advance`, [`Active`](crate::Active). What carries
//! messages does not know it.

use crate::endpoint::Endpoint;
use crate::error::OperationError;
use crate::layout::Layout;
use rings::buffer::Buffer;

/// A dispatch handler: sees the header and the first packet of a message, says what becomes of the data.
///
/// Called on the thread that advances the target context. It may send. It cannot advance: the type that it is
/// handed does not have that.
pub type Handler<A> = &'static (dyn Fn(&mut A, &Message<'_>) -> Receive<A> + Sync);

/// As [`Handler`], and may say `None`: nobody wants the message yet. It is kept until [`accept`](crate::Active::accept) or
/// [`discard`](crate::Active::discard) (SPEC P-6). An eager message takes one of the context's places of the unexpected
/// queue, and room for its data, a rendezvous a place alone. If there is none, or if there never is room for so much (see
/// [`can_keep`](crate::Active::can_keep)), the message
/// stays with its origin, with all that the origin sends to this context behind it, and the handler is asked again: when
/// there is room, and now and then. Others' messages go on meanwhile (SPEC R-1).
pub type DeferringHandler<A> = &'static (dyn Fn(&mut A, &Message<'_>) -> Option<Receive<A>> + Sync);

/// An arriving message, at its first packet. Of a rendezvous there is no data yet, only its length; an eager message that
/// has data comes with some.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Who sent it.
    pub origin: Endpoint,
    /// The sender's header, whole.
    pub header: &'a [u8],
    /// The first bytes of the data; all of it if `data.len() == total`.
    pub data: &'a [u8],
    /// Bytes of data in the whole message.
    pub total: usize,
}

impl Message<'_> {
    /// Whether `data` is all of the message.
    pub fn is_whole(&self) -> bool {
        self.data.len() == self.total
    }
}

/// What a handler wants done with a message's data.
pub enum Receive<A: 'static> {
    /// Nothing more: the handler has used what it saw. Data that has not arrived yet is discarded.
    Done,
    /// Put all of the data, from its first byte, into the buffer and give it to the callback. Data beyond the
    /// buffer's end is discarded; [`Received::total`] tells.
    Into(Buffer, OnReceived<A>),
    /// As `Into`, with the bytes placed in the buffer by the layout. What does not fit ends the placing.
    Scatter(Buffer, Layout, OnReceived<A>),
    /// Hand the data to the callback packet by packet, the first bytes included.
    Packets(OnPart<A>),
}

/// Called when a message is in the buffer that its handler named.
pub struct OnReceived<A: 'static> {
    /// The function.
    pub call: &'static (dyn Fn(&mut A, Received) + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

/// A message in its buffer.
pub struct Received {
    /// Who sent it.
    pub origin: Endpoint,
    /// The handler's buffer, back.
    pub buffer: Buffer,
    /// Bytes of the message in the buffer, from the message's start.
    pub len: usize,
    /// Bytes of data that the message had. Over `len` if the buffer was too small, or if the sender stopped in
    /// the middle.
    pub total: usize,
    /// Why the rest does not come.
    pub result: Result<(), OperationError>,
    /// As given with the buffer.
    pub cookie: usize,
}

/// Called for each packet of a message whose handler takes packets.
pub struct OnPart<A: 'static> {
    /// The function.
    pub call: &'static (dyn Fn(&mut A, &Part<'_>) + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

/// One packet's share of a message. If the rest does not come, a last part without data says why.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Who sent it.
    pub origin: Endpoint,
    /// Bytes of data before this part; parts come in order and leave no gap.
    pub offset: usize,
    /// The part's bytes.
    pub data: &'a [u8],
    /// Bytes of data in the whole message.
    pub total: usize,
    /// Why no more parts come.
    pub result: Result<(), OperationError>,
    /// As given by the handler.
    pub cookie: usize,
}

impl Part<'_> {
    /// Whether this is the message's last part.
    pub fn is_last(&self) -> bool {
        self.offset + self.data.len() == self.total
    }
}

/// Called when an operation is done, on the thread that advances the context that started it.
pub struct Done<A: 'static> {
    /// The function.
    pub call: &'static (dyn Fn(&mut A, Completion) + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

/// The end of an operation.
pub struct Completion {
    /// The endpoint that the operation named.
    pub target: Endpoint,
    /// The buffer that the operation was given, in local completions.
    pub buffer: Option<Buffer>,
    /// Whether it was done.
    pub result: Result<(), OperationError>,
    /// As given with the operation.
    pub cookie: usize,
}

/// Called when an update of a word is done.
pub struct OnFetched<A: 'static> {
    /// The function.
    pub call: &'static (dyn Fn(&mut A, Fetched) + Sync),
    /// Handed to it as is.
    pub cookie: usize,
}

/// The end of an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// The endpoint that the operation named.
    pub target: Endpoint,
    /// What the word was.
    pub result: Result<u64, OperationError>,
    /// As given with the operation.
    pub cookie: usize,
}

// Derived impls would ask the same of A.
macro_rules! copy {
    ($($name:ident),*) => {$(
        impl<A: 'static> Clone for $name<A> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<A: 'static> Copy for $name<A> {}
    )*};
}
copy!(OnReceived, OnPart, OnFetched, Done);
