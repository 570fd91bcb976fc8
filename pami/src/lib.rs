//! A parallel active messaging interface for bare metal: clients, contexts, endpoints and active messages.
//!
//! No `std`, no allocation, no code outside the language's guarantees. Hardware is known only through [`device::Port`].
//!
//! A job makes a [`client::Client`] with its dispatch handlers, contexts from it, and advances those; messages go
//! to [`endpoint::Endpoint`]s by [`context::Active::send_immediate`] and [`context::Active::send`]. Memory that a task
//! [registers](context::Active::register) is reached without it: [`put`](context::Active::put),
//! [`get`](context::Active::get), [`rmw`](context::Active::rmw). A [`fence`](context::Active::fence) waits for all of
//! these. They take this way:
//!
//! ```text
//! send, put, get, rmw, fence -> slot -> pending -> injection FIFO or shared-memory ring -> wire
//! wire -> reception FIFO or ring -> advance -> handler -> buffer -> callback           (send: eager)
//!                                                 handler -> GET ... data -> callback -> done   (send: rendezvous)
//!                                                 handler -> unexpected ... accept -> buffer -> callback
//! wire -> reception FIFO or ring -> advance -> arithmetic -> region                      (process)
//! wire -> message unit -> region                                                         (put, rmw)
//! wire -> message unit -> region -> wire -> message unit -> memory -> callback             (get)
//! ```
//!
//! What the modules are, and which may know of which other, is in the crate's `README.md`.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod acks;
mod adaptive_spin;
pub mod addends;
pub mod admission;
pub mod affinity;
pub mod balance;
pub mod builder;
pub mod client;
pub mod collective;
pub mod combine;
pub mod context;
pub mod device;
pub mod dispatch;
pub mod endpoint;
pub mod error;
pub mod factory;
pub mod fence;
pub mod files;
pub mod geometry;
pub mod get;
mod last_region;
pub mod layout;
pub mod lending;
pub mod lock;
pub mod mapping;
pub mod memory;
pub(crate) mod nary;
mod object;
pub mod operation;
pub mod operator;
pub mod packet;
pub mod partition;
pub mod payload;
pub mod pools;
pub mod put;
pub mod receive;
pub mod receive_request;
pub mod region;
mod registry;
pub mod rmw;
pub mod send;
pub mod topology;
pub mod trace;
mod transport;
pub mod unexpected;
pub mod wait;

pub use acks::QUESTIONS_NS;
pub use balance::{
    Combination, ElementFunction, Factor, Foreign, Operand, Recipe, RecipeElement, Rule, Split, SubOperations,
};
pub use builder::ClientBuilder;
pub use client::{Client, ClientError, Node, Sharing};
pub use collective::engine::{Announcement, CollectError, Geometry, GeometryError, Limits};
pub use context::registration::{self, Region};
pub use context::{
    AcceptMemory, Active, Collect, CollectMemory, Context, Done, Get, NewGeometry, ObjectMemory, OnAnnounced,
    OnDeaths, OnFetched, OnPart, OnReceived, Poster, Process, Progress, Put, Receive, Rmw, Send, Work,
    WorkSlot,
};
pub use dispatch::{Completion, Fetched, Message, Part, Received};
pub use endpoint::{Endpoint, TaskList};
pub use error::{OperationError, RegisterError, SendError};
pub use factory::{Factory, FactoryError, FactoryMemory, Outgoing, Protocol};
pub use fence::FenceScope;
pub use geometry::{GeometryId, WORLD};
pub use layout::Layout;
pub use lending::{Lending, LentRegionSlot};
pub use lock::LockedContext;
pub use payload::Payload;
pub use pools::Pools;
pub use put::Signal;
pub use region::{RegionFault, RegionHandle, Rights, RmwOp};
pub use rings::buffer::{Apart, Buffer, CONTROL_BYTES, ControlBlock, Lease, Source};
pub use rings::shared::{Shared, Update, Width};
pub use transport::Counters;
pub use unexpected::{Unexpected, UnexpectedId};
pub use wait::wait_on;
