//! Linux: a node is a process, its harts are threads (SPEC H-1).
//!
//! What an instruction set does for a node, the host does here: the clock is its monotonic one, a hart that waits for an
//! interrupt waits for descriptors, addresses are mapped as they are. What the processor itself does is `native`'s.

pub(crate) mod caches;
pub(crate) mod doubles;
pub(crate) mod fault;
pub(crate) mod instructions;
pub(crate) mod interrupt;
pub(crate) mod machine;
pub(crate) mod translation;

use super::native::copy_lines;
pub(crate) use super::native::{checksum, frame_pointer, illegal_instruction};
pub(crate) use interrupt::{set_timer, wait_for_interrupt};

use crate::devicetree::Machine;
use core::sync::atomic::{Ordering, fence};
use drivers::console::Console;
use drivers::linux::{NS_PER_S, now_ns};
use rings::shared::CopyLines;

/// What copies memory in shared use.
pub(crate) const COPY_LINES: Option<CopyLines> = Some(copy_lines);

/// Where a frame holds the outer frame's address and its return address, from its own address.
pub(crate) const FRAME: isize = 0;
/// See [`FRAME`].
pub(crate) const RETURN: isize = 8;

/// What `boot` calls this hart.
#[inline(always)]
pub(super) fn boot_number() -> usize {
    boot::hart()
}

/// The host's monotonic clock, in ns.
#[inline]
pub(crate) fn counter() -> u64 {
    now_ns()
}

/// Its rate.
#[inline]
pub(crate) fn counter_hz() -> u64 {
    NS_PER_S
}

/// For each turn of a loop in which a hart waits for another.
#[inline]
pub fn relax() {
    core::hint::spin_loop();
}

/// Nanoseconds of polling after which a hart lets others have its processor, a power of two: some times what an answer takes that
/// another hart is at.
const POLL_NS: u64 = 1024;

/// A hart that polls has found nothing in this time: others that want its processor have it every so often (SPEC H-3), unless there
/// is one for each hart of all nodes.
pub(crate) fn make_way(from_ns: u64, to_ns: u64) {
    if from_ns / POLL_NS != to_ns / POLL_NS && !machine::has_cores_for_all() {
        rustix::thread::sched_yield();
    }
}

/// Orders accesses to memory.
#[inline]
pub(crate) fn io_barrier() {
    fence(Ordering::SeqCst);
}

/// A thread ends with its process.
pub(crate) fn turn_off() {}

/// See [`turn_off`].
pub(crate) fn is_off(_: &Machine, _: usize) -> bool {
    false
}

/// Stops this hart for good.
pub(crate) fn park() -> ! {
    loop {
        // The deadline of a hart that parks is nobody's any more, nor is what it is called for.
        set_timer(None);
        rustix::thread::sched_yield();
        wait_for_interrupt();
        interrupt::forget();
    }
}

/// Starts hart `hart`.
pub(crate) fn start_hart(machine: &Machine, hart: usize) -> Result<(), &'static str> {
    if hart >= machine.harts.len() {
        return Err("no such hart");
    }
    let number = super::numbers::boot_number(hart);
    boot::stack(number).ok_or(super::NO_STACKS)?;
    boot::start_hart(number)
}

/// Ends the process.
pub(crate) fn exit_by_host(code: u8) {
    boot::leave(code.into())
}

/// There are none.
pub(crate) fn rest_monitors(_: &Machine) {}

/// Never called: the process has ended.
pub(crate) fn power_off(_: bool) {}

/// Says `line` as a frame that begins with `head`.
pub(crate) fn last_words(head: [u8; 2], line: &[u8]) {
    let mut console = Console::stream();
    for part in [&[0], &head[..], line, &[0]] {
        console.write(part);
    }
}
