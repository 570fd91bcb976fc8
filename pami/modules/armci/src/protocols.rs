//! The library's protocols (SPEC M-1, M-2): every instruction to move data passes one of their factories.
//!
//! | protocol | carried by |
//! |---|---|
//! | `armci-transfer` | put, get, rmw, fence; process, with the split of the settings |
//! | `armci-mutex` | active messages of one packet; registered when the first mutexes are created |
//! | `armci-group` | collectives: the exchange of addresses, barriers |

use crate::error::Error;
use crate::shape::Piece;
use base::{Collectives, Completions, OneSided, OutOfMemory, deregister, fill};
use core::mem::replace;
use pami::context::Handler;
use pami::device::Port;
use pami::factory::{Contribution, Factory, ImmediateFunction, ReceiveFunction};
use pami::{
    Active, Client, ClientBuilder, Collect, CollectError, Done, Endpoint, Get, Layout, Node, Payload,
    Protocol, Put, Recipe, RegionHandle, Rmw, RmwOp, SendError, Shared, Split,
};
use spin::Mutex;

/// Dispatch id of messages about mutexes.
const MUTEX: u8 = 0;
/// Factories of each context.
const EACH: usize = OneSided::FACTORIES + Collectives::FACTORIES + 1;
/// One that receives, and those that take others' place.
const OTHERS: usize = 1 + OneSided::FACTORIES;

/// Those of one context: whoever has the context has them, so nobody waits for their lock.
struct Factories {
    one_sided: OneSided,
    /// There once mutexes have been created.
    mutex: Option<Factory<ImmediateFunction>>,
    collectives: Collectives,
}

/// What is registered, and given up when the library ends.
pub(crate) struct Registered<P: Port> {
    /// By context.
    factories: &'static [Mutex<Option<Factories>>],
    /// What receives messages about mutexes, and its handler.
    receiver: Mutex<Option<Factory<ReceiveFunction<P>>>>,
    on_mutex: Mutex<Option<Handler<P>>>,
    /// That of transfers, for factories with other splits.
    transfer: Mutex<Option<Protocol>>,
}

/// What the library executes, with whom to tell when what was begun has ended.
pub(crate) struct Protocols<P: Port> {
    registered: &'static Registered<P>,
    completions: Completions<P>,
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
    pub(crate) fn new<N: Node>(node: &N, contexts: u8) -> Result<Self, OutOfMemory> {
        let factories = fill(node, "factories", contexts.into(), || Mutex::new(None))?;
        let (receiver, on_mutex, transfer) = (Mutex::new(None), Mutex::new(None), Mutex::new(None));
        Ok(Self { factories, receiver, on_mutex, transfer })
    }

    /// Makes the client, and registers all that the library needs in its protocols, but for mutexes.
    pub(crate) fn register<N: Node<Port = P>>(
        &self,
        builder: ClientBuilder<N>,
        split: Split,
        on_mutex: Handler<P>,
    ) -> Result<Client<N>, Error> {
        let builder = builder.factories(OTHERS + EACH * self.factories.len()).late_receives();
        let mut client = builder.create()?;
        *self.on_mutex.lock() = Some(on_mutex);
        match self.register_all(&mut client, split) {
            Ok(()) => Ok(client),
            Err(error) => {
                // The first reason is the one to tell.
                let _ = self.end(&mut client);
                let _ = client.destroy();
                Err(error)
            }
        }
    }

    fn register_all<N: Node<Port = P>>(&self, client: &mut Client<N>, split: Split) -> Result<(), Error> {
        let (transfer, group) = (client.protocol("armci-transfer")?, client.protocol("armci-group")?);
        for place in self.factories {
            let factories = Factories {
                one_sided: OneSided::register(client, &transfer, split)?,
                mutex: None,
                collectives: Collectives::register(client, &group)?,
            };
            *place.lock() = Some(factories);
        }
        *self.transfer.lock() = Some(transfer);
        Ok(())
    }

    /// Registers what messages about mutexes need, unless it is there: the contexts are alive, and all tasks do so before any asks
    /// for a mutex.
    pub(crate) fn register_mutexes<N: Node<Port = P>>(&self, client: &mut Client<N>) -> Result<(), Error> {
        if self.has_mutexes() {
            return Ok(());
        }
        let handler = self.on_mutex.lock().ok_or(Error::Finalized)?;
        let protocol = client.protocol("armci-mutex")?;
        for factories in self.factories {
            let factory = client.register(&protocol, ImmediateFunction { dispatch: MUTEX })?;
            if let Some(factories) = factories.lock().as_mut() {
                factories.mutex = Some(factory);
            }
        }
        let receive = ReceiveFunction { dispatch: Some(MUTEX), handler };
        *self.receiver.lock() = Some(client.register(&protocol, receive)?);
        Ok(())
    }

    /// Whether mutexes were ever created.
    pub(crate) fn has_mutexes(&self) -> bool {
        self.receiver.lock().is_some()
    }

    /// Has accumulates go through factories with another split.
    pub(crate) fn split_accumulates<N: Node<Port = P>>(
        &self,
        client: &mut Client<N>,
        split: Split,
    ) -> Result<(), Error> {
        let protocol = self.transfer.lock();
        let protocol = protocol.as_ref().ok_or(Error::Finalized)?;
        for place in self.factories {
            let new = OneSided::register(client, protocol, split)?;
            let old = match place.lock().as_mut() {
                Some(factories) => replace(&mut factories.one_sided, new),
                None => new,
            };
            old.end(client)?;
        }
        Ok(())
    }

    /// Gives all up. The client has no contexts any more.
    pub(crate) fn end<N: Node<Port = P>>(&self, client: &mut Client<N>) -> Result<(), Error> {
        for factories in self.factories.iter().filter_map(|place| place.lock().take()) {
            factories.one_sided.end(client)?;
            factories.mutex.map_or(Ok(()), |mutex| deregister(client, mutex))?;
            factories.collectives.end(client)?;
        }
        let receiver = self.receiver.lock().take();
        Ok(receiver.map_or(Ok(()), |receiver| deregister(client, receiver))?)
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
            let mutex = factories.mutex.as_ref().ok_or(SendError::ForeignFactory)?;
            mutex.execute(active, target, header, &[])
        })
    }
}

impl<P: Port> Protocols<P> {
    pub(crate) fn new(registered: &'static Registered<P>, completions: Completions<P>) -> Self {
        Self { registered, completions }
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
            local_done: Some(self.completions.done(request)),
            remote_done: None,
        };
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.one_sided.put(active, put)
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
            done: Some(self.completions.done(request)),
        };
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.one_sided.get(active, get)
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
            operand: None,
            recipe,
            local_done: Some(self.completions.done(request)),
            remote_done: None,
        };
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.one_sided.process(active, contribution)
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
        let done = Some(self.completions.fetched(request));
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.one_sided.rmw(active, Rmw { target, region, offset, op, done })
        })
    }

    /// Ends when all operations that this context began towards `target` before have been carried out, accumulates only if
    /// they are named.
    pub(crate) fn fence(
        &self,
        active: &mut Active<P>,
        (target, accumulates): (Endpoint, bool),
        request: usize,
    ) -> Result<(), SendError> {
        let done = self.completions.done(request);
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| match accumulates {
            true => factories.one_sided.fence(active, target, done),
            false => factories.one_sided.fence_rma(active, target, done),
        })
    }

    /// The same of every one of `tasks`, on this context there too.
    pub(crate) fn fence_all(
        &self,
        active: &mut Active<P>,
        tasks: u32,
        request: usize,
    ) -> Result<(), SendError> {
        let context = active.endpoint().context().0;
        self.registered.execute(active, SendError::ForeignFactory, |factories, active| {
            factories.one_sided.fence_contexts(active, 0..tasks, context, self.completions.done(request))
        })
    }

    /// Starts what `make` makes of a callback.
    pub(crate) fn collect(
        &self,
        active: &mut Active<P>,
        request: usize,
        make: impl FnOnce(Done<P>) -> Collect<P>,
    ) -> Result<(), CollectError> {
        let collect = make(self.completions.done(request));
        self.registered.execute(active, CollectError::ForeignFactory, |factories, active| {
            factories.collectives.collect(active, collect)
        })
    }

    /// A callback that ends `request`.
    pub(crate) fn callback(&self, request: usize) -> Done<P> {
        self.completions.done(request)
    }
}

/// Bytes of memory that `len` bytes of data reach over.
fn reach(layout: Layout, len: u32) -> usize {
    layout.reach(len).unwrap_or(len) as usize
}
