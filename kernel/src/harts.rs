//! Who runs what: one kernel thread per hart, which waits for work and does it (SPEC N-1).

use crate::node::Job;
use crate::task::{SpawnError, Task};
use crate::{Unit, arch, wakeup};
use boot::HARTS;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use rings::sleep::SleepSet;
use spin::Mutex;

/// The code of a task's additional thread.
pub type Thread = dyn Fn(&'static Task) + Sync;

/// What a hart is told to do.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    /// Be the first thread of a task.
    Main(&'static Task),
    /// Be another thread of a task.
    Thread(&'static Task, &'static Thread),
    /// Start the job and end the node.
    Job(&'static Job),
    /// Run the message unit for good (SPEC D-7).
    Agent(&'static Unit),
}

/// A hart's place to be told.
struct Hart {
    up: AtomicBool,
    /// From when work is given to the hart until it is done.
    busy: AtomicBool,
    work: Mutex<Option<Work>>,
    /// Whoever waits for `up` or for the end of the work.
    waiting: SleepSet,
}

static ALL: [Hart; HARTS] = [const {
    Hart {
        up: AtomicBool::new(false),
        busy: AtomicBool::new(false),
        work: Mutex::new(None),
        waiting: SleepSet::new(),
    }
}; HARTS];

/// The first status of a task that was not 0.
static STATUS: AtomicI32 = AtomicI32::new(0);

/// A hart's life after its start.
pub(crate) fn serve(hart: usize) -> ! {
    let me = &ALL[hart];
    arch::unmask();
    me.up.store(true, Ordering::Release);
    wake_waiting(me);
    loop {
        let Some(work) = me.work.lock().take() else {
            wakeup::idle();
            continue;
        };
        run(work);
        me.busy.store(false, Ordering::Release);
        wake_waiting(me);
    }
}

fn wake_waiting(hart: &Hart) {
    hart.waiting.wake().for_each(arch::interrupt_hart);
}

fn run(work: Work) {
    match work {
        Work::Main(task) => run_main(task),
        Work::Thread(task, thread) => thread(task),
        Work::Job(job) => job.run(),
        Work::Agent(unit) => unit.run_agent(),
    }
}

/// Runs the job's `main` here.
pub(crate) fn run_main(task: &'static Task) {
    let status = arch::job_main(task);
    // Only the first that is not 0 counts.
    let _ = STATUS.compare_exchange(0, status, Ordering::AcqRel, Ordering::Acquire);
}

/// The node's status so far.
pub(crate) fn status() -> i32 {
    STATUS.load(Ordering::Acquire)
}

/// Gives `work` to `hart`, unless it has some.
pub(crate) fn give(hart: usize, work: Work) -> Result<(), SpawnError> {
    let other = ALL.get(hart).ok_or(SpawnError::NoSuchHart)?;
    other
        .busy
        .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
        .map_err(|_| SpawnError::Busy)?;
    *other.work.lock() = Some(work);
    arch::interrupt_hart(hart);
    Ok(())
}

pub(crate) fn start_thread(
    hart: usize,
    task: &'static Task,
    thread: &'static Thread,
) -> Result<(), SpawnError> {
    give(hart, Work::Thread(task, thread))
}

/// Waits until `hart` has no work.
pub(crate) fn join(hart: usize) {
    wait_for(&ALL[hart], || !ALL[hart].busy.load(Ordering::Acquire), u64::MAX);
}

/// Waits until `hart` serves, or the counter reaches `deadline`. Returns whether it does.
pub(crate) fn wait_until_up(hart: usize, deadline: u64) -> bool {
    wait_for(&ALL[hart], || ALL[hart].up.load(Ordering::Acquire), deadline)
}

fn wait_for(hart: &Hart, is_done: impl Fn() -> bool, deadline: u64) -> bool {
    let timed = deadline != u64::MAX;
    loop {
        hart.waiting.arm(arch::hart());
        if is_done() {
            break;
        }
        if timed && arch::counter() >= deadline {
            break;
        }
        arch::set_timer(timed.then_some(deadline));
        wakeup::idle();
    }
    hart.waiting.disarm(arch::hart());
    if timed {
        arch::set_timer(None);
    }
    is_done()
}
