//! Fences: sends, puts, gets and updates that nobody waits for, then a fence, over each path; behind it all must be done.
//!
//! Task 0 begins operations without any callback, then a fence, and looks at the end of the fence whether each of them is
//! done: what others sent, from another context by a word that its handlers add to. Paths are self, shared memory (another
//! task of the node, or another context), the network's loop-back, and the torus; the last fence is one over all tasks,
//! with a second one in flight behind it.
#![no_std]
#![no_main]

#[path = "../meeting/mod.rs"]
mod meeting;
mod operations;
#[path = "../ways/mod.rs"]
mod ways;

use kernel::{JobError, Task};
use operations::{COUNT, Fenced, KINDS, OperationKind, RENDEZVOUS_FROM, State};
use ways::{Way, Ways};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let state = State::new(task)?;
    let handler = state.handler(task)?;
    let mut ways = Ways::new(task, operations::REGION, |_, builder| {
        builder.dispatch(operations::MESSAGE, handler).rendezvous_from(RENDEZVOUS_FROM)
    })?;
    state.know(task, &ways)?;
    ways.meet()?;
    if task.number() > 0 {
        return ways.serve();
    }
    ways.await_silence()?;
    let list = ways.list()?;
    let mut fenced = Fenced::new(ways, state)?;
    let mut good = true;
    for way in list {
        for kind in KINDS {
            good &= over_one_way(&mut fenced, way, kind)?;
        }
    }
    good &= over_all_tasks(&mut fenced)?;
    fenced.ways.end()?;
    if good {
        Ok(())
    } else {
        Err(JobError::Other("a fence ended before what it fences, or took a wrong path"))
    }
}

/// Operations of one kind along one way, then a fence.
fn over_one_way(fenced: &mut Fenced, way: Way, kind: OperationKind) -> Result<bool, JobError> {
    fenced.next_round();
    fenced.prepare(&way, kind)?;
    let before = fenced.sent_bytes();
    for number in 0..COUNT {
        fenced.begin(&way, kind, number)?;
    }
    fenced.begin_fence(&way)?;
    fenced.end_fences()?;
    let bytes = fenced.sent_bytes() - before;
    let done = fenced.is_done(&way, kind)?;
    let right_path = (bytes > 0) == way.network;
    defmt::println!(
        "{=str}: {=usize} {=str} of {=usize} bytes, then a fence: {=str}; {=u64} bytes on the network{=str}",
        way.name,
        COUNT,
        kind.name(),
        kind.size(),
        if done { "all done" } else { "NOT DONE" },
        bytes,
        if right_path { "" } else { ": WRONG PATH" }
    );
    Ok(done && right_path)
}

/// For each kind: half of the operations to every task, a fence over all, the other half, and another one.
fn over_all_tasks(fenced: &mut Fenced) -> Result<bool, JobError> {
    let tasks = fenced.ways.task.tasks();
    let mut good = true;
    // Gets would all land in one place.
    for kind in [OperationKind::Eager, OperationKind::Rendezvous, OperationKind::Put, OperationKind::Update] {
        fenced.next_round();
        for task in 0..tasks {
            let way = fenced.ways.way("", 0, task, 0, true)?;
            fenced.prepare(&way, kind)?;
        }
        for half in [0..COUNT / 2, COUNT / 2..COUNT] {
            for (number, task) in half.flat_map(|number| (0..tasks).map(move |task| (number, task))) {
                let way = fenced.ways.way("", 0, task, 0, true)?;
                fenced.begin(&way, kind, number)?;
            }
            fenced.begin_fence_of_all()?;
        }
        fenced.end_fences()?;
        for task in 0..tasks {
            let way = fenced.ways.way("", 0, task, 0, true)?;
            good &= fenced.is_done(&way, kind)?;
        }
    }
    good &= fenced.in_order();
    defmt::println!(
        "{=u32} tasks: two fences over all in flight, behind operations of each kind: {=str}",
        tasks,
        if good { "all done" } else { "NOT DONE" }
    );
    Ok(good)
}
