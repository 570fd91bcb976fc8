//! The compute-node kernel: from a machine fresh out of reset to a running job, and back to an exit status.
//!
//! | module | concern |
//! |---|---|
//! | [`personality`] | what the node is told at boot; shared with the host tool |
//! | [`layout`], [`paging`] | regions of memory; page tables, one builder for both architectures |
//! | [`interrupt_routing`] | which sleeping hart the adapter's interrupt goes to |
//! | [`frame_ring`], [`pace`], [`serial`] | frames that wait for the serial line; its rate; who sends when |
//! | [`timeline`], `trace` | what harts do and when, kept for the host |
//! | [`idle`] | the share of recent time in which a task's harts were idle |
//! | [`file_calls`] | a node's calls to its I/O node, as they lie on the wire; shared with the host tool |
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
//! | `task`, `harts`, `messaging`, `joint`, `files` | what a job sees: its task, threads, PAMI, collectives of several endpoints, files |
//! | `job`, `node` | the job's `main` and its end; the life of a node |
//!
//! `kernel/README.md` draws which may know of which.
//!
//! With `cfg(node)`, which `kernel/build.rs` sets, the crate is for a node: on bare metal, or `hosted` by Linux. Without it only
//! those with links here are built: they need no hardware, are tested on the host, and shared with its tool.
#![cfg_attr(not(test), no_std)]

pub mod devicetree;
pub mod file_calls;
pub mod frame_ring;
pub mod idle;
pub mod interrupt_routing;
pub mod job_error;
pub mod layout;
pub mod pace;
pub mod paging;
pub mod personality;
pub mod segments;
pub mod serial;
pub mod timeline;
pub mod untouched;
pub mod usage;

#[cfg(node)]
extern crate alloc;

#[cfg(node)]
pub use {
    arch::relax,
    arena::{Arena, OutOfMemory},
    drivers::tree_network::{InjectError, TreeArrival},
    files::{File, FileError, JobFiles, SeekFrom},
    hardware::{Bare, Port, Tree, Unit},
    harts::SpawnError,
    instructions::Instructions,
    job::Termination,
    job_error::JobError,
    joint::{Joint, JointError},
    messaging::*,
    pami::affinity::HartPlace,
    pami::packet::DEFERRING,
    task::{Backlog, SegmentError, Task},
};

#[cfg(node)]
pub mod arch;
#[cfg(node)]
mod arena;
#[cfg(node)]
mod board;
#[cfg(node)]
mod clock;
#[cfg(node)]
mod console;
#[cfg(node)]
pub mod files;
#[cfg(node)]
mod hardware;
#[cfg(node)]
mod harts;
#[cfg(node)]
mod heap;
#[cfg(node)]
mod instructions;
#[cfg(node)]
#[doc(hidden)]
pub mod job;
#[cfg(node)]
mod joint;
#[cfg(node)]
mod kept;
#[cfg(node)]
mod links;
#[cfg(node)]
mod log;
#[cfg(node)]
mod messaging;
#[cfg(node)]
mod node;
#[cfg(node)]
mod question;
#[cfg(node)]
mod report;
#[cfg(node)]
mod status;
#[cfg(node)]
mod task;
#[cfg(node)]
mod trace;
#[cfg(node)]
mod wakeup;
