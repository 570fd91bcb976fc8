//! Everything that differs between the architectures, and all of the kernel's `unsafe`.
//!
//! `aarch64` and `riscv64` provide the same functions; the rest of the kernel calls them through here. Nothing in here knows
//! who calls it. What is called from below is handed down: entries and vectors when the kernel is built (`entry`), what takes
//! log frames at start (`logger`), jobs by the linker (`jobs`).

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as this;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
use riscv64 as this;

mod backtrace;
mod checksum;
mod devices;
mod entry;
pub mod heap;
mod image;
mod jobs;
mod last_words;
mod logger;
mod machine;
pub mod memory;
mod numbers;
#[doc(hidden)]
pub mod provoke;
mod translation;

pub(crate) use backtrace::Backtrace;
pub(crate) use checksum::{choose_checksum, crc32c};
pub(crate) use devices::{console, network_card, receiver};
pub(crate) use entry::{device_tree, entries};
pub(crate) use image::{image, in_guard, is_code, is_constant, is_memory};
#[doc(hidden)]
pub use jobs::Entry;
pub(crate) use jobs::{job, jobs};
pub(crate) use last_words::last_words;
pub(crate) use logger::{Frames, level_marks, log_to};
pub(crate) use machine::{machine, set_machine};
pub(crate) use numbers::boot_number;
pub(crate) use this::fault::incident;
pub(crate) use this::instructions::{retired as instructions, start as start_instructions};
pub(crate) use this::interrupt::{
    add_adapter_interrupt, claim, complete, interrupt_hart, mask, route_adapters, route_line,
    start_interrupts, start_interrupts_here, take_line, taken, unmask,
};
pub(crate) use this::{
    counter, counter_hz, exit, frame_pointer, io_barrier, park, set_timer, start_hart, wait_for_interrupt,
};
pub(crate) use translation::translate;

/// The number of this hart.
#[inline]
pub(crate) fn hart() -> usize {
    boot_number(this::boot_number())
}

/// Network cards of a node: on the torus, on the tree.
pub(crate) const ADAPTERS: usize = 2;

/// An interrupt that was claimed and is to be completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Claim {
    /// Another hart's, or the timer's.
    Wakeup(u32),
    /// A network adapter's.
    Adapter(u32),
    /// The console line's.
    Line(u32),
}

/// What an instruction tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// A load.
    Read,
    /// A store.
    Write,
    /// Its own fetch.
    Execute,
}

/// What an exception means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Incident {
    /// An access that the translation or the bus refused, at the fault's address.
    Access(Access),
    /// Anything else, in words.
    Other(&'static str),
}
