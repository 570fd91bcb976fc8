//! Windows' protocols: their transfers, and the messages that targets answer.

use crate::error::Result;
use base::{OneSided, deregister};
use pami::client::Node;
use pami::context::Handler;
use pami::device::Port;
use pami::factory::{ImmediateFunction, ReceiveFunction};
use pami::{Client, Factory, Protocol, Split};

/// Accumulates that their target carries out; ids from here on belong to windows.
const REQUEST: u8 = 16;
/// What such an accumulate answers.
const REPLY: u8 = 17;
/// That a window was opened to a process, or is done with by one.
const SIGNAL: u8 = 18;

/// Factories of its receptions.
pub(super) const RECEIVES: usize = 3;
/// Factories of each context.
pub(super) const FACTORIES: usize = OneSided::FACTORIES + 3;

/// What the layer below calls for windows' messages.
pub(crate) struct WindowHandlers<P: Port> {
    pub(crate) request: Handler<P>,
    pub(crate) reply: Handler<P>,
    pub(crate) signal: Handler<P>,
}

/// The protocols in the library's client, and the factories of their receptions.
pub(super) struct DeclaredWindows<P: Port> {
    transfer: Protocol,
    serve: Protocol,
    receives: [Factory<ReceiveFunction<P>>; RECEIVES],
}

/// Factories of one context.
pub(crate) struct WindowProtocols {
    pub(crate) one_sided: OneSided,
    pub(crate) request: Factory<ImmediateFunction>,
    pub(crate) reply: Factory<ImmediateFunction>,
    pub(crate) signal: Factory<ImmediateFunction>,
}

impl<P: Port> DeclaredWindows<P> {
    pub(super) fn new<N: Node<Port = P>>(
        client: &mut Client<N>,
        handlers: WindowHandlers<P>,
    ) -> Result<Self> {
        let (transfer, serve) = (client.protocol("mpi-window")?, client.protocol("mpi-window-served")?);
        let WindowHandlers { request, reply, signal } = handlers;
        let receive = |dispatch, handler| ReceiveFunction { dispatch: Some(dispatch), handler };
        let receives = [
            client.register(&serve, receive(REQUEST, request))?,
            client.register(&serve, receive(REPLY, reply))?,
            client.register(&serve, receive(SIGNAL, signal))?,
        ];
        Ok(Self { transfer, serve, receives })
    }

    pub(super) fn register<N: Node<Port = P>>(
        &self,
        client: &mut Client<N>,
        accumulate: Split,
    ) -> Result<WindowProtocols> {
        let Self { transfer, serve, .. } = self;
        Ok(WindowProtocols {
            one_sided: OneSided::register(client, transfer, accumulate)?,
            request: client.register(serve, ImmediateFunction { dispatch: REQUEST })?,
            reply: client.register(serve, ImmediateFunction { dispatch: REPLY })?,
            signal: client.register(serve, ImmediateFunction { dispatch: SIGNAL })?,
        })
    }

    pub(super) fn end<N: Node<Port = P>>(self, client: &mut Client<N>) -> Result<()> {
        self.receives.into_iter().try_for_each(|factory| Ok(deregister(client, factory)?))
    }
}

impl WindowProtocols {
    pub(super) fn end<N: Node>(self, client: &mut Client<N>) -> Result<()> {
        let Self { one_sided, request, reply, signal } = self;
        one_sided.end(client)?;
        [request, reply, signal].into_iter().try_for_each(|factory| Ok(deregister(client, factory)?))
    }
}
