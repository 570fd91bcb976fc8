//! The compute-node kernel: from a machine fresh out of reset to a running job, and back to an exit status.
//!
//! | module | concern |
//! |---|---|
//! | [`personality`] | what the node is told at boot; shared with the host tool |
//! | [`layout`], [`paging`] | regions of memory; page tables, one builder for both architectures |
//! | [`interrupt_routing`] | which sleeping hart the adapter's interrupt goes to |
//! | [`idle`] | the share of recent time in which a task's harts were idle |
//! | [`job_error`] | why a job failed |
//! | [`segments`] | memory that tasks of a node share |
//! | [`devicetree`] | what the device tree says of the machine, and of where its harts are |
//! | `collective` | the collective network, if the node is on it |
//! | `arch` | everything that differs between the architectures, and all of the kernel's `unsafe` |
//! | `console`, `report`, `status` | frames to the host; the report of a panic or fault; the end of the node |
//! | `clock`, `instructions`, `wakeup` | time; retired instructions; sleep and wake-up of harts |
//! | `task`, `arena`, `messaging`, `joint` | what a job sees |
//! | `harts`, `node` | who runs what; the life of a node |
//!
//! Off bare metal only those with links here are built: they need no hardware and are tested on the host.
#![cfg_attr(not(test), no_std)]

pub mod devicetree;
pub mod idle;
pub mod interrupt_routing;
pub mod job_error;
pub mod layout;
pub mod paging;
pub mod personality;
pub mod segments;
pub mod usage;

#[cfg(target_os = "none")]
extern crate alloc;

#[cfg(target_os = "none")]
mod firmware {
    /// The message unit on this node's hardware.
    pub type Unit = drivers::MessageUnit<crate::wakeup::Hardware>;
    /// The collective network's adapter on this node's hardware.
    pub type Tree = drivers::TreeUnit<crate::wakeup::Hardware>;
    /// One context's port on this node's message unit.
    pub type Port = drivers::NodePort<crate::wakeup::Hardware>;
}

#[cfg(target_os = "none")]
pub use {
    drivers::tree::{Arrival, InjectError},
    firmware::{Port, Tree, Unit},
    instructions::Instructions,
    job_error::JobError,
    joint::{Joint, JointError},
    messaging::*,
    pami::affinity::HartPlace,
    pami::packet::LATER,
    task::{Arena, OutOfMemory, SegmentError, SpawnError, Task},
};

#[cfg(target_os = "none")]
pub mod arch;
#[cfg(target_os = "none")]
mod arena;
#[cfg(target_os = "none")]
mod clock;
#[cfg(target_os = "none")]
mod collective;
#[cfg(target_os = "none")]
mod console;
#[cfg(target_os = "none")]
mod harts;
#[cfg(target_os = "none")]
mod heap;
#[cfg(target_os = "none")]
mod instructions;
#[cfg(target_os = "none")]
mod joint;
#[cfg(target_os = "none")]
mod messaging;
#[cfg(target_os = "none")]
mod node;
#[cfg(target_os = "none")]
mod question;
#[cfg(target_os = "none")]
mod report;
#[cfg(target_os = "none")]
mod status;
#[cfg(target_os = "none")]
pub mod task;
#[cfg(target_os = "none")]
pub mod wakeup;
