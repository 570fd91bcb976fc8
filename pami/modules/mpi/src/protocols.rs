//! Every call into the layer below that moves data, and the dispatch ids: one place for all protocols of the library.

use pami::client::Node;
use pami::device::Port;
use pami::{
    Active, ClientBuilder, Collect, CollectError, Done, Endpoint, Fetch, Get, Process, Put, SendError,
};

/// Short and eager messages.
pub(crate) const EAGER: u8 = 0;
/// What the two sides of a message tell each other: requests to send, clearances, acknowledgements, credits.
pub(crate) const CONTROL: u8 = 1;
/// Data of a message that was cleared.
pub(crate) const DATA: u8 = 2;
/// Ids from here on belong to collectives.
pub const COLLECTIVE: u8 = 8;
/// Accumulates of windows that their target carries out; ids from here on belong to windows.
pub(crate) const WINDOW: u8 = 16;
/// What a window's accumulates of the same answer.
pub(crate) const WINDOW_REPLY: u8 = 17;
/// That a window was opened to a process, or is done with by one.
pub(crate) const WINDOW_SIGNAL: u8 = 18;

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

/// Writes into a region of another task.
///
/// # Errors
/// See [`Active::put`].
pub(crate) fn put<P: Port>(active: &mut Active<P>, put: Put<P>) -> Result<(), SendError> {
    active.put(put).map_err(|(error, _)| error)
}

/// Reads from a region of another task.
///
/// # Errors
/// See [`Active::get`].
pub(crate) fn get<P: Port>(active: &mut Active<P>, get: Get<P>) -> Result<(), SendError> {
    active.get(get)
}

/// Updates a word of a region of another task.
///
/// # Errors
/// See [`Active::fetch`].
pub(crate) fn fetch<P: Port>(active: &mut Active<P>, fetch: Fetch<P>) -> Result<(), SendError> {
    active.fetch(fetch)
}

/// Adds numbers to those in a region of another task.
///
/// # Errors
/// See [`Active::process`].
pub(crate) fn process<P: Port>(active: &mut Active<P>, process: Process<P>) -> Result<(), SendError> {
    active.process(process)
}

/// Tells when all that went to a task before is there.
///
/// # Errors
/// See [`Active::fence`].
pub(crate) fn fence<P: Port>(
    active: &mut Active<P>,
    target: Endpoint,
    done: Done<P>,
) -> Result<(), SendError> {
    active.fence(target, done)
}

/// A handler for each of the ids.
pub(crate) type Handlers<P, const COUNT: usize> = [(u8, pami::dispatch::Handler<P>); COUNT];

/// Registers the handlers.
pub(crate) fn register<N: Node, const COUNT: usize>(
    builder: ClientBuilder<N>,
    handlers: Handlers<N::Port, COUNT>,
) -> ClientBuilder<N> {
    handlers.into_iter().fold(builder, |builder, (id, handler)| builder.dispatch(id, handler))
}
