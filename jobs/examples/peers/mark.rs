//! Marks around calls, for who steps through this job from outside and counts their instructions: `cargo xtask bench peers`, whose
//! xtask/src/bench/peers/steps.rs has the same numbers.

use core::hint::black_box;
use kernel::{JobError, Task};

/// What was between the last two marks is not to count.
pub const NOT_THIS: u64 = 3;
/// It was nothing; a send; progress of one message, and of none; a put.
pub const NOTHING: u64 = 4;
pub const SEND: u64 = 5;
pub const PROGRESS: u64 = 6;
pub const EMPTY: u64 = 7;
pub const PUT: u64 = 8;

const IS_ANYONE_THERE: u64 = 0;
const BEGIN: u64 = 1;
const END: u64 = 2;
const OVER: u64 = 9;

/// Rows of what is marked.
pub const ROWS: [&str; 4] = ["insn-send", "insn-progress", "insn-empty", "insn-put"];
/// Calls of each kind.
pub const CALLS: u32 = 31;
/// How long to wait for who steps, and for a message that is on its way.
const STEPPER_NS: u64 = 10_000_000_000;
const MESSAGE_NS: u64 = 1_000_000;

/// Instructions are counted from one call of this to the next. Who counts may have it return another number than it was given.
#[inline(never)]
fn peers_mark(mark: u64) -> u64 {
    black_box(mark)
}

/// Marks a call.
#[inline(always)]
pub fn marked<R>(call: impl FnOnce() -> R) -> R {
    peers_mark(BEGIN);
    let result = call();
    peers_mark(END);
    result
}

/// Says what the last one was.
pub fn that_was(what: u64) {
    peers_mark(what);
}

/// Waits until somebody steps.
pub fn await_stepper(task: &Task) -> Result<(), JobError> {
    let start = task.now_ns();
    while peers_mark(IS_ANYONE_THERE) == IS_ANYONE_THERE {
        if task.now_ns() - start > STEPPER_NS {
            return Err(JobError::Other("nobody counts instructions: cargo xtask bench peers does"));
        }
    }
    Ok(())
}

/// What comes afterwards is nobody's business.
pub fn over() {
    peers_mark(OVER);
}

/// A message that is on its way has come by then.
pub fn pause_for_a_message(task: &Task) {
    pause(task, MESSAGE_NS);
}

/// Stands still for so long.
pub fn pause(task: &Task, ns: u64) {
    let start = task.now_ns();
    while task.now_ns() - start < ns {
        core::hint::spin_loop();
    }
}
