//! Rows between two tasks of one node, each on a hart of its own.
//!
//! Counters count both harts. So task 1 sends, tells task 0 through another context, and goes to sleep; only one hart
//! at a time has anything to do.

use super::count::{Count, row};
use super::{Arrivals, COUNTED};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, JobError, Message, Pools, Receive, Task};

/// Asks task 1 to send, and tells task 0 that it did.
const TURN: u8 = 1;
/// Ends task 1.
const STOP: u8 = 2;

pub fn rows(task: &'static Task, count: Count) -> Result<(), JobError> {
    let (arrivals, counted) = Arrivals::new(task, count)?;
    let (turns, stops) = (task.memory().place(AtomicU32::new(0))?, task.memory().place(AtomicU32::new(0))?);
    let (turns, stops): (&AtomicU32, &AtomicU32) = (turns, stops);
    let turn = task.memory().place(move |_: &mut Active, _: &Message| {
        turns.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let stop = task.memory().place(move |_: &mut Active, _: &Message| {
        stops.fetch_add(1, Relaxed);
        Receive::Done
    })?;
    let builder = task.client("pair").pools(Pools::LARGE).contexts(2).dispatch(COUNTED, counted);
    let mut client = builder.dispatch(TURN, turn).dispatch(STOP, stop).create()?;
    let mut first = kernel::context(&mut client, 0)?;
    let mut second = kernel::context(&mut client, 1)?;
    let other = client.endpoint(1 - task.number(), 1)?;
    if task.number() == 1 {
        let target = client.endpoint(0, 0)?;
        let mut answered = 0;
        loop {
            second.wait(|_| turns.load(Relaxed) != answered || stops.load(Relaxed) != 0);
            if stops.load(Relaxed) != 0 {
                return Ok(());
            }
            answered += 1;
            first.retry(|active| Arrivals::send(active, target))?;
            second.retry(|active| active.send_immediate(other, TURN, &[], &[]))?;
        }
    }
    row("receive-shared-memory-tasks", || {
        let told = turns.load(Relaxed) + 1;
        second.retry(|active| active.send_immediate(other, TURN, &[], &[]))?;
        second.wait(|_| turns.load(Relaxed) == told);
        let counted = arrivals.reception(count, &mut first);
        counted.ok_or(JobError::Other("task 1 says that it sent, and nothing came"))
    })?;
    second.retry(|active| active.send_immediate(other, STOP, &[], &[]))?;
    Ok(())
}
