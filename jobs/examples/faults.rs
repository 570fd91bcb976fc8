//! Goes wrong on the last task as its argument says, to show the report; the other tasks wait for it.
//!
//! Faults: `panic`, `callback`, `log` (a panic within a log call), `words` (a panic whose words log), `held` and `kept` (a panic while
//! another hart has the serial line, for a while or for ever), `overflow`, `null`, `readonly`, `execute`,
//! `illegal`, `race` (harts that count up one variable; only ThreadSanitizer sees it), `oom`, `status`, `hang` (with interrupts masked); `allocate` breaks the rule against allocation. A second argument says on which hart of
//! the task, or `all`.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use kernel::arch::provoke;
use kernel::{Active, JobError, Message, Receive, Task};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> i32 {
    match run(task) {
        Ok(status) => status,
        Err(error) => {
            defmt::error!("{}", defmt::Display2Format(&error));
            1
        }
    }
}

fn run(task: &'static Task) -> Result<i32, JobError> {
    let arguments = task.arguments();
    let mut words = arguments.plain();
    let fault = words.next().unwrap_or("");
    let harts = match words.next() {
        None => 0..1,
        Some("all") => 0..task.harts(),
        Some(word) => {
            let hart = word.parse().map_err(|_| JobError::Argument(word, "is no hart"))?;
            hart..hart + 1
        }
    };
    if task.number() + 1 < task.tasks() {
        return wait_for_the_end(task);
    }
    for hart in harts.clone().filter(|&hart| hart > 0) {
        let thread = task.memory().place(move |task: &'static Task| {
            if provoke(task, fault).is_err() {
                defmt::error!("no fault is called {=str}", fault);
            }
        })?;
        task.spawn(hart, thread)?;
    }
    let status = if harts.contains(&0) { provoke(task, fault)? } else { 0 };
    for hart in harts {
        task.join(hart);
    }
    Ok(status)
}

/// Waits for what never comes: the job is torn down around it.
fn wait_for_the_end(task: &'static Task) -> Result<i32, JobError> {
    let mut client = task.client("faults").create()?;
    kernel::context(&mut client, 0)?.wait(|_| false);
    Ok(0)
}

/// Sends itself a message whose handler panics.
fn panic_in_a_callback(task: &'static Task) -> Result<i32, JobError> {
    const FAIL: u8 = 0;
    let fail = task.memory().place(|_: &mut Active, message: &Message| -> Receive {
        panic!("a panic in a callback, as asked for, on {} bytes", message.data.len())
    })?;
    let mut client = task.client("faults").dispatch(FAIL, fail).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    let me = client.endpoint(task.number(), 0)?;
    context.retry(|active| active.send_immediate(me, FAIL, &[], &[]))?;
    context.wait(|_| false);
    Ok(0)
}

/// What panics while it is logged.
struct Unprintable;

impl defmt::Format for Unprintable {
    fn format(&self, _: defmt::Formatter) {
        panic!("a panic within a log call, as asked for");
    }
}

/// What logs while it is printed.
struct Talkative;

impl fmt::Display for Talkative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        defmt::println!("logged while a panic is reported");
        f.write_str("a panic whose words log, as asked for")
    }
}

/// Hart 1 panics while this one, which alone takes the line's interrupt, has the serial line for so many nanoseconds, and lines wait
/// for it.
fn panic_without_the_line(task: &'static Task, ns: u64) -> Result<i32, JobError> {
    const MS: u64 = 1_000_000;
    const LINES: u32 = 20;
    let is_taken: &AtomicBool = task.memory().place(AtomicBool::new(false))?;
    let is_awake: &AtomicBool = task.memory().place(AtomicBool::new(false))?;
    let thread = task.memory().place(move |task: &'static Task| {
        is_awake.store(true, Relaxed);
        while !is_taken.load(Relaxed) {
            kernel::relax();
        }
        let soon = task.now_ns() + MS;
        while task.now_ns() < soon {
            core::hint::spin_loop();
        }
        panic!("a panic without the serial line, as asked for");
    })?;
    task.spawn(1, thread)?;
    // A hart that wakes up looks at the line.
    while !is_awake.load(Relaxed) {
        // QEMU 7.2's harts take turns where instructions are counted, and on riscv64 no hint ends one: the other may still be in
        // its firmware, and not come to its turn.
        task.unit().sleep(Some(task.now_ns() + 10_000));
    }
    (1..=LINES)
        .for_each(|line| defmt::println!("line {=u32} of {=u32} waits for the serial line", line, LINES));
    is_taken.store(true, Relaxed);
    task.keep_line(ns);
    task.join(1);
    Ok(0)
}

fn provoke(task: &'static Task, fault: &'static str) -> Result<i32, JobError> {
    match fault {
        "panic" => panic!("a panic, as asked for"),
        "callback" => panic_in_a_callback(task),
        "log" => {
            defmt::println!("a frame that is never finished: {}", Unprintable);
            Ok(0)
        }
        "words" => panic!("{Talkative}"),
        "held" => panic_without_the_line(task, 200_000_000),
        "kept" => panic_without_the_line(task, u64::MAX),
        "overflow" => Ok(recurse(1) as i32),
        "null" => Ok(provoke::null_dereference() as i32),
        "readonly" => {
            provoke::write_to_code();
            Ok(0)
        }
        "execute" => {
            provoke::execute_data();
            Ok(0)
        }
        "illegal" => provoke::illegal_instruction(),
        "oom" => {
            let memory: Vec<u8> = Vec::with_capacity(1 << 40);
            Ok(black_box(memory).len() as i32)
        }
        "allocate" => {
            black_box(Box::new(1));
            Ok(0)
        }
        "race" => {
            provoke::race();
            Ok(0)
        }
        "hang" => {
            defmt::println!("runs in a circle");
            provoke::hang()
        }
        // What the host would cut down to 0.
        "status" => Ok(256),
        _ => Err(JobError::Argument(fault, "is no fault")),
    }
}

#[expect(unconditional_recursion, reason = "the stack is to overflow")]
fn recurse(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    recurse(depth + 1) + room[depth as usize % 64]
}
