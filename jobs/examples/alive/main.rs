//! One task computes for long without a call, and all others want something of it.
//!
//! SPEC R-2.
//!
//! Task 0 computes for `--seconds N` (5). Each other task sends it 300 messages, more than there is credit for, and waits
//! for it by `--wait message`, `fence` or `barrier`. In the end task 0 has them all and answers. With `recv` or `sum` they wait
//! in the module `mpi`, with `lock` in `armci`. With `--all` all tasks compute.
#![no_std]
#![no_main]

mod libraries;

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, Collect, Completion, Context, Done, JobError, Limits, Message, Receive, Task, WORLD};
use pami::collective::Collective;

kernel::entry!(main, jobs::USAGE);

const WORK: u8 = 0;
const ANSWER: u8 = 1;
const MESSAGES: u32 = 300;

/// How the others wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Message,
    Fence,
    Barrier,
    /// `MPI_Recv`.
    Recv,
    /// `MPI_Allreduce`.
    Sum,
    /// A lock that task 0 holds.
    Lock,
}

fn main(task: &'static Task) -> Result<(), JobError> {
    let (seconds, wait, all) = settings(task)?;
    match wait {
        Wait::Recv | Wait::Sum => return libraries::mpi(task, seconds, wait),
        Wait::Lock => return libraries::lock(task, seconds),
        Wait::Message | Wait::Fence | Wait::Barrier => {}
    }
    let memory = task.memory();
    let count = || memory.place(AtomicU32::new(0)).map(|count| &*count);
    let (work, answers, ended) = (count()?, count()?, count()?);
    let failed = &*memory.place(spin::Mutex::new(Ok(())))?;
    let working = memory.place(move |_: &mut Active, _: &Message| {
        work.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let answered = memory.place(move |_: &mut Active, _: &Message| {
        answers.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let call = memory.place(move |_: &mut Active, completion: Completion| {
        *failed.lock() = completion.result;
        ended.fetch_add(1, Relaxed);
    })?;
    let done = Done { call, cookie: 0 };
    let client = task.client("alive").dispatch(WORK, working).dispatch(ANSWER, answered);
    let mut client = client.collectives(Limits::default()).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    let end = |context: &mut Context| {
        context.wait(|_| ended.load(Relaxed) == 1);
        core::mem::replace(&mut *failed.lock(), Ok(())).map_err(JobError::from)
    };
    if task.number() == 0 {
        compute(task, seconds);
        context.wait(|_| work.load(Relaxed) == MESSAGES * (task.tasks() - 1));
        for other in 1..task.tasks() {
            let other = client.endpoint(other, 0)?;
            context.retry(|active| active.send_immediate(other, ANSWER, &[], &[]))?;
        }
    } else {
        if all {
            compute(task, seconds);
        }
        let first = client.endpoint(0, 0)?;
        for _ in 0..MESSAGES {
            context.retry(|active| active.send_immediate(first, WORK, &[], &[1; 8]))?;
        }
        if wait == Wait::Fence {
            context.retry(|active| active.fence(first, done))?;
            end(&mut context)?;
        }
    }
    if task.number() > 0 && wait != Wait::Barrier {
        context.wait(|_| answers.load(Relaxed) == 1);
    }
    // Nobody goes before all have what they asked for.
    ended.store(0, Relaxed);
    context.collect(Collect::new(WORLD, Collective::Barrier, done))?;
    end(&mut context)?;
    context.wait(|_| task.number() == 0 || answers.load(Relaxed) == 1);
    defmt::println!("was answered");
    Ok(())
}

/// Keeps the hart busy; nothing here has to do with messages.
fn compute(task: &Task, seconds: u64) {
    defmt::println!("computes for {=u64} seconds", seconds);
    let until = task.now_ns() + seconds * 1_000_000_000;
    let mut sum = 1u64;
    while task.now_ns() < until {
        for step in 0..100_000u64 {
            sum = core::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
        }
    }
    defmt::println!("has computed");
}

fn settings(task: &'static Task) -> Result<(u64, Wait, bool), JobError> {
    let arguments = task.arguments();
    let wait = match arguments.word("--wait") {
        Some("fence") => Wait::Fence,
        Some("barrier") => Wait::Barrier,
        Some("recv") => Wait::Recv,
        Some("sum") => Wait::Sum,
        Some("lock") => Wait::Lock,
        _ => Wait::Message,
    };
    Ok((arguments.get("--seconds")?.unwrap_or(5), wait, arguments.has("--all")))
}
