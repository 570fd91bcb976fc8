//! The library's protocols: every call into the layer below that moves data goes through a factory of these (SPEC
//! M-1, M-2).

pub(crate) mod windows;

use crate::error::Result;
use base::{Collectives, deregister};
use pami::client::Node;
use pami::context::Handler;
use pami::device::Port;
use pami::factory::{GetFunction, ImmediateFunction, ReceiveFunction, SendFunction};
use pami::{Active, Client, Endpoint, Factory, Outgoing, Protocol, SendError, Split};

/// Short and eager messages, and RTS.
const EAGER: u8 = 0;
/// What the two sides of a message tell each other: CTS, acknowledgements, credits.
const CONTROL: u8 = 1;
/// Data of a message whose CTS came.
const DATA: u8 = 2;

/// Factories that a library with so many contexts has.
pub(crate) const fn factories(contexts: usize) -> usize {
    3 + windows::RECEIVES + contexts * (5 + Collectives::FACTORIES + windows::FACTORIES)
}

/// What the layer below calls for messages.
pub(crate) struct Handlers<P: Port> {
    pub(crate) message: Handler<P>,
    pub(crate) control: Handler<P>,
    pub(crate) data: Handler<P>,
}

/// The library's protocols in its client, and the factories of its receptions.
pub(crate) struct Declared<P: Port> {
    small: Protocol,
    large: Protocol,
    collective: Protocol,
    receives: [Factory<ReceiveFunction<P>>; 3],
    windows: windows::DeclaredWindows<P>,
}

/// Factories of one context: what it does goes through them.
pub(crate) struct Protocols {
    /// Messages of one packet.
    pub(crate) short: Factory<ImmediateFunction>,
    /// Messages of several.
    pub(crate) eager: Factory<SendFunction>,
    pub(crate) control: Factory<ImmediateFunction>,
    /// Data that an RTS says the region of.
    pub(crate) pull: Factory<GetFunction>,
    /// Data after a CTS.
    pub(crate) data: Factory<SendFunction>,
    pub(crate) collectives: Collectives,
    pub(crate) windows: windows::WindowProtocols,
}

impl<P: Port> Declared<P> {
    /// Declares the protocols and registers what receives; before the client's first context, because of the
    /// handlers.
    pub(crate) fn new<N: Node<Port = P>>(
        client: &mut Client<N>,
        (handlers, of_windows): (Handlers<P>, windows::WindowHandlers<P>),
    ) -> Result<Self> {
        let (small, large) = (client.protocol("mpi-small")?, client.protocol("mpi-large")?);
        let collective = client.protocol("mpi-collective")?;
        let Handlers { message, control, data } = handlers;
        let receive = |dispatch, handler| ReceiveFunction { dispatch: Some(dispatch), handler };
        let receives = [
            client.register(&small, receive(EAGER, message))?,
            client.register(&large, receive(CONTROL, control))?,
            client.register(&large, receive(DATA, data))?,
        ];
        let windows = windows::DeclaredWindows::new(client, of_windows)?;
        Ok(Self { small, large, collective, receives, windows })
    }

    /// Registers what one context does; windows' accumulates are split in this way.
    pub(crate) fn register<N: Node<Port = P>>(
        &self,
        client: &mut Client<N>,
        accumulate: Split,
    ) -> Result<Protocols> {
        let Self { small, large, collective, windows, .. } = self;
        // Memory in shared use goes eagerly whatever its length: this library has a rendezvous of its own.
        let send = |dispatch| SendFunction { dispatch, rendezvous_from: Some(usize::MAX) };
        Ok(Protocols {
            short: client.register(small, ImmediateFunction { dispatch: EAGER })?,
            eager: client.register(small, send(EAGER))?,
            control: client.register(large, ImmediateFunction { dispatch: CONTROL })?,
            pull: client.register(large, GetFunction::default())?,
            data: client.register(large, send(DATA))?,
            collectives: Collectives::register(client, collective)?,
            windows: windows.register(client, accumulate)?,
        })
    }

    /// Gives up what receives, once the client has no contexts any more.
    pub(crate) fn end<N: Node<Port = P>>(self, client: &mut Client<N>) -> Result<()> {
        self.receives.into_iter().try_for_each(|factory| deregister(client, factory))?;
        self.windows.end(client)
    }
}

impl Protocols {
    /// Gives the factories up.
    pub(crate) fn end<N: Node>(self, client: &mut Client<N>) -> Result<()> {
        let Self { short, eager, control, pull, data, collectives, windows } = self;
        [short, control].into_iter().try_for_each(|factory| deregister(client, factory))?;
        [eager, data].into_iter().try_for_each(|factory| deregister(client, factory))?;
        deregister(client, pull)?;
        collectives.end(client)?;
        windows.end(client)
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
