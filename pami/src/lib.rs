//! A parallel active messaging interface for bare metal: clients, contexts, endpoints and active messages.
//!
//! No `std`, no allocation, no `unsafe`. Hardware is known only through [`device::Port`].
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod context;
pub mod device;
pub mod endpoint;
pub mod mapping;
pub mod packet;
pub mod topology;
