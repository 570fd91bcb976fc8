//! A parallel active messaging interface for bare metal: clients, contexts, endpoints and active messages.
//!
//! No `std`, no allocation, no code outside the language's guarantees. Hardware is known only through [`device::Port`].
//!
//! A job makes a [`client::Client`] with its dispatch handlers, contexts from it, and advances those; messages go
//! to [`endpoint::Endpoint`]s by [`context::Active::send_immediate`] and [`context::Active::send`]. One message
//! takes this way:
//!
//! ```text
//! Context::send -> line of operations -> injection FIFO or shared-memory ring -> wire
//! wire -> reception FIFO or ring -> Context::advance -> handler -> buffer -> callback
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod client;
pub mod combine;
pub mod context;
pub mod device;
pub mod dispatch;
pub mod endpoint;
pub mod lock;
pub mod mapping;
pub mod packet;
mod receive;
pub mod send;
pub mod topology;

pub use client::{Client, ClientBuilder, ClientError, Node, Sharing};
pub use context::{Active, Context, Poster, Progress, Work, WorkSlot, wait_on};
pub use dispatch::{Completion, Done, Message, OnPart, OnReceived, Part, Receive, Received};
pub use endpoint::Endpoint;
pub use lock::LockedContext;
pub use rings::buffer::{Buffer, Lease, Source};
pub use send::{Payload, Send, SendError};
