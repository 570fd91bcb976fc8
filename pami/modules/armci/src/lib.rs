//! An aggregate remote memory copy interface (ARMCI) over PAMI: one-sided communication with memory of other tasks.
//!
//! All tasks of a job [`init`](Library::init) the library and [`malloc`](Library::malloc) memory together. Every task then
//! [puts](Library::put) into it, [gets](Library::get) from it, [accumulates](Library::accumulate) into it and updates its
//! words, without the owner's doing, and [fences](Library::fence) say when that has been carried out.
//!
//! The module's `README.md` draws which part knows of which.
//!
//! # What is ordered
//!
//! Of what one thread begins on one context towards one task:
//! - puts are carried out in the order of the calls, and before gets, updates and accumulates that are begun after them;
//! - accumulates are carried out before puts, gets and updates that are begun after them: these wait for them;
//! - a get whose call, or wait, has returned is over; one that has not may see what is put or accumulated after it.
//!
//! A put or accumulate returns, or its handle ends, when the local memory may change; [`Library::fence`] says when it has
//! been carried out. Each element of an accumulate and each update is atomic against all others, accumulates and updates,
//! of that element; a put is not.
//!
//! # Progress
//!
//! Puts, gets and updates, and fences of one task behind these alone, need nothing of the target's threads. Accumulates,
//! mutexes, all other fences and collectives are answered
//! when the target is in a call of the library's, or in [`Library::progress`], which a task that only computes has to call
//! now and then. An accumulate may have to be answered before its local memory may change: by advice the target is asked
//! first, and a target in this node may read that memory where it is. By [`Split::OriginOnly`] it need not.
//!
//! # Threads
//!
//! A [`Library`] is `Copy` and may be used by any thread. Threads that have each a context of their own
//! ([`Library::on_context`]) do not wait for each other; what they began is fenced, waited for and ordered by context. Each
//! task's context *i* answers what was begun on contexts *i*; a thread that waits looks after contexts that no other has,
//! too, but only once a millisecond.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod accumulate;
mod accumulated;
pub mod address;
pub mod error;
mod exchange;
pub mod fence;
pub mod group;
mod init;
pub mod library;
mod lock_table;
pub mod mutex;
mod protocols;
mod requests;
pub mod settings;
pub mod shape;
pub mod transfer;
pub mod update;

pub use address::{GlobalAddress, Local};
pub use base::OutOfMemory;
pub use error::Error;
pub use group::Group;
pub use library::Library;
pub use mutex::Held;
pub use pami::{Factor as Scale, Split};
pub use settings::{Settings, Wait};
pub use shape::Shape;
pub use transfer::Handle;
pub use update::Integer;
