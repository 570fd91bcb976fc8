//! What a job sees of PAMI: its types on this kernel's ports, and the task as their node.

use crate::Port;
use crate::task::{OutOfMemory, SegmentError, SpawnError, Task};
use core::fmt;
use pami::affinity::Affinities;
use pami::client::{ClientError, Node};
use pami::endpoint::{ClientId, ContextOffset};
use pami::topology::{TorusCoord, TorusShape};
use pami::{client, context, dispatch, fetch, get, lock, put, send};

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
pub type Done = dispatch::Done<Port>;
/// What a handler wants done.
pub type Receive = dispatch::Receive<Port>;
/// A callback for a message in its buffer.
pub type OnReceived = dispatch::OnReceived<Port>;
/// A callback for each packet of a message.
pub type OnPart = dispatch::OnPart<Port>;
/// A callback with what a word was before its update.
pub type OnFetched = dispatch::OnFetched<Port>;
/// A message of any length.
pub type Send<'a> = send::Send<'a, Port>;
/// Data to be written into a region.
pub type Put = put::Put<Port>;
/// Data to be read from a region.
pub type Get = get::Get<Port>;
/// An update of a word of a region.
pub type Fetch = fetch::Fetch<Port>;
/// A message to be processed into a region.
pub type Process = pami::Process<Port>;
/// A collective to be started.
pub type Collect = pami::Collect<Port>;
/// A geometry to be created.
pub type NewGeometry = pami::NewGeometry<Port>;
pub use pami::geometry::{Members, MembersError, Population, Rectangle};
pub use pami::{
    Buffer, CollectError, Completion, Element, Endpoint, Factor, Fetched, Foreign, Geometry, GeometryError,
    GeometryId, Kept, KeptId, Layout, Lease, Limits, Message, OperationError, Part, Payload, Progress,
    Received, Recipe, Region, RegionFault, RegionHandle, RegisterError, Rights, Rmw, Rule, SendError, Shared,
    Sharing, Source, Split, SubOperations, TaskList, Update, WORLD, Width, wait_on,
};

/// Why a job failed.
#[derive(Clone, Copy, Debug)]
pub enum JobError {
    /// A client or context could not be had.
    Client(ClientError),
    /// A message could not be sent, or another operation not begun.
    Send(SendError),
    /// Memory could not be registered.
    Register(RegisterError),
    /// The node that owns a region refused an operation.
    Region(RegionFault),
    /// A collective could not be started.
    Collect(CollectError),
    /// A geometry could not be created.
    Geometry(GeometryError),
    /// A geometry has no such members.
    Members(MembersError),
    /// A collective did not end well.
    Operation(OperationError),
    /// A node that the job cannot do without is dead.
    Dead(u32),
    /// The task's memory is used up.
    Memory(OutOfMemory),
    /// A segment could not be had.
    Segment(SegmentError),
    /// A thread could not be started.
    Spawn(SpawnError),
    /// An argument of the job, and what is wrong with it.
    Argument(&'static str, &'static str),
    /// Anything else, in words.
    Other(&'static str),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Send(error) => error.fmt(f),
            Self::Register(error) => error.fmt(f),
            Self::Region(fault) => fault.fmt(f),
            Self::Collect(error) => error.fmt(f),
            Self::Geometry(error) => error.fmt(f),
            Self::Members(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
            Self::Dead(node) => write!(f, "node {node} is dead: the job cannot be done without it"),
            Self::Memory(error) => error.fmt(f),
            Self::Segment(error) => error.fmt(f),
            Self::Spawn(error) => error.fmt(f),
            Self::Argument(argument, problem) => write!(f, "the argument \"{argument}\" {problem}"),
            Self::Other(text) => f.write_str(text),
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {$(
        impl From<$error> for JobError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}
from!(ClientError => Client, RegisterError => Register, OutOfMemory => Memory, SegmentError => Segment,
    SpawnError => Spawn);
from!(GeometryError => Geometry, MembersError => Members);

impl From<CollectError> for JobError {
    fn from(error: CollectError) -> Self {
        if let CollectError::Dead(node) = error { Self::Dead(node) } else { Self::Collect(error) }
    }
}

impl From<SendError> for JobError {
    fn from(error: SendError) -> Self {
        if let SendError::Dead(node) = error { Self::Dead(node) } else { Self::Send(error) }
    }
}

impl From<OperationError> for JobError {
    fn from(error: OperationError) -> Self {
        match error {
            OperationError::NodeDead(node) => Self::Dead(node),
            OperationError::Region(fault) => Self::Region(fault),
            other => Self::Operation(other),
        }
    }
}

/// What a job's `main` may return; 0 is success.
pub trait Termination {
    /// The exit status of the task.
    fn status(self, task: &Task) -> i32;
}

impl Termination for i32 {
    fn status(self, _: &Task) -> i32 {
        self
    }
}

impl Termination for () {
    fn status(self, _: &Task) -> i32 {
        0
    }
}

impl Termination for Result<(), JobError> {
    fn status(self, task: &Task) -> i32 {
        let Err(error) = self else { return 0 };
        defmt::error!("task {=u32} failed: {}", task.number(), defmt::Display2Format(&error));
        1
    }
}

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

    fn affinities(&self) -> Option<Affinities> {
        Some(self.affinities())
    }

    fn claim_client(&self, name: &'static str) -> Result<ClientId, ClientError> {
        let mut names = self.client_names().lock();
        if names.contains(&Some(name)) {
            return Err(ClientError::NameTaken);
        }
        let limit = names.len();
        let free = names.iter().position(Option::is_none);
        let free = free.ok_or(ClientError::Exhausted { what: "clients", limit })?;
        names[free] = Some(name);
        Ok(ClientId(free as u8))
    }

    fn release_client(&self, id: ClientId) {
        if let Some(name) = self.client_names().lock().get_mut(usize::from(id.0)) {
            *name = None;
        }
    }

    fn open(&self, id: ClientId, context: ContextOffset, sharing: Sharing) -> Result<Port, ClientError> {
        let sharing = match sharing {
            Sharing::Exclusive => drivers::Sharing::Exclusive,
            Sharing::Shared => drivers::Sharing::Shared,
        };
        let port = self.unit().open(id.0, self.local(), context.0, sharing);
        port.map(|port| port.on_tree(self.tree())).map_err(|_| ClientError::ContextTaken)
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
