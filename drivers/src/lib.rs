//! Drivers: whatever touches a device (SPEC D).
//!
//! | module | what |
//! |---|---|
//! | [`mod@unit`] | the message unit: FIFOs, engine, and the ports that `pami` drives |
//! | [`adapter`] | what the message unit needs of a network |
//! | [`reliable`] | exactly once and in order, over an adapter that loses, damages, duplicates or reorders |
//! | [`torus`] | the torus adapter, on a virtio network card |
//! | [`tree`] | the adapter of the collective network, likewise |
//! | [`virtio`] | transport and queues |
//! | [`shm`] | shared memory within a node |
//! | [`state`] | counters for the host to read out of memory |
//! | [`irq`], [`console`] | interrupt controllers and consoles |
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod adapter;
mod calls;
pub mod console;
pub mod irq;
pub(crate) mod ranks;
pub mod reliable;
pub mod shm;
pub mod state;
pub mod torus;
pub mod tree;
pub mod unit;
pub mod virtio;

/// The torus as nodes use it: a network card, and what mends the losses of the network behind it.
pub type Torus<P, T = virtio::mmio::Transport> = reliable::Reliable<torus::TorusAdapter<P, T, false>, P>;

pub use tree::TreeUnit;
pub use unit::{MessageUnit, NodePort, OpenError, Platform, Setup, Sharing, StartError, Statistics};
