//! What a job sees of PAMI: its types on this kernel's ports, and the task as their node.

use crate::arch;
use crate::hardware::Port;
use crate::task::Task;
use crate::wakeup;
use pami::affinity::Affinities;
use pami::client::{ClientError, ConfiguredGeometry, Node};
use pami::collective::cost::{COSTS, CROWDED_COSTS, Costs, MEMORY_COSTS};
use pami::endpoint::{ClientId, ContextOffset};
use pami::topology::{TorusCoord, TorusShape};
use pami::{client, context, lock};

/// How long a thread rests that waits for another: a few short calls of it.
const REST_NS: u64 = 50_000;

/// A client of this node.
pub type Client = client::Client<Task>;
/// Sets a client of this node up.
pub type ClientBuilder = pami::ClientBuilder<Task>;
/// A context of this node.
pub type Context = context::Context<Port>;
/// What handlers and callbacks are handed.
pub type Active = context::Active<Port>;
/// A context shared by threads.
pub type LockedContext = lock::LockedContext<Port>;
/// Posts work to a context.
pub type Poster = context::Poster<Port>;
/// Posted work.
pub type Work = context::Work<Port>;
/// Memory for a post.
pub type WorkSlot = context::WorkSlot<Port>;
/// A completion callback.
pub type Done = context::Done<Port>;
/// What a handler wants done.
pub type Receive = context::Receive<Port>;
/// A callback for a message in its buffer.
pub type OnReceived = context::OnReceived<Port>;
/// A callback for each packet of a message.
pub type OnPart = context::OnPart<Port>;
/// A callback with what a word was before its update.
pub type OnFetched = context::OnFetched<Port>;
/// A message of any length.
pub type Send<'a> = pami::Send<'a, Port>;
/// Data to be written into a region.
pub type Put = pami::Put<Port>;
/// Data to be read from a region.
pub type Get = pami::Get<Port>;
/// An update of a word of a region.
pub type Rmw = pami::Rmw<Port>;
/// A message to be processed into a region.
pub type Process = pami::Process<Port>;
/// A collective to be started.
pub type Collect = pami::Collect<Port>;
/// A geometry to be created.
pub type NewGeometry = pami::NewGeometry<Port>;
pub use pami::geometry::{Members, MembersError, Population, Rectangle};
pub use pami::{
    Apart, Buffer, CollectError, Combination, Completion, ControlBlock, ElementFunction, Endpoint, Factor,
    FenceScope, Fetched, Foreign, Geometry, GeometryError, GeometryId, Layout, Lease, Limits, Message,
    Operand, OperationError, Part, Payload, Pools, Progress, Received, Recipe, RecipeElement, Region,
    RegionFault, RegionHandle, RegisterError, Rights, RmwOp, Rule, SendError, Shared, Sharing, Signal,
    Source, Split, SubOperations, TaskList, Unexpected, UnexpectedId, Update, WORLD, Width, wait_on,
};

impl Node for Task {
    type Port = Port;

    fn task(&self) -> u32 {
        self.number()
    }

    fn tasks(&self) -> u32 {
        self.tasks()
    }

    fn context_limit(&self) -> u8 {
        self.contexts()
    }

    fn torus(&self) -> (TorusShape, TorusCoord) {
        (self.shape(), self.coord())
    }

    fn clock_hz(&self) -> u64 {
        self.clock_hz()
    }

    fn costs(&self) -> &'static Costs {
        match arch::near() {
            None => &COSTS,
            Some(_) if arch::is_crowded() => &CROWDED_COSTS,
            Some(_) => &MEMORY_COSTS,
        }
    }

    fn affinities(&self) -> Option<Affinities> {
        Some(self.affinities())
    }

    fn geometries(&self) -> impl Iterator<Item = ConfiguredGeometry<'static>> {
        self.geometries()
    }

    fn claim_client(&self, name: &'static str) -> Result<ClientId, ClientError> {
        self.clients().lock().claim(name)
    }

    fn release_client(&self, id: ClientId) {
        // Before another can have the place.
        if let Some(next) = id.next() {
            self.unit().renew(next, self.local());
        }
        self.clients().lock().release(id);
    }

    fn open(&self, id: ClientId, context: ContextOffset, sharing: Sharing) -> Result<Port, ClientError> {
        let sharing = match sharing {
            Sharing::Exclusive => drivers::Sharing::Exclusive,
            Sharing::Shared => drivers::Sharing::Shared,
        };
        let port = self.unit().open(id, self.local(), context.0, sharing);
        port.map(|port| port.on_tree(self.tree())).map_err(|_| ClientError::ContextTaken)
    }

    fn rest(&self) {
        wakeup::idle_for(REST_NS);
    }

    fn memory<T: core::marker::Send>(
        &self,
        len: usize,
        value: impl FnMut() -> T,
    ) -> Option<&'static mut [T]> {
        self.memory().fill(len, value).ok()
    }
}

impl Task {
    /// Sets up a client of this task.
    pub fn client(&'static self, name: &'static str) -> ClientBuilder {
        ClientBuilder::new(self, name)
    }
}

/// Makes the context of `client` with this offset, in the task's memory.
///
/// # Errors
/// As [`client::Client::create_context`].
pub fn context(client: &mut Client, offset: u8) -> Result<Context, ClientError> {
    let memory = client.context_memory()?;
    client.create_context(offset, memory)
}
