//! The library's protocols: every call into the layer below that moves data goes through a factory of these (SPEC M-1, M-2).

use crate::error::Result;
use heapless::Vec;
use pami::client::Node;
use pami::collective::Collective;
use pami::device::Port;
use pami::dispatch::Handler;
use pami::factory::{CollectFunction, ImmediateFunction, ReceiveFunction, SendFunction};
use pami::{Active, Client, Collect, CollectError, Endpoint, Factory, Outgoing, SendError};

/// Short and eager messages, and envelopes of offered ones.
const EAGER: u8 = 0;
/// What the two sides of a message tell each other: clearances, acknowledgements, credits.
const CONTROL: u8 = 1;
/// Data of a message that was cleared.
const DATA: u8 = 2;
/// Ids from here on belong to collectives.
pub const COLLECTIVE: u8 = 8;
/// Ids from here on belong to windows.
pub const WINDOW: u8 = 16;

const COLLECTIVES: usize = Collective::ALL.len();
/// Factories that the library has: of what is below, one for each field, and one for each collective.
pub(crate) const FACTORIES: usize = 8 + COLLECTIVES;

/// What the layer below calls for messages.
pub(crate) struct Handlers<P: Port> {
    pub(crate) message: Handler<P>,
    pub(crate) control: Handler<P>,
    pub(crate) data: Handler<P>,
}

/// A factory for each function that the library uses.
pub(crate) struct Protocols<P: Port> {
    /// Messages of one packet.
    pub(crate) short: Factory<ImmediateFunction>,
    /// Messages of several.
    pub(crate) eager: Factory<SendFunction>,
    pub(crate) control: Factory<ImmediateFunction>,
    /// Data that was cleared, in one message or gathered packet by packet.
    pub(crate) data: Factory<SendFunction>,
    pub(crate) pieces: Factory<ImmediateFunction>,
    collectives: Vec<Factory<CollectFunction>, COLLECTIVES>,
    _receives: [Factory<ReceiveFunction<P>>; 3],
}

impl<P: Port> Protocols<P> {
    /// Registers them; before the client's first context, because of the handlers.
    pub(crate) fn new<N: Node<Port = P>>(client: &mut Client<N>, handlers: Handlers<P>) -> Result<Self> {
        let (small, large) = (client.protocol("mpi-small")?, client.protocol("mpi-large")?);
        let collective = client.protocol("mpi-collective")?;
        let Handlers { message, control, data } = handlers;
        let receive = |dispatch, handler| ReceiveFunction { dispatch: Some(dispatch), handler };
        // Memory in shared use goes eagerly whatever its length: this library has a rendezvous of its own.
        let send = |dispatch| SendFunction { dispatch, rendezvous_from: Some(usize::MAX) };
        let mut collectives = Vec::new();
        for what in Collective::ALL {
            let _ =
                collectives.push(client.register(&collective, CollectFunction { what, algorithm: None })?);
        }
        Ok(Self {
            _receives: [
                client.register(&small, receive(EAGER, message))?,
                client.register(&large, receive(CONTROL, control))?,
                client.register(&large, receive(DATA, data))?,
            ],
            short: client.register(&small, ImmediateFunction { dispatch: EAGER })?,
            eager: client.register(&small, send(EAGER))?,
            control: client.register(&large, ImmediateFunction { dispatch: CONTROL })?,
            data: client.register(&large, send(DATA))?,
            pieces: client.register(&large, ImmediateFunction { dispatch: DATA })?,
            collectives,
        })
    }

    /// Starts a collective.
    ///
    /// # Errors
    /// See [`Active::collect`].
    pub(crate) fn collect(
        &self,
        active: &mut Active<P>,
        collect: Collect<P>,
    ) -> core::result::Result<(), CollectError> {
        // They are registered in the order of their numbers.
        match self.collectives.get(collect.what as usize) {
            Some(factory) => factory.execute(active, collect),
            None => Err(CollectError::UnknownGeometry(collect.geometry)),
        }
    }
}

/// Sends a message of one packet; the bytes are the caller's again on return.
///
/// # Errors
/// See [`Active::send_immediate`].
#[inline]
pub(crate) fn send_immediate<P: Port>(
    factory: &Factory<ImmediateFunction>,
    active: &mut Active<P>,
    target: Endpoint,
    header: &[u8],
    data: &[u8],
) -> core::result::Result<(), SendError> {
    factory.execute(active, target, header, data)
}

/// Sends a message of any length.
///
/// # Errors
/// See [`Active::send`].
#[inline]
pub(crate) fn send<P: Port>(
    factory: &Factory<SendFunction>,
    active: &mut Active<P>,
    outgoing: Outgoing<'_, P>,
) -> core::result::Result<(), SendError> {
    factory.execute(active, outgoing).map_err(|(error, _)| error)
}
