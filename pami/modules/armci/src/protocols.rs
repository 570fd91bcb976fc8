//! The library's protocols (SPEC M-1, M-2): every instruction to move data passes one of their factories.
//!
//! | protocol | carried by |
//! |---|---|
//! | `armci-put`, `armci-get` | put, get |
//! | `armci-rmw` | fetch |
//! | `armci-acc`, `armci-mutex` | active messages of one packet |
//! | `armci-fence` | fence |
//! | `armci-group` | collectives: the exchange of addresses, barriers |

use crate::error::Error;
use crate::shape::Piece;
use pami::collective::Collective;
use pami::device::Port;
use pami::dispatch::Handler;
use pami::factory::{
    CollectFunction, Factory, FenceFunction, FetchFunction, Function, GetFunction, ImmediateFunction,
    PutFunction, ReceiveFunction,
};
use pami::{
    Active, Client, ClientBuilder, Collect, CollectError, Completion, Done, Endpoint, Fetch, Fetched, Get,
    Layout, Node, OnFetched, Payload, Put, RegionHandle, Rmw, SendError, Shared,
};
use spin::Once;

/// Dispatch ids of the library's client.
const ACCUMULATE: u8 = 0;
const MUTEX: u8 = 1;
/// Factories of the library's client.
const FACTORIES: usize = 10;

/// A message of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    Accumulate,
    Mutex,
}

/// One for each function that the library executes.
pub(crate) struct Factories {
    put: Factory<PutFunction>,
    get: Factory<GetFunction>,
    fetch: Factory<FetchFunction>,
    fence: Factory<FenceFunction>,
    accumulate: Factory<ImmediateFunction>,
    mutex: Factory<ImmediateFunction>,
    gather: Factory<CollectFunction>,
    barrier: Factory<CollectFunction>,
}

/// What the library executes, with whom to tell when what was begun has ended.
pub(crate) struct Protocols<P: Port> {
    factories: &'static Once<Factories>,
    completed: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
    fetched: &'static (dyn Fn(&mut Active<P>, Fetched) + Sync),
}

/// Where a piece of a transfer lies.
pub(crate) struct Ends<'a> {
    /// An endpoint of the task that the region belongs to.
    pub target: Endpoint,
    pub region: RegionHandle,
    /// Where in the region the transfer starts.
    pub offset: u32,
    pub memory: &'a Shared,
    /// Where in the memory it starts.
    pub at: usize,
}

/// Makes the client, and registers all that the library needs in its protocols.
pub(crate) fn register<N: Node>(
    builder: ClientBuilder<N>,
    accumulate: Handler<N::Port>,
    mutex: Handler<N::Port>,
    factories: &Once<Factories>,
) -> Result<Client<N>, Error> {
    let mut client = builder.factories(FACTORIES).create()?;
    match register_all(&mut client, accumulate, mutex) {
        Ok(all) => {
            factories.call_once(|| all);
            Ok(client)
        }
        Err(error) => {
            // It has no contexts, so nothing keeps it.
            let _ = client.destroy();
            Err(error)
        }
    }
}

fn register_all<N: Node>(
    client: &mut Client<N>,
    accumulate: Handler<N::Port>,
    mutex: Handler<N::Port>,
) -> Result<Factories, Error> {
    let receive = |dispatch, handler| ReceiveFunction { dispatch: Some(dispatch), handler };
    let collect = |what| CollectFunction { what, algorithm: None };
    let group = client.protocol("armci-group")?;
    // The factories of handlers are of no more use: they stay as long as the client.
    let _ = one(client, "armci-acc-in", receive(ACCUMULATE, accumulate))?;
    let _ = one(client, "armci-mutex-in", receive(MUTEX, mutex))?;
    Ok(Factories {
        put: one(client, "armci-put", PutFunction::default())?,
        get: one(client, "armci-get", GetFunction::default())?,
        fetch: one(client, "armci-rmw", FetchFunction::default())?,
        fence: one(client, "armci-fence", FenceFunction)?,
        accumulate: one(client, "armci-acc", ImmediateFunction { dispatch: ACCUMULATE })?,
        mutex: one(client, "armci-mutex", ImmediateFunction { dispatch: MUTEX })?,
        gather: client.register(&group, collect(Collective::Allgather))?,
        barrier: client.register(&group, collect(Collective::Barrier))?,
    })
}

/// A protocol of one function.
fn one<N: Node, F: Function<N>>(
    client: &mut Client<N>,
    name: &'static str,
    function: F,
) -> Result<Factory<F>, Error> {
    let protocol = client.protocol(name)?;
    Ok(client.register(&protocol, function)?)
}

/// Sends a message of one packet.
pub(crate) fn send<P: Port>(
    factories: &Once<Factories>,
    active: &mut Active<P>,
    target: Endpoint,
    message: Message,
    header: &[u8],
    data: &[u8],
) -> Result<(), SendError> {
    let Some(factories) = factories.get() else { return Err(SendError::ForeignFactory) };
    let factory = if message == Message::Accumulate { &factories.accumulate } else { &factories.mutex };
    factory.execute(active, target, header, data)
}

impl<P: Port> Protocols<P> {
    pub(crate) fn new(
        factories: &'static Once<Factories>,
        completed: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
        fetched: &'static (dyn Fn(&mut Active<P>, Fetched) + Sync),
    ) -> Self {
        Self { factories, completed, fetched }
    }

    /// They are there before the first context is.
    fn factories(&self) -> Result<&Factories, SendError> {
        self.factories.get().ok_or(SendError::ForeignFactory)
    }

    /// Sends a message of one packet.
    pub(crate) fn send(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        message: Message,
        header: &[u8],
        data: &[u8],
    ) -> Result<(), SendError> {
        send(self.factories, active, target, message, header, data)
    }

    fn done(&self, request: usize) -> Done<P> {
        Done { call: self.completed, cookie: request }
    }

    /// Ends when the local memory may change.
    pub(crate) fn put(
        &self,
        active: &mut Active<P>,
        ends: &Ends,
        piece: &Piece,
        request: usize,
    ) -> Result<(), SendError> {
        let start = ends.at + piece.local as usize;
        let reach = reach(piece.local_layout, piece.len);
        let put = Put {
            target: ends.target,
            region: ends.region,
            offset: ends.offset + piece.remote,
            layout: piece.remote_layout,
            payload: Payload::Shared(ends.memory.clone(), start..start + reach),
            payload_layout: piece.local_layout,
            local_done: Some(self.done(request)),
            remote_done: None,
        };
        self.factories()?.put.execute(active, put).map_err(|(error, _)| error)
    }

    /// Ends when the data is there.
    pub(crate) fn get(
        &self,
        active: &mut Active<P>,
        ends: &Ends,
        piece: &Piece,
        request: usize,
    ) -> Result<(), SendError> {
        let get = Get {
            target: ends.target,
            region: ends.region,
            offset: ends.offset + piece.remote,
            layout: piece.remote_layout,
            into: ends.memory.clone(),
            at: (ends.at + piece.local as usize) as u32,
            into_layout: piece.local_layout,
            len: piece.len,
            done: Some(self.done(request)),
        };
        self.factories()?.get.execute(active, get)
    }

    /// Ends with what the word was.
    pub(crate) fn update(
        &self,
        active: &mut Active<P>,
        (target, region, offset): (Endpoint, RegionHandle, u32),
        rmw: Rmw,
        request: usize,
    ) -> Result<(), SendError> {
        let done = Some(OnFetched { call: self.fetched, cookie: request });
        self.factories()?.fetch.execute(active, Fetch { target, region, offset, rmw, done })
    }

    /// Ends when all operations that this context began towards `target` before have been carried out.
    pub(crate) fn fence(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        request: usize,
    ) -> Result<(), SendError> {
        self.factories()?.fence.execute(active, target, self.done(request))
    }

    /// Starts what `make` makes of a callback.
    pub(crate) fn collect(
        &self,
        active: &mut Active<P>,
        request: usize,
        make: impl FnOnce(Done<P>) -> Collect<P>,
    ) -> Result<(), CollectError> {
        let collect = make(self.done(request));
        let factories = self.factories.get().ok_or(CollectError::ForeignFactory)?;
        let gathers = collect.what == Collective::Allgather;
        let factory = if gathers { &factories.gather } else { &factories.barrier };
        factory.execute(active, collect)
    }

    /// A callback that ends `request`.
    pub(crate) fn callback(&self, request: usize) -> Done<P> {
        self.done(request)
    }
}

/// Bytes of memory that `len` bytes of data reach over.
fn reach(layout: Layout, len: u32) -> usize {
    layout.reach(len).unwrap_or(len) as usize
}
