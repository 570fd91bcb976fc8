//! What messaging libraries over PAMI have in common, [`mpi`], [`armci`] and [`shmem`] so far: each item has two of them or
//! more for users.
//!
//! The module's `README.md` says what is where, and what stays with each library.
//!
//! [`mpi`]: ../mpi/index.html
//! [`armci`]: ../armci/index.html
//! [`shmem`]: ../shmem/index.html
#![no_std]
#![forbid(unsafe_code)]

pub mod completions;
pub mod error;
pub mod factories;
pub mod instance;
pub mod lane;
pub mod memory;

pub use completions::Completions;
pub use factories::{Collectives, OneSided, deregister};
pub use instance::Instance;
pub use lane::{Guard, Lane, POOLS, wait_for};
pub use memory::{OutOfMemory, fill, place, shared};
