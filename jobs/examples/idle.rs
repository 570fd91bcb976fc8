//! Every hart of every task waits for a message that only a timer replaces.
#![no_std]
#![no_main]

use kernel::{JobError, Task};

kernel::entry!(main, jobs::USAGE);

fn main(task: &'static Task) -> Result<(), JobError> {
    let seconds: u64 = task.arguments().get("--seconds")?.unwrap_or(10);
    let harts = task.harts().min(usize::from(task.contexts()));
    let mut client = task.client("idle").contexts(harts as u8).create()?;
    for hart in 1..harts {
        let context = kernel::context(&mut client, hart as u8)?;
        let context = spin::Mutex::new(context);
        let wait = task.memory().place(move |_: &'static Task| {
            context.lock().wait_for(seconds * 1_000_000_000, |_| false);
        })?;
        task.spawn(hart, wait)?;
    }
    kernel::context(&mut client, 0)?.wait_for(seconds * 1_000_000_000, |_| false);
    for hart in 1..harts {
        task.join(hart);
    }
    Ok(())
}
