//! Message passing in the MPI standard's terms, over PAMI.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod data;
pub mod datatype;

pub use data::{Data, DataError};
pub use datatype::{Basic, Datatype, Native, TypeError, Types};
