//! Everything that differs between instruction sets, and most of the kernel's `unsafe`: what harts themselves can do. What
//! lies around them is `board`'s.
//!
//! `aarch64`, `riscv64` and, for processes, `linux` provide the same functions; the rest of the kernel calls them through here.
//! Nothing in here knows who calls it. What is called from below is handed down: entries and vectors when the kernel is built
//! (`entry`), what takes log frames at start (`logger`), jobs by the linker (`jobs`).

#[cfg(all(target_os = "none", target_arch = "aarch64"))]
mod aarch64;
#[cfg(all(target_os = "none", target_arch = "aarch64"))]
use aarch64 as this;
#[cfg(hosted)]
mod linux;
#[cfg(hosted)]
use linux as this;
#[cfg(all(hosted, target_arch = "aarch64"))]
#[path = "aarch64/checksum.rs"]
pub(crate) mod crc32;
#[cfg(all(hosted, target_arch = "aarch64"))]
#[path = "aarch64/lines.rs"]
mod lines;
#[cfg(all(hosted, target_arch = "aarch64"))]
#[path = "linux/aarch64.rs"]
mod native;
#[cfg(all(hosted, target_arch = "x86_64"))]
#[path = "linux/x86_64.rs"]
mod native;
#[cfg(target_arch = "riscv64")]
mod riscv64;
#[cfg(target_arch = "riscv64")]
use riscv64 as this;

mod again;
mod backtrace;
mod checksum;
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
#[cfg(target_os = "none")]
mod translation;
#[cfg(target_os = "none")]
mod uncached;

pub(crate) use again::{Alone, begin_again};
pub(crate) use backtrace::Backtrace;
pub(crate) use checksum::{choose_checksum, crc32c};
#[cfg(hosted)]
pub(crate) use entry::first_stacks;
pub(crate) use entry::{entries, read_machine};
pub(crate) use image::{image, in_guard, is_code, is_constant, is_memory};
#[doc(hidden)]
pub use jobs::JobEntry;
pub(crate) use jobs::{job, jobs};
pub(crate) use last_words::last_words;
pub(crate) use logger::{Frames, level_marks, log_to};
pub(crate) use machine::{machine, set_machine};
pub(crate) use numbers::boot_number;
pub(crate) use this::caches::{cache_line, clean as clean_cache, invalidate as invalidate_cache};
pub(crate) use this::doubles::add_numbers;
pub(crate) use this::fault::incident;
pub(crate) use this::instructions::{retired as instructions, start as start_instructions};
pub(crate) use this::interrupt::{
    call_hart, claim_own as claim_own_interrupt, controller, has_devices as device_interrupts,
    mask as mask_interrupts, start_own as start_own_interrupts, unmask as unmask_interrupts,
    without as without_interrupts,
};
#[cfg(hosted)]
pub(crate) use this::make_way;
pub use this::relax;
pub(crate) use this::{
    counter, counter_hz, exit_by_host, frame_pointer, io_barrier, park, power_off, rest_monitors, set_timer,
    start_hart, turn_off, wait_for_interrupt,
};
#[cfg(hosted)]
pub(crate) use this::{
    interrupt::{call_afar, events, name},
    machine::{has_cores_for_all, is_crowded, near, shares, word},
    translation::{mapped_end, maps_devices, translate, uncached},
};
#[cfg(target_os = "none")]
pub(crate) use translation::{mapped_end, maps_devices, translate};
#[cfg(target_os = "none")]
pub(crate) use uncached::uncached;

/// Memory in shared use is copied as this instruction set can, from now on.
pub(crate) fn set_up_copies() {
    if let Some(copy) = this::COPY_LINES {
        // SAFETY: what an instruction set has there does what is said of it.
        unsafe { rings::shared::copy_lines_by(copy) };
    }
}

/// Why a hart is not started that has no stacks.
const NO_STACKS: &str = "there is no memory for its stacks";

/// Whether more harts than there are cores share them: each has one of its own.
#[cfg(target_os = "none")]
pub(crate) fn is_crowded() -> bool {
    false
}

/// The nodes whose memory this one reaches: none.
#[cfg(target_os = "none")]
pub(crate) fn near() -> Option<drivers::near::Near> {
    None
}

/// A hart that polls has found nothing in this time. Its processor is nobody else's.
#[cfg(target_os = "none")]
#[inline]
pub(crate) fn make_way(_: u64, _: u64) {}

/// The number of this hart.
#[inline]
pub(crate) fn hart() -> usize {
    boot_number(this::boot_number())
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
