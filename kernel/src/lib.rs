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
//! | `arch`, `board` | what harts of an instruction set can do; what lies around them; all of the kernel's `unsafe` |
//! | `console`, `log`, `report`, `status` | frames to the host; log frames; the report of a panic or fault; the end of the node |
//! | `links` | network cards whose link goes down |
//! | `question` | the answer to the service node's question whether this node lives |
//! | `clock`, `instructions`, `wakeup` | time; retired instructions; sleep and wake-up of harts |
//! | `hardware` | the drivers on this node's hardware |
//! | `heap`, `arena` | the kernel's memory; a task's |
//! | `task`, `harts`, `messaging`, `joint` | what a job sees: its task, threads, PAMI, collectives of several endpoints |
//! | `job`, `node` | the job's `main` and its end; the life of a node |
//!
//! `kernel/README.md` draws which may know of which.
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

#[cfg(any(target_os = "none", hosted))]
extern crate alloc;

#[cfg(any(target_os = "none", hosted))]
pub use {
    arena::{Arena, OutOfMemory},
    drivers::tree_network::{InjectError, TreeArrival},
    hardware::{Bare, Port, Tree, Unit},
    harts::SpawnError,
    instructions::Instructions,
    job::Termination,
    job_error::JobError,
    joint::{Joint, JointError},
    messaging::*,
    pami::affinity::HartPlace,
    pami::packet::DEFERRING,
    task::{SegmentError, Task},
};

#[cfg(any(target_os = "none", hosted))]
pub mod arch;
#[cfg(any(target_os = "none", hosted))]
mod arena;
#[cfg(any(target_os = "none", hosted))]
mod board;
#[cfg(any(target_os = "none", hosted))]
mod clock;
#[cfg(any(target_os = "none", hosted))]
mod console;
#[cfg(any(target_os = "none", hosted))]
mod hardware;
#[cfg(any(target_os = "none", hosted))]
mod harts;
#[cfg(any(target_os = "none", hosted))]
mod heap;
#[cfg(any(target_os = "none", hosted))]
mod instructions;
#[cfg(any(target_os = "none", hosted))]
#[doc(hidden)]
pub mod job;
#[cfg(any(target_os = "none", hosted))]
mod joint;
#[cfg(any(target_os = "none", hosted))]
mod links;
#[cfg(any(target_os = "none", hosted))]
mod log;
#[cfg(any(target_os = "none", hosted))]
mod messaging;
#[cfg(any(target_os = "none", hosted))]
mod node;
#[cfg(any(target_os = "none", hosted))]
mod question;
#[cfg(any(target_os = "none", hosted))]
mod report;
#[cfg(any(target_os = "none", hosted))]
mod status;
#[cfg(any(target_os = "none", hosted))]
mod task;
#[cfg(any(target_os = "none", hosted))]
mod wakeup;
