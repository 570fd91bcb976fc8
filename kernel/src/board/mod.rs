//! What lies around the harts: console, network cards, interrupt controller, what ends the machine (SPEC B-1).
//!
//! Nothing in here knows an instruction set or a board by its name. The device tree says which devices there are, and each is
//! driven by what its `compatible` promises: one image for every board of its instruction set. What harts themselves can do is
//! `arch`'s, down here only devices and firmware are put together out of it.
//!
//! | part | what |
//! |---|---|
//! | `devices` | the console |
//! | `cards` | network cards, of all kinds, in slots and behind PCI |
//! | `streams` | in their place, the cards of a process |
//! | `interrupts` | whose interrupt it is, and which hart it goes to, at any controller |
//! | `exit` | the ways to end the machine, the best one first |
//! | `again` | or to have it begin again |

mod again;
#[cfg(target_os = "none")]
mod cards;
#[cfg(hosted)]
#[path = "streams.rs"]
mod cards;
mod devices;
mod exit;
mod interrupts;

pub(crate) use again::Resting;
#[cfg(target_os = "none")]
pub(crate) use cards::Virtio;
pub(crate) use cards::{Card, CardInterrupt, Cards, Found};
pub(crate) use devices::console;
pub(crate) use exit::exit;
pub(crate) use interrupts::{
    Claim, add_adapter_interrupt, claim, complete, heap_bytes, interrupt_hart, is_pending, mask,
    route_adapters, route_line, start_interrupts, start_interrupts_here, take_line, taken, unmask,
};

/// Network cards of a node: on the torus, on the tree.
pub(crate) const ADAPTERS: usize = 2;
