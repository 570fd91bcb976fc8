//! Message passing in the manner of the MPI standard, over PAMI: its semantics and names as Rust methods.
//!
//! A program [`init`](Mpi::init)s an instance, which is a client of [`pami`] with some contexts, and gets at its
//! processes by [`Communicator`]s. Each communicator is a geometry and has one of the contexts. No static is shared
//! by instances, and each has its own [`Settings`] (SPEC M-4). Handles are small and `Copy`, errors have the
//! standard's [classes](Class), and no request borrows anything, so that a C binding can be laid over this.
//!
//! The README draws which module knows of which; all that applications use is named here.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod attribute;
mod callbacks;
pub mod calls;
pub mod cartesian;
pub mod collective;
mod communicators;
mod context_id;
pub mod data;
pub mod datatype;
mod division;
mod envelope;
pub mod error;
pub mod file;
pub mod group;
mod handlers;
mod init;
mod lags;
pub mod library;
pub mod message;
pub mod op;
mod pool;
pub mod protocols;
pub mod request;
pub mod settings;
pub mod status;
mod vci;
pub mod window;

pub use attribute::{Copying, Keyval};
pub use calls::{BSEND_OVERHEAD, Ended, Matched, Target, UNDEFINED, Window};
pub use collective::{Blocks, IN_PLACE, Operand};
pub use data::{Data, DataError};
pub use datatype::{Basic, Datatype, Native, TypeError, Types};
pub use envelope::{ANY_SOURCE, ANY_TAG, PROC_NULL, TAG_UB};
pub use error::{Class, Error, Result};
pub use file::{Amode, File, View, Whence};
pub use group::{Comparison, Group};
pub use library::{Communicator, Mpi, Threads};
pub use op::{Op, reduce_local};
pub use request::Request;
pub use settings::{Setting, Settings};
pub use status::Status;
pub use window::{Assert, LockType};
