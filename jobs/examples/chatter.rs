//! Every hart logs much, faster than a serial line sends, and none waits for it.
//!
//! Try it with `--baud 115200` (SPEC N-12). What finds no room is dropped and counted. In the end all harts rest until what
//! waits has left.
//!
//! With `--busy` this one neither sleeps nor logs until then, and takes the line's interrupts; with `--panic` it panics instead.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use kernel::{JobError, Task};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let lines = task.arguments().get("--lines")?.unwrap_or(400u64);
    let longest: &AtomicU64 = task.memory().place(AtomicU64::new(0))?;
    let begun = task.now_ns();
    for hart in 1..task.harts() {
        let thread = task.memory().place(move |task: &'static Task| {
            longest.fetch_max(say(task, hart, lines), Relaxed);
        })?;
        task.spawn(hart, thread)?;
    }
    longest.fetch_max(say(task, 0, lines), Relaxed);
    for hart in 1..task.harts() {
        task.join(hart);
    }
    let (waiting, said) = (task.backlog(), task.now_ns());
    assert!(!task.arguments().has("--panic"), "with {} bytes that wait", waiting.bytes);
    let is_busy = task.arguments().has("--busy");
    let mut client = task.client("chatter").create()?;
    let mut context = kernel::context(&mut client, 0)?;
    while task.backlog().bytes > 0 {
        if is_busy {
            core::hint::spin_loop();
        } else {
            context.wait_for(REST_NS, |_| task.backlog().bytes == 0);
        }
    }
    let sent = task.now_ns();
    defmt::println!(
        "said in {=u64} us, the longest hart in {=u64}; then {=usize} bytes waited, for {=u64} us; {=u32} lines were dropped",
        (said - begun) / 1000,
        longest.load(Relaxed) / 1000,
        waiting.bytes,
        (sent - said) / 1000,
        task.backlog().unlogged
    );
    Ok(())
}

/// Says so many lines; returns how long that took, in nanoseconds.
fn say(task: &Task, hart: usize, lines: u64) -> u64 {
    let begun = task.now_ns();
    for line in 0..lines {
        defmt::println!("hart {=usize} says line {=u64} of {=u64}, {=str}", hart, line, lines, WORDS);
    }
    task.now_ns() - begun
}

/// How long a rest is at most.
const REST_NS: u64 = 100_000_000;
const WORDS: &str = "which is as long as such lines are and has its end here";
