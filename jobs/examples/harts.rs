//! Starts a thread on every hart of every task; each says where it runs.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{HartPlace, JobError, Task};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let greeted: &AtomicU32 = task.memory().place(AtomicU32::new(1))?;
    say(task, 0);
    for hart in 1..task.harts() {
        task.spawn(
            hart,
            task.memory().place(move |task: &'static Task| {
                say(task, hart);
                greeted.fetch_add(1, Relaxed);
            })?,
        )?;
    }
    for hart in 1..task.harts() {
        task.join(hart);
    }
    if greeted.load(Relaxed) as usize != task.harts() {
        return Err(JobError::Other("a thread did not run"));
    }
    Ok(())
}

fn say(task: &Task, hart: usize) {
    let (node, left) = (task.node(), task.memory().left());
    defmt::println!(
        "task {=u32} of node {=u32} runs on its hart {=usize}; {=usize} bytes left",
        task.number(),
        node,
        hart,
        left
    );
    let HartPlace { socket, cluster, core, thread } = task.place();
    defmt::println!(
        "task {=u32}, hart {=usize}: socket {=u16}, cluster {=u16}, core {=u16}, thread {=u16}",
        task.number(),
        hart,
        socket,
        cluster,
        core,
        thread
    );
}
