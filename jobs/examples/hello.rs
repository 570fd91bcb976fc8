//! Every task greets task 0, which prints the greetings.
#![no_std]
#![no_main]

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kernel::{Active, JobError, Message, Receive, Task};

kernel::entry!(main, jobs::USAGE);

const GREETING: u8 = 1;

fn main(task: &'static Task) -> Result<(), JobError> {
    let greetings = task.memory().place(AtomicU32::new(0))?;
    let greetings: &AtomicU32 = greetings;
    let greet = task.memory().place(move |_: &mut Active, message: &Message| {
        let text = core::str::from_utf8(message.data).unwrap_or("(not text)");
        defmt::println!("task {=u32} says: {=str}", message.origin.task(), text);
        greetings.fetch_add(1, Relaxed);
        Receive::Done
    })?;

    let mut client = task.client("hello").dispatch(GREETING, greet).create()?;
    let mut context = kernel::context(&mut client, 0)?;
    let first = client.endpoint(0, 0)?;
    context.retry(|active| active.send_immediate(first, GREETING, &[], b"Hello, World!"))?;
    if task.number() == 0 {
        context.wait(|_| greetings.load(Relaxed) == task.tasks());
        defmt::println!("all {=u32} tasks said hello", task.tasks());
    }
    Ok(())
}
