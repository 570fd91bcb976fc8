//! Every call into the layer below that moves data, and the dispatch ids: one place for all protocols of the library.

use pami::client::Node;
use pami::device::Port;
use pami::{Active, ClientBuilder, Collect, CollectError, Endpoint, SendError};

/// Short and eager messages.
pub(crate) const EAGER: u8 = 0;
/// What the two sides of a message tell each other: requests to send, clearances, acknowledgements, credits.
pub(crate) const CONTROL: u8 = 1;
/// Data of a message that was cleared.
pub(crate) const DATA: u8 = 2;
/// Ids from here on belong to collectives.
pub const COLLECTIVE: u8 = 8;
/// Ids from here on belong to windows.
pub const WINDOW: u8 = 16;

/// Sends a message of one packet; the bytes are the caller's again on return.
///
/// # Errors
/// See [`Active::send_immediate`].
#[inline]
pub(crate) fn send_immediate<P: Port>(
    active: &mut Active<P>,
    target: Endpoint,
    dispatch: u8,
    header: &[u8],
    data: &[u8],
) -> Result<(), SendError> {
    active.send_immediate(target, dispatch, header, data)
}

/// Sends a message of any length.
///
/// # Errors
/// See [`Active::send`].
#[inline]
pub(crate) fn send<P: Port>(active: &mut Active<P>, send: pami::Send<'_, P>) -> Result<(), SendError> {
    active.send(send).map_err(|(error, _)| error)
}

/// Starts a collective.
///
/// # Errors
/// See [`Active::collect`].
#[inline]
pub fn collect<P: Port>(active: &mut Active<P>, collect: Collect<P>) -> Result<(), CollectError> {
    active.collect(collect)
}

/// A handler for each of the ids.
pub(crate) type Handlers<P> = [(u8, pami::dispatch::Handler<P>); 3];

/// Registers the handlers.
pub(crate) fn register<N: Node>(builder: ClientBuilder<N>, handlers: Handlers<N::Port>) -> ClientBuilder<N> {
    handlers.into_iter().fold(builder, |builder, (id, handler)| builder.dispatch(id, handler))
}
