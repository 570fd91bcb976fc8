//! What the board itself costs: clock, timer, calls between harts, a cache line that goes to and fro, copies.
//!
//! (SPEC B-8) Nothing of the network: `ping` has that, beside bare frames. Each line is the median of its rounds. Entry to the
//! kernel has no line: a job calls it as it calls its own functions, and interrupts end sleeps, they are not taken.
#![no_std]
#![no_main]

use core::hint::{black_box, spin_loop};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use kernel::{Active, Context, JobError, Progress, Task, Work, WorkSlot};
use spin::Mutex;

kernel::entry!(main, jobs::USAGE);

const ROUNDS: usize = 11;
/// Long enough for the other hart to fall asleep.
const PAUSE_NS: u64 = 2_000_000;
/// How often a line goes to and fro, and the clock is read, in a round. Few: an emulator's harts may share a core.
const TIMES: u32 = 100;
const COPY: usize = 1 << 20;

/// A call to a hart that sleeps without a port, bare: up to the first line of the thread that it is given.
fn call(task: &'static Task, context: &mut Context) -> Result<(), JobError> {
    let memory = task.memory();
    let ran_ns: &'static AtomicU64 = memory.place(AtomicU64::new(0))?;
    let thread = memory.place(move |task: &'static Task| ran_ns.store(task.now_ns(), Ordering::Relaxed))?;
    let mut outcome = Ok(());
    let called = median(|| {
        context.wait_for(PAUSE_NS, |_| false);
        let begun = context.now_ns();
        outcome = outcome.and(task.spawn(1, thread));
        task.join(1);
        ran_ns.load(Ordering::Relaxed).saturating_sub(begun)
    });
    outcome?;
    tell("call to a sleeping hart, to its thread", called, "ns");
    Ok(())
}

/// What two harts do together.
struct Pair {
    /// When the other hart ran what was posted.
    ran_ns: AtomicU64,
    posts: AtomicU32,
    /// Odd: the other hart's turn.
    turn: AtomicU32,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let mut client = task.client("board").contexts(task.harts().min(2) as u8).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    defmt::println!("clock: {=u64} Hz", task.clock_hz());
    let reading = median(|| {
        let begun = task.now_ns();
        (1..TIMES).for_each(|_| _ = black_box(task.now_ns()));
        (task.now_ns() - begun) / u64::from(TIMES)
    });
    tell("clock, read", reading, "ns");
    let late = median(|| {
        let until = context.now_ns() + PAUSE_NS;
        context.wait_for(PAUSE_NS, |_| false);
        context.now_ns().saturating_sub(until)
    });
    tell("timer, late by", late, "ns");
    copies(task)?;
    if task.harts() < 2 {
        return Ok(());
    }
    call(task, &mut context)?;
    let other = kernel::context(&mut client, 1)?;
    pair(task, &mut context, other)
}

/// One hart's copies of memory that no cache holds all of.
fn copies(task: &'static Task) -> Result<(), JobError> {
    let [from, into]: [&'static mut [u8]; 2] = [task.memory().slice(COPY)?, task.memory().slice(COPY)?];
    let took = median(|| {
        let begun = task.now_ns();
        black_box(&mut *into).copy_from_slice(black_box(from));
        task.now_ns() - begun
    });
    tell("copy", COPY as u64 * 1000 / took.max(1), "MB/s");
    Ok(())
}

/// What takes two harts.
fn pair(task: &'static Task, context: &mut Context, other: Context) -> Result<(), JobError> {
    let memory = task.memory();
    let zero = || AtomicU32::new(0);
    let pair: &'static Pair =
        memory.place(Pair { ran_ns: AtomicU64::new(0), posts: zero(), turn: zero() })?;
    let poster = other.poster();
    let other = Mutex::new(Some(other));
    let serve = memory.place(move |_: &'static Task| {
        if let Some(mut context) = other.lock().take() {
            serve(&mut context, pair);
        }
    })?;
    task.spawn(1, serve)?;
    let note = &*memory.place(move |_: &mut Active, _: usize| {
        pair.ran_ns.store(task.now_ns(), Ordering::Relaxed);
        pair.posts.fetch_add(1, Ordering::Release);
        Progress::Done
    })?;
    let slots: &'static [WorkSlot] = memory.fill(ROUNDS, WorkSlot::new)?;
    let mut slots = slots.iter();
    let mut refused = false;
    let woken = median(|| {
        context.wait_for(PAUSE_NS, |_| false);
        let (posts, begun) = (pair.posts.load(Ordering::Relaxed), context.now_ns());
        refused |= slots.next().is_none_or(|slot| poster.post(slot, Work { run: note, cookie: 0 }).is_err());
        while !refused && pair.posts.load(Ordering::Acquire) == posts {
            spin_loop();
        }
        pair.ran_ns.load(Ordering::Relaxed).saturating_sub(begun)
    });
    if refused {
        return Err(JobError::Other("a fresh slot was refused"));
    }
    tell("wake-up of a hart, post to its run", woken, "ns");
    let bounced = median(|| {
        let begun = context.now_ns();
        for _ in 0..TIMES {
            pair.turn.fetch_add(1, Ordering::Release);
            while !pair.turn.load(Ordering::Acquire).is_multiple_of(2) {
                spin_loop();
            }
        }
        (context.now_ns() - begun) / u64::from(TIMES)
    });
    tell("cache line, to a hart and back", bounced, "ns");
    task.join(1);
    Ok(())
}

/// The other hart: sleeps between posts, then answers until all turns were taken.
fn serve(context: &mut Context, pair: &Pair) {
    // Sleeps as soon as there is nothing to do.
    context.set_polls(0);
    context.wait(|_| pair.posts.load(Ordering::Relaxed) as usize == ROUNDS);
    for _ in 0..ROUNDS as u32 * TIMES {
        while pair.turn.load(Ordering::Acquire).is_multiple_of(2) {
            spin_loop();
        }
        pair.turn.fetch_add(1, Ordering::Release);
    }
}

/// The middle one of what `round` says, time after time.
fn median(mut round: impl FnMut() -> u64) -> u64 {
    let mut all: [u64; ROUNDS] = core::array::from_fn(|_| round());
    all.sort_unstable();
    all[ROUNDS / 2]
}

fn tell(what: &str, value: u64, unit: &str) {
    defmt::println!("{=str}: {=u64} {=str}", what, value, unit);
}
