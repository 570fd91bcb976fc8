//! Who runs what: one kernel thread per hart, which waits for work and does it (SPEC N-1).

use crate::personality::MAX_HARTS;
use crate::task::Task;
use crate::{arch, board, clock, trace, wakeup};
use boot::HARTS;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use pami::trace::Event;
use rings::sleep::SleepSet;
use spin::Mutex;

// One number, in words that each of the crates has for it.
const _: () = assert!(HARTS == MAX_HARTS && HARTS <= drivers::MOST_HARTS);

/// The code of a task's additional thread.
pub type Thread = dyn Fn(&'static Task) + Sync;

/// Why a thread was not started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpawnError {
    /// The task has no such hart, or it is the one that `main` runs on.
    NoSuchHart,
    /// A thread runs there already.
    Busy,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSuchHart => "the task has no such hart for a thread (hart 0 runs main)",
            Self::Busy => "a thread runs on that hart already",
        })
    }
}

impl core::error::Error for SpawnError {}

/// What a hart is told to do.
#[derive(Clone, Copy)]
pub(crate) enum HartWork {
    /// A thread of a task.
    Thread(&'static Task, &'static Thread),
    /// The kernel's own.
    Kernel(&'static (dyn Fn() + Sync)),
}

/// A hart's place to be told.
struct Hart {
    up: AtomicBool,
    /// From when work is given to the hart until it is done.
    busy: AtomicBool,
    work: Mutex<Option<HartWork>>,
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

/// A hart's life after its start.
pub(crate) fn serve(hart: usize) -> ! {
    let me = &ALL[hart];
    board::unmask();
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
    hart.waiting.wake().for_each(board::interrupt_hart);
}

/// Does `work` here.
pub(crate) fn run(work: HartWork) {
    match work {
        HartWork::Thread(task, thread) => {
            trace::note(Event::Task(task.number()));
            thread(task);
            trace::note(Event::TaskEnded);
        }
        HartWork::Kernel(work) => work(),
    }
}

/// Gives `work` to `hart`, unless it has some.
pub(crate) fn give(hart: usize, work: HartWork) -> Result<(), SpawnError> {
    let other = ALL.get(hart).ok_or(SpawnError::NoSuchHart)?;
    other
        .busy
        .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
        .map_err(|_| SpawnError::Busy)?;
    *other.work.lock() = Some(work);
    board::interrupt_hart(hart);
    Ok(())
}

/// Waits until `hart` has no work.
pub(crate) fn join(hart: usize) {
    wait_for(&ALL[hart], || !ALL[hart].busy.load(Ordering::Acquire), None);
}

/// Waits until `hart` serves, or the clock reads `deadline_ns`. Returns whether it does.
pub(crate) fn wait_until_up(hart: usize, deadline_ns: u64) -> bool {
    wait_for(&ALL[hart], || ALL[hart].up.load(Ordering::Acquire), Some(deadline_ns))
}

fn wait_for(hart: &Hart, is_done: impl Fn() -> bool, deadline_ns: Option<u64>) -> bool {
    loop {
        hart.waiting.arm(arch::hart());
        if is_done() || deadline_ns.is_some_and(|deadline_ns| clock::now_ns() >= deadline_ns) {
            break;
        }
        wakeup::idle_until(deadline_ns);
    }
    hart.waiting.disarm(arch::hart());
    is_done()
}

impl Task {
    /// Starts a thread on one of the task's harts other than 0.
    ///
    /// # Errors
    /// [`SpawnError`]
    pub fn spawn(&'static self, hart: usize, thread: &'static Thread) -> Result<(), SpawnError> {
        if hart == 0 || hart >= self.harts {
            return Err(SpawnError::NoSuchHart);
        }
        give(hart, HartWork::Thread(self, thread))
    }

    /// Waits until the thread on `hart` has returned; at once if there is none.
    pub fn join(&self, hart: usize) {
        if (1..self.harts).contains(&hart) {
            join(hart);
        }
    }
}
