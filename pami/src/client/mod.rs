//! Clients: named collections of communication resources (SPEC P-1, P-3, P-4, P-13).

mod configured;
mod handlers;
mod memory;

pub use configured::{CONFIGURED, ConfiguredError, ConfiguredGeometry};
pub(crate) use handlers::Handlers;

use crate::acks::Acks;
use crate::affinity::Affinities;
use crate::balance::{Processing, SubOperations};
use crate::collective::cost::{COSTS, Costs, PlacementStatistics};
use crate::collective::engine::{Engine, Limits};
use crate::combine::ClassRoute;
use crate::context::{Active, Context, ContextSetup, Parts};
use crate::device::{Port, RemoteMemory};
use crate::endpoint::{CLIENTS, ClientId, ContextOffset, Endpoint, GENERATIONS, TaskList};
use crate::geometry::{GeometryId, Population};
use crate::memory::ContextMemory;
use crate::operation::Operations;
use crate::packet::{DISPATCH_IDS, HEADER_LIMIT};
use crate::pools::Pools;
use crate::receive::Incoming;
use crate::receive_request::ReceiveRequests;
use crate::registry::{FactoryError, Registry, Settings};
use crate::topology::{TorusCoord, TorusShape};
use crate::unexpected::UnexpectedQueue;
use configured::Configured;
use core::fmt;

/// Switch-over size from eager to rendezvous sends of a client that names none, in bytes. Measured over one hop on the
/// emulated torus (job `rma --switch-over`, medians of half round trips and of trains of 8): an eager send takes 0.8 of a
/// rendezvous's time at 64 KiB, 1.0 to 1.1 of it at 256 KiB.
pub const RENDEZVOUS_FROM: usize = 64 << 10;
/// Peers that a context of a client which names no number is sure to have places for at a time.
pub const PEERS: usize = 256;

/// What goes with a context's resources: kept to itself, or shared with the client's other contexts (SPEC P-3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// Every context has its own injection FIFO and uses it without a lock.
    #[default]
    Exclusive,
    /// The contexts of the client share one injection FIFO, under a lock.
    Shared,
}

/// What was not taken, with the reason: it comes back whole, since there is no heap to box it in.
pub type Refused<T> = (ClientError, T);

/// What a client needs of the node: the task it runs in, and ports.
pub trait Node: Sync + 'static {
    /// The ports that contexts are made of.
    type Port: Port;

    /// The task that asks.
    fn task(&self) -> u32;
    /// Number of tasks in the job.
    fn tasks(&self) -> u32;
    /// Contexts that each client can have.
    fn context_limit(&self) -> u8;
    /// The torus, and this node's place in it.
    fn torus(&self) -> (TorusShape, TorusCoord);
    /// Ticks of the clock a second.
    fn clock_hz(&self) -> u64;
    /// What things cost here (SPEC G-2); the same at all nodes.
    fn costs(&self) -> &'static Costs {
        &COSTS
    }
    /// Where threads run, if that is known (SPEC A-1).
    fn affinities(&self) -> Option<Affinities> {
        None
    }
    /// Geometries that configuration establishes, of all clients (SPEC G-1); the same in the same order at all nodes.
    fn geometries(&self) -> impl Iterator<Item = ConfiguredGeometry<'static>> {
        core::iter::empty()
    }
    /// Takes a client's resources.
    ///
    /// # Errors
    /// [`ClientError::NameTaken`] or [`ClientError::Exhausted`].
    fn claim_client(&self, name: &'static str) -> Result<ClientId, ClientError>;
    /// Gives them back.
    fn release_client(&self, id: ClientId);
    /// Opens the port of one context; dropping the port closes it.
    ///
    /// # Errors
    /// [`ClientError::ContextTaken`] while that port is open, [`ClientError::Exhausted`] if there is none.
    fn open(&self, id: ClientId, context: ContextOffset, sharing: Sharing)
    -> Result<Self::Port, ClientError>;
    /// Lets a little time pass, on the thread that calls: it waits for another thread of the task, which does not know
    /// how to wake it.
    fn rest(&self) {
        core::hint::spin_loop();
    }
    /// Memory for a context, or `None` if there is not enough.
    fn memory<T: core::marker::Send>(&self, len: usize, value: impl FnMut() -> T)
    -> Option<&'static mut [T]>;
}

/// Which clients a task has, for its [`Node`]; `PLACES` at once.
pub struct Clients<const PLACES: usize = CLIENTS>([Tenancy; PLACES]);

/// A client's place.
struct Tenancy {
    /// Of the client that has it.
    name: Option<&'static str>,
    /// That client's number, or the next one's if there may be one.
    id: Option<ClientId>,
}

impl<const PLACES: usize> Clients<PLACES> {
    /// None yet.
    pub fn new() -> Self {
        const { assert!(PLACES <= CLIENTS) };
        Self(core::array::from_fn(|place| Tenancy { name: None, id: Some(ClientId::new(place as u8, 0)) }))
    }

    /// Gives the first free place to a client: see [`Node::claim_client`].
    ///
    /// # Errors
    /// [`ClientError::NameTaken`] or [`ClientError::Exhausted`].
    pub fn claim(&mut self, name: &'static str) -> Result<ClientId, ClientError> {
        if self.0.iter().any(|place| place.name == Some(name)) {
            return Err(ClientError::NameTaken);
        }
        let worn = self.0.iter().any(|place| place.name.is_none());
        for place in &mut self.0 {
            if let Tenancy { name: free @ None, id: Some(id) } = place {
                *free = Some(name);
                return Ok(*id);
            }
        }
        let (what, limit) = if worn {
            ("clients one after the other in a place", GENERATIONS.into())
        } else {
            ("clients", PLACES)
        };
        Err(ClientError::Exhausted { what, limit })
    }

    /// Frees the place of a client: see [`Node::release_client`].
    pub fn release(&mut self, id: ClientId) {
        if let Some(place) = self.0.iter_mut().find(|place| place.id == Some(id)) {
            *place = Tenancy { name: None, id: id.next() };
        }
    }
}

impl<const PLACES: usize> Default for Clients<PLACES> {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a client or a context could not be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// A client of that name exists in this task.
    NameTaken,
    /// The context exists.
    ContextTaken,
    /// No more of `what` is left; the node has `limit`.
    Exhausted {
        /// What ran out, in words.
        what: &'static str,
        /// How many or much there is.
        limit: usize,
    },
    /// The task is not in the client's task list, or not in the job.
    UnknownTask(u32),
    /// The context's offset is not below the client's number of contexts.
    UnknownContext(u8),
    /// The id has a handler, or is not below [`DISPATCH_IDS`]; of handlers that may want messages later, it is none of theirs.
    DispatchId(u8),
    /// The client still has this many contexts.
    ContextsAlive(u8),
    /// The client still has this many factories.
    FactoriesAlive(usize),
    /// The context still has sends under way.
    SendsUnderWay,
    /// The context is in the middle of receiving a message, or keeps one.
    ReceivesUnderWay,
    /// The geometry of this name that configuration has for the client cannot be.
    Configured(&'static str, ConfiguredError),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NameTaken => f.write_str("this task has a client of that name: take another name"),
            Self::ContextTaken => f.write_str("that context exists: destroy it first"),
            Self::Exhausted { what, limit } => write!(f, "out of {what}: the node has {limit}"),
            Self::UnknownTask(task) => write!(f, "task {task} is not among the client's tasks"),
            Self::UnknownContext(context) => write!(f, "the client has no context {context}"),
            Self::DispatchId(id) => {
                write!(f, "dispatch id {id} has a handler, or is not below {DISPATCH_IDS}")
            }
            Self::ContextsAlive(count) => {
                write!(f, "the client still has {count} contexts: destroy them first")
            }
            Self::FactoriesAlive(count) => {
                write!(f, "the client still has {count} factories: deregister them first")
            }
            Self::ReceivesUnderWay => {
                f.write_str("the context is receiving or keeps a message: advance it, accept or discard that")
            }
            Self::Configured(name, error) => write!(f, "geometry {name} of the configuration: {error}"),
            Self::SendsUnderWay => {
                f.write_str("the context has sends under way: advance it until they are done")
            }
        }
    }
}

impl core::error::Error for ClientError {}

/// What can be asked of a client (SPEC P-13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// This task.
    pub task: u32,
    /// Number of tasks in the job.
    pub tasks: u32,
    /// Contexts that the client has in each task.
    pub contexts: u8,
    /// Ticks of the clock a second.
    pub clock_hz: u64,
    /// The job's torus.
    pub torus: TorusShape,
    /// This node's place in it.
    pub coord: TorusCoord,
    /// Most bytes of a message's header.
    pub header_limit: usize,
    /// Dispatch ids, from 0.
    pub dispatch_ids: usize,
    /// Bytes from which on a message to another node is sent by rendezvous.
    pub rendezvous_from: usize,
    /// Messages that each context can keep for later.
    pub unexpected: usize,
}

/// What is settled when a client is set up; see [`ClientBuilder`](crate::ClientBuilder).
pub(crate) struct Configuration {
    pub(crate) contexts: u8,
    pub(crate) tasks: TaskList,
    pub(crate) sharing: Sharing,
    pub(crate) local_paths: bool,
    pub(crate) rendezvous_from: usize,
    pub(crate) peers: usize,
    pub(crate) pools: Pools,
    pub(crate) collectives: Limits,
    pub(crate) sub_operations: SubOperations,
}

/// A client. Its contexts are made from it, each to be driven by a thread.
pub struct Client<N: Node> {
    node: &'static N,
    name: &'static str,
    id: ClientId,
    configuration: Configuration,
    handlers: Handlers<N::Port>,
    factories: Registry,
    configured: Configured,
    /// Contexts that there are.
    alive: u8,
}

impl<N: Node> Client<N> {
    /// The client that the node has given this number.
    ///
    /// # Errors
    /// [`ClientError::Configured`]; the node has the number back.
    pub(crate) fn new(
        node: &'static N,
        (name, id): (&'static str, ClientId),
        mut configuration: Configuration,
        handlers: Handlers<N::Port>,
        factories: Registry,
    ) -> Result<Self, ClientError> {
        let limits = &mut configuration.collectives;
        let configured =
            configured::establish(node, (name, id), configuration.contexts, limits.geometries > 0);
        let configured = configured.inspect_err(|_| node.release_client(id))?;
        // They take no place of others.
        limits.geometries += configured.len();
        Ok(Self { node, name, id, configuration, handlers, factories, configured, alive: 0 })
    }

    /// Its handlers, to add one: before its contexts, unless it was [set up](crate::ClientBuilder::late_receives) for later ones.
    ///
    /// # Errors
    /// [`FactoryError::ContextsAlive`].
    pub(crate) fn handlers_to_add(&mut self) -> Result<&mut Handlers<N::Port>, FactoryError> {
        match self.handlers.late() {
            Some(_) => Ok(&mut self.handlers),
            None => self.handlers(),
        }
    }

    /// The same with nobody there who has copies of them: they go after the client's contexts.
    ///
    /// # Errors
    /// [`FactoryError::ContextsAlive`].
    pub(crate) fn handlers(&mut self) -> Result<&mut Handlers<N::Port>, FactoryError> {
        match self.alive {
            0 => Ok(&mut self.handlers),
            alive => Err(FactoryError::ContextsAlive(alive)),
        }
    }

    /// Its protocols, and the memory that it has for factories.
    pub(crate) fn registry(&mut self) -> &mut Registry {
        &mut self.factories
    }

    /// The names of the client's protocols, and how many factories each has.
    pub fn protocols(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.factories.protocols()
    }

    /// What its factories know that settle nothing else.
    pub(crate) fn usual_settings(&self) -> Settings {
        let Configuration { local_paths, rendezvous_from, .. } = self.configuration;
        Settings { client: self.id, usual_for: self.id, local_paths, rendezvous_from, ..Settings::NONE }
    }

    /// Whether its contexts can have collectives under way.
    pub(crate) fn has_collectives(&self) -> bool {
        self.configuration.collectives.in_flight > 0
    }

    /// The client's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The node that it was made for.
    pub fn node(&self) -> &'static N {
        self.node
    }

    /// The client's number, the same at every task.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The address of a context of a task.
    ///
    /// # Errors
    /// [`ClientError::UnknownTask`], [`ClientError::UnknownContext`].
    pub fn endpoint(&self, task: u32, context: u8) -> Result<Endpoint, ClientError> {
        if !self.configuration.tasks.contains(task) {
            return Err(ClientError::UnknownTask(task));
        }
        if context >= self.configuration.contexts {
            return Err(ClientError::UnknownContext(context));
        }
        Ok(Endpoint::from_parts(self.id, task, ContextOffset(context)))
    }

    /// The geometry of this name that configuration has established, if its members are this client's (SPEC G-1). It is there as
    /// soon as a member's context is.
    pub fn geometry(&self, name: &str) -> Option<GeometryId> {
        self.configured.iter().find(|one| one.name == name).map(|one| one.id)
    }

    /// The endpoints that it has, to make [`Members`](crate::geometry::Members) of.
    pub fn population(&self) -> Population {
        Population { client: self.id, tasks: self.node.tasks(), contexts: self.configuration.contexts }
    }

    /// What the client is and may.
    pub fn attributes(&self) -> Attributes {
        let (torus, coord) = self.node.torus();
        Attributes {
            task: self.node.task(),
            tasks: self.node.tasks(),
            contexts: self.configuration.contexts,
            clock_hz: self.node.clock_hz(),
            torus,
            coord,
            header_limit: HEADER_LIMIT,
            dispatch_ids: DISPATCH_IDS,
            rendezvous_from: self.configuration.rendezvous_from,
            unexpected: self.configuration.pools.unexpected,
        }
    }

    /// Makes the context with this offset.
    ///
    /// # Errors
    /// [`ClientError::UnknownContext`], [`ClientError::ContextTaken`], [`ClientError::Exhausted`].
    pub fn create_context(
        &mut self,
        offset: u8,
        memory: ContextMemory<N::Port>,
    ) -> Result<Context<N::Port>, ClientError> {
        if offset >= self.configuration.contexts {
            return Err(ClientError::UnknownContext(offset));
        }
        let context = ContextOffset(offset);
        let port = self.node.open(self.id, context, self.configuration.sharing)?;
        self.alive += 1;
        let me = Endpoint::from_parts(self.id, self.node.task(), context);
        let placement =
            PlacementStatistics::of_job(&self.node.torus().0, self.node.tasks(), self.node.costs());
        let mut collectives =
            Engine::new(memory.collectives, self.population(), placement, self.node.affinities());
        collectives.make_world(me, &self.configuration.tasks, self.configuration.collectives.domains);
        for one in &self.configured {
            collectives.establish(me, one.id, one.members, one.algorithms);
        }
        if self.configuration.local_paths {
            collectives.show_world(|of| port.bulletin(of));
        }
        // For the clients of each place there is a class route of all nodes.
        let whole = self.configuration.tasks.len() == self.node.tasks() as usize;
        let world = ClassRoute::worlds().nth(self.id.place().into()).filter(|_| whole);
        collectives.join_tree(port.network(), world);
        let setup = ContextSetup {
            me,
            contexts: self.configuration.contexts,
            local_paths: self.configuration.local_paths,
            rendezvous_from: self.configuration.rendezvous_from,
            handlers: self.handlers.plain(),
            deferring: self.handlers.deferring(),
            late: self.handlers.late(),
            processing: Processing::new(self.configuration.sub_operations, self.handlers.functions()),
            parts: Parts {
                operations: Operations::new(memory.operations),
                receive_requests: ReceiveRequests::new(
                    memory.receive_requests,
                    memory.landings,
                    self.configuration.pools.piece_bytes as u32,
                ),
                acks: Acks::new(memory.acks, self.origins()),
                incoming: Incoming::new(memory.incoming, self.origins()),
                unexpected: UnexpectedQueue::new(memory.unexpected, memory.unexpected_data),
                collectives,
                posts: memory.posts,
            },
        };
        Ok(Context::new(Active::new(port, setup)))
    }

    /// Ends a context and gives its memory back.
    ///
    /// # Errors
    /// The context comes back with [`ClientError::SendsUnderWay`], [`ClientError::ReceivesUnderWay`], or
    /// [`ClientError::UnknownContext`] if it is another client's or task's.
    #[expect(clippy::result_large_err, reason = "see Refused")]
    pub fn destroy_context(
        &mut self,
        context: Context<N::Port>,
    ) -> Result<ContextMemory<N::Port>, Refused<Context<N::Port>>> {
        let me = context.endpoint();
        if (me.client(), me.task()) != (self.id, self.node.task()) {
            return Err((ClientError::UnknownContext(me.context().0), context));
        }
        if !context.has_sent_all() {
            return Err((ClientError::SendsUnderWay, context));
        }
        if !context.has_received_all() {
            return Err((ClientError::ReceivesUnderWay, context));
        }
        let Parts { operations, receive_requests, incoming, acks, unexpected, collectives, posts } =
            context.into_parts();
        self.alive -= 1;
        let (receive_requests, landings) = receive_requests.into_parts();
        let (unexpected, unexpected_data) = unexpected.into_parts();
        Ok(ContextMemory {
            operations: operations.into_places(),
            receive_requests,
            incoming: incoming.into_places(),
            acks: acks.into_places(),
            unexpected,
            unexpected_data,
            landings,
            collectives: collectives.into_memory(),
            posts,
        })
    }

    /// Ends the client and gives its resources back.
    ///
    /// # Errors
    /// The client comes back with [`ClientError::ContextsAlive`] or [`ClientError::FactoriesAlive`].
    #[expect(clippy::result_large_err, reason = "see Refused")]
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        if self.alive > 0 {
            return Err((ClientError::ContextsAlive(self.alive), self));
        }
        let factories = self.factories.registered();
        if factories > 0 {
            return Err((ClientError::FactoriesAlive(factories), self));
        }
        self.node.release_client(self.id);
        Ok(())
    }
}
