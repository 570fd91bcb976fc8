//! Windows' protocols: their transfers, and the messages that targets answer.

use super::deregister;
use crate::error::Result;
use pami::client::Node;
use pami::context::Handler;
use pami::device::Port;
use pami::factory::{
    Contribution, FenceFunction, GetFunction, ImmediateFunction, ProcessFunction, PutFunction,
    ReceiveFunction, RmwFunction,
};
use pami::{Active, Client, Done, Endpoint, Factory, Get, Protocol, Put, Rmw, SendError, Split};

/// Accumulates that their target carries out; ids from here on belong to windows.
const REQUEST: u8 = 16;
/// What such an accumulate answers.
const REPLY: u8 = 17;
/// That a window was opened to a process, or is done with by one.
const SIGNAL: u8 = 18;

/// Factories of its receptions.
pub(super) const RECEIVES: usize = 3;
/// Factories of each context.
pub(super) const FACTORIES: usize = 8;

/// What the layer below calls for windows' messages.
pub(crate) struct Handlers<P: Port> {
    pub(crate) request: Handler<P>,
    pub(crate) reply: Handler<P>,
    pub(crate) signal: Handler<P>,
}

/// The protocols in the library's client, and the factories of their receptions.
pub(super) struct Declared<P: Port> {
    transfer: Protocol,
    serve: Protocol,
    receives: [Factory<ReceiveFunction<P>>; RECEIVES],
}

/// Factories of one context.
pub(crate) struct Protocols {
    put: Factory<PutFunction>,
    get: Factory<GetFunction>,
    rmw: Factory<RmwFunction>,
    process: Factory<ProcessFunction>,
    fence: Factory<FenceFunction>,
    pub(crate) request: Factory<ImmediateFunction>,
    pub(crate) reply: Factory<ImmediateFunction>,
    pub(crate) signal: Factory<ImmediateFunction>,
}

impl<P: Port> Declared<P> {
    pub(super) fn new<N: Node<Port = P>>(client: &mut Client<N>, handlers: Handlers<P>) -> Result<Self> {
        let (transfer, serve) = (client.protocol("mpi-window")?, client.protocol("mpi-window-served")?);
        let Handlers { request, reply, signal } = handlers;
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
    ) -> Result<Protocols> {
        let Self { transfer, serve, .. } = self;
        Ok(Protocols {
            put: client.register(transfer, PutFunction::default())?,
            get: client.register(transfer, GetFunction::default())?,
            rmw: client.register(transfer, RmwFunction::default())?,
            process: client.register(transfer, ProcessFunction { split: accumulate })?,
            fence: client.register(transfer, FenceFunction)?,
            request: client.register(serve, ImmediateFunction { dispatch: REQUEST })?,
            reply: client.register(serve, ImmediateFunction { dispatch: REPLY })?,
            signal: client.register(serve, ImmediateFunction { dispatch: SIGNAL })?,
        })
    }

    pub(super) fn end<N: Node<Port = P>>(self, client: &mut Client<N>) -> Result<()> {
        self.receives.into_iter().try_for_each(|factory| deregister(client, factory))
    }
}

impl Protocols {
    pub(super) fn end<N: Node>(self, client: &mut Client<N>) -> Result<()> {
        let Self { put, get, rmw, process, fence, request, reply, signal } = self;
        deregister(client, put)?;
        deregister(client, get)?;
        deregister(client, rmw)?;
        deregister(client, process)?;
        deregister(client, fence)?;
        [request, reply, signal].into_iter().try_for_each(|factory| deregister(client, factory))
    }

    /// Writes into a region of another task.
    ///
    /// # Errors
    /// See [`Active::put`].
    pub(crate) fn put<P: Port>(
        &self,
        active: &mut Active<P>,
        put: Put<P>,
    ) -> core::result::Result<(), SendError> {
        self.put.execute(active, put).map_err(|(error, _)| error)
    }

    /// Reads from a region of another task.
    ///
    /// # Errors
    /// See [`Active::get`].
    pub(crate) fn get<P: Port>(
        &self,
        active: &mut Active<P>,
        get: Get<P>,
    ) -> core::result::Result<(), SendError> {
        self.get.execute(active, get)
    }

    /// Updates a word of a region of another task.
    ///
    /// # Errors
    /// See [`Active::rmw`].
    pub(crate) fn rmw<P: Port>(
        &self,
        active: &mut Active<P>,
        rmw: Rmw<P>,
    ) -> core::result::Result<(), SendError> {
        self.rmw.execute(active, rmw)
    }

    /// Adds numbers to those in a region of another task, as the library's setting splits it.
    ///
    /// # Errors
    /// See [`Active::process`].
    pub(crate) fn process<P: Port>(
        &self,
        active: &mut Active<P>,
        contribution: Contribution<P>,
    ) -> core::result::Result<(), SendError> {
        self.process.execute(active, contribution)
    }

    /// Tells when all that went to a task before is there.
    ///
    /// # Errors
    /// See [`Active::fence`].
    pub(crate) fn fence<P: Port>(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        done: Done<P>,
    ) -> core::result::Result<(), SendError> {
        self.fence.execute(active, target, done)
    }
}
