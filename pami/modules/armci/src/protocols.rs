//! The library's protocols (SPEC M-1, M-2): every instruction to move data passes one of their factories.
//!
//! | protocol | carried by |
//! |---|---|
//! | `armci-put`, `armci-get` | put, get |
//! | `armci-rmw` | rmw |
//! | `armci-acc` | process, with the split of the settings |
//! | `armci-mutex` | active messages of one packet |
//! | `armci-fence` | fence |
//! | `armci-group` | collectives: the exchange of addresses, barriers |

use crate::error::Error;
use crate::memory::Memory;
use crate::shape::Piece;
use core::mem::replace;
use pami::collective::Collective;
use pami::context::Handler;
use pami::device::Port;
use pami::factory::{
    CollectFunction, Contribution, Factory, FenceFunction, Function, GetFunction, ImmediateFunction,
    ProcessFunction, PutFunction, ReceiveFunction, RmwFunction,
};
use pami::{
    Active, Client, ClientBuilder, Collect, CollectError, Completion, Done, Endpoint, Fetched, Get, Layout,
    Node, OnFetched, Payload, Protocol, Put, Recipe, RegionHandle, Rmw, RmwOp, SendError, Shared, Split,
};
use spin::Mutex;

/// Dispatch id of messages about mutexes.
const MUTEX: u8 = 0;
/// Factories of each context.
const EACH: usize = 8;
/// One that receives, and one more while a factory takes another's place.
const OTHERS: usize = 2;

/// One for each function that is executed on a context: whoever has the context has them, so nobody waits for their lock.
struct Factories {
    put: Factory<PutFunction>,
    get: Factory<GetFunction>,
    rmw: Factory<RmwFunction>,
    fence: Factory<FenceFunction>,
    accumulate: Factory<ProcessFunction>,
    mutex: Factory<ImmediateFunction>,
    gather: Factory<CollectFunction>,
    barrier: Factory<CollectFunction>,
}

/// What is registered, and given up when the library ends.
pub(crate) struct Registered<P: Port> {
    /// By context.
    factories: &'static [Mutex<Option<Factories>>],
    receiver: Mutex<Option<Factory<ReceiveFunction<P>>>>,
    /// That of accumulates, for factories with other splits.
    accumulates: Mutex<Option<Protocol>>,
}

/// What the library executes, with whom to tell when what was begun has ended.
pub(crate) struct Protocols<P: Port> {
    registered: &'static Registered<P>,
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

impl<P: Port> Registered<P> {
    pub(crate) fn new<N: Node>(memory: &Memory<N>, contexts: u8) -> Result<Self, Error> {
        let factories = memory.slice("factories", contexts.into(), || Mutex::new(None))?;
        Ok(Self { factories, receiver: Mutex::new(None), accumulates: Mutex::new(None) })
    }

    /// Makes the client, and registers all that the library needs in its protocols.
    pub(crate) fn register<N: Node<Port = P>>(
        &self,
        builder: ClientBuilder<N>,
        split: Split,
        mutex: Handler<P>,
    ) -> Result<Client<N>, Error> {
        let mut client = builder.factories(OTHERS + EACH * self.factories.len()).create()?;
        match self.register_all(&mut client, split, mutex) {
            Ok(()) => Ok(client),
            Err(error) => {
                // The first reason is the one to tell.
                let _ = self.end(&mut client);
                let _ = client.destroy();
                Err(error)
            }
        }
    }

    fn register_all<N: Node<Port = P>>(
        &self,
        client: &mut Client<N>,
        split: Split,
        mutex: Handler<P>,
    ) -> Result<(), Error> {
        let collect = |what| CollectFunction { what, algorithm: None };
        let (put, get) = (client.protocol("armci-put")?, client.protocol("armci-get")?);
        let (rmw, fence) = (client.protocol("armci-rmw")?, client.protocol("armci-fence")?);
        let (acc, lock) = (client.protocol("armci-acc")?, client.protocol("armci-mutex")?);
        let group = client.protocol("armci-group")?;
        let receive = ReceiveFunction { dispatch: Some(MUTEX), handler: mutex };
        *self.receiver.lock() = Some(client.register(&lock, receive)?);
        for place in self.factories {
            let factories = Factories {
                put: client.register(&put, PutFunction::default())?,
                get: client.register(&get, GetFunction::default())?,
                rmw: client.register(&rmw, RmwFunction::default())?,
                fence: client.register(&fence, FenceFunction)?,
                accumulate: client.register(&acc, ProcessFunction { split })?,
                mutex: client.register(&lock, ImmediateFunction { dispatch: MUTEX })?,
                gather: client.register(&group, collect(Collective::Allgather))?,
                barrier: client.register(&group, collect(Collective::Barrier))?,
            };
            *place.lock() = Some(factories);
        }
        *self.accumulates.lock() = Some(acc);
        Ok(())
    }

    /// Has accumulates go through factories with another split.
    pub(crate) fn split_accumulates<N: Node<Port = P>>(
        &self,
        client: &mut Client<N>,
        split: Split,
    ) -> Result<(), Error> {
        let protocol = self.accumulates.lock();
        let protocol = protocol.as_ref().ok_or(Error::Finalized)?;
        for place in self.factories {
            let new = client.register(protocol, ProcessFunction { split })?;
            let old = match place.lock().as_mut() {
                Some(factories) => replace(&mut factories.accumulate, new),
                None => new,
            };
            deregister(client, old)?;
        }
        Ok(())
    }

    /// Gives all up. The client has no contexts any more.
    pub(crate) fn end<N: Node<Port = P>>(&self, client: &mut Client<N>) -> Result<(), Error> {
        let mut outcome = Ok(());
        for factories in self.factories.iter().filter_map(|place| place.lock().take()) {
            let Factories { put, get, rmw, fence, accumulate, mutex, gather, barrier } = factories;
            outcome = outcome
                .and(deregister(client, put))
                .and(deregister(client, get))
                .and(deregister(client, rmw))
                .and(deregister(client, fence))
                .and(deregister(client, accumulate))
                .and(deregister(client, mutex))
                .and(deregister(client, gather))
                .and(deregister(client, barrier));
        }
        match self.receiver.lock().take() {
            Some(receiver) => outcome.and(deregister(client, receiver)),
            None => outcome,
        }
    }

    /// Executes a function on the context that `active` is.
    fn execute<T, E>(
        &self,
        active: &mut Active<P>,
        refused: E,
        execute: impl FnOnce(&Factories, &mut Active<P>) -> Result<T, E>,
    ) -> Result<T, E> {
        let Some(place) = self.factories.get(usize::from(active.endpoint().context().0)) else {
            return Err(refused);
        };
        match place.lock().as_ref() {
            Some(factories) => execute(factories, active),
            None => Err(refused),
        }
    }

    /// Sends a message about a mutex, of one packet.
    pub(crate) fn send(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        header: &[u8],
    ) -> Result<(), SendError> {
        self.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.mutex.execute(active, target, header, &[])
        })
    }
}

fn deregister<N: Node, F: Function<N>>(client: &mut Client<N>, factory: Factory<F>) -> Result<(), Error> {
    client.deregister(factory).map(drop).map_err(|(error, _)| error.into())
}

impl<P: Port> Protocols<P> {
    pub(crate) fn new(
        registered: &'static Registered<P>,
        completed: &'static (dyn Fn(&mut Active<P>, Completion) + Sync),
        fetched: &'static (dyn Fn(&mut Active<P>, Fetched) + Sync),
    ) -> Self {
        Self { registered, completed, fetched }
    }

    /// Sends a message about a mutex, of one packet.
    pub(crate) fn send(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        header: &[u8],
    ) -> Result<(), SendError> {
        self.registered.send(active, target, header)
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
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.put.execute(active, put).map_err(|(error, _)| error)
        })
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
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.get.execute(active, get)
        })
    }

    /// Ends when the local memory may change. The run is its local and remote offsets and its length.
    pub(crate) fn accumulate(
        &self,
        active: &mut Active<P>,
        ends: &Ends,
        (local, remote, len): (u32, u32, u32),
        recipe: Recipe,
        request: usize,
    ) -> Result<(), SendError> {
        let start = ends.at + local as usize;
        let contribution = Contribution {
            target: ends.target,
            region: ends.region,
            offset: ends.offset + remote,
            memory: ends.memory.clone(),
            range: start..start + len as usize,
            recipe,
            local_done: Some(self.done(request)),
            remote_done: None,
        };
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.accumulate.execute(active, contribution)
        })
    }

    /// Ends with what the word was.
    pub(crate) fn update(
        &self,
        active: &mut Active<P>,
        (target, region, offset): (Endpoint, RegionHandle, u32),
        op: RmwOp,
        request: usize,
    ) -> Result<(), SendError> {
        let done = Some(OnFetched { call: self.fetched, cookie: request });
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.rmw.execute(active, Rmw { target, region, offset, op, done })
        })
    }

    /// Ends when all operations that this context began towards `target` before have been carried out.
    pub(crate) fn fence(
        &self,
        active: &mut Active<P>,
        target: Endpoint,
        request: usize,
    ) -> Result<(), SendError> {
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.fence.execute(active, target, self.done(request))
        })
    }

    /// Starts what `make` makes of a callback.
    pub(crate) fn collect(
        &self,
        active: &mut Active<P>,
        request: usize,
        make: impl FnOnce(Done<P>) -> Collect<P>,
    ) -> Result<(), CollectError> {
        let collect = make(self.done(request));
        self.registered.execute(active, CollectError::ForeignFactory, |factories, active| {
            let gathers = collect.what == Collective::Allgather;
            let factory = if gathers { &factories.gather } else { &factories.barrier };
            factory.execute(active, collect)
        })
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
