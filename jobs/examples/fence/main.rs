//! Fences: sends, puts, gets and updates that nobody waits for, then a fence, over each path; behind it all must be done.
//!
//! Task 0 begins operations without any callback, then a fence, and looks at the end of the fence whether each of them is
//! done: what others sent, from another context by a word that its handlers add to. Paths are self, shared memory (another
//! task of the node, or another context), the network's loop-back, and the torus. Then come a fence over all tasks and
//! one of the geometry of all, both in flight; at last all tasks do the same in pairs, both directions at once.
//! Arguments: `--shared` has the contexts of a client share their FIFOs; with `--deaf` a target that advances nothing
//! meanwhile is fenced behind puts, gets and updates, for nodes on which an agent core runs the message unit.
#![no_std]
#![no_main]

#[path = "../meeting/mod.rs"]
mod meeting;
mod operations;
#[path = "../ways/mod.rs"]
mod ways;

use kernel::{JobError, Limits, Sharing, Task};
use operations::{COUNT, Fenced, KINDS, OperationKind, RENDEZVOUS_FROM, State};
use pami::mapping::TaskLocation;
use ways::{Way, Ways};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let state = State::new(task)?;
    let handler = state.handler(task)?;
    let sharing = if task.arguments().has("--shared") { Sharing::Shared } else { Sharing::Exclusive };
    let mut ways = Ways::new(task, operations::REGION, |_, builder| {
        let builder = builder.sharing(sharing).collectives(Limits::default());
        builder.dispatch(operations::MESSAGE, handler).rendezvous_from(RENDEZVOUS_FROM)
    })?;
    state.know(task, &ways)?;
    ways.meet()?;
    let first = task.number() == 0;
    if first {
        ways.await_silence()?;
    } else {
        ways.serve()?;
    }
    let mut fenced = Fenced::new(ways, state)?;
    let mut good = true;
    if first {
        for way in fenced.ways.list()? {
            for kind in KINDS {
                good &= over_one_way(&mut fenced, way, kind)?;
            }
        }
        good &= over_all_tasks(&mut fenced)?;
        fenced.ways.end()?;
    }
    fenced.ways.meet()?;
    good &= in_both_directions(&mut fenced)?;
    fenced.ways.meet()?;
    if task.arguments().has("--deaf") {
        good &= with_a_deaf_target(&mut fenced)?;
        fenced.ways.meet()?;
    }
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

/// For each kind: half of the operations to every task, a fence over all, the other half, and one of the geometry of all.
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
            for (number, task) in half.clone().flat_map(|number| (0..tasks).map(move |task| (number, task))) {
                let way = fenced.ways.way("", 0, task, 0, true)?;
                fenced.begin(&way, kind, number)?;
            }
            fenced.begin_fence_of_all(half.start > 0)?;
        }
        fenced.end_fences()?;
        for task in 0..tasks {
            let way = fenced.ways.way("", 0, task, 0, true)?;
            good &= fenced.is_done(&way, kind)?;
        }
    }
    good &= fenced.in_order();
    defmt::println!(
        "{=u32} tasks: a fence over all and one of their geometry in flight, behind operations of each kind: {=str}",
        tasks,
        if good { "all done" } else { "NOT DONE" }
    );
    Ok(good)
}

/// Operations of one kind along a way, then the fence that `fence` begins. Returns whether they are done.
fn behind_operations(
    fenced: &mut Fenced,
    way: &Way,
    kind: OperationKind,
    fence: fn(&mut Fenced, &Way) -> Result<(), JobError>,
) -> Result<bool, JobError> {
    fenced.next_round();
    fenced.prepare(way, kind)?;
    for number in 0..COUNT {
        fenced.begin(way, kind, number)?;
    }
    fence(fenced, way)?;
    fenced.end_fences()?;
    fenced.is_done(way, kind)
}

/// The task that is where `of` is, on a node half of all nodes away.
fn opposite(task: &Task, of: u32) -> u32 {
    let (map, nodes) = (task.map(), task.shape().nodes());
    let place =
        map.place(of).map(|place| TaskLocation { node: (place.node + nodes.div_ceil(2)) % nodes, ..place });
    place.and_then(|place| map.task(place)).unwrap_or(of)
}

/// Operations of each kind, then a fence, towards a task that does the same.
fn in_both_directions(fenced: &mut Fenced) -> Result<bool, JobError> {
    let task = fenced.ways.task;
    let (me, other) = (task.number(), opposite(task, task.number()));
    let way = fenced.ways.way("", 0, other, 0, true)?;
    let mut good = true;
    for kind in KINDS {
        good &= behind_operations(fenced, &way, kind, Fenced::begin_fence)?;
    }
    defmt::println!(
        "task {=u32}: operations to and from task {=u32} at once, then fences: {=str}",
        me,
        other,
        if good { "all done" } else { "NOT DONE" }
    );
    Ok(good)
}

/// Task 0 puts, gets and updates, and fences that, while its target advances nothing.
fn with_a_deaf_target(fenced: &mut Fenced) -> Result<bool, JobError> {
    let task = fenced.ways.task;
    let deaf = opposite(task, 0);
    if task.number() == deaf && deaf > 0 {
        fenced.ignore_all();
    }
    if task.number() > 0 {
        return Ok(true);
    }
    let way = fenced.ways.way("", 0, deaf, 0, true)?;
    let mut good = true;
    for kind in [OperationKind::Put, OperationKind::Get, OperationKind::Update] {
        good &= behind_operations(fenced, &way, kind, Fenced::begin_fence_of_rma)?;
    }
    fenced.speak_up(&way)?;
    defmt::println!(
        "task {=u32} advances nothing: puts, gets and updates there, then fences of these: {=str}",
        deaf,
        if good { "all done" } else { "NOT DONE" }
    );
    Ok(good)
}
