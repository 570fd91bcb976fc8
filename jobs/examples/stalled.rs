//! A million messages posted to a receiver that does not advance; none is refused or lost, and all stay in order.
//!
//! Task 0 posts `--messages N` (a million) sends to the last task, each in a slot of its own, before it advances
//! once. When nothing moves any more, a message of another client tells the receiver so: what is for a context that takes
//! nothing holds up nothing to others of its node. It still lets its context lie for three seconds, then counts.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, JobError, Message, Progress, Receive, SendError, Task, Work, WorkSlot};

kernel::entry!(main, jobs::USAGE);

const NUMBERED: u8 = 0;
const BEGIN: u8 = 1;
const FINISHED: u8 = 2;
const STALL_NS: u64 = 3_000_000_000;
/// By then what can arrive has.
const SETTLE_NS: u64 = 300_000_000;

struct Seen {
    next: AtomicU32,
    wrong: AtomicU32,
    begun: AtomicU32,
    finished: AtomicU32,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let messages = task.arguments().get("--messages")?.unwrap_or(1_000_000);
    let memory = task.memory();
    let zero = || AtomicU32::new(0);
    let seen: &'static Seen =
        memory.place(Seen { next: zero(), wrong: zero(), begun: zero(), finished: zero() })?;
    let numbered = memory.place(move |_: &mut Active, message: &Message| {
        let number = message.data.try_into().map_or(u32::MAX, u32::from_le_bytes);
        let expected = seen.next.fetch_add(1, Relaxed);
        seen.wrong.fetch_add(u32::from(number != expected), Relaxed);
        Receive::Done
    })?;
    let begin = memory.place(move |_: &mut Active, _: &Message| {
        seen.begun.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let finished = memory.place(move |_: &mut Active, _: &Message| {
        seen.finished.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let data = task.client("data").dispatch(NUMBERED, numbered);
    let mut data = data.create()?;
    let control = task.client("control").dispatch(BEGIN, begin).dispatch(FINISHED, finished);
    let mut control = control.create()?;
    let mut numbers = kernel::context(&mut data, 0)?;
    let mut orders = kernel::context(&mut control, 0)?;
    let last = task.tasks() - 1;
    if task.number() == last && last > 0 {
        orders.wait(|_| seen.begun.load(Relaxed) == 1);
        orders.wait_for(STALL_NS, |_| false);
        numbers.wait(|_| seen.next.load(Relaxed) == messages);
        let wrong = seen.wrong.load(Relaxed);
        defmt::println!("{=u32} messages came, {=u32} out of order", seen.next.load(Relaxed), wrong);
        let first = control.endpoint(0, 0)?;
        orders.retry(|active| active.send_immediate(first, FINISHED, &[], &[]))?;
        return if wrong == 0 { Ok(()) } else { Err(JobError::Other("messages came out of order")) };
    }
    if task.number() > 0 {
        return Ok(());
    }
    let target = data.endpoint(last, 0)?;
    let send = memory.place(move |active: &mut Active, number: usize| {
        match active.send_immediate(target, NUMBERED, &[], &(number as u32).to_le_bytes()) {
            Err(SendError::Again) => Progress::Again,
            _ => Progress::Done,
        }
    })?;
    let send = &*send;
    let slots: &'static [WorkSlot] = memory.fill(messages as usize, WorkSlot::new)?;
    let poster = numbers.poster();
    for (cookie, slot) in slots.iter().enumerate() {
        if poster.post(slot, Work { run: send, cookie }).is_err() {
            return Err(JobError::Other("a fresh slot was refused"));
        }
    }
    // Until nothing moves any more: the network and the receiver's node are full.
    let mut idle = 0;
    while idle < 1000 && numbers.counters().sent < u64::from(messages) {
        idle = if numbers.advance() == 0 { idle + 1 } else { 0 };
    }
    numbers.wait_for(SETTLE_NS, |_| false);
    let stalled = numbers.counters().sent;
    defmt::println!(
        "{=u32} posted; {=u64} left this context before the receiver stalled it",
        messages,
        stalled
    );
    if stalled >= u64::from(messages) {
        return Err(JobError::Other("nothing stalled: post more messages"));
    }
    let receiver = control.endpoint(last, 0)?;
    orders.retry(|active| active.send_immediate(receiver, BEGIN, &[], &[]))?;
    let mut contexts = [numbers, orders];
    kernel::wait_on(&mut contexts, u64::MAX, |_| seen.finished.load(Relaxed) == 1);
    Ok(())
}
