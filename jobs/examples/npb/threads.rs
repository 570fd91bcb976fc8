//! The task's threads at work.

use kernel::{JobError, Task};
use spin::Mutex;

/// Calls `work` on each hart of the task at the same time, with its number and how many there are, and hands what they
/// return to `take`, in their order.
pub fn on_threads<T: Send + 'static>(
    task: &'static Task,
    work: impl Fn(usize, usize) -> T + Send + Sync + 'static,
    mut take: impl FnMut(T),
) -> Result<(), JobError> {
    let (memory, threads) = (task.memory(), task.harts());
    let work = &*memory.place(work)?;
    let results = &*memory.fill(threads, || Mutex::new(None))?;
    for (number, result) in results.iter().enumerate().skip(1) {
        let thread = memory.place(move |_: &'static Task| *result.lock() = Some(work(number, threads)))?;
        task.spawn(number, thread)?;
    }
    take(work(0, threads));
    for (number, result) in results.iter().enumerate().skip(1) {
        task.join(number);
        result.lock().take().into_iter().for_each(&mut take);
    }
    Ok(())
}
