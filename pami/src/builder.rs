//! Setting a client up: its settings, with their defaults, and its handlers.

use crate::balance::SubOperations;
use crate::client::{Client, ClientError, Configuration, Handlers, Node, PEERS, RENDEZVOUS_FROM, Sharing};
use crate::collective::engine::Limits;
use crate::context::{DeferringHandler, Handler, LateHandlers};
use crate::endpoint::TaskList;
use crate::pools::Pools;
use crate::registry::{FactoryMemory, Registry};
use core::ops::Range;

/// Sets a client up; handlers come before contexts, so no message can find its handler missing.
#[must_use = "a builder does nothing until `create`"]
pub struct ClientBuilder<N: Node> {
    node: &'static N,
    name: &'static str,
    configuration: Configuration,
    factories: usize,
    late_receives: bool,
    handlers: Handlers<N::Port>,
    mistake: Option<ClientError>,
}

impl<N: Node> ClientBuilder<N> {
    /// A client called `name` with one context for all tasks of the job. Every task creates its clients in the
    /// same order: their numbers, which packets carry, follow it.
    pub fn new(node: &'static N, name: &'static str) -> Self {
        Self {
            node,
            name,
            configuration: Configuration {
                contexts: 1,
                tasks: TaskList::Range(0..node.tasks()),
                sharing: Sharing::Exclusive,
                local_paths: true,
                rendezvous_from: RENDEZVOUS_FROM,
                peers: PEERS,
                pools: Pools::SMALL,
                collectives: Limits::NONE,
                sub_operations: SubOperations::all(),
            },
            factories: 0,
            late_receives: false,
            handlers: Handlers::new(),
            mistake: None,
        }
    }

    /// The number of contexts in each task.
    pub fn contexts(mut self, contexts: u8) -> Self {
        self.configuration.contexts = contexts;
        self
    }

    /// Registers a dispatch handler.
    pub fn dispatch(mut self, id: u8, handler: Handler<N::Port>) -> Self {
        if self.handlers.add(Some(id), handler).is_err() {
            self.mistake = self.mistake.or(Some(ClientError::DispatchId(id)));
        }
        self
    }

    /// Registers a dispatch handler that may want messages later, under an id from
    /// [`DEFERRING`](crate::packet::DEFERRING) on. Sends to it keep their data until the target has a place for it
    /// ([`crate::admission`]).
    pub fn dispatch_deferring(mut self, id: u8, handler: DeferringHandler<N::Port>) -> Self {
        if self.handlers.add_deferring(Some(id), handler).is_err() {
            self.mistake = self.mistake.or(Some(ClientError::DispatchId(id)));
        }
        self
    }

    /// Talks only to the tasks of a range.
    pub fn task_range(mut self, tasks: Range<u32>) -> Self {
        self.configuration.tasks = TaskList::Range(tasks);
        self
    }

    /// Talks only to the tasks of a list.
    pub fn task_list(mut self, tasks: &'static [u32]) -> Self {
        self.configuration.tasks = TaskList::Listed(tasks);
        self
    }

    /// Whether contexts share their injection FIFO.
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.configuration.sharing = sharing;
        self
    }

    /// With `false`, sends what could stay inside the node over the network's loop-back (SPEC P-9).
    pub fn local_paths(mut self, local_paths: bool) -> Self {
        self.configuration.local_paths = local_paths;
        self
    }

    /// Sends messages of at least so many bytes by rendezvous, to other nodes, and within the node of
    /// [`Payload::Shared`](crate::Payload::Shared): their data is got from where it lies. `usize::MAX` sends all eagerly (SPEC
    /// P-6).
    pub fn rendezvous_from(mut self, bytes: usize) -> Self {
        self.configuration.rendezvous_from = bytes;
        self
    }

    /// How much each context has for what is under way: [`Pools::SMALL`] by default. What finds no room waits or comes again.
    pub fn pools(mut self, pools: Pools) -> Self {
        self.configuration.pools = pools;
        let exhausted = |(what, limit)| ClientError::Exhausted { what, limit };
        self.mistake = self.mistake.or(pools.mistake().map(exhausted));
        self
    }

    /// For how many peers at a time each context remembers what it owes them, the same at every task; [`PEERS`] by default. In
    /// a job of more endpoints one that finds no place for its answer asks for it, after a while, and messages that may be
    /// refused go to each peer one at a time (SPEC R-9).
    pub fn peers(mut self, peers: usize) -> Self {
        self.configuration.peers = peers.max(1);
        self
    }

    /// What each context has for collectives; without this the client has none.
    pub fn collectives(mut self, limits: Limits) -> Self {
        self.configuration.collectives = limits;
        if limits.geometries > usize::from(u16::MAX) {
            let exhausted = ClientError::Exhausted { what: "geometries", limit: u16::MAX.into() };
            self.mistake = self.mistake.or(Some(exhausted));
        }
        self
    }

    /// How many factories the client has memory for; without this all lie in their registrants' (SPEC M-3).
    pub fn factories(mut self, places: usize) -> Self {
        self.factories = places;
        self
    }

    /// Lets handlers be registered while contexts live, for protocols that not every run needs, or whose library comes later
    /// (SPEC M-1). It takes 1 KiB of the node's memory.
    pub fn late_receives(mut self) -> Self {
        self.late_receives = true;
        self
    }

    /// The sub-operations that contexts do with others' messages, all by default; the others' origins have to do the rest
    /// (SPEC L-2).
    pub fn sub_operations(mut self, available: SubOperations) -> Self {
        self.configuration.sub_operations = available;
        self
    }

    /// Takes the resources.
    ///
    /// # Errors
    /// What ran out, or the first mistake among the settings, or in what configuration has for the client.
    pub fn create(self) -> Result<Client<N>, ClientError> {
        let Self { node, name, configuration, factories, late_receives, mut handlers, mistake } = self;
        if let Some(mistake) = mistake {
            return Err(mistake);
        }
        if let Some(task) = configuration.tasks.exception(|task| task < node.tasks()) {
            return Err(ClientError::UnknownTask(task));
        }
        let limit = usize::from(node.context_limit());
        if configuration.contexts == 0 || usize::from(configuration.contexts) > limit {
            return Err(ClientError::Exhausted { what: "contexts", limit });
        }
        let pool = pool(node, factories)
            .ok_or(ClientError::Exhausted { what: "memory for factories", limit: factories })?;
        if late_receives {
            let memory = node.memory(1, LateHandlers::new).and_then(|memory| memory.first());
            handlers
                .open(memory.ok_or(ClientError::Exhausted { what: "memory for late handlers", limit: 0 })?);
        }
        let id = node.claim_client(name)?;
        Client::new(node, (name, id), configuration, handlers, Registry::new(pool))
    }
}

/// Memory for so many factories; `None` if the node has less.
fn pool<N: Node>(node: &N, places: usize) -> Option<&'static mut [Option<&'static mut FactoryMemory>]> {
    if places == 0 {
        return Some(&mut []);
    }
    let mut memory = node.memory(places, FactoryMemory::pooled)?.iter_mut();
    node.memory(places, || memory.next())
}
