//! A sleeping hart is woken by a post, by a message from its node, by one over the torus, and by its timer.
//!
//! Hart 1 of task 0 sleeps on context 1 between rounds; hart 0, and then task 1, wake it after letting it fall
//! asleep. A lost wake-up shows as a run past its deadline, one too many in the number of wake-ups that is printed.
//!
//! With a task on each hart all others ask task 0, and sleep until it answers: harts interrupt one another as often as they can.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, Context, JobError, Message, Progress, Receive, Task, Work, WorkSlot};
use spin::Mutex;

kernel::entry!(main, jobs::USAGE);

const TOUCH: u8 = 0;
const BEGIN: u8 = 1;
const ASK: u8 = 2;
const ROUNDS: u32 = 50;
/// How often each task asks.
const QUESTIONS: u32 = 5000;
/// Long enough for the other hart to fall asleep, most of the time.
const PAUSE_NS: u64 = 2_000_000;

/// How often context 1 was touched, in each way.
struct Touches {
    posts: AtomicU32,
    local: AtomicU32,
    torus: AtomicU32,
    begun: AtomicU32,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    if task.harts() == 1 && task.tasks() > 1 {
        return ask(task);
    }
    let memory = task.memory();
    let zero = || AtomicU32::new(0);
    let touches: &'static Touches =
        memory.place(Touches { posts: zero(), local: zero(), torus: zero(), begun: zero() })?;
    let touch = memory.place(move |active: &mut Active, message: &Message| {
        let local = message.origin.task() == active.endpoint().task();
        if local { &touches.local } else { &touches.torus }.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let begin = memory.place(move |_: &mut Active, _: &Message| {
        touches.begun.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let builder = task.client("wake").contexts(2).dispatch(TOUCH, touch).dispatch(BEGIN, begin);
    let mut client = builder.create()?;
    let mut context = kernel::context(&mut client, 0)?;
    let sleeper = client.endpoint(0, 1)?;
    if task.number() > 0 {
        // One task over the torus is enough.
        if task.number() == 1 {
            context.wait(|_| touches.begun.load(Relaxed) == 1);
            for _ in 0..ROUNDS {
                context.wait_for(PAUSE_NS, |_| false);
                context.retry(|active| active.send_immediate(sleeper, TOUCH, &[], &[]))?;
            }
        }
        return Ok(());
    }
    if task.harts() < 2 || task.tasks() < 2 {
        return Err(JobError::Other("wake takes two harts at least, and two nodes or a task on each hart"));
    }
    let other = kernel::context(&mut client, 1)?;
    let poster = other.poster();
    let other = Mutex::new(Some(other));
    let serve = memory.place(move |task: &'static Task| {
        if let Some(mut context) = other.lock().take() {
            serve(task, &mut context, touches);
        }
    })?;
    task.spawn(1, serve)?;
    let count_post = memory.place(move |_: &mut Active, _: usize| {
        touches.posts.fetch_add(1, Relaxed);
        Progress::Done
    })?;
    let count_post = &*count_post;
    let slots: &'static [WorkSlot] = memory.fill(ROUNDS as usize, WorkSlot::new)?;
    for slot in slots {
        context.wait_for(PAUSE_NS, |_| false);
        if poster.post(slot, Work { run: count_post, cookie: 0 }).is_err() {
            return Err(JobError::Other("a fresh slot was refused"));
        }
    }
    for _ in 0..ROUNDS {
        context.wait_for(PAUSE_NS, |_| false);
        context.retry(|active| active.send_immediate(sleeper, TOUCH, &[], &[]))?;
    }
    let neighbour = client.endpoint(1, 0)?;
    context.retry(|active| active.send_immediate(neighbour, BEGIN, &[], &[]))?;
    // The neighbour's touches come while this hart sleeps too, so either may have to run the message unit.
    context.wait_for(PAUSE_NS * u64::from(ROUNDS), |_| touches.torus.load(Relaxed) == ROUNDS);
    task.join(1);
    Ok(())
}

/// Task 0 answers what the others ask, each one question at a time.
fn ask(task: &'static Task) -> Result<(), JobError> {
    let memory = task.memory();
    let asked: &'static AtomicU32 = memory.place(AtomicU32::new(0))?;
    let unanswered: &'static AtomicU32 = memory.place(AtomicU32::new(0))?;
    let answer = memory.place(move |active: &mut Active, message: &Message| {
        asked.fetch_add(1, Relaxed);
        if active.endpoint().task() == 0 && active.send_immediate(message.origin, ASK, &[], &[]).is_err() {
            unanswered.fetch_add(1, Relaxed);
        }
        Receive::Done
    })?;
    let mut client = task.client("wake").dispatch(ASK, answer).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    // Sleeps as soon as there is nothing to do.
    context.set_polls(0);
    if task.number() == 0 {
        context.wait(|_| asked.load(Relaxed) == QUESTIONS * (task.tasks() - 1));
        if unanswered.load(Relaxed) > 0 {
            return Err(JobError::Other("there was no room for an answer"));
        }
        defmt::println!("{=u32} questions were answered", asked.load(Relaxed));
        return Ok(());
    }
    let first = client.endpoint(0, 0)?;
    for question in 1..=QUESTIONS {
        context.retry(|active| active.send_immediate(first, ASK, &[], &[]))?;
        context.wait(|_| asked.load(Relaxed) == question);
    }
    Ok(())
}

fn serve(task: &Task, context: &mut Context, touches: &'static Touches) {
    // Sleeps as soon as there is nothing to do.
    context.set_polls(0);
    let mut slept = task.sleeps(1);
    for (touched, by) in
        [(&touches.posts, "post"), (&touches.local, "local message"), (&touches.torus, "torus message")]
    {
        context.wait(|_| touched.load(Relaxed) == ROUNDS);
        let now = task.sleeps(1);
        defmt::println!("{=u32} touches by a {=str}, {=u32} wake-ups", ROUNDS, by, now.wrapping_sub(slept));
        slept = now;
    }
    let start = context.now_ns();
    context.wait_for(PAUSE_NS, |_| false);
    if context.now_ns() - start >= PAUSE_NS {
        defmt::println!("woken by a timer, not before its time");
    }
}
