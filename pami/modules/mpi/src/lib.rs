//! Message passing in the manner of the MPI standard, over PAMI: its semantics and names as Rust methods.
//!
//! A program [`init`](Mpi::init)s an instance, which is a client of [`pami`] with some contexts, and gets at its
//! processes by [`Communicator`]s. Each communicator is a geometry and has one of the contexts. No static is shared
//! by instances, and each has its own [`Settings`] (SPEC M-4). Handles are small and `Copy`, errors have the
//! standard's [classes](Class), and no request borrows anything, so that a C binding can be laid over this.
//!
//! | module | what |
//! |---|---|
//! | [`library`], [`settings`], [`error`], [`lane`] | the instance, its contexts, who may use them |
//! | [`request`], [`status`] | what is under way, waiting and testing |
//! | [`communicator`], [`group`], [`attribute`] | who communicates |
//! | [`data`], [`datatype`] | what is sent, received or worked on |
//! | [`op`], [`collective`] | operators, collectives |
//! | [`cartesian`] | grids of processes |
//! | [`message`] | point to point: matching, protocols, probe, cancel |
//! | [`window`] | one-sided communication |
//! | [`protocols`] | every call into the layer below that moves data |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod attribute;
pub mod cartesian;
pub mod collective;
pub mod communicator;
pub mod data;
pub mod datatype;
pub mod environment;
pub mod error;
pub mod group;
pub mod lane;
pub mod library;
pub mod message;
pub mod op;
mod pool;
pub mod protocols;
pub mod request;
pub mod settings;
pub mod status;
pub mod window;

pub use attribute::{Copying, Keyval};
pub use collective::{Blocks, IN_PLACE, Operand};
pub use communicator::{Communicator, UNDEFINED};
pub use data::{Data, DataError};
pub use datatype::{Basic, Datatype, Native, TypeError, Types};
pub use error::{Class, Error, Result};
pub use group::{Comparison, Group};
pub use library::{Mpi, Threads};
pub use message::{ANY_SOURCE, ANY_TAG, BSEND_OVERHEAD, Matched, PROC_NULL, TAG_UB};
pub use op::{Op, reduce_local};
pub use request::{Ended, Request};
pub use settings::{Setting, Settings};
pub use status::Status;
pub use window::{Assert, LockType, Target, Window};
