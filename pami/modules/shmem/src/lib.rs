//! A partitioned global address space in the terms of OpenSHMEM 1.5, over PAMI.
//!
//! All processing elements (PEs, PAMI's tasks) [`init`](Shmem::init) the library, and [`malloc`](Shmem::malloc) symmetric
//! objects ([`Sym`]): arrays that each has at the same place of its heap. A PE then [puts](Shmem::put) into those of others,
//! [gets](Shmem::get) from them and updates their words [atomically](Shmem::atomic_fetch_add), without the others' doing;
//! [`quiet`](Shmem::quiet) says when that has been carried out, a [signal](Shmem::put_signal) tells the other side.
//! [Teams](Team) make collectives.
//!
//! The module's `README.md` says which call of OpenSHMEM is which here, and draws which part knows of which.
//!
//! # What is ordered
//!
//! What one context begins towards one PE is carried out in the order of the calls, with gaps in time but for
//! [`quiet`](Shmem::quiet). A get that has returned is over. Atomics are atomic against each other, not against puts.
//!
//! # Progress
//!
//! Puts, gets and atomics need nothing of the target's threads, and so do signals and locks. Collectives are answered when a
//! PE is in a call of the library's, or in [`Shmem::progress`].
//!
//! # Threads
//!
//! A [`Shmem`] is `Copy` and may be used by any thread. Threads that have each a context of their own
//! ([`Shmem::on_context`]) do not wait for each other; what they began is ordered, and waited for, by context.
//!
//! # Errors
//!
//! Any call ends with [`Error::Finalized`] once the library has; with [`Error::Pe`] if there is no such PE or member; with
//! [`Error::Short`] if an object has fewer elements than it takes; with [`Error::Send`] or, of collectives,
//! [`Error::Collect`] if what it began was not taken; with [`Error::Operation`] if that was given up, as a node died. What
//! else may come, a call says.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod area;
mod atomic;
mod collective;
pub mod error;
mod heap;
mod init;
pub mod library;
mod lock;
mod operations;
mod settings;
pub mod symmetric;
pub mod team;
pub mod transfer;
pub mod wait;

pub use base::OutOfMemory;
pub use error::{Error, Result};
pub use library::Shmem;
pub use settings::Settings;
pub use symmetric::{Data, Integer, Number, Sym, Word};
pub use team::Team;
pub use transfer::Signal;
pub use wait::Compare;
