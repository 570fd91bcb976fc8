//! Drivers: whatever touches a device (SPEC D).
//!
//! Which module is what, and which may know of which other, says `README.md`.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod adapter;
mod backoff;
mod bits;
pub mod console;
pub mod e1000e;
pub mod either;
pub mod gathering;
pub mod gem;
pub mod irq;
pub mod link;
#[cfg(target_os = "linux")]
pub mod linux;
pub mod lossless;
pub mod near;
pub mod nic;
pub mod pci;
pub mod platform;
mod ranks;
pub mod registers;
pub mod reliable;
pub mod shm;
pub mod state;
pub mod torus;
pub mod tree_network;
pub mod unit;
pub mod virtio;

pub use either::Either;
pub use platform::{Breach, MOST_HARTS, Platform};
pub use tree_network::TreeUnit;
pub use unit::{MessageUnit, NodePort, OpenError, Setup, Sharing, StartError, Statistics};
pub use virtio::VirtioNet;

/// The torus as nodes use it: a network card, and what mends the losses of the network behind it.
pub type Torus<P, N> = reliable::Reliable<torus::TorusAdapter<N>, P>;

/// The same, behind a network that loses nothing.
pub type LosslessTorus<P, N> = lossless::Lossless<torus::TorusAdapter<N>, P>;

/// About how many bytes of heap a node needs for its message unit and its torus; `near` nodes reach each other's memory.
pub const fn heap_bytes(tasks_per_node: usize, contexts: usize, near: usize) -> usize {
    unit::heap_bytes(tasks_per_node, contexts, adapter::MOST_MTU, near)
        + torus::HEAP_BYTES
        + reliable::HEAP_BYTES
}
