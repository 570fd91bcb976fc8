//! Several messaging libraries over one: each registers what it needs, as it needs it (SPEC M-1 to M-6, seed 002).
//!
//! A high-level library, such as one for MPI, declares *protocols* in its client: names like `mpi-small`. In a
//! protocol it registers *functions*, each with settings of its own, and gets a [`Factory`] for each. The instruction
//! to execute a function is a method of the factory; it creates the *communication object* that carries the function
//! out. That lives until it has called back; then its memory is free. The same function can be registered any number
//! of times with other settings: the caller picks by factory, and no factory's settings are another's.
//!
//! | function | settled at registration | an instruction is |
//! |---|---|---|
//! | [`ImmediateFunction`] | dispatch id | [`send_immediate`] |
//! | [`SendFunction`] | dispatch id, switch-over to rendezvous | [`send`] |
//! | [`PathSendFunction`] | the same; through the node's memory, or by loop-back | [`send`] |
//! | [`PutFunction`] | through the node's memory, or by loop-back | [`put`] |
//! | [`GetFunction`] | the same | [`get`] |
//! | [`RmwFunction`] | the same | [`rmw`] |
//! | [`FenceFunction`] | | [`fence`], [`fence_tasks`], [`fence_contexts`], [`fence_geometry`], [`fence_rma`] |
//! | [`ProcessFunction`] | who does which sub-operations | [`process`] |
//! | [`SubOperationFunction`] | a function, what it costs | [`process`] of a recipe with its number |
//! | [`CollectFunction`] | collective, algorithm, tuning | [`collect`] |
//! | [`ReceiveFunction`] | dispatch id, handler | |
//! | [`DeferringReceiveFunction`] | dispatch id, handler | [`accept`] of what was kept |
//!
//! # Where things lie
//!
//! Both kinds of object lie in memory of this library or in memory that the caller brings, and any of one goes with
//! any of the other (SPEC M-3). Types whose contents are private make sure that such memory is large enough and
//! aligned:
//!
//! | object | here | with the caller |
//! |---|---|---|
//! | factory | [`register`]: one of the client's [`factories`] | [`register_in`]: a [`FactoryMemory`] |
//! | of sends, puts, gets, updates, fences, what is processed | `execute`: one of the context's [`OPERATIONS`] places | `execute_in`: an [`ObjectMemory`] |
//! | of a collective | `execute`: of the places of [`Limits`](crate::Limits) | `execute_in`: a [`CollectMemory`] |
//! | of a reception | `execute`: one of the context's receive requests | `execute_in`: an [`AcceptMemory`] |
//!
//! With [`deregister`] the caller has its [`FactoryMemory`] back. If no place is free `execute` says [`Again`];
//! `execute_in` never does: the object waits in the caller's memory. An [`ObjectMemory`] is free again at the last callback, the
//! others once their object has a place.
//!
//! | type | bytes | alignment |
//! |---|---|---|
//! | [`FactoryMemory`] | 88 | 8 |
//! | [`ObjectMemory`] | 368 | 8 |
//! | [`CollectMemory`] | 376 | 8 |
//! | [`AcceptMemory`] | 80 | 8 |
//! | [`Factory`], which refers to one | 8 | 8 |
//!
//! An operation in the caller's memory stays there from call to callback. For the answers to its packets to find it it
//! has the number of a place besides; while none is free it waits for one, and objects keep the order of their calls.
//! A put, get or update within the node is carried out in the call, and waits for a place to tell of its end alone.
//! An immediate send has no object but its packet, unless it has to be kept. A collective, and a reception, is in the caller's
//! memory while there is no place for it to wait in or to begin; once it has one it goes on from there.
//!
//! # Several ways to send
//!
//! Each is a factory of its own, side by side with the others of the same dispatch id; the caller picks (SPEC M-5).
//!
//! | way | function | `rendezvous_from` | `local_paths` | how data goes |
//! |---|---|---|---|---|
//! | as the client says | [`SendFunction`] | `None` | | by size and path |
//! | eager | [`SendFunction`] | `Some(usize::MAX)` | | in packets, whatever its length |
//! | bulk | [`SendFunction`] | `Some(0)` | | pulled by the target, from where it lies |
//! | shared memory | [`PathSendFunction`] | any | `true` | through the node's memory |
//! | loop-back | [`PathSendFunction`] | any | `false` | over the network, within the node too |
//!
//! # When
//!
//! Factories come and go at any time. A handler comes before the client's contexts, so that no message finds it missing; with
//! [`late_receives`](crate::ClientBuilder::late_receives) also while they live.
//!
//! # Mistakes
//!
//! A factory of another client, memory in use, an id that is none: errors that say so. The rest does not compile. A
//! factory of the wrong kind:
//!
//! ```compile_fail,E0308
//! # use pami::factory::*;
//! # use pami::{Active, device::Port, Factory, Put};
//! fn write<P: Port>(factory: &Factory<SendFunction>, active: &mut Active<P>, put: Put<P>) {
//!     factory.execute(active, put);
//! }
//! ```
//!
//! A factory that was given up:
//!
//! ```compile_fail,E0382
//! # use pami::factory::*;
//! # use pami::{Active, Client, Endpoint, Factory, client::Node};
//! fn late<N: Node>(
//!     client: &mut Client<N>, active: &mut Active<N::Port>, factory: Factory<ImmediateFunction>, to: Endpoint,
//! ) {
//!     let _ = client.deregister(factory);
//!     let _ = factory.execute(active, to, b"", b"");
//! }
//! ```
//!
//! Memory that is too small for an object:
//!
//! ```compile_fail,E0308
//! # use pami::factory::*;
//! # use pami::{Active, Factory, device::Port};
//! static MEMORY: [u8; 16] = [0; 16];
//! fn send<P: Port>(factory: &Factory<SendFunction>, active: &mut Active<P>, outgoing: Outgoing<'_, P>) {
//!     let _ = factory.execute_in(&MEMORY, active, outgoing);
//! }
//! ```
//!
//! # A messaging library's start
//!
//! ```
//! use pami::client::Node;
//! use pami::context::Handler;
//! use pami::factory::*;
//! use pami::{Active, Client, Endpoint, Factory, FactoryError, ObjectMemory, Payload, SendError};
//!
//! /// The factories of one library. Another may have as many of its own in the same program.
//! struct Protocols<N: Node> {
//!     receive: Factory<ReceiveFunction<N::Port>>,
//!     short: Factory<ImmediateFunction>,
//!     small: Factory<SendFunction>,
//!     large: Factory<SendFunction>,
//!     fence: Factory<FenceFunction>,
//! }
//!
//! impl<N: Node> Protocols<N> {
//!     /// Before the client's first context, because of the handler.
//!     fn register(client: &mut Client<N>, handler: Handler<N::Port>) -> Result<Self, FactoryError> {
//!         let common = client.protocol("mpi")?;
//!         let receive = client.register(&common, ReceiveFunction { dispatch: None, handler })?;
//!         let dispatch = receive.dispatch();
//!         let (small, large) = (client.protocol("mpi-small")?, client.protocol("mpi-large")?);
//!         Ok(Self {
//!             short: client.register(&small, ImmediateFunction { dispatch })?,
//!             small: client.register(&small, SendFunction { dispatch, rendezvous_from: Some(usize::MAX) })?,
//!             large: client.register(&large, SendFunction { dispatch, rendezvous_from: Some(0) })?,
//!             fence: client.register(&common, FenceFunction)?,
//!             receive,
//!         })
//!     }
//!
//!     /// `object` is the request's: it may be reused when the request is complete.
//!     fn send(
//!         &self,
//!         active: &mut Active<N::Port>,
//!         object: &'static ObjectMemory<N::Port>,
//!         (target, data): (Endpoint, &'static [u8]),
//!     ) -> Result<(), SendError> {
//!         let factory = if data.len() < 4096 { &self.small } else { &self.large };
//!         let outgoing = Outgoing::new(target, Payload::Static(data));
//!         factory.execute_in(object, active, outgoing).map_err(|(error, _)| error)
//!     }
//! }
//! ```
//!
//! [`send_immediate`]: crate::Active::send_immediate
//! [`send`]: crate::Active::send
//! [`put`]: crate::Active::put
//! [`get`]: crate::Active::get
//! [`rmw`]: crate::Active::rmw
//! [`fence`]: crate::Active::fence
//! [`fence_tasks`]: crate::Active::fence_tasks
//! [`fence_contexts`]: crate::Active::fence_contexts
//! [`fence_geometry`]: crate::Active::fence_geometry
//! [`fence_rma`]: crate::Active::fence_rma
//! [`process`]: crate::Active::process
//! [`collect`]: crate::Active::collect
//! [`accept`]: crate::Active::accept
//! [`register`]: crate::Client::register
//! [`register_in`]: crate::Client::register_in
//! [`deregister`]: crate::Client::deregister
//! [`factories`]: crate::ClientBuilder::factories
//! [`OPERATIONS`]: crate::send::OPERATIONS
//! [`Again`]: crate::SendError::Again

mod execute;
mod function;
mod process;
mod registry;

pub use crate::context::{AcceptMemory, CollectMemory, ObjectMemory};
pub use crate::registry::{FactoryError, FactoryMemory, PROTOCOLS};
pub use execute::Outgoing;
pub use function::{
    CollectFunction, DeferringReceiveFunction, FenceFunction, Function, GetFunction, ImmediateFunction,
    PathSendFunction, ProcessFunction, PutFunction, ReceiveFunction, RmwFunction, SendFunction,
    SubOperationFunction,
};
pub use process::Contribution;
pub use registry::{Protocol, Unregistered};

use crate::registry::Settings;
use core::fmt;
use core::marker::PhantomData;

/// Refers to a factory object for functions of kind `F`. It cannot be copied: who deregisters it has it no more.
#[must_use = "a factory is used by instructions, and given up by `Client::deregister`"]
pub struct Factory<F> {
    memory: &'static mut FactoryMemory,
    kind: PhantomData<fn() -> F>,
}

impl<F> Factory<F> {
    fn new(memory: &'static mut FactoryMemory) -> Self {
        Self { memory, kind: PhantomData }
    }

    fn into_memory(self) -> &'static mut FactoryMemory {
        self.memory
    }

    #[inline(always)]
    fn settings(&self) -> &Settings {
        self.memory.settings()
    }

    /// The name of its protocol.
    pub fn protocol(&self) -> &'static str {
        self.memory.protocol()
    }
}

impl<F> fmt::Debug for Factory<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Factory").field("protocol", &self.memory.protocol()).finish_non_exhaustive()
    }
}
