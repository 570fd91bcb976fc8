//! The job: which one of the image's it is, whether its arguments are right, and its end (SPEC N-11).

use crate::JobError;
use crate::arch;
use crate::task::Task;
use crate::usage::Shape;
use core::any::Any;
use core::sync::atomic::{AtomicI32, Ordering};

/// The first status of a task that was not 0.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// What a job's `main` may return; 0 is success.
pub trait Termination {
    /// The exit status of the task.
    fn status(self, task: &Task) -> i32;
}

impl Termination for i32 {
    fn status(self, _: &Task) -> i32 {
        self
    }
}

impl Termination for () {
    fn status(self, _: &Task) -> i32 {
        0
    }
}

impl Termination for Result<(), JobError> {
    fn status(self, task: &Task) -> i32 {
        let Err(error) = self else { return 0 };
        defmt::error!("task {=u32} failed: {}", task.number(), defmt::Display2Format(&error));
        1
    }
}

/// Makes a function the job's `main`: it is called with each task of the node and returns an exit status, nothing, or
/// a `Result<(), JobError>`. Behind it stand descriptions of jobs, a `&'static [kernel::usage::Usage]`, by which the arguments
/// of the job of that name are checked and read.
#[macro_export]
macro_rules! entry {
    ($main:path, $usage:expr) => {
        const _: () = {
            fn __job(task: &'static dyn ::core::any::Any) -> i32 {
                $crate::job::call($main, task)
            }

            $crate::job_entry!(__job, $usage);
        };
    };
}

/// Calls the job's `main` with the task that the kernel has handed to the image's entry.
#[doc(hidden)]
pub fn call<T: Termination>(main: fn(&'static Task) -> T, task: &'static dyn Any) -> i32 {
    let task = task.downcast_ref::<Task>().expect("a job is run with a task");
    main(task).status(task)
}

/// Runs the `main` of the image's only job, or of the one that has the personality's name.
fn main(task: &'static Task) -> i32 {
    let name = task.job();
    let Some(job) = arch::job(name) else {
        defmt::error!("the image has {=usize} jobs, none of them is {=str}", arch::jobs().len(), name);
        return 1;
    };
    let nodes = task.shape().nodes();
    let shape = Shape {
        nodes,
        harts: task.harts() as u32 * (task.tasks() / nodes),
        tasks: task.tasks(),
        contexts: task.contexts().into(),
        tree: task.tree().is_some(),
    };
    if let Some(usage) = task.usage()
        && let Err(wrong) = usage.check(task.args(), &shape)
    {
        let error = JobError::Argument(wrong.word, wrong.problem.text());
        return Termination::status(Err(error), task);
    }
    (job.run)(task)
}

/// Runs the job's `main` here.
pub(crate) fn run_main(task: &'static Task) {
    let status = main(task);
    // Only the first that is not 0 counts.
    let _ = STATUS.compare_exchange(0, status, Ordering::AcqRel, Ordering::Acquire);
}

/// The node's status so far.
pub(crate) fn status() -> i32 {
    STATUS.load(Ordering::Acquire)
}
